package environment

// Status is how an environment is now, as its platform finds it.
type Status struct {
	Environment string `json:"environment"`
	Healthy     bool   `json:"healthy"`
	// Machines is empty on the local platform, which has none of its own.
	Machines    []MachineStatus    `json:"machines,omitempty"`
	Deployments []DeploymentStatus `json:"deployments"`
}

// MachineStatus is one machine.
type MachineStatus struct {
	Name       string `json:"name"`
	Role       string `json:"role"`
	Deployment string `json:"deployment,omitempty"`
	Reachable  bool   `json:"reachable"`
	// UptimeS is for how long it has been running, in seconds.
	UptimeS int64 `json:"uptime_s,omitempty"`
	// Service is the state of what it is there for as systemd has it
	// ("active", "failed", …) or, of the PMM server, its container's; empty
	// for the load host, which has no service of its own.
	Service string `json:"service,omitempty"`
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

// DeploymentStatus is one deployment, healthy when all members are and one of
// them is primary.
type DeploymentStatus struct {
	Name             string         `json:"name"`
	ReplicaSet       string         `json:"replica_set"`
	Engine           string         `json:"engine"`
	RequestedVersion string         `json:"requested_version"`
	ActualVersion    string         `json:"actual_version"`
	Healthy          bool           `json:"healthy"`
	URI              string         `json:"uri"` // without credentials
	Members          []MemberStatus `json:"members"`
}

// MemberStatus is one member of it.
type MemberStatus struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	Host string `json:"host"`
	Port int    `json:"port"`
	// PID is the process that serves the member, or last did, where that is
	// one of this machine.
	PID     int    `json:"pid,omitempty"`
	Running bool   `json:"running"`
	State   string `json:"state,omitempty"` // PRIMARY, SECONDARY, …; empty if it does not answer
	Version string `json:"version,omitempty"`
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

// NewStatus is the status of what an inventory has, before anybody was asked.
func NewStatus(i *Inventory) *Status {
	s := &Status{Environment: i.Environment, Deployments: []DeploymentStatus{}}
	for _, d := range i.Deployments {
		status := DeploymentStatus{
			Name: d.Name, ReplicaSet: d.ReplicaSet, Engine: d.Engine, RequestedVersion: d.Version,
			ActualVersion: d.ActualVersion, URI: d.URI(""), Members: []MemberStatus{},
		}
		for _, m := range d.Endpoints {
			status.Members = append(status.Members, MemberStatus{Name: m.Name, Role: m.Role, Host: m.Host, Port: m.Port})
		}
		s.Deployments = append(s.Deployments, status)
	}
	return s
}

// Judge says of the deployments and of the whole whether they are healthy, by
// what is known of the members and machines.
func (s *Status) Judge() {
	s.Healthy = len(s.Deployments) > 0
	for _, m := range s.Machines {
		s.Healthy = s.Healthy && m.Healthy
	}
	for i := range s.Deployments {
		d := &s.Deployments[i]
		primaries := 0
		d.Healthy = true
		for _, m := range d.Members {
			d.Healthy = d.Healthy && m.Healthy
			if m.State == "PRIMARY" {
				primaries++
			}
		}
		d.Healthy = d.Healthy && primaries == 1
		s.Healthy = s.Healthy && d.Healthy
	}
}
