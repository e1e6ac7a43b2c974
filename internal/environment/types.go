package environment

// Platform is where an environment runs.
type Platform string

// The platforms.
const (
	GCP      Platform = "gcp"
	Local    Platform = "local"
	Existing Platform = "existing"
)

// Role is what a member does in its replica set.
type Role string

// The roles.
const (
	Data    Role = "data"
	Arbiter Role = "arbiter"
)

// Spec is what the variable files say, checked and with every default
// applied. It holds no secret.
type Spec struct {
	Name        string       `json:"name"`
	Platform    Platform     `json:"platform"`
	Files       []File       `json:"files"`
	Deployments []Deployment `json:"deployments"` // sorted by name
	// Machines are what the gcp platform would create; empty elsewhere.
	Machines []Machine `json:"machines,omitempty"`
	// Cloud is how the gcp platform makes them; nil elsewhere.
	Cloud *Cloud `json:"cloud,omitempty"`
	// Variables are the sources of variables as Terraform is to have them.
	// They are not stored: values may be secret.
	Variables Variables `json:"-"`
	// Given are the variables that were set outside of files.
	Given []Given `json:"-"`
	// Settings are the environment-wide settings that apply to the
	// platform, in the schema's order.
	Settings []Setting `json:"settings,omitempty"`
	// NotApplied are the settings in the files that mean nothing on the
	// platform.
	NotApplied []Setting `json:"not_applied,omitempty"`
}

// File is a variable file as read.
type File struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"` // so that the inventory and the run record can tell a stranger
}

// Setting is a variable with its value in HCL syntax.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason,omitempty"` // why it is not applied
}

// Deployment is one replica set.
type Deployment struct {
	Name         string `json:"name"`                 // its key in the file
	ReplicaSet   string `json:"replica_set"`          // name of the replica set
	Distribution string `json:"distribution"`         // community, psmdb, enterprise
	Release      string `json:"release"`              // as written: "9.0", "psmdb-80"
	Series       string `json:"series"`               // X.Y of the release: "9.0", "8.0"
	Version      string `json:"version"`              // as asked: "8.0.34"
	Repository   string `json:"repository,omitempty"` // package channel: "", release, testing, experimental
	// CacheGB is the storage engine's cache on members with data; 0 is the
	// server's default.
	CacheGB float64 `json:"cache_gb,omitempty"`
	EnvTag  string  `json:"env_tag,omitempty"` // label for monitoring
	// Monitored deployments are registered with the PMM server. PMMVersion
	// and PMMRepository are the client's, "" for the newest release.
	Monitored     bool     `json:"monitored,omitempty"`
	PMMVersion    string   `json:"pmm_version,omitempty"`
	PMMRepository string   `json:"pmm_repository,omitempty"`
	Members       []Member `json:"members"`
}

// Member is one mongod.
type Member struct {
	Name string `json:"name"` // host name, unique in the environment
	Role Role   `json:"role"`
}

// Machine is one machine of the gcp platform.
type Machine struct {
	Name       string `json:"name"`
	Role       string `json:"role"`                 // data, arbiter, load host, monitoring
	Deployment string `json:"deployment,omitempty"` // of a member
	Type       string `json:"type"`
	Zone       string `json:"zone"`
	DiskType   string `json:"disk_type,omitempty"`
	DiskGB     int    `json:"disk_gb,omitempty"`
}

// Cloud is what the variables say of the cloud as a whole.
type Cloud struct {
	Project          string     `json:"project,omitempty"` // "": the credentials' own
	Region           string     `json:"region"`
	Prefix           string     `json:"prefix"` // in front of every name
	MultiZone        bool       `json:"multi_zone,omitempty"`
	CompactPlacement bool       `json:"compact_placement,omitempty"`
	Spot             bool       `json:"spot,omitempty"`
	MinCPUPlatform   string     `json:"min_cpu_platform,omitempty"`
	Image            string     `json:"image"`
	SourceRanges     []string   `json:"source_ranges,omitempty"` // empty: the caller's address
	SSH              SSHLogin   `json:"ssh"`
	PMM              *PMMServer `json:"pmm,omitempty"`
}

// SSHLogin is how the user asks to be logged in.
type SSHLogin struct {
	User    string `json:"user,omitempty"`     // "": one of sandbox's own, with a generated key
	KeyFile string `json:"key_file,omitempty"` // private key of User
}

// PMMServer is the monitoring machine's service.
type PMMServer struct {
	Machine     string `json:"machine"`
	Image       string `json:"image"` // of the container
	Port        int    `json:"port"`  // on the machine
	ForwardPort int    `json:"forward_port"`
}

// Given is a variable that -var or TF_VAR_name set, and nothing after it.
type Given struct {
	Name string `json:"name"`
	// Value is the text as given, and that it was redacted for a sensitive
	// variable.
	Value     string `json:"value"`
	Sensitive bool   `json:"sensitive,omitempty"`
}

// Variables are where the variables come from, in Terraform's order of
// precedence.
type Variables struct {
	Environ []string // TF_VAR_name=value
	Files   []string // absolute paths of automatic files
	Args    []Arg    // of the command line, files with absolute paths
}

// Inventory is what exists: where every member answers. It is stored as
// .sandbox/<environment>/inventory.json, holds no secret, and names the file
// that does.
type Inventory struct {
	SchemaVersion int      `json:"schema_version"`
	Environment   string   `json:"environment"`
	Platform      Platform `json:"platform"`
	Files         []File   `json:"files"`
	// Given is nil in the inventory of an earlier program, which did not
	// keep it.
	Given []Given `json:"given"`
	// Username authenticates against "admin" with the secret in
	// PasswordFile (relative to the inventory's folder).
	Username     string            `json:"username"`
	PasswordFile string            `json:"password_file"`
	Deployments  []DeploymentState `json:"deployments"`
	// Machines exist on the gcp platform, SSH is the way to them.
	Machines []MachineState `json:"machines,omitempty"`
	SSH      *SSH           `json:"ssh,omitempty"`
	PMM      *PMMServer     `json:"pmm,omitempty"`
}

// MachineState is a machine that exists.
type MachineState struct {
	Name        string `json:"name"`
	Role        string `json:"role"` // data, arbiter, load host, monitoring
	Deployment  string `json:"deployment,omitempty"`
	Zone        string `json:"zone"`
	Type        string `json:"type"`
	CPUPlatform string `json:"cpu_platform"`
	InternalIP  string `json:"internal_ip"`
	ExternalIP  string `json:"external_ip,omitempty"`
	Disk        bool   `json:"disk,omitempty"` // has a data disk
	// DiskType and DiskGB describe it; empty in an inventory of an earlier
	// program.
	DiskType string `json:"disk_type,omitempty"`
	DiskGB   int    `json:"disk_gb,omitempty"`
	ID       string `json:"id"` // tells a machine from a later one of the same name
}

// SSH is how the machines are reached. Files are relative to the inventory's
// folder unless absolute.
type SSH struct {
	User       string `json:"user"`
	KeyFile    string `json:"key_file"`
	KnownHosts string `json:"known_hosts"`
}

// DeploymentState is a deployment that exists.
type DeploymentState struct {
	Deployment
	// Engine is "mongod" or "embedded" (record.EngineMongod, …), by what the
	// servers say of themselves.
	Engine        string        `json:"engine"`
	ActualVersion string        `json:"actual_version"`
	Endpoints     []MemberState `json:"endpoints"` // in the order of Members
}

// MemberState is a member that exists.
type MemberState struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	Host string `json:"host"`
	Port int    `json:"port"`
	// Process is set on the local platform only.
	Process *Process `json:"process,omitempty"`
}

// Process identifies a process of this machine so that a reused pid is not
// mistaken for it.
type Process struct {
	PID       int      `json:"pid"`
	CreatedMS int64    `json:"created_ms"` // start of the process, Unix milliseconds
	Command   []string `json:"command"`
}
