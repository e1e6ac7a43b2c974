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

// statusTimeout bounds the questions to one member that runs.
const statusTimeout = 10 * time.Second

// Status looks at every member; those that do not answer are reported, not
// an error. The error is ErrNoEnvironment if there is nothing to look at.
func (p *Platform) Status(ctx context.Context) (*environment.Status, error) {
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
	status := environment.NewStatus(inv)
	var group errgroup.Group
	for i, d := range inv.Deployments {
		for j, m := range d.Endpoints {
			group.Go(func() error {
				p.look(ctx, d, m, found, inv.Username, password, &status.Deployments[i].Members[j])
				return nil
			})
		}
	}
	_ = group.Wait() // members that fail say so themselves
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	status.Judge()
	return status, nil
}

// look finds out how a member is.
func (p *Platform) look(ctx context.Context, d environment.DeploymentState, m environment.MemberState,
	found map[string][]environment.Process, user string, password secret.Text, s *environment.MemberStatus,
) {
	conf := p.member(m.Name).conf
	switch {
	case isOurs(m.Process, conf):
		s.PID, s.Running = m.Process.PID, true
	case len(found[conf]) > 0:
		s.PID, s.Running = found[conf][0].PID, true
	case m.Process != nil:
		s.PID, s.Error = m.Process.PID, "its process has ended"
		return
	default:
		s.Error = "was never started"
		return
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := p.askMember(ctx, d, m, user, password, s); err != nil {
		s.Error = err.Error()
	}
	s.Healthy = s.Error == "" && s.Running && mongodb.Settled(s.State)
}

func (p *Platform) askMember(ctx context.Context, d environment.DeploymentState, m environment.MemberState,
	user string, password secret.Text, s *environment.MemberStatus,
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
