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
	Name         string   `json:"name"`         // its key in the file
	ReplicaSet   string   `json:"replica_set"`  // name of the replica set
	Distribution string   `json:"distribution"` // community, psmdb, enterprise
	Release      string   `json:"release"`      // as written: "9.0", "psmdb-80"
	Series       string   `json:"series"`       // X.Y of the release: "9.0", "8.0"
	Version      string   `json:"version"`      // as asked: "8.0.34"
	Members      []Member `json:"members"`
}

// Member is one mongod.
type Member struct {
	Name string `json:"name"` // host name, unique in the environment
	Role Role   `json:"role"`
}

// Machine is one machine of the gcp platform.
type Machine struct {
	Name     string `json:"name"`
	Role     string `json:"role"` // data, arbiter, load host, monitoring
	Type     string `json:"type"`
	Zone     string `json:"zone"`
	DiskType string `json:"disk_type,omitempty"`
	DiskGB   int    `json:"disk_gb,omitempty"`
}

// Inventory is what exists: where every member answers. It is stored as
// .sandbox/<environment>/inventory.json, holds no secret, and names the file
// that does.
type Inventory struct {
	SchemaVersion int      `json:"schema_version"`
	Environment   string   `json:"environment"`
	Platform      Platform `json:"platform"`
	Files         []File   `json:"files"`
	// Username authenticates against "admin" with the secret in
	// PasswordFile (relative to the inventory's folder).
	Username     string            `json:"username"`
	PasswordFile string            `json:"password_file"`
	Deployments  []DeploymentState `json:"deployments"`
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
