package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// standIn is the test/mongod executable, built by TestMain.
var standIn string

func TestMain(m *testing.M) {
	if dir := os.Getenv("SANDBOX_TEST_UP"); dir != "" {
		os.Exit(upInAChild(dir, os.Getenv("SANDBOX_TEST_STANDIN")))
	}
	dir, err := os.MkdirTemp("", "sandbox-local-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	standIn = filepath.Join(dir, "mongod")
	build := exec.Command("go", "build", "-o", standIn, "github.com/mongo-sandbox/sandbox/test/mongod")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the stand-in: %v\n%s", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// events collects what a platform tells.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// started returns, sorted, the members that were started.
func (e *events) started() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for _, event := range e.all {
		if event.Stage == Starting && event.Member != "" {
			names = append(names, event.Member)
		}
	}
	slices.Sort(names)
	return names
}

// world is an environment on a platform whose processes end with the test.
type world struct {
	t      *testing.T
	opts   Options
	p      *Platform
	spec   *environment.Spec
	events *events
}

func newWorld(t *testing.T, deployments ...environment.Deployment) *world {
	t.Helper()
	w := &world{t: t, spec: &environment.Spec{Name: "test", Platform: environment.Local, Deployments: deployments}}
	w.opts = Options{
		Dir:             filepath.Join(t.TempDir(), ".sandbox", "test"),
		EmbeddedCommand: []string{standIn},
		ReadyTimeout:    time.Minute,
	}
	w.fresh()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := w.p.Down(ctx); err != nil {
			t.Errorf("the last Down: %v", err)
		}
	})
	return w
}

// fresh forgets all that a program that ends forgets.
func (w *world) fresh() {
	w.events = &events{}
	w.opts.Progress = w.events.add
	w.p = New(w.opts)
}

// deployment makes n data-bearing members and as many arbiters.
func deployment(name string, data, arbiters int) environment.Deployment {
	d := environment.Deployment{Name: name, ReplicaSet: name, Distribution: "community", Release: "8.0", Series: "8.0", Version: "8.0.34"}
	for i := range data {
		d.Members = append(d.Members, environment.Member{Name: fmt.Sprintf("%s-%d", name, i), Role: environment.Data})
	}
	for i := range arbiters {
		d.Members = append(d.Members, environment.Member{Name: fmt.Sprintf("%s-arb%d", name, i), Role: environment.Arbiter})
	}
	return d
}

func (w *world) up() *environment.Inventory {
	w.t.Helper()
	inv, err := w.p.Up(w.t.Context(), w.spec)
	if err != nil {
		w.t.Fatalf("Up: %v", err)
	}
	return inv
}

// pids by member.
func pids(inv *environment.Inventory) map[string]int {
	out := map[string]int{}
	for _, d := range inv.Deployments {
		for _, m := range d.Endpoints {
			if m.Process != nil {
				out[m.Name] = m.Process.PID
			}
		}
	}
	return out
}

// kill ends a member as a power cut would.
func (w *world) kill(inv *environment.Inventory, names ...string) {
	w.t.Helper()
	for _, name := range names {
		pid := pids(inv)[name]
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			w.t.Fatal(err)
		}
		eventually(w.t, name+" has ended", func() bool {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
			_, err := created(pid) // it is a child of ours and collected now
			return err != nil
		})
	}
}

func (w *world) wantHealthy(states ...string) {
	w.t.Helper()
	status, err := w.p.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if !status.Healthy {
		w.t.Errorf("not healthy: %+v", status)
	}
	for _, d := range status.Deployments {
		var got []string
		for _, m := range d.Members {
			got = append(got, m.State)
			if m.Error != "" || !m.Running || m.PID == 0 || m.Version == "" {
				w.t.Errorf("member %+v", m)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, states) {
			w.t.Errorf("%s has members in states %v, want %v", d.Name, got, states)
		}
	}
}

// wantNothing checks that no process, port or file is left.
func (w *world) wantNothing(inv *environment.Inventory) {
	w.t.Helper()
	if found, err := w.p.running(w.t.Context()); err != nil || len(found) > 0 {
		w.t.Errorf("still running: %v (%v)", found, err)
	}
	for name, pid := range pids(inv) {
		if len(commandLine(pid)) > 0 {
			w.t.Errorf("process %d of %s still runs", pid, name)
		}
	}
	for _, d := range inv.Deployments {
		for _, m := range d.Endpoints {
			if conn, err := net.DialTimeout("tcp", m.Address(), time.Second); err == nil {
				_ = conn.Close()
				w.t.Errorf("something listens on %s", m.Address())
			}
		}
	}
	if exists(w.p.dir) || exists(filepath.Dir(w.p.dir)) {
		w.t.Error("the state folder is still there")
	}
}

// client is an authenticated client of a deployment.
func (w *world) client(d environment.DeploymentState, readPreference string) *mongodb.Client {
	w.t.Helper()
	password, err := w.p.Password()
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := mongodb.Connect(w.t.Context(), mongodb.Options{URI: d.URI(""), Username: Username, Password: password,
		WriteConcern: "majority", ReadPreference: readPreference, OpTimeout: 20 * time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { disconnect(context.Background(), client) })
	return client
}

// wantSecretsHidden looks for the password and the keyfile's content in
// every file and on every command line.
func (w *world) wantSecretsHidden(inv *environment.Inventory) {
	w.t.Helper()
	var secrets [][]byte
	for _, name := range []string{passwordFile, keyFile} {
		text, err := os.ReadFile(w.p.path(name))
		if err != nil {
			w.t.Fatal(err)
		}
		secrets = append(secrets, bytes.TrimSpace(text))
	}
	looked := 0
	err := filepath.WalkDir(w.p.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path == w.p.path(passwordFile) || path == w.p.path(keyFile) {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(text, secret) {
				w.t.Errorf("%s holds a secret", path)
			}
		}
		looked++
		return err
	})
	if err != nil || looked < 2*len(pids(inv)) {
		w.t.Errorf("looked into %d files only (%v)", looked, err)
	}
	for _, pid := range pids(inv) {
		for _, secret := range secrets {
			if strings.Contains(strings.Join(commandLine(pid), " "), string(secret)) {
				w.t.Errorf("the command line of %d holds a secret", pid)
			}
		}
	}
}

func TestUpRepairStatusDown(t *testing.T) {
	w := newWorld(t, deployment("a", 3, 0), deployment("b", 3, 0), deployment("c", 3, 0))
	began := time.Now()
	first := w.up()
	t.Logf("up of 3 x 3 members took %v", time.Since(began).Round(time.Millisecond))
	w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")
	w.wantSecretsHidden(first)
	for _, d := range first.Deployments {
		if d.Engine != engineEmbedded || d.ActualVersion == "" || d.ActualVersion == d.Version {
			t.Errorf("%s is engine %s, version %q", d.Name, d.Engine, d.ActualVersion)
		}
	}
	coll := func(readPreference string) *mongodb.Client { return w.client(first.Deployments[0], readPreference) }
	if _, err := coll("").Driver().Database("x").Collection("y").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Error(err)
	}
	if err := coll("").WaitCaughtUp(t.Context(), time.Minute, nil); err != nil {
		t.Error(err)
	}
	if err := coll("secondary").Driver().Database("x").Collection("y").FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Err(); err != nil {
		t.Error(err)
	}

	w.fresh()
	second := w.up()
	if started := w.events.started(); len(started) > 0 {
		t.Errorf("the second Up has started %v", started)
	}
	if fmt.Sprint(pids(second)) != fmt.Sprint(pids(first)) {
		t.Errorf("pids %v, then %v", pids(first), pids(second))
	}

	w.fresh()
	w.kill(second, "b-1")
	status, err := w.p.Status(t.Context())
	if err != nil || status.Healthy || status.Deployments[1].Healthy || !status.Deployments[0].Healthy {
		t.Errorf("with a dead member: %+v, %v", status, err)
	}
	if m := status.Deployments[1].Members[1]; m.Running || m.Healthy || m.Error == "" {
		t.Errorf("the dead member: %+v", m)
	}
	third := w.up()
	if started := w.events.started(); !slices.Equal(started, []string{"b-1"}) {
		t.Errorf("the repair has started %v", started)
	}
	w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")

	w.fresh()
	w.kill(third, "a-0", "a-1", "a-2", "b-0", "b-1", "b-2", "c-0", "c-1", "c-2")
	fourth := w.up()
	if started := w.events.started(); len(started) != 9 {
		t.Errorf("after the power cut %v were started", started)
	}
	w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")
	for i, d := range fourth.Deployments {
		for j, m := range d.Endpoints {
			if port := first.Deployments[i].Endpoints[j].Port; m.Port != port {
				t.Errorf("%s has moved from port %d to %d", m.Name, port, m.Port)
			}
		}
	}
	w.wantSecretsHidden(fourth)

	w.fresh()
	removed, err := w.p.Down(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(removed.Ended) != 9 || len(removed.LeftAlone) != 0 || removed.Folder != w.p.dir {
		t.Errorf("Down: %+v", removed)
	}
	for _, e := range removed.Ended {
		if e.Forced || e.Orphan {
			t.Errorf("%+v, want it to end by itself, and known", e)
		}
	}
	w.wantNothing(fourth)
	again, err := w.p.Down(t.Context())
	if err != nil || len(again.Ended) != 0 || again.Folder != "" {
		t.Errorf("the second Down: %+v, %v", again, err)
	}
}

func TestUpWithArbiter(t *testing.T) {
	w := newWorld(t, deployment("psa", 2, 1))
	inv := w.up()
	w.wantHealthy("ARBITER", "PRIMARY", "SECONDARY")
	if uri := inv.Deployments[0].URI(""); strings.Contains(uri, strconv.Itoa(inv.Deployments[0].Endpoints[2].Port)) {
		t.Errorf("the arbiter is in %s", uri)
	}
	w.fresh()
	w.up()
	if started := w.events.started(); len(started) > 0 {
		t.Errorf("the second Up has started %v", started)
	}
	w.fresh()
	w.kill(inv, "psa-arb0")
	w.up()
	w.wantHealthy("ARBITER", "PRIMARY", "SECONDARY")
}

func TestUpOfASingleMember(t *testing.T) {
	w := newWorld(t, deployment("one", 1, 0))
	inv := w.up()
	w.wantHealthy("PRIMARY")
	w.kill(inv, "one-0")
	w.up()
	w.wantHealthy("PRIMARY")
}

func TestUpRefusesChangesAndAddsDeployments(t *testing.T) {
	w := newWorld(t, deployment("a", 1, 0))
	inv := w.up()
	before, err := os.ReadFile(w.p.path(inventoryFile))
	if err != nil {
		t.Fatal(err)
	}
	w.spec.Deployments = []environment.Deployment{deployment("a", 3, 0), deployment("b", 1, 0)}
	w.fresh()
	if _, err := w.p.Up(t.Context(), w.spec); !errors.Is(err, ErrChanged) {
		t.Errorf("more members: %v", err)
	}
	after, err := os.ReadFile(w.p.path(inventoryFile))
	if err != nil || !bytes.Equal(before, after) || len(w.events.all) > 0 {
		t.Errorf("the refused Up has changed something (%v, %v)", err, w.events.all)
	}
	w.spec.Deployments = []environment.Deployment{deployment("0", 1, 0), deployment("a", 1, 0)}
	w.fresh()
	more := w.up()
	if started := w.events.started(); !slices.Equal(started, []string{"0-0"}) {
		t.Errorf("started %v", started)
	}
	if pids(more)["a-0"] != pids(inv)["a-0"] || len(more.Deployments) != 2 || more.Deployments[0].Name != "0" {
		t.Errorf("%+v", more)
	}
	w.wantHealthy("PRIMARY")
}

func TestUpSaysWhenAPortIsTaken(t *testing.T) {
	w := newWorld(t, deployment("a", 1, 0), deployment("b", 1, 0))
	inv := w.up()
	w.kill(inv, "a-0", "b-0")
	taken := inv.Deployments[0].Endpoints[0].Address()
	l, err := net.Listen("tcp", taken)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.p.Up(t.Context(), w.spec)
	if err == nil || !strings.Contains(err.Error(), "a-0") || !strings.Contains(err.Error(), taken) || strings.Contains(err.Error(), "deployment b") {
		t.Errorf("Up: %v", err)
	}
	status, err := w.p.Status(t.Context())
	if err != nil || status.Healthy || status.Deployments[0].Healthy || !status.Deployments[1].Healthy {
		t.Errorf("%+v, %v: want b to be finished", status, err)
	}
	removedPort := func() []string {
		p := New(w.opts)
		removed, err := p.Down(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return removed.LeftAlone
	}
	if left := removedPort(); len(left) != 1 || !strings.Contains(left[0], taken) {
		t.Errorf("Down left alone %v, want the port of somebody else", left)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	w.up()
	w.wantHealthy("PRIMARY")
}

func TestOrphansAreFoundWithoutInventory(t *testing.T) {
	w := newWorld(t, deployment("a", 3, 0))
	first := w.up()
	if err := os.Remove(w.p.path(inventoryFile)); err != nil {
		t.Fatal(err)
	}
	w.fresh()
	second := w.up()
	if fmt.Sprint(pids(second)) != fmt.Sprint(pids(first)) || len(w.events.started()) > 0 {
		t.Errorf("pids %v, then %v", pids(first), pids(second))
	}
	w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")
	if err := os.WriteFile(w.p.path(inventoryFile), []byte(`{"half`), 0o600); err != nil {
		t.Fatal(err)
	}
	removed, err := w.p.Down(t.Context())
	if err != nil || len(removed.Ended) != 3 || !removed.Ended[0].Orphan {
		t.Errorf("Down: %+v, %v", removed, err)
	}
	w.wantNothing(first)
}

func TestOrphansAreFoundWithoutAnyState(t *testing.T) {
	w := newWorld(t, deployment("a", 1, 0))
	inv := w.up()
	if err := os.RemoveAll(w.p.dir); err != nil {
		t.Fatal(err)
	}
	removed, err := w.p.Down(t.Context())
	if err != nil || len(removed.Ended) != 1 || !removed.Ended[0].Orphan {
		t.Errorf("Down: %+v, %v", removed, err)
	}
	if found, err := w.p.running(t.Context()); err != nil || len(found) > 0 || len(commandLine(pids(inv)["a-0"])) > 0 {
		t.Errorf("%v still runs (%v)", found, err)
	}
}

// What members that have lost their state do while they are being replaced,
// elections above all, must not get into the state of those that replace
// them.
func TestUpReplacesMembersInTheMidstOfAnElection(t *testing.T) {
	w := newWorld(t, deployment("a", 2, 1))
	old := w.up()
	if err := os.RemoveAll(w.p.dir); err != nil {
		t.Fatal(err)
	}
	w.kill(old, "a-0")
	second := old.Deployments[0].Endpoints[1]
	client, err := connect(t.Context(), second, "", secret.Text{})
	if err != nil {
		t.Fatal(err)
	}
	defer disconnect(t.Context(), client)
	var lost time.Time // since when there is no primary
	eventually(t, "the old members have had time for an election", func() bool {
		hello, err := client.Hello(t.Context())
		if err == nil && hello.Primary == "" && lost.IsZero() {
			lost = time.Now()
		}
		return err == nil && hello.IsWritablePrimary || !lost.IsZero() && time.Since(lost) > 2*time.Second
	})
	if exists(w.p.dir) {
		t.Errorf("the old members have made %s again", w.p.dir)
	}

	w.fresh()
	w.up()
	w.wantHealthy("ARBITER", "PRIMARY", "SECONDARY")
	if len(w.events.started()) != 3 {
		t.Errorf("started %v", w.events.started())
	}
	for name, pid := range pids(old) {
		if len(commandLine(pid)) > 0 {
			t.Errorf("the old process %d of %s still runs", pid, name)
		}
	}
}

func TestOneFailureLeavesTheOthersFinished(t *testing.T) {
	w := newWorld(t, deployment("a", 1, 0), deployment("b", 3, 0))
	w.opts.MongodDir = t.TempDir()
	w.spec.Deployments[0].Version = "7.0.9"
	script(t, filepath.Join(w.opts.MongodDir, "7.0.9", "bin", "mongod"),
		`if [ "$1" = --version ]; then echo "db version v7.0.9"; exit; fi; echo "mongod: the disk is on fire" >&2; exit 14`)
	w.fresh()
	inv, err := w.p.Up(t.Context(), w.spec)
	if err == nil || !strings.Contains(err.Error(), "deployment a: member a-0: its process") || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("Up: %v", err)
	}
	if len(inv.Deployments) != 2 || inv.Deployments[1].ActualVersion == "" {
		t.Errorf("b is not finished: %+v", inv)
	}
	status, err := w.p.Status(t.Context())
	if err != nil || status.Healthy || status.Deployments[0].Healthy || !status.Deployments[1].Healthy {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestUpGoesOnAfterAnInterrupt(t *testing.T) {
	for _, stage := range []Stage{Starting, Initiating, Waiting} {
		t.Run(string(stage), func(t *testing.T) {
			w := newWorld(t, deployment("a", 3, 0))
			ctx, cancel := context.WithCancel(t.Context())
			w.opts.Progress = func(e Event) {
				w.events.add(e)
				if e.Stage == stage {
					cancel()
				}
			}
			w.p = New(w.opts)
			if _, err := w.p.Up(ctx, w.spec); !errors.Is(err, context.Canceled) {
				t.Fatalf("Up: %v", err)
			}
			if !exists(w.p.path(inventoryFile)) {
				t.Error("the state was not kept")
			}
			w.fresh()
			w.up()
			w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")
		})
	}
}

func TestDownGoesOnAfterAnInterrupt(t *testing.T) {
	w := newWorld(t, deployment("a", 1, 0))
	inv := w.up()
	ctx, cancel := context.WithCancel(t.Context())
	w.opts.Progress = func(e Event) {
		if e.Stage == Stopping {
			cancel()
		}
	}
	if _, err := New(w.opts).Down(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Down: %v", err)
	}
	if !exists(w.p.path(inventoryFile)) {
		t.Error("the state was not kept")
	}
	if _, err := w.p.Down(t.Context()); err != nil {
		t.Error(err)
	}
	w.wantNothing(inv)
}

// A stand-in that is installed where a real server would be goes through the
// same flow, and is known for what it is by its own word.
func TestUpWithAServerThatWasFound(t *testing.T) {
	w := newWorld(t, deployment("a", 3, 0))
	w.opts.MongodDir = t.TempDir()
	w.opts.EmbeddedCommand = []string{"/nonexistent/embedded"} // not needed
	bin := filepath.Join(w.opts.MongodDir, "8.0.34", "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(standIn)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "mongod"), program, 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "mongod.version"), []byte("8.0.34\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.fresh()
	d := w.up().Deployments[0]
	if d.Engine != engineEmbedded || d.ActualVersion != "8.0.34" || d.Endpoints[0].Process.Command[0] != filepath.Join(bin, "mongod") {
		t.Errorf("%+v", d)
	}
	w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")

	// Without --mongod-dir an existing deployment keeps its executable.
	w.opts.MongodDir = ""
	w.opts.EmbeddedCommand = []string{standIn}
	w.fresh()
	w.up()
	if started := w.events.started(); len(started) > 0 {
		t.Errorf("the second Up has started %v", started)
	}
	w.kill(&environment.Inventory{Deployments: []environment.DeploymentState{d}}, "a-2")
	if d = w.up().Deployments[0]; d.Endpoints[2].Process.Command[0] != filepath.Join(bin, "mongod") {
		t.Errorf("the repair used %v", d.Endpoints[2].Process.Command)
	}
}

// A server that runs takes no other cache: it is started again with it, and
// nothing else is.
func TestUpWithAnotherCache(t *testing.T) {
	a, b := deployment("a", 2, 0), deployment("b", 1, 0)
	a.CacheGB = 0.5
	w := newWorld(t, a, b)
	w.opts.MongodDir = t.TempDir()
	// The stand-in, but for what --version says, by which it is taken for a
	// server that has a cache.
	script(t, filepath.Join(w.opts.MongodDir, "8.0.34", "bin", "mongod"),
		`if [ "$1" = --version ]; then echo 'db version v8.0.34'; else exec `+standIn+` "$@"; fi`)
	w.fresh()
	before := pids(w.up())
	cache := func(want string) {
		t.Helper()
		for _, name := range []string{"a-0", "a-1"} {
			if text, err := os.ReadFile(w.p.member(name).conf); err != nil || !strings.Contains(string(text), "cacheSizeGB: "+want+"\n") {
				t.Errorf("%s has not a cache of %s GB: %s (%v)", name, want, text, err)
			}
		}
	}
	cache("0.5")
	w.fresh()
	if w.up(); len(w.events.started()) != 0 {
		t.Errorf("with the same file, %v were started", w.events.started())
	}

	w.spec.Deployments[0].CacheGB = 0.75
	w.fresh()
	inv := w.up()
	if started := w.events.started(); !slices.Equal(started, []string{"a-0", "a-1"}) {
		t.Errorf("with another cache, %v were started", started)
	}
	cache("0.75")
	now := pids(inv)
	if now["a-0"] == before["a-0"] || now["a-1"] == before["a-1"] || now["b-0"] != before["b-0"] {
		t.Errorf("processes %v, before %v", now, before)
	}
	for member, pid := range before {
		if found := commandLine(pid); len(found) > 0 && now[member] != pid {
			t.Errorf("the old process of %s still runs: %q", member, found)
		}
	}
	if inv.Deployments[0].CacheGB != 0.75 {
		t.Errorf("the inventory says %g GB", inv.Deployments[0].CacheGB)
	}
	status, err := w.p.Status(t.Context())
	if err != nil || !status.Healthy {
		t.Errorf("status %+v (%v)", status, err)
	}
}

// What mongodb reads of servers is tried here, where there are servers.
func TestMembersAnswerTheClient(t *testing.T) {
	w := newWorld(t, deployment("a", 2, 1))
	inv := w.up()
	d := inv.Deployments[0]
	password, err := w.p.Password()
	if err != nil {
		t.Fatal(err)
	}
	names := mongodb.Names{}
	for _, m := range d.Endpoints {
		names[m.Address()] = m.Name
		client, err := connect(t.Context(), m, inv.Username, password)
		if err != nil {
			t.Fatal(err)
		}
		defer disconnect(context.Background(), client)
		facts, err := client.Facts(t.Context())
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if m.Role == environment.Arbiter {
			if facts.State != "ARBITER" {
				t.Errorf("%s: %+v", m.Name, facts)
			}
			continue
		}
		if !facts.Embedded || facts.Version != d.ActualVersion || facts.FCV == "" || facts.Machine.CPUs < 1 || facts.Settings["storage.engine"] == "" {
			t.Errorf("%s: %+v", m.Name, facts)
		}
		for key, value := range facts.Settings {
			if strings.Contains(value, m.Name) || strings.Contains(value, strconv.Itoa(m.Port)) {
				t.Errorf("%s = %s differs between members by nature", key, value)
			}
		}
		sample, err := client.Sample(t.Context())
		if err != nil || sample.State != facts.State {
			t.Errorf("%s: %+v, %v", m.Name, sample, err)
		}
		for _, name := range []string{mongodb.CPUUser, mongodb.CPUSystem, mongodb.Uptime, mongodb.ElectionTerm, "opcounters.query", "connections.current"} {
			if _, ok := sample.Values[name]; !ok {
				t.Errorf("%s: no %s in %v", m.Name, name, sample.Values)
			}
		}
		if pid := sample.Values[mongodb.ProcessID]; int(pid) != m.Process.PID {
			t.Errorf("%s: pid %v, want %d", m.Name, pid, m.Process.PID)
		}
	}

	wrong, err := mongodb.Connect(t.Context(), mongodb.Options{URI: d.URI(""), Username: inv.Username, Password: secret.New("wrong")})
	if err != nil {
		t.Fatal(err)
	}
	defer disconnect(context.Background(), wrong)
	if err := wrong.Ping(t.Context()); !mongodb.IsAuthenticationFailure(err) {
		t.Errorf("a wrong password: %v", err)
	}

	client := w.client(d, "")
	if err := client.WaitPrimary(t.Context(), names); err != nil {
		t.Error(err)
	}
	if err := client.WaitHealthy(t.Context(), names); err != nil {
		t.Error(err)
	}
	secondary := 1
	if hello, err := client.Hello(t.Context()); err != nil || hello.Primary == d.Endpoints[1].Address() {
		secondary = 0
	}
	w.kill(inv, d.Endpoints[secondary].Name)
	eventually(t, "WaitHealthy names the dead secondary", func() bool { // after a heartbeat
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err := client.WaitHealthy(ctx, names)
		return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "member "+d.Endpoints[secondary].Name+" ")
	})
}

// upInAChild is Up in a process that can be killed. It prints a line per
// event.
func upInAChild(dir, standIn string) int {
	p := New(Options{Dir: dir, EmbeddedCommand: []string{standIn}, Progress: func(e Event) { fmt.Println(e.Stage, e.Member) }})
	spec := &environment.Spec{Name: "test", Platform: environment.Local, Deployments: []environment.Deployment{deployment("a", 3, 0)}}
	if _, err := p.Up(context.Background(), spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestNothingIsLostWhenUpIsKilled(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for after := 1; after <= 6; after++ { // events: three starts, initiating, waiting, a healthy member
		t.Run(strconv.Itoa(after), func(t *testing.T) {
			w := newWorld(t, deployment("a", 3, 0))
			child := exec.Command(self)
			child.Env = append(os.Environ(), "SANDBOX_TEST_UP="+w.opts.Dir, "SANDBOX_TEST_STANDIN="+standIn)
			child.Stderr = os.Stderr
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for range after {
				if !lines.Scan() {
					t.Error("the child has ended too early")
				}
			}
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
			_ = child.Wait() // was killed
			if after%2 == 0 {
				inv := w.up()
				w.wantHealthy("PRIMARY", "SECONDARY", "SECONDARY")
				found, err := w.p.running(t.Context())
				if err != nil || len(found) != 3 {
					t.Errorf("running: %v, %v", found, err)
				}
				for conf, processes := range found {
					if name := filepath.Base(filepath.Dir(conf)); len(processes) != 1 || processes[0].PID != pids(inv)[name] {
						t.Errorf("%s runs as %v, the inventory says %v", name, processes, pids(inv))
					}
				}
			}
			if _, err := w.p.Down(t.Context()); err != nil {
				t.Error(err)
			}
			w.wantNothing(&environment.Inventory{})
		})
	}
}
