//go:build e2e

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/embedded"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// benchEnv makes the test binary a `sandbox bench` whose load host is the one
// described, instead of the tests.
const benchEnv = "SANDBOX_TEST_BENCH"

func TestMain(m *testing.M) {
	if text := os.Getenv(benchEnv); text != "" {
		var l lab
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailure)
		}
		os.Exit(l.bench(os.Args[1:]))
	}
	dir, err := os.MkdirTemp("", "sandbox-cli-test")
	if err == nil {
		err = os.Setenv(programEnv, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailure)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// programEnv names the folder that the real sandbox is built in.
const programEnv = "SANDBOX_TEST_PROGRAM"

// lab is an environment with a load host: an sshd of the test's own on this
// machine, two deployments of the embedded engine, a working directory.
type lab struct {
	Dir     string // working directory of the user
	Home    string // home directory on the load host
	Program string // the real sandbox
	Port    int    // of the way to the load host
	User    string
	Key     string
	Known   string

	t        *testing.T
	sshd     *sshdtest.Server
	wire     *sshdtest.Wire
	password secret.Text
	targets  []bench.Target
}

const labName = "lab"

// program builds the real sandbox, once.
var program = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(programEnv), "sandbox")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/sandbox")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

func newLab(t *testing.T) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("runs servers, an sshd and a bench")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	keys := t.TempDir()
	l := &lab{
		t: t, Dir: t.TempDir(), Home: t.TempDir(), Program: path,
		Key: filepath.Join(keys, "id"), Known: filepath.Join(keys, "known_hosts"), password: secret.Generate(24),
	}
	key, err := remote.LoadOrCreateKey(l.Key, "test")
	if err != nil {
		t.Fatal(err)
	}
	l.sshd = sshdtest.New(t, key.AuthorizedKey())
	l.sshd.Home, l.User = l.Home, l.sshd.User
	l.sshd.Start()
	l.wire = sshdtest.NewWire(t, l.sshd.Port, 0)
	l.Port = l.wire.Port()
	l.deploy()
	t.Cleanup(l.endJobs)
	return l
}

// deploy starts two deployments and writes the inventory of the environment.
func (l *lab) deploy() {
	l.t.Helper()
	inventory := environment.Inventory{
		SchemaVersion: 1, Environment: labName, Platform: environment.GCP, Username: "benchmark", PasswordFile: "benchmark.password",
		Machines: []environment.MachineState{{Name: "lab-load", Role: environment.LoadHost, ExternalIP: "127.0.0.1"}},
	}
	for _, name := range []string{"a", "b"} {
		server, err := embedded.Start(l.t.Context(), embedded.Config{
			ReplicaSet: name, KeyFile: secret.Generate(64), Initiate: true, Username: inventory.Username, Password: l.password,
		})
		if err != nil {
			l.t.Fatal(err)
		}
		l.t.Cleanup(func() { server.Close() })
		host, port, err := net.SplitHostPort(server.Addr())
		if err != nil {
			l.t.Fatal(err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			l.t.Fatal(err)
		}
		inventory.Deployments = append(inventory.Deployments, environment.DeploymentState{
			Deployment: environment.Deployment{Name: name, ReplicaSet: name, Distribution: "psmdb", Version: "8.0.34"},
			Endpoints:  []environment.MemberState{{Name: name + "-0", Role: environment.Data, Host: host, Port: number}},
		})
	}
	data, err := json.Marshal(inventory)
	if err != nil {
		l.t.Fatal(err)
	}
	state := filepath.Join(l.Dir, ".sandbox", labName)
	if err := errors.Join(secret.WriteFile(filepath.Join(state, "inventory.json"), data),
		secret.WriteFile(filepath.Join(state, "gcp.json"), []byte("{}")), // by which the gcp platform's state is told
		l.password.Write(filepath.Join(state, inventory.PasswordFile))); err != nil {
		l.t.Fatal(err)
	}
	if l.targets, err = bench.TargetsOf(&inventory, l.password, nil); err != nil {
		l.t.Fatal(err)
	}
}

// bench is the process under test: the real command with another way to the
// load host, whose SSH port is not 22.
func (l *lab) bench(args []string) int {
	c := console.System()
	a := &app{console: c, version: "test", args: args, dir: l.Dir, executable: l.Program, now: time.Now}
	ctx, stop := withInterrupts(context.Background(), c, &risk{}, os.Exit)
	defer stop()
	cmd := benchCommand(a, &benchOptions{dial: l.dial})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		printError(c, err)
	}
	return exitCode(err)
}

func (l *lab) dial(ctx context.Context, machine string) (*remote.Conn, error) {
	key, err := remote.LoadKey(l.Key, "")
	if err != nil {
		return nil, err
	}
	return remote.Dial(ctx, remote.Machine{Name: machine, Address: "127.0.0.1", Port: l.Port, User: l.User},
		remote.Options{Key: key, KnownHosts: l.Known})
}

// up is `sandbox up` of the environment, for which there is no cloud: it ends
// where it would ask that. It returns what it said.
func (l *lab) up() (code int, said string) {
	l.t.Helper()
	file := filepath.Join(l.Dir, labName+".tfvars")
	if err := os.WriteFile(file, []byte(`replsets = { a = { mongodb_distribution = "psmdb", mongo_version = "8.0.34" } }`), 0o644); err != nil {
		l.t.Fatal(err)
	}
	missing := filepath.Join(l.Dir, "missing.json")
	l.t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", missing)
	var out bytes.Buffer
	a := &app{
		console: &console.Console{In: strings.NewReader(""), Out: &out, Err: &out, Width: 200}, version: "test", dir: l.Dir, executable: l.Program,
		environ: []string{"GOOGLE_PROJECT=p", "GOOGLE_APPLICATION_CREDENTIALS=" + missing}, now: time.Now,
	}
	cmd := upCommand(a, &upOptions{dial: l.dial})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"--var-file", file, "--terraform-bin", missing})
	err := cmd.ExecuteContext(l.t.Context())
	if err != nil {
		printError(a.console, err)
	}
	return exitCode(err), out.String()
}

// process is a bench that runs.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *safeBuffer
	done chan struct{}
}

func (l *lab) start(args ...string) *process {
	l.t.Helper()
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := json.Marshal(l)
	if err != nil {
		l.t.Fatal(err)
	}
	p := &process{t: l.t, cmd: exec.Command(self, args...), out: &safeBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), benchEnv+"="+string(text))
	p.cmd.Dir = l.Dir
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says how it ended
		close(p.done)
	}()
	l.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if l.t.Failed() {
			l.t.Logf("bench %s:\n%s", strings.Join(args, " "), p.out)
		}
	})
	return p
}

// wait waits for the end and checks the exit code.
func (p *process) wait(code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(6 * time.Minute):
		p.t.Fatal("the bench does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("exit code %d, want %d", got, code)
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// says waits until the bench has printed something.
func (p *process) says(text string) {
	p.t.Helper()
	eventually(p.t, "it says "+text, func() bool {
		select {
		case <-p.done:
			if !strings.Contains(p.out.String(), text) {
				p.t.Fatalf("it ended without saying %q", text)
			}
		default:
		}
		return strings.Contains(p.out.String(), text)
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}

// fast are flags of a run of eight cells that takes seconds.
func fast(more ...string) []string {
	return append([]string{
		"--sizes", "40,80", "--iterations", "2", "--interval", "0s", "--duration", "600ms", "--workers", "2",
		"--ops-per-worker", "20", "--env", labName,
	}, more...)
}

// record reads the only run there is here.
func (l *lab) record() (string, record.Run, []record.CellRecord) {
	l.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(l.Dir, "runs", "*"))
	if err != nil || len(dirs) != 1 {
		l.t.Fatalf("runs: %v, %v", dirs, err)
	}
	r, err := record.Open(dirs[0])
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = r.Close() })
	cells, err := r.Cells()
	if err != nil {
		l.t.Fatal(err)
	}
	return dirs[0], r.Run(), cells
}

// finished are the cells that are whole here: cell.json by its path.
func (l *lab) finished() map[string]string {
	paths, err := filepath.Glob(filepath.Join(l.Dir, "runs", "*", "cells", "*", "cell.json"))
	if err != nil {
		l.t.Fatal(err)
	}
	found := map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			l.t.Fatal(err)
		}
		found[path] = string(data)
	}
	return found
}

// waitFinished waits for n cells.
func (l *lab) waitFinished(p *process, n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d cells are here", n), func() bool {
		select {
		case <-p.done:
			l.t.Fatalf("the bench ended early")
		default:
		}
		return len(l.finished()) >= n
	})
}

// checkWhole checks that every cell was counted once and that what was there
// before is unchanged. It returns how many cells took more than one attempt.
func (l *lab) checkWhole(before map[string]string) (again int) {
	l.t.Helper()
	dir, run, cells := l.record()
	if run.Finished == nil || run.LoadHost.CPUs == 0 || run.Engine != record.EngineEmbedded {
		l.t.Errorf("run = %+v", run)
	}
	counted := map[record.CellID]int{}
	for _, c := range cells {
		if c.Status == record.Counted {
			counted[c.ID]++
			if c.Attempt > 1 {
				again++
			}
			if !c.Cell.Complete || c.Cell.Fingerprint == "" {
				l.t.Errorf("%s: %+v", c.ID, c.Cell)
			}
		}
		if c.Status == record.Superseded || c.Status == record.Damaged {
			l.t.Errorf("%s #%d is %s", c.ID, c.Attempt, c.Status)
		}
	}
	if len(counted) != 8 {
		l.t.Errorf("%d cells", len(counted))
	}
	for id, n := range counted {
		if n != 1 {
			l.t.Errorf("%s is there %d times", id, n)
		}
	}
	now := l.finished()
	for path, text := range before {
		if now[path] != text {
			l.t.Errorf("%s is not what it was", path)
		}
	}
	l.checkClean(dir)
	return again
}

// checkClean checks that the load host has the record, as it is here, and
// nothing of the job, and that the password is nowhere.
func (l *lab) checkClean(dir string) {
	l.t.Helper()
	root := filepath.Join(l.Home, "sandbox")
	if left, err := os.ReadDir(filepath.Join(root, "jobs")); err != nil || len(left) != 0 {
		l.t.Errorf("of the job is left: %v, %v", left, err)
	}
	there, here := sums(l.t, filepath.Join(root, "runs", filepath.Base(dir))), sums(l.t, dir)
	if diff := cmp.Diff(there, here); diff != "" {
		l.t.Errorf("the record here is not the one there (-there +here):\n%s", diff)
	}
	l.noSecret(filepath.Join(l.Dir, "runs"))
	l.noSecret(root)
}

func (l *lab) noSecret(root string) {
	l.t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(l.password.Reveal())) {
			l.t.Errorf("%s holds the password", path)
		}
		return err
	})
	if err != nil {
		l.t.Error(err)
	}
}

// sums are the files of a record; those of attempts that were cut off are
// left out, because what is of use of them is there.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		found[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// jobs are the directories of jobs on the load host.
func (l *lab) jobs() []string {
	dirs, _ := filepath.Glob(filepath.Join(l.Home, "sandbox", "jobs", "*", "pid"))
	return dirs
}

// jobPID is the process that waits for the job's command, the head of its
// group; 0 while there is none.
func (l *lab) jobPID() int {
	for _, path := range l.jobs() {
		data, err := os.ReadFile(path)
		if fields := strings.Fields(string(data)); err == nil && len(fields) == 3 {
			pid, _ := strconv.Atoi(fields[0])
			return pid
		}
	}
	return 0
}

// waitLoad waits until the load is running.
func (l *lab) waitLoad() {
	l.t.Helper()
	eventually(l.t, "the load runs", func() bool {
		logs, _ := filepath.Glob(filepath.Join(l.Home, "sandbox", "jobs", "*", "log"))
		if len(logs) != 1 {
			return false
		}
		data, err := os.ReadFile(logs[0])
		return err == nil && bytes.Contains(data, []byte(`"Operations":[{`))
	})
}

// killJob ends the job as a power cut does.
func (l *lab) killJob() {
	l.t.Helper()
	pid := l.jobPID()
	if pid == 0 {
		l.t.Fatal("there is no job")
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		l.t.Fatal(err)
	}
}

// endJobs leaves nothing running.
func (l *lab) endJobs() {
	if pid := l.jobPID(); pid != 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}

func TestRemoteBenchIsALocalOne(t *testing.T) {
	l := newLab(t)
	p := l.start(fast("--json")...)
	p.wait(exitOK)
	if again := l.checkWhole(nil); again != 0 {
		t.Errorf("%d cells took another attempt", again)
	}
	dir, run, cells := l.record()

	o := bench.Options{
		Environment: run.Environment, Platform: run.Platform, Settings: run.Settings, Sizes: run.Sizes, Order: run.Order,
		Baseline: run.Baseline, Targets: l.targets, RunsDir: t.TempDir(), Runner: newRunner(),
	}
	result, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := record.Open(result.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	local, err := r.Cells()
	if err != nil || len(local) != len(cells) {
		t.Fatalf("%d cells, %d with the load host, %v", len(local), len(cells), err)
	}
	for i, c := range cells {
		want := local[i]
		if c.ID != want.ID || c.Cell.SequenceID != want.Cell.SequenceID || c.Cell.Fingerprint != want.Cell.Fingerprint ||
			c.Cell.FingerprintCommands != want.Cell.FingerprintCommands || c.Cell.Seeding.Bytes != want.Cell.Seeding.Bytes {
			t.Errorf("cell %s is %s, in this process it is %s, %s", c.ID, c.Cell.Fingerprint, want.ID, want.Cell.Fingerprint)
		}
	}
	names := func(dir string) []string {
		var all []string
		for name := range sums(t, dir) {
			all = append(all, name)
		}
		slices.Sort(all)
		return all
	}
	if diff := cmp.Diff(names(result.Dir), names(dir)); diff != "" {
		t.Errorf("files (-in this process +with the load host):\n%s", diff)
	}
	if diff := cmp.Diff(journal(t, result.Dir), journal(t, dir)); diff != "" {
		t.Errorf("journal (-in this process +with the load host):\n%s", diff)
	}
	was, is := result.Run, run
	for _, r := range []*record.Run{&was, &is} {
		r.ID, r.Started, r.Finished, r.Tool, r.CommandLine = "", time.Time{}, nil, record.Tool{}, nil
		r.Files = nil
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("run (-in this process +with the load host):\n%s", diff)
	}
	if !regexp.MustCompile(`"fair": (true|false)`).MatchString(p.out.String()) {
		t.Error("it prints no report")
	}
	p.out.reset() // of no interest any more
}

func journal(t *testing.T, dir string) []string {
	t.Helper()
	r, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var events []string
	for e, err := range r.Journal() {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, fmt.Sprint(e.Event, " ", e.Cell, " ", e.Attempt))
	}
	return events
}

// slow are flags of the same run that leave time to disturb it.
func slow() []string { return fast("--duration", "2s") }

// TestKillBenchOnLoadHost ends the bench here with kill -9 again and again:
// the run there goes on, and no cell is lost or measured twice.
func TestKillBenchOnLoadHost(t *testing.T) {
	l := newLab(t)
	p := l.start(slow()...)
	before := map[string]string{}
	for kill := range 4 {
		l.waitFinished(p, kill)
		eventually(t, "the job runs", func() bool { return l.jobPID() != 0 })
		p.kill()
		for path, text := range l.finished() {
			before[path] = text
		}
		p = l.start("--resume")
		p.says("the run is under way there")
	}
	p.wait(exitOK)
	if again := l.checkWhole(before); again != 0 {
		t.Errorf("%d cells took another attempt: the run was disturbed", again)
	}
}

// TestKillBenchAroundTheJob ends the bench here before and while it starts
// the job, and after the job's end.
func TestKillBenchAroundTheJob(t *testing.T) {
	l := newLab(t)
	p := l.start(fast()...)
	eventually(t, "the record is here", func() bool {
		paths, _ := filepath.Glob(filepath.Join(l.Dir, "runs", "*", "run.json"))
		return len(paths) == 1
	})
	p.kill()
	p = l.start("--resume")
	eventually(t, "the job runs", func() bool { return l.jobPID() != 0 })
	p.kill()
	pid := l.jobPID()
	eventually(t, "the job is over", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	p = l.start("--resume")
	p.wait(exitOK)
	if again := l.checkWhole(nil); again != 0 {
		t.Errorf("%d cells took another attempt", again)
	}
}

// TestConnectionLost cuts the connection again and again.
func TestConnectionLost(t *testing.T) {
	l := newLab(t)
	p := l.start(slow()...)
	for cut := range 3 {
		l.waitFinished(p, cut+1)
		l.wire.Cut()
		eventually(t, "it is connected again", func() bool {
			return strings.Count(p.out.String(), "connected again") == cut+1
		})
	}
	p.wait(exitOK)
	if again := l.checkWhole(nil); again != 0 {
		t.Errorf("%d cells took another attempt: the run was disturbed", again)
	}
	if n := strings.Count(p.out.String(), "connection lost, trying again"); n != 3 {
		t.Errorf("it says %d times that the connection was lost", n)
	}
}

// TestLoadHostReboots ends the job, and with it every connection and the
// sshd; later the machine is back.
func TestLoadHostReboots(t *testing.T) {
	l := newLab(t)
	p := l.start(slow()...)
	l.waitFinished(p, 2)
	l.sshd.Stop()
	l.killJob()
	before := l.finished()
	l.wire.Cut()
	p.says("connection lost")
	l.sshd.Start()
	p.says("starting it again")
	p.wait(exitOK)
	if again := l.checkWhole(before); again > 1 {
		t.Errorf("%d cells took another attempt, more than the one that was cut off", again)
	}
}

// TestUpBesideARun: what up does to machines would be measured. A load host
// that does not answer is no reason not to repair it.
func TestUpBesideARun(t *testing.T) {
	l := newLab(t)
	const noCredentials, unknown = "credentials", "not known whether a run is under way"
	if code, said := l.up(); code != exitCloud || !strings.Contains(said, noCredentials) || strings.Contains(said, unknown) {
		t.Errorf("before: exit code %d, %s", code, said)
	}
	p := l.start(fast("--duration", "60s", "--ops-per-worker", "1000000")...)
	l.waitLoad()
	dir, _, _ := l.record()
	if code, said := l.up(); code != exitUsage || strings.Contains(said, noCredentials) ||
		!strings.Contains(said, "error: run "+filepath.Base(dir)+" is under way on the load host\nhint: `sandbox bench --resume`") {
		t.Errorf("beside it: exit code %d, %s", code, said)
	}
	l.sshd.Stop()
	if code, said := l.up(); code != exitCloud || !strings.Contains(said, unknown) || !strings.Contains(said, noCredentials) {
		t.Errorf("with a load host that does not answer: exit code %d, %s", code, said)
	}
	l.sshd.Start()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.wait(exitInterrupted)
	if code, said := l.up(); code != exitCloud || strings.Contains(said, unknown) {
		t.Errorf("after it: exit code %d, %s", code, said)
	}
}

// TestInterruptRemoteBench asks for the end once.
func TestInterruptRemoteBench(t *testing.T) {
	l := newLab(t)
	p := l.start(fast("--duration", "60s", "--ops-per-worker", "1000000")...)
	l.waitLoad()
	pid := l.jobPID()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.wait(exitInterrupted)
	// What notes how the job ended comes after the job.
	for deadline := time.Now().Add(20 * time.Second); !errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("of the job something is still running")
			break
		}
	}
	dir, run, cells := l.record()
	if run.Finished != nil {
		t.Error("the run is marked as finished")
	}
	last := cells[len(cells)-1]
	if last.Status != record.Partial || last.Cell == nil || !last.Cell.Interrupted || last.Cell.Commands == 0 {
		t.Errorf("the partial cell is %+v", last.Cell)
	}
	l.checkClean(dir)
	out := p.out.String()
	if strings.Contains(out, "context canceled") || !strings.Contains(out, "interrupted") {
		t.Error("its words are not a user's")
	}
}

// TestNewLoadHost goes on with a run on a load host that knows nothing of it.
func TestNewLoadHost(t *testing.T) {
	l := newLab(t)
	p := l.start(slow()...)
	l.waitFinished(p, 2)
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.wait(exitInterrupted)
	before := l.finished()
	if err := os.RemoveAll(filepath.Join(l.Home, "sandbox")); err != nil {
		t.Fatal(err)
	}
	p = l.start("--resume")
	p.wait(exitOK)
	now := l.finished()
	for path, text := range before {
		if now[path] != text {
			t.Errorf("%s is not what it was", path)
		}
	}
	_, run, cells := l.record()
	finished := 0
	for _, c := range cells {
		if c.Finished() {
			finished++
		}
	}
	if finished != 8 || run.Finished == nil {
		t.Errorf("%d cells, finished %v", finished, run.Finished)
	}
}

// TestTargetDownThere stops one deployment: its cells are skipped, and the
// exit code is that of a local run.
func TestTargetDownThere(t *testing.T) {
	l := newLab(t)
	state := filepath.Join(l.Dir, ".sandbox", labName, "inventory.json")
	data, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	port := strings.Split(l.targets[1].Members[0].Address, ":")[1]
	if err := os.WriteFile(state, bytes.ReplaceAll(data, []byte(port), []byte("1")), 0o600); err != nil {
		t.Fatal(err)
	}
	p := l.start(fast()...)
	p.wait(exitTarget)
	if n := len(l.finished()); n != 4 || !strings.Contains(p.out.String(), "target b went down") {
		t.Errorf("%d cells", n)
	}
	// Up repairs the deployment, as the hint says.
	if code, said := l.up(); code != exitCloud || strings.Contains(said, "under way") {
		t.Errorf("up: exit code %d, %s", code, said)
	}
}

// TestFollowingCostsNothing takes the CPU time of a bench that follows a
// 30-minute cell on its load host.
func TestFollowingCostsNothing(t *testing.T) {
	l := newLab(t)
	p := l.start(fast("--duration", "30m", "--ops-per-worker", "1000000")...)
	l.waitLoad()
	const span = 15 * time.Second
	before := cpuTime(t, p.cmd.Process.Pid)
	time.Sleep(span)
	used := cpuTime(t, p.cmd.Process.Pid) - before
	t.Logf("following uses %s of CPU a minute, %.2f %% of a core", used*(time.Minute/span), 100*used.Seconds()/span.Seconds())
	if used > span/100 {
		t.Errorf("%s in %s is more than 1 %% of a core", used, span)
	}
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.wait(exitInterrupted)
}

// cpuTime is the CPU time, user and system, of the threads of a process so
// far.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(paths) == 0 {
		t.Skip("the kernel does not tell the CPU time of threads")
	}
	var sum time.Duration
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ns, err := strconv.ParseInt(strings.Fields(string(data))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

func TestJobFileIsPrivate(t *testing.T) {
	l := newLab(t)
	key, err := remote.LoadKey(l.Key, "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := remote.Dial(t.Context(), remote.Machine{Address: "127.0.0.1", Port: l.Port, User: l.User}, remote.Options{Key: key, KnownHosts: l.Known})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	path := filepath.Join(l.Home, "job.json")
	if err := (&loadHost{conn}).Write(t.Context(), path, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestProgramFor(t *testing.T) {
	dir := t.TempDir()
	executable := filepath.Join(dir, "bin", "sandbox")
	other := filepath.Join(dir, "dist", "sandbox-linux-arm64")
	if err := errors.Join(os.MkdirAll(filepath.Dir(other), 0o755), os.WriteFile(other, nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, machine := range []string{"x86_64", "aarch64"} {
		got, err := programFor(executable, "Linux", machine)
		if machine == "aarch64" && got != other && got != executable {
			t.Errorf("%s: %s, %v", machine, got, err)
		}
	}
	for _, c := range []struct{ system, machine string }{{"Darwin", "arm64"}, {"Linux", "riscv64"}} {
		if got, err := programFor(executable, c.system, c.machine); err == nil || exitCode(err) != exitUsage {
			t.Errorf("%s %s: %s, %v", c.system, c.machine, got, err)
		}
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
