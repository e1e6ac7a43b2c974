package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// pollEvery is the pause between two looks at a member that is starting.
const pollEvery = 25 * time.Millisecond

// restartPatience is how long a member may take to end before it is killed
// when its data stays: a primary lets others take over first, for 15 s.
const restartPatience = time.Minute

// attemptTimeout bounds one question to a member.
const attemptTimeout = 5 * time.Second

// Up makes the environment exist: it starts what does not run, repairs what
// is half done, starts members again whose options have changed, and ends when
// every deployment is healthy and answers authenticated. Deployments that
// exist must be as the spec says, else nothing is changed; nor is anything
// while a bench is measuring (ErrBusy). When some deployments fail, the others
// are finished; the inventory is returned together with the error, which is a
// *DeploymentError then. When ctx ends, Up stops waiting and returns ctx's
// error; the next Up or Down goes on from there.
func (p *Platform) Up(ctx context.Context, spec *environment.Spec) (*environment.Inventory, error) {
	inv, err := p.up(ctx, spec)
	if err != nil && ctx.Err() != nil {
		return inv, fmt.Errorf("up was interrupted: %w", ctx.Err())
	}
	return inv, err
}

func (p *Platform) up(ctx context.Context, spec *environment.Spec) (*environment.Inventory, error) {
	if spec.Platform != environment.Local {
		return nil, fmt.Errorf("up: the environment is for platform %q", spec.Platform)
	}
	unlock, err := p.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	idle, err := p.holdForBench()
	if err != nil {
		return nil, err
	}
	idle() // no bench begins while we have the lock

	inv, err := p.Inventory()
	switch {
	case errors.Is(err, ErrNoEnvironment):
		inv = &environment.Inventory{Environment: spec.Name, Platform: environment.Local}
	case err != nil:
		return nil, err
	default:
		if err := refuseChanges(inv, spec); err != nil {
			return nil, err
		}
	}
	plans, err := p.plansFor(ctx, spec, inv)
	if err != nil {
		return nil, err
	}
	password, err := p.secrets()
	if err != nil {
		return nil, err
	}
	if err := p.extend(inv, spec, plans); err != nil {
		return nil, err
	}
	book := &ledger{path: p.path(inventoryFile), inv: inv}
	if err := book.change(func(*environment.Inventory) {}); err != nil {
		return nil, err
	}
	found, err := p.running(ctx)
	if err != nil {
		return nil, err
	}

	var group errgroup.Group
	failures := make([]error, len(inv.Deployments))
	for i := range inv.Deployments {
		group.Go(func() error {
			u := &bringUp{p: p, book: book, index: i, password: password, found: found}
			u.plan = plans[inv.Deployments[i].Name]
			failures[i] = u.run(ctx)
			return nil
		})
	}
	_ = group.Wait() // failures has them, all of them
	return inv, errors.Join(failures...)
}

// plansFor returns the plan of every deployment by name. One that exists
// keeps the executable it was started with as long as that is there.
func (p *Platform) plansFor(ctx context.Context, spec *environment.Spec, inv *environment.Inventory) (map[string]DeploymentPlan, error) {
	fresh, err := p.Plan(ctx, spec)
	if err != nil {
		return nil, err
	}
	plans, asked := map[string]DeploymentPlan{}, map[string]environment.Deployment{}
	for i, plan := range fresh {
		plans[plan.Name], asked[plan.Name] = plan, spec.Deployments[i]
	}
	for _, have := range inv.Deployments {
		command := startedWith(have)
		if command == nil || slices.Equal(command, plans[have.Name].Command) {
			continue
		}
		plan := plans[have.Name]
		switch {
		case exists(command[0]):
			plan.Command, plan.Engine, plan.Reason = command, have.Engine, "was started with it"
			if plan.Engine == "" { // never became healthy: by its command
				plan.Engine = engineMongod
				if len(p.opts.EmbeddedCommand) > 0 && slices.Equal(command, p.opts.EmbeddedCommand) {
					plan.Engine = engineEmbedded
				}
			}
			plan.CacheGB = cacheOf(plan.Engine, asked[have.Name])
		case have.Engine != "" && have.Engine != plan.Engine:
			return nil, fmt.Errorf("deployment %s runs on %s, which is no longer there, and its data does not fit engine %s: run `sandbox down` first",
				have.Name, command[0], plan.Engine)
		}
		plans[have.Name] = plan
	}
	return plans, nil
}

// startedWith is the command of a deployment's members without its
// configuration, or nil if none was ever started.
func startedWith(d environment.DeploymentState) []string {
	for _, m := range d.Endpoints {
		if m.Process == nil {
			continue
		}
		if i := slices.Index(m.Process.Command, "--config"); i > 0 {
			return m.Process.Command[:i]
		}
	}
	return nil
}

// extend adds the deployments that do not exist yet, with their ports, in
// the spec's order.
func (p *Platform) extend(inv *environment.Inventory, spec *environment.Spec, plans map[string]DeploymentPlan) error {
	inv.Files, inv.Given = spec.Files, spec.Given
	inv.Username, inv.PasswordFile = Username, passwordFile
	have := map[string]environment.DeploymentState{}
	ports := map[string]int{} // by member
	taken := map[int]bool{}
	for _, d := range inv.Deployments {
		have[d.Name] = d
		for _, m := range d.Endpoints {
			taken[m.Port] = true
		}
	}
	for _, d := range spec.Deployments {
		for _, m := range d.Members {
			// Should the inventory be lost, the configuration still has the
			// port that the member may be listening on.
			if port := p.configuredPort(m.Name); port != 0 && !taken[port] {
				ports[m.Name], taken[port] = port, true
			}
		}
	}
	inv.Deployments = nil
	for _, d := range spec.Deployments {
		state, ok := have[d.Name]
		state.Deployment = d // what may differ of it counts from now on
		if !ok {
			state.Engine = plans[d.Name].Engine
			for _, m := range d.Members {
				port := ports[m.Name]
				if port == 0 {
					var err error
					if port, err = p.choosePort(taken); err != nil {
						return fmt.Errorf("member %s: %w", m.Name, err)
					}
				}
				state.Endpoints = append(state.Endpoints, environment.MemberState{Name: m.Name, Role: m.Role, Host: loopback, Port: port})
			}
		}
		inv.Deployments = append(inv.Deployments, state)
	}
	return nil
}

// bringUp brings up one deployment.
type bringUp struct {
	p        *Platform
	book     *ledger
	index    int
	plan     DeploymentPlan
	password secret.Text
	found    map[string][]environment.Process
}

// DeploymentError says why a deployment did not become healthy.
type DeploymentError struct {
	Deployment string
	cause      error
	logs       string // what its member's log says
}

func (e *DeploymentError) Error() string {
	return fmt.Sprintf("deployment %s: %v%s", e.Deployment, e.cause, e.logs)
}

// Unwrap returns the cause.
func (e *DeploymentError) Unwrap() error { return e.cause }

// memberError is a failure of one member.
type memberError struct {
	member string
	cause  error
	logged bool // the member's log may explain it
}

func (e *memberError) Error() string { return fmt.Sprintf("member %s: %v", e.member, e.cause) }
func (e *memberError) Unwrap() error { return e.cause }

func (u *bringUp) run(ctx context.Context) error {
	name := u.state().Name
	timeout := u.p.opts.ReadyTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not healthy after %v", timeout))
	defer cancel()
	err := u.startMembers(ctx)
	if err == nil {
		err = u.becomeHealthy(ctx)
	}
	if err == nil {
		u.p.tell(Event{Deployment: name, Stage: Healthy, Detail: u.state().Engine + " " + u.state().ActualVersion})
		return nil
	}
	u.p.tell(Event{Deployment: name, Stage: Failed, Detail: err.Error()})
	logs := ""
	var member *memberError
	if errors.As(err, &member) && member.logged && !errors.Is(err, context.Canceled) {
		logs = u.p.logTail(member.member)
	}
	return &DeploymentError{name, err, logs}
}

func (u *bringUp) state() environment.DeploymentState { return u.book.deployment(u.index) }

// startMembers starts every member that does not run.
func (u *bringUp) startMembers(ctx context.Context) error {
	var group errgroup.Group
	for i := range u.state().Endpoints {
		group.Go(func() error {
			m := u.state().Endpoints[i]
			if err := u.startMember(ctx, i, m); err != nil {
				return &memberError{m.Name, err, false}
			}
			return nil
		})
	}
	return group.Wait()
}

func (u *bringUp) startMember(ctx context.Context, i int, m environment.MemberState) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	files := u.p.member(m.Name)
	record := func(process environment.Process) error {
		return u.book.change(func(inv *environment.Inventory) {
			inv.Deployments[u.index].Endpoints[i].Process = &process
		})
	}
	conf, err := u.p.conf(m.Name, u.state().ReplicaSet, m.Port, u.plan.CacheGB)
	if err != nil {
		return err
	}
	orphans := u.found[files.conf]
	if have, err := os.ReadFile(files.conf); err != nil || !bytes.Equal(have, conf) {
		// What runs has other options than it is to have, such as its cache.
		// Or its state was removed while it ran: it serves another port, with
		// another key.
		otherPort := u.p.configuredPort(m.Name) != m.Port
		for _, process := range orphans {
			u.p.tell(Event{Deployment: u.state().Name, Member: m.Name, Stage: Stopping, Detail: "to start it with other options"})
			if _, err := end(ctx, process, files.conf, restartPatience); err != nil {
				return err
			}
		}
		if len(orphans) > 0 && m.Process == nil && otherPort {
			// What is there the old member has left after the removal.
			if err := os.RemoveAll(files.dir); err != nil {
				return err
			}
		}
		orphans = nil
	}
	if isOurs(m.Process, files.conf) {
		u.p.tell(Event{Deployment: u.state().Name, Member: m.Name, Stage: Kept, Detail: "pid " + strconv.Itoa(m.Process.PID)})
		return nil
	}
	if len(orphans) > 0 {
		// Started by an Up that ended before it could write that down.
		u.p.tell(Event{Deployment: u.state().Name, Member: m.Name, Stage: Kept, Detail: "found again, pid " + strconv.Itoa(orphans[0].PID)})
		return record(orphans[0])
	}
	if isEnding(m.Process) && !gone(ctx, m.Process, files.conf) {
		return context.Cause(ctx)
	}
	if err := portFree(m.Port); err != nil {
		return fmt.Errorf("its port %s is taken by another program (%w): end that, or run `sandbox down` and `sandbox up` for new ports", m.Address(), err)
	}
	for _, dir := range []string{files.data, filepath.Dir(files.log)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := secret.WriteFile(files.conf, conf); err != nil {
		return fmt.Errorf("store configuration: %w", err)
	}
	command := append(slices.Clone(u.plan.Command), "--config", files.conf)
	u.p.tell(Event{Deployment: u.state().Name, Member: m.Name, Stage: Starting, Detail: m.Address()})
	process, err := start(command, files.dir, files.output)
	if err != nil {
		return fmt.Errorf("start %s: %w", command[0], err)
	}
	return record(process)
}
