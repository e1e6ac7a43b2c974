package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// Removed is what Down has done.
type Removed struct {
	// Ended are the processes that were stopped.
	Ended []EndedProcess `json:"ended"`
	// Folder is the state folder that was removed; empty if there was none.
	Folder string `json:"folder,omitempty"`
	// LeftAlone are things that the inventory mentions and that turned out
	// to be somebody else's: reused pids, ports that others listen on.
	LeftAlone []string `json:"left_alone,omitempty"`
}

// Nothing reports whether nothing was there to remove.
func (r *Removed) Nothing() bool { return r.Folder == "" && len(r.Ended) == 0 }

// EndedProcess is a process that Down has stopped.
type EndedProcess struct {
	Member string `json:"member"`
	PID    int    `json:"pid"`
	Forced bool   `json:"forced,omitempty"` // did not end when asked to
	Orphan bool   `json:"orphan,omitempty"` // the inventory did not know it
}

// patience is how long a member may take to end before it is killed. Its
// data is removed anyway.
const patience = 8 * time.Second

// Down ends every process that Up has started, known or not, and removes the
// state folder. It proves it: an error names what is left. A second Down
// finds nothing to do. When ctx ends the state is kept, and the next Down
// goes on.
func (p *Platform) Down(ctx context.Context) (*Removed, error) {
	removed := &Removed{}
	var inv *environment.Inventory
	if exists(p.dir) {
		if err := p.looksLikeState(); err != nil {
			return nil, err
		}
		unlock, err := p.lock(ctx)
		if err != nil {
			return nil, err
		}
		defer unlock()
		// An inventory that cannot be read does not keep us from ending what
		// the process list shows; another platform's does.
		if inv, err = readInventory(p.path(inventoryFile)); errors.Is(err, errOtherPlatform) {
			return nil, err
		}
	}
	found, err := p.running(ctx)
	if err != nil {
		return nil, err
	}
	removed.LeftAlone = p.foreignProcesses(inv)
	removed.Ended, err = p.endAll(ctx, inv, found)
	if err != nil {
		return removed, err
	}
	again, err := p.running(ctx)
	if err != nil {
		return removed, err
	}
	for conf, processes := range again {
		return removed, fmt.Errorf("down: process %d with %s still runs: run `sandbox down` again", processes[0].PID, conf)
	}
	// No process of ours is left, so whoever listens on a port of ours now
	// is somebody else.
	if inv != nil {
		for _, d := range inv.Deployments {
			for _, m := range d.Endpoints {
				if isEnding(m.Process) && !gone(ctx, m.Process, "") {
					return removed, fmt.Errorf("down: process %d of member %s does not end: %w", m.Process.PID, m.Name, ctx.Err())
				}
				if portFree(m.Port) != nil {
					removed.LeftAlone = append(removed.LeftAlone, fmt.Sprintf("port %s of member %s: another program listens on it", m.Address(), m.Name))
				}
			}
		}
	}
	if !exists(p.dir) {
		return removed, nil
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return removed, fmt.Errorf("down: remove state: %w", err)
	}
	removed.Folder = p.dir
	if parent := filepath.Dir(p.dir); filepath.Base(parent) == ".sandbox" {
		_ = os.Remove(parent) // unless it holds other environments
	}
	return removed, nil
}

// looksLikeState refuses to remove a folder that no Up has made.
func (p *Platform) looksLikeState() error {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("down: %w", err)
	}
	own := []string{inventoryFile, passwordFile, keyFile, lockFile, benchFile, membersDir}
	for _, entry := range entries {
		if slices.Contains(own, entry.Name()) {
			return nil
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return fmt.Errorf("down: %s does not look like the state of an environment: nothing was removed", p.dir)
}

// foreignProcesses lists the recorded pids that belong to other programs by
// now.
func (p *Platform) foreignProcesses(inv *environment.Inventory) []string {
	if inv == nil {
		return nil
	}
	var out []string
	for _, d := range inv.Deployments {
		for _, m := range d.Endpoints {
			if m.Process == nil || isOurs(m.Process, p.member(m.Name).conf) {
				continue
			}
			if argv := commandLine(m.Process.PID); len(argv) > 0 && configOf(argv) != p.member(m.Name).conf {
				out = append(out, fmt.Sprintf("process %d of member %s: is %s by now", m.Process.PID, m.Name, filepath.Base(argv[0])))
			}
		}
	}
	return out
}

// endAll ends the processes that were found, all at once.
func (p *Platform) endAll(ctx context.Context, inv *environment.Inventory, found map[string][]environment.Process) ([]EndedProcess, error) {
	known, deployments := map[int]bool{}, map[string]string{}
	if inv != nil {
		for _, d := range inv.Deployments {
			for _, m := range d.Endpoints {
				deployments[m.Name] = d.Name
				if isOurs(m.Process, p.member(m.Name).conf) {
					known[m.Process.PID] = true
				}
			}
		}
	}
	var (
		group errgroup.Group
		mu    sync.Mutex
		ended []EndedProcess
		errs  []error
	)
	for conf, processes := range found {
		for _, process := range processes {
			group.Go(func() error {
				e := EndedProcess{Member: filepath.Base(filepath.Dir(conf)), PID: process.PID, Orphan: !known[process.PID]}
				p.tell(Event{Deployment: deployments[e.Member], Member: e.Member, Stage: Stopping})
				var err error
				e.Forced, err = end(ctx, process, conf, patience)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, fmt.Errorf("member %s: %w", e.Member, err))
					return nil
				}
				p.tell(Event{Deployment: deployments[e.Member], Member: e.Member, Stage: Ended})
				ended = append(ended, e)
				return nil
			})
		}
	}
	_ = group.Wait() // errs has them, all of them
	slices.SortFunc(ended, func(a, b EndedProcess) int { return strings.Compare(a.Member, b.Member) })
	if err := ctx.Err(); err != nil {
		return ended, fmt.Errorf("down was interrupted; run it again to go on: %w", err)
	}
	return ended, errors.Join(errs...)
}
