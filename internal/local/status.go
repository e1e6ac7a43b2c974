package local

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Status is how the environment is now.
type Status struct {
	Environment string             `json:"environment"`
	Healthy     bool               `json:"healthy"`
	Deployments []DeploymentStatus `json:"deployments"`
}

// DeploymentStatus is one deployment of it, healthy when all members are and
// one of them is primary.
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
	Name string           `json:"name"`
	Role environment.Role `json:"role"`
	Host string           `json:"host"`
	Port int              `json:"port"`
	// PID is the process that serves the member, or last did.
	PID     int    `json:"pid,omitempty"`
	Running bool   `json:"running"`
	State   string `json:"state,omitempty"` // PRIMARY, SECONDARY, …; empty if it does not answer
	Version string `json:"version,omitempty"`
	Healthy bool   `json:"healthy"`
	Error   string `json:"error,omitempty"`
}

// statusTimeout bounds the questions to one member that runs.
const statusTimeout = 10 * time.Second

// Status looks at every member; those that do not answer are reported, not
// an error. The error is ErrNoEnvironment if there is nothing to look at.
func (p *Platform) Status(ctx context.Context) (*Status, error) {
	inv, err := p.Inventory()
	if err != nil {
		return nil, err
	}
	password, err := p.Password()
	if err != nil {
		return nil, err
	}
	found, err := p.running(ctx)
	if err != nil {
		return nil, err
	}
	status := &Status{Environment: inv.Environment, Healthy: len(inv.Deployments) > 0, Deployments: make([]DeploymentStatus, len(inv.Deployments))}
	var group errgroup.Group
	for i, d := range inv.Deployments {
		status.Deployments[i] = DeploymentStatus{
			Name: d.Name, ReplicaSet: d.ReplicaSet, Engine: d.Engine, RequestedVersion: d.Version,
			ActualVersion: d.ActualVersion, URI: d.URI(""), Members: make([]MemberStatus, len(d.Endpoints)),
		}
		for j, m := range d.Endpoints {
			group.Go(func() error {
				status.Deployments[i].Members[j] = p.memberStatus(ctx, d, m, found, inv.Username, password)
				return nil
			})
		}
	}
	_ = group.Wait() // members that fail say so themselves
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	for i := range status.Deployments {
		d := &status.Deployments[i]
		primaries := 0
		d.Healthy = true
		for _, m := range d.Members {
			d.Healthy = d.Healthy && m.Healthy
			if m.State == "PRIMARY" {
				primaries++
			}
		}
		d.Healthy = d.Healthy && primaries == 1
		status.Healthy = status.Healthy && d.Healthy
	}
	return status, nil
}

func (p *Platform) memberStatus(ctx context.Context, d environment.DeploymentState, m environment.MemberState,
	found map[string][]environment.Process, user string, password secret.Text,
) MemberStatus {
	s := MemberStatus{Name: m.Name, Role: m.Role, Host: m.Host, Port: m.Port}
	conf := p.member(m.Name).conf
	switch {
	case isOurs(m.Process, conf):
		s.PID, s.Running = m.Process.PID, true
	case len(found[conf]) > 0:
		s.PID, s.Running = found[conf][0].PID, true
	case m.Process != nil:
		s.PID, s.Error = m.Process.PID, "its process has ended"
		return s
	default:
		s.Error = "was never started"
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := p.askMember(ctx, d, m, user, password, &s); err != nil {
		s.Error = err.Error()
	}
	s.Healthy = s.Error == "" && s.Running && mongodb.Settled(s.State)
	return s
}

func (p *Platform) askMember(ctx context.Context, d environment.DeploymentState, m environment.MemberState,
	user string, password secret.Text, s *MemberStatus,
) error {
	if err := reachable(ctx, m); err != nil {
		return err
	}
	client, err := connect(ctx, m, user, password)
	if err != nil {
		return err
	}
	defer disconnect(ctx, client)
	hello, err := client.Hello(ctx)
	if err != nil {
		return err
	}
	s.State = hello.State()
	if set, err := client.ReplicaSetStatus(ctx); err == nil {
		for _, member := range set.Members {
			if member.Self {
				s.State = member.StateName // knows more states than hello
			}
		}
	} else if m.Role != environment.Arbiter {
		return err
	}
	s.Version = d.ActualVersion
	if info, err := client.BuildInfo(ctx); err == nil {
		s.Version = info.Version
	} else if m.Role != environment.Arbiter { // without users it may not say
		return err
	}
	return nil
}
