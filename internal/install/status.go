package install

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// EnvironmentStatus is how an environment's machines and deployments are now.
type EnvironmentStatus struct {
	Environment string             `json:"environment"`
	Healthy     bool               `json:"healthy"`
	Machines    []MachineStatus    `json:"machines"`
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

// MemberStatus is one member.
type MemberStatus struct {
	Name    string           `json:"name"`
	Role    environment.Role `json:"role"`
	Host    string           `json:"host"`
	Port    int              `json:"port"`
	Running bool             `json:"running"`
	State   string           `json:"state,omitempty"` // PRIMARY, SECONDARY, …; empty if it does not answer
	Version string           `json:"version,omitempty"`
	Healthy bool             `json:"healthy"`
	Error   string           `json:"error,omitempty"`
}

// StatusOptions say what to look at.
type StatusOptions struct {
	Dir       string // the environment's state folder
	Inventory *environment.Inventory
	// Timeout bounds the questions to one machine; 0 is 20 seconds.
	Timeout time.Duration

	dial func(ctx context.Context, machine string) (host, error) // for tests
}

// Status asks every machine, and every member through its machine. Those
// that do not answer are reported, and are no error.
func Status(ctx context.Context, o StatusOptions) (*EnvironmentStatus, error) {
	inv := o.Inventory
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	if o.dial == nil {
		o.dial = func(ctx context.Context, machine string) (host, error) {
			return asHost(Dial(ctx, inv, o.Dir, machine))
		}
	}
	// An up that has not come to its end may not have made it.
	password, err := secret.Read(filepath.Join(o.Dir, cmp.Or(inv.PasswordFile, BenchmarkPasswordFile)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s := &EnvironmentStatus{Environment: inv.Environment, Machines: make([]MachineStatus, len(inv.Machines))}
	members := map[string]*MemberStatus{} // by name
	known := map[string]environment.MemberState{}
	for _, d := range inv.Deployments {
		status := DeploymentStatus{
			Name: d.Name, ReplicaSet: d.ReplicaSet, Engine: d.Engine, RequestedVersion: d.Version,
			ActualVersion: d.ActualVersion, URI: d.URI(""), Members: make([]MemberStatus, len(d.Endpoints)),
		}
		for i, m := range d.Endpoints {
			status.Members[i] = MemberStatus{Name: m.Name, Role: m.Role, Host: m.Host, Port: m.Port, Error: "its machine does not exist"}
			members[m.Name], known[m.Name] = &status.Members[i], m
		}
		s.Deployments = append(s.Deployments, status)
	}
	var work sync.WaitGroup
	for i, m := range inv.Machines {
		work.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, o.Timeout)
			defer cancel()
			s.Machines[i] = o.look(ctx, m, known[m.Name], members[m.Name], cmp.Or(inv.Username, BenchmarkUser), password)
		})
	}
	work.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.judge()
	return s, nil
}

// judge says what is healthy.
func (s *EnvironmentStatus) judge() {
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

// look asks a machine and, with a member on it, that.
func (o StatusOptions) look(ctx context.Context, m environment.MachineState, member environment.MemberState, status *MemberStatus, user string, password secret.Text) MachineStatus {
	s := MachineStatus{Name: m.Name, Role: m.Role, Deployment: m.Deployment}
	fail := func(err error) MachineStatus {
		s.Error = err.Error()
		if status != nil {
			status.Error = "its machine does not answer"
		}
		return s
	}
	conn, err := o.dial(ctx, m.Name)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	out := &results{values: map[string]string{}}
	if err := conn.Run(ctx, remote.Command{Name: "status", Script: statusScript, Args: []string{m.Role}, Stdout: out}); err != nil {
		return fail(err)
	}
	s.Reachable = true
	s.UptimeS, _ = strconv.ParseInt(out.values["UPTIME"], 10, 64)
	s.Service = out.values["SERVICE"]
	s.Healthy = s.Service == "" || s.Service == "active"
	if status != nil {
		status.Error, status.Running = "", s.Service == "active"
		if err := o.askMember(ctx, conn, member, user, password, status); err != nil {
			status.Error = err.Error()
		}
		status.Healthy = status.Error == "" && mongodb.Settled(status.State)
	}
	return s
}

// statusScript asks the machine itself; the argument is its role.
const statusScript = `
read -r up rest </proc/uptime
echo "UPTIME=${up%.*}"
case $1 in
data | arbiter) echo "SERVICE=$(systemctl is-active mongod.service)" ;;
monitoring) echo "SERVICE=$(sudo -n docker inspect -f '{{if .State.Running}}active{{else}}{{.State.Status}}{{end}}' pmm-server 2>/dev/null || echo missing)" ;;
esac
exit 0
`

func (o StatusOptions) askMember(ctx context.Context, h host, m environment.MemberState, user string, password secret.Text, s *MemberStatus) error {
	if m.Role == environment.Arbiter {
		user, password = "", secret.Text{} // it knows no users
	}
	return ask(ctx, h, m, user, password, func(c *mongodb.Client) error {
		hello, err := c.Hello(ctx)
		if err != nil {
			return err
		}
		s.State = hello.State()
		if m.Role == environment.Arbiter {
			return nil
		}
		set, err := c.ReplicaSetStatus(ctx)
		if err != nil {
			return err
		}
		for _, member := range set.Members {
			if member.Self {
				s.State = member.StateName // knows more states than hello
			}
		}
		info, err := c.BuildInfo(ctx)
		s.Version = info.Version
		return err
	})
}
