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
func Status(ctx context.Context, o StatusOptions) (*environment.Status, error) {
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
	s := environment.NewStatus(inv)
	s.Machines = make([]environment.MachineStatus, len(inv.Machines))
	members := map[string]*environment.MemberStatus{} // by name
	known := map[string]environment.MemberState{}
	for i, d := range inv.Deployments {
		for j, m := range d.Endpoints {
			member := &s.Deployments[i].Members[j]
			member.Error = "its machine does not exist"
			members[m.Name], known[m.Name] = member, m
		}
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
	s.Judge()
	return s, nil
}

// look asks a machine and, with a member on it, that.
func (o StatusOptions) look(ctx context.Context, m environment.MachineState, member environment.MemberState, status *environment.MemberStatus, user string, password secret.Text) environment.MachineStatus {
	s := environment.MachineStatus{Name: m.Name, Role: m.Role, Deployment: m.Deployment}
	fail := func(err error) environment.MachineStatus {
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

func (o StatusOptions) askMember(ctx context.Context, h host, m environment.MemberState, user string, password secret.Text, s *environment.MemberStatus) error {
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
