//go:build e2e

package flow

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// badDays are those of a user for whom everything goes wrong: with Debian, an
// arbiter, spread over zones, on spot machines.
type badDays struct{ *user }

// testBadDays calls shared when it is done with what all of the cloud suffers,
// and all of its machines.
func testBadDays(t *testing.T, w *world, shared func()) {
	d := &badDays{newUser(t, w, "../testdata/small.tfvars")}
	d.cloud.FailInsert(3, "ZONE_RESOURCE_POOL_EXHAUSTED")
	d.ends("a stockout", d.up(), 5, "does not have enough resources", "hint:")
	d.killedUp(`machine \S+: .*being created`)
	d.wrongVersion()
	reachable := d.mirror.Unreachable("repo.percona.com")
	d.ends("a mirror out of reach", d.up(), 4, "repo.percona.com")
	reachable()
	d.killedUp(`small-odd-name-v2-0: .*installing`)
	d.ends("up", d.up(), 0)
	shared()

	if s := runJSON[status](d.user, "status"); !s.Healthy || len(s.Machines) != 4 {
		t.Errorf("status: %+v", s)
	}
	d.planIsEmpty(smallVariables)
	d.run("ssh", "odd-name-v2-0", "--", "grep", "-q", "cacheSizeGB: 0.5", "/etc/mongod.conf")
	d.losesLoadHost()
	d.losesMember()
	d.losesKey()

	// With the state lost, down finds what there is.
	secrets := d.secrets()
	must(t, os.RemoveAll(d.state()))
	d.run("down", "--auto-approve", "--env", d.environment, "--project", projectID)
	d.nothingLeft()
	d.noSecrets(secrets)
}

// smallVariables keep the environment from the addresses of the other one.
var smallVariables = []string{"-var", "source_ranges=100.64.0.0/24", "-var", "subnet_cidr=10.132.0.0/20"}

func (d *badDays) up() *running {
	return d.start(append([]string{"up", "--auto-approve", "-var-file", d.file}, smallVariables...)...)
}

// ends checks how a command ends, and what it says of it.
func (d *badDays) ends(what string, command *running, code int, says ...string) {
	d.t.Helper()
	r := command.wait()
	text := r.stdout + r.stderr
	missing := slices.ContainsFunc(says, func(words string) bool { return !strings.Contains(text, words) })
	if r.code != code || missing {
		d.explain()
		d.t.Fatalf("%s: exit code %d, want %d and %q in\n%s", what, r.code, code, says, text)
	}
}

func (d *badDays) killedUp(when string) {
	up := d.up()
	up.until(when)
	up.kill()
}

// wrongVersion mistypes the version in the file, and mends it.
func (d *badDays) wrongVersion() {
	path := filepath.Join(d.dir, d.file)
	right, err := os.ReadFile(path)
	must(d.t, err)
	must(d.t, os.WriteFile(path, bytes.ReplaceAll(right, []byte("8.0.34"), []byte("8.0.99")), 0o600))
	d.ends("a version that does not exist", d.up(), 2, "8.0.99", "8.0.34")
	must(d.t, os.WriteFile(path, right, 0o600))
}

// losesLoadHost has one run survive that its command is killed, that the load
// host reboots, and that the network to it is cut for a minute.
func (d *badDays) losesLoadHost() {
	bench := d.bench("--sizes", "1k,2k", "--duration", "5s")
	bench.until(`1k #1: ✓`)
	bench.kill()
	kept := d.cells()
	bench = d.start("bench", "--resume")
	bench.until(`1k #2: ✓`)
	must(d.t, d.lab.Reboot(d.t.Context(), "small-plgm"))
	bench.until(`2k #1: .*commands/s`)
	must(d.t, d.lab.Partition("small-plgm", true))
	time.Sleep(time.Minute) // this is the length of the cut, and not a wait for something
	must(d.t, d.lab.Partition("small-plgm", false))
	d.ends("resume", bench, 0)
	d.counted(4)
	d.unchanged(kept)
}

// losesMember has a member die during a cell, which then counts for nothing
// and is measured again, and interrupts what follows.
func (d *badDays) losesMember() {
	bench := d.bench("--sizes", "1k", "--duration", "10s")
	bench.until(`1k #1: .*commands/s`)
	d.run("ssh", "odd-name-v2-1", "--", "sudo", "pkill", "-KILL", "mongod")
	// Nothing starts it again: no cell can be run until up has repaired the
	// deployment.
	d.ends("a member's death", bench, 6, "hint: `sandbox up` repairs")
	d.counted(0)
	d.changesNothing(d.up())
	bench = d.start("bench", "--resume")
	bench.until(`1k #1.*: ✓`) // not at the first attempt
	must(d.t, bench.cmd.Process.Signal(syscall.SIGINT))
	d.ends("an interrupt", bench, 130)
	d.counted(1)
}

// losesKey has a machine refuse the key.
func (d *badDays) losesKey() {
	d.run("ssh", "odd-name-v2-0", "--", "sh", "-c", "mv ~/.ssh/authorized_keys ~/.ssh/kept")
	d.ends("ssh with a key that is refused", d.start("ssh", "odd-name-v2-0", "--", "true"), 4)
	d.ends("status with a key that is refused", d.start("status"), 6, "small-odd-name-v2-0")
}

// bench starts a run with two cells of each size, at a rate that leaves the
// processors to the other environment.
func (d *badDays) bench(sizesAndDuration ...string) *running {
	return d.start(append([]string{"bench", "--iterations", "2", "--interval", "0s", "--workers", "2", "--rate", "200", "--ops-per-worker", "1000"}, sizesAndDuration...)...)
}

// counted checks how many cells of the newest run count.
func (d *badDays) counted(want int) {
	d.t.Helper()
	counted := 0
	for _, cell := range d.report().Cells {
		if cell.Valid && cell.Commands > 0 {
			counted++
		}
	}
	if counted != want {
		d.t.Errorf("%d cells count, want %d", counted, want)
	}
}

// cells are the files of finished cells of the newest run.
func (d *badDays) cells() map[string]string {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "runs", "*", "cells", "*", "cell.json"))
	must(d.t, err)
	found := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(d.t, err)
		if !json.Valid(text) {
			d.t.Errorf("%s is not whole", file)
		}
		found[file] = string(text)
	}
	return found
}

// unchanged checks that finished cells are as they were.
func (d *badDays) unchanged(before map[string]string) {
	d.t.Helper()
	now := d.cells()
	for file, text := range before {
		if now[file] != text {
			d.t.Errorf("%s has changed", file)
		}
	}
}
