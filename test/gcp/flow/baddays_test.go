//go:build e2e

package flow

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	days  = "days" // the environment of these tests, and its file's name
	fromV = "source_ranges=100.64.0.0/24"
)

// newDays is a world with the environment's file.
func newDays(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.environmentFile("../testdata/days.tfvars")
	w.hurry(days)
	return w
}

func (w *world) up(more ...string) *running {
	return w.start(append([]string{"up", "--auto-approve", "-var-file", "days.tfvars", "-var", fromV}, more...)...)
}

// healthy brings the environment up.
func (w *world) healthy() {
	w.t.Helper()
	if r := w.up().wait(); r.code != 0 {
		w.explain()
		w.t.Fatalf("up: exit code %d\n%s", r.code, r.stderr)
	}
}

// A zone runs out of machines; the command is killed while machines are made,
// and while packages are installed; the state is deleted. In the end all is
// gone all the same.
func TestInterruptedUp(t *testing.T) {
	w := newDays(t)
	w.cloud.FailInsert(3, "ZONE_RESOURCE_POOL_EXHAUSTED")
	r := w.up().wait()
	if r.code != 5 || !strings.Contains(r.stderr, "does not have enough resources") || !strings.Contains(r.stderr, "hint:") {
		t.Errorf("a stockout: exit code %d\n%s", r.code, r.stderr)
	}

	up := w.up()
	up.until(`machine \S+: .*being created`)
	up.kill()
	up = w.up()
	up.until(`days-rs-0: .*installing`)
	up.kill()
	w.healthy()
	if s := runJSON[status](w, "status"); !s.Healthy || len(s.Machines) != 4 {
		t.Errorf("status: %+v", s)
	}
	w.planIsEmpty(days, "days.tfvars", "-var="+fromV)

	secrets := w.secrets(days)
	must(t, os.RemoveAll(w.state(days)))
	w.run("down", "--auto-approve", "--env", days, "--project", projectID)
	w.nothingLeft(days)
	w.noSecrets(secrets)
}

// What is wrong with packages and keys is said as the user can use it, and
// mending it is enough.
func TestRefusals(t *testing.T) {
	w := newDays(t)
	r := w.up("-var", "mongo_version=8.0.99").wait()
	if r.code != 2 || !strings.Contains(r.stderr, "8.0.99") || !strings.Contains(r.stderr, "8.0.34") {
		t.Errorf("a version that does not exist: exit code %d\n%s", r.code, r.stderr)
	}
	reachable := w.mirror.Unreachable("repo.percona.com")
	r = w.up().wait()
	if r.code != 4 || !strings.Contains(r.stderr, "repo.percona.com") {
		t.Errorf("a mirror out of reach: exit code %d\n%s", r.code, r.stderr)
	}
	reachable()
	w.healthy()

	w.run("ssh", "rs-0", "--", "sh", "-c", "mv ~/.ssh/authorized_keys ~/.ssh/kept")
	r = w.try("ssh", "rs-0", "--", "true")
	if r.code != 4 {
		t.Errorf("ssh with a key that is refused: exit code %d\n%s", r.code, r.stderr)
	}
	r = w.try("status")
	if r.code != 6 || !strings.Contains(r.stdout, "days-rs-0") {
		t.Errorf("status with a key that is refused: exit code %d\n%s\n%s", r.code, r.stdout, r.stderr)
	}
	secrets := w.secrets(days)
	w.run("down", "--auto-approve")
	w.nothingLeft(days)
	w.noSecrets(secrets)
}

// bench starts a run of four cells.
func (w *world) bench(more ...string) *running {
	return w.start(append([]string{"bench", "--sizes", "1k,2k", "--iterations", "2", "--duration", "6s", "--interval", "0s", "--workers", "2", "--ops-per-worker", "1000"}, more...)...)
}

// fourCells checks that every cell is there once and counts.
func (w *world) fourCells() {
	w.t.Helper()
	counted := 0
	for _, cell := range w.report().Cells {
		if cell.Valid && cell.Commands > 0 {
			counted++
		}
	}
	if counted != 4 {
		w.t.Errorf("%d cells count, want 4", counted)
	}
}

// The command is killed, the load host reboots, the network to it is cut, a
// member dies: what was measured is kept, and what was not is measured.
func TestInterruptedBench(t *testing.T) {
	w := newDays(t)
	w.healthy()

	bench := w.bench()
	bench.until(`1k #1: ✓`)
	bench.kill()
	before := w.cells()
	if r := w.try("bench", "--resume"); r.code != 0 {
		t.Errorf("resume after a kill: exit code %d\n%s", r.code, r.stderr)
	}
	w.fourCells()
	w.unchanged(before)

	bench = w.bench()
	bench.until(`1k #1: ✓`)
	before = w.cells()
	must(t, w.lab.Reboot(t.Context(), "days-plgm"))
	if r := bench.wait(); r.code != 0 {
		t.Errorf("a reboot of the load host: exit code %d\n%s", r.code, r.stderr)
	}
	w.fourCells()
	w.unchanged(before)

	bench = w.bench()
	bench.until(`1k #1: ✓`)
	must(t, w.lab.Partition("days-plgm", true))
	time.Sleep(time.Minute) // this is the length of the cut, and not a wait for something
	must(t, w.lab.Partition("days-plgm", false))
	if r := bench.wait(); r.code != 0 {
		t.Errorf("a cut of the network: exit code %d\n%s", r.code, r.stderr)
	}
	w.fourCells()

	bench = w.bench()
	bench.until(`1k #1: .*commands/s`)
	w.run("ssh", "rs-1", "--", "sudo", "pkill", "-KILL", "mongod")
	// Nothing starts it again: the cell cannot be run, until up has repaired
	// the deployment.
	if r := bench.wait(); r.code != 6 || !strings.Contains(r.stderr, "hint: `sandbox up` repairs") {
		t.Errorf("a member's death: exit code %d\n%s", r.code, r.stderr)
	}
	w.healthy()
	if r := w.try("bench", "--resume"); r.code != 0 {
		t.Errorf("resume after a member's death: exit code %d\n%s", r.code, r.stderr)
	}
	w.fourCells()

	bench = w.bench()
	bench.until(`1k #1: ✓`)
	must(t, bench.cmd.Process.Signal(syscall.SIGINT))
	if r := bench.wait(); r.code != 130 {
		t.Errorf("an interrupt: exit code %d\n%s", r.code, r.stderr)
	}
	secrets := w.secrets(days)
	w.run("down", "--auto-approve")
	w.nothingLeft(days)
	w.noSecrets(secrets)
}

// cells are the files of finished cells of the newest run.
func (w *world) cells() map[string]string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "runs", "*", "cells", "*", "cell.json"))
	must(w.t, err)
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(w.t, err)
		if !json.Valid(text) {
			w.t.Errorf("%s is not whole", file)
		}
		found[file] = string(text)
	}
	return found
}

// unchanged checks that finished cells are as they were.
func (w *world) unchanged(before map[string]string) {
	w.t.Helper()
	now := w.cells()
	for file, text := range before {
		if now[file] != text {
			w.t.Errorf("%s has changed", file)
		}
	}
}
