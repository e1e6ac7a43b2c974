// Package install makes healthy deployments of machines that exist.
//
// In go a Spec and the Inventory of its machines; out comes the Inventory with
// the deployments that run on them: packages installed in the exact version,
// mongod configured and started, replica sets initiated, users created,
// monitoring registered. Every step may be repeated, so that what was
// interrupted goes on where it was, and one machine's failure leaves the
// others finished. What is done on a machine is in the scripts of package
// scripts; everything that speaks to a server goes through the machine's own
// connection.
//
// The package creates and removes no machines, reads no variable files, and
// puts no secret anywhere but in files of mode 0600 here and there.
package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

// Options say what to install where.
type Options struct {
	// Dir is the environment's state folder, .sandbox/<environment>. The
	// generated secrets are kept there.
	Dir string
	// Spec says which deployments there are to be.
	Spec *environment.Spec
	// Inventory has the machines and the way to them. It is not changed.
	Inventory *environment.Inventory
	// Progress, if set, is told what happens, one event at a time.
	Progress func(Event)
	// ReachTimeout bounds the wait for a machine that may still be starting;
	// 0 is 10 minutes.
	ReachTimeout time.Duration
	// MachineTimeout bounds everything that is done on one machine from then
	// on; 0 is 30 minutes.
	MachineTimeout time.Duration
	// ReadyTimeout bounds the wait for one deployment whose servers run to
	// become healthy; 0 is 5 minutes.
	ReadyTimeout time.Duration

	// Tests replace these.
	dial    func(ctx context.Context, machine string) (host, error)
	bringUp func(ctx context.Context, set *replicaSet) error
}

func (o Options) withDefaults() Options {
	if o.ReachTimeout == 0 {
		o.ReachTimeout = 10 * time.Minute
	}
	if o.MachineTimeout == 0 {
		o.MachineTimeout = 30 * time.Minute
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 5 * time.Minute
	}
	if o.dial == nil {
		o.dial = func(ctx context.Context, machine string) (host, error) {
			return asHost(reach(ctx, o.Inventory, o.Dir, machine, remote.WaitOptions{AuthPatience: authPatience}))
		}
	}
	if o.bringUp == nil {
		o.bringUp = func(ctx context.Context, set *replicaSet) error { return set.bringUp(ctx) }
	}
	return o
}

// authPatience is for how long a new machine may refuse the key: accounts are
// set up by an agent that starts after sshd.
const authPatience = 2 * time.Minute

// Stage is what happens to a machine or a deployment.
type Stage string

// The stages, in the order they are passed through.
const (
	Connecting Stage = "connecting" // machine: waiting until it can be reached
	Installing Stage = "installing" // machine: Detail says what
	Installed  Stage = "installed"  // machine: Detail has the package's version, if any
	Initiating Stage = "initiating" // deployment
	Waiting    Stage = "waiting"    // deployment: for a primary and secondaries
	Monitoring Stage = "monitoring" // machine: being registered
	Healthy    Stage = "healthy"    // deployment
	Failed     Stage = "failed"     // machine or deployment: Err says why
)

// Event is a step of one machine or, with an empty Machine, of one deployment.
type Event struct {
	Machine    string
	Deployment string // also of a member's machine
	Stage      Stage
	Detail     string
	Err        error
}

// MachineError says why a machine is not what it should be.
type MachineError struct {
	Machine string
	Err     error
}

func (e *MachineError) Error() string { return "machine " + e.Machine + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *MachineError) Unwrap() error { return e.Err }

// DeploymentError says why a deployment is not healthy although its machines
// are.
type DeploymentError struct {
	Deployment string
	Err        error
}

func (e *DeploymentError) Error() string { return "deployment " + e.Deployment + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *DeploymentError) Unwrap() error { return e.Err }

// Run installs everything that is not installed yet, on all machines in
// parallel, and returns when nothing is under way any more. The error names
// every machine and deployment that failed; the others are finished. The
// inventory is there in any case: it has all deployments, and of those that
// are healthy what the servers say of themselves.
func Run(ctx context.Context, o Options) (*environment.Inventory, error) {
	o = o.withDefaults()
	inv, err := plan(o)
	if err != nil {
		return nil, err
	}
	secrets, err := loadSecrets(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := forgetReplaced(o.Dir, inv); err != nil {
		return nil, err
	}
	r := &run{opts: o, inv: inv, secrets: secrets, machines: map[string]*machine{}}
	for _, m := range inv.Machines {
		r.machines[m.Name] = &machine{run: r, state: m, done: make(chan struct{})}
	}
	defer r.close()

	failures := make([]error, len(inv.Machines)+len(inv.Deployments))
	var work sync.WaitGroup
	for i, m := range inv.Machines {
		work.Go(func() { failures[i] = r.machines[m.Name].install(ctx) })
	}
	for i := range inv.Deployments {
		work.Go(func() { failures[len(inv.Machines)+i] = r.deploy(ctx, &inv.Deployments[i]) })
	}
	work.Wait()
	return inv, errors.Join(failures...)
}

// plan returns the inventory to fill in.
func plan(o Options) (*environment.Inventory, error) {
	inv := *o.Inventory
	inv.Environment, inv.Platform, inv.Files, inv.Given = o.Spec.Name, o.Spec.Platform, o.Spec.Files, o.Spec.Given
	inv.Username, inv.PasswordFile = BenchmarkUser, BenchmarkPasswordFile
	if inv.PMM == nil && o.Spec.Cloud != nil {
		inv.PMM = o.Spec.Cloud.PMM
	}
	inv.Deployments = nil
	for _, d := range o.Spec.Deployments {
		state := environment.DeploymentState{Deployment: d}
		for _, m := range d.Members {
			if !slices.ContainsFunc(inv.Machines, func(have environment.MachineState) bool { return have.Name == m.Name }) {
				return nil, fmt.Errorf("install: there is no machine for member %s of deployment %s", m.Name, d.Name)
			}
			state.Endpoints = append(state.Endpoints, environment.MemberState{Name: m.Name, Role: m.Role, Host: m.Name, Port: port})
		}
		inv.Deployments = append(inv.Deployments, state)
	}
	return &inv, nil
}

// port is where every member listens.
const port = 27017

// run is one call of Run.
type run struct {
	opts     Options
	inv      *environment.Inventory
	secrets  secrets
	machines map[string]*machine

	mu sync.Mutex // events come one at a time
}

func (r *run) tell(e Event) {
	if r.opts.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opts.Progress(e)
}

func (r *run) close() {
	for _, m := range r.machines {
		m.close()
	}
}

// deployment returns the deployment of a member's machine, or nil.
func (r *run) deployment(m environment.MachineState) *environment.DeploymentState {
	for i := range r.inv.Deployments {
		if r.inv.Deployments[i].Name == m.Deployment {
			return &r.inv.Deployments[i]
		}
	}
	return nil
}

// withRole returns the machine that has a role that only one has, or nil.
func (r *run) withRole(role string) *machine {
	for _, m := range r.inv.Machines {
		if m.Role == role {
			return r.machines[m.Name]
		}
	}
	return nil
}

// deploy waits for a deployment's machines and makes a replica set of them. A
// machine that failed has said so itself.
func (r *run) deploy(ctx context.Context, d *environment.DeploymentState) error {
	set := &replicaSet{state: d, secrets: r.secrets, hosts: map[string]host{}, tell: r.tell}
	for _, m := range d.Endpoints {
		machine := r.machines[m.Name]
		if <-machine.done; machine.failed {
			return nil
		}
		set.hosts[m.Name] = machine
	}
	if machine := r.withRole(environment.LoadHost); machine != nil {
		if <-machine.done; !machine.failed {
			set.client = machine
		}
	}
	fail := func(err error) error {
		r.tell(Event{Deployment: d.Name, Stage: Failed, Err: err})
		return &DeploymentError{d.Name, err}
	}
	ready, cancel := context.WithTimeoutCause(ctx, r.opts.ReadyTimeout, fmt.Errorf("not healthy after %s", r.opts.ReadyTimeout))
	defer cancel()
	if err := r.opts.bringUp(ready, set); err != nil {
		return fail(err)
	}
	if err := r.monitor(ctx, d); err != nil {
		return fail(err)
	}
	r.tell(Event{Deployment: d.Name, Stage: Healthy, Detail: d.Engine + " " + d.ActualVersion})
	return nil
}

// monitor registers the members of a deployment with the PMM server.
func (r *run) monitor(ctx context.Context, d *environment.DeploymentState) error {
	server := r.withRole(environment.Monitoring)
	if !d.Monitored || server == nil {
		return nil
	}
	if <-server.done; server.failed {
		return errors.New("is not monitored, because the PMM server could not be installed")
	}
	failures := make([]error, len(d.Endpoints))
	var work sync.WaitGroup
	for i, m := range d.Endpoints {
		work.Go(func() {
			if err := r.machines[m.Name].monitor(ctx); err != nil {
				failures[i] = &MachineError{m.Name, err}
			}
		})
	}
	work.Wait()
	return errors.Join(failures...)
}

// forgetReplaced drops the pinned host keys of machines that were replaced by
// others under the same address, and remembers which machines there are now.
func forgetReplaced(dir string, inv *environment.Inventory) error {
	path := filepath.Join(dir, machinesFile)
	known, err := readMachines(path)
	if err != nil {
		return err
	}
	now := map[string]string{}
	for _, m := range inv.Machines {
		to, err := Target(inv, m.Name)
		if err != nil {
			return err
		}
		now[to.Address] = m.ID
		if known[to.Address] != m.ID {
			if err := remote.ForgetHost(inDir(dir, inv.SSH.KnownHosts), to); err != nil {
				return err
			}
		}
	}
	return writeMachines(path, now)
}

// agentSocket is where the user's SSH agent listens, if there is one.
func agentSocket() string { return os.Getenv("SSH_AUTH_SOCK") }
