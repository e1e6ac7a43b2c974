package local

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// errOtherPlatform means that the state folder is not this platform's.
var errOtherPlatform = errors.New("the environment is on another platform")

// readInventory reads an inventory of this platform.
func readInventory(path string) (*environment.Inventory, error) {
	inv, err := environment.ReadInventory(path)
	if err != nil {
		return nil, err
	}
	if inv.Platform != environment.Local {
		return nil, fmt.Errorf("inventory %s: %w (%s)", path, errOtherPlatform, inv.Platform)
	}
	for _, d := range inv.Deployments {
		if len(d.Members) != len(d.Endpoints) {
			return nil, fmt.Errorf("inventory %s: deployment %s has %d members but %d endpoints", path, d.Name, len(d.Members), len(d.Endpoints))
		}
	}
	return inv, nil
}

// ledger is the inventory while it is being changed from several
// goroutines: every change is on disk before it is acted on further.
type ledger struct {
	mu   sync.Mutex
	path string
	inv  *environment.Inventory
}

// change applies f and stores the result in one step.
func (l *ledger) change(f func(*environment.Inventory)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.inv)
	return l.inv.Write(l.path)
}

// deployment returns a copy of the deployment at index i.
func (l *ledger) deployment(i int) environment.DeploymentState {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.inv.Deployments[i]
	d.Endpoints = slices.Clone(d.Endpoints)
	return d
}

// refuseChanges compares the deployments that exist with those asked for.
// New ones may be added; everything else would lose data.
func refuseChanges(inv *environment.Inventory, spec *environment.Spec) error {
	if inv.Environment != spec.Name {
		return fmt.Errorf("the state folder belongs to environment %q, not %q", inv.Environment, spec.Name)
	}
	asked := map[string]environment.Deployment{}
	for _, d := range spec.Deployments {
		asked[d.Name] = d
	}
	var changes []string
	for _, have := range inv.Deployments {
		want, ok := asked[have.Name]
		if !ok {
			changes = append(changes, fmt.Sprintf("deployment %s exists but is no longer in the file", have.Name))
			continue
		}
		changes = append(changes, differences(have.Deployment, want)...)
	}
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("environment %s %w: %s; nothing was changed", inv.Environment, ErrChanged, strings.Join(changes, "; "))
}

// ErrChanged means that an environment cannot become what its file now asks
// for without being taken down first.
var ErrChanged = errors.New("exists and differs from the file")

// differences names what of an existing deployment the file asks to be
// different.
func differences(have, want environment.Deployment) []string {
	var out []string
	compare := func(what, is, asked string) {
		if is != asked {
			out = append(out, fmt.Sprintf("deployment %s: %s is %s, the file asks for %s", have.Name, what, is, asked))
		}
	}
	compare("replica set", have.ReplicaSet, want.ReplicaSet)
	compare("distribution", have.Distribution, want.Distribution)
	compare("version", have.Version, want.Version)
	compare("list of members", memberList(have), memberList(want))
	return out
}

func memberList(d environment.Deployment) string {
	names := make([]string, len(d.Members))
	for i, m := range d.Members {
		names[i] = m.Name
		if m.Role == environment.Arbiter {
			names[i] += " (arbiter)"
		}
	}
	return strings.Join(names, ", ")
}
