package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// errCut stands for a lost connection.
var errCut = errors.New("cut")

// fakeHost is a load host in a folder of this machine: scripts are run here,
// jobs are goroutines.
type fakeHost struct {
	t    *testing.T
	root string
	// job makes a run; its log is what it writes.
	job func(ctx context.Context, file string, log io.Writer) error
	// fail, if set, may fail an operation: "dial", "get PATH", …
	fail func(operation string) error

	mu     sync.Mutex
	log    safeLog
	dir    string // of the only job that there is
	phase  JobPhase
	cancel context.CancelFunc
	done   chan struct{}
	starts int
}

type safeLog struct {
	mu sync.Mutex
	b  []byte
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *safeLog) from(offset int64) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b[offset:])
}

func newFakeHost(t *testing.T, runner Runner) *fakeHost {
	h := &fakeHost{t: t, root: t.TempDir()}
	h.job = func(ctx context.Context, file string, log io.Writer) error {
		return RunJob(ctx, file, record.Tool{}, runner, log)
	}
	t.Cleanup(func() {
		if h.cancel != nil {
			h.cancel()
			<-h.done
		}
	})
	return h
}

func (h *fakeHost) remote() Remote {
	return Remote{
		Dial:    func(context.Context) (Host, error) { return h, h.may("dial") },
		Lost:    func(err error) bool { return errors.Is(err, errCut) },
		Program: func(string, string) (string, error) { return os.Args[0], nil },
		Dir:     h.root, RetryEvery: time.Millisecond,
	}
}

func (h *fakeHost) may(operation string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail == nil {
		return nil
	}
	return h.fail(operation)
}

func (h *fakeHost) Close() error { return nil }

func (h *fakeHost) Output(ctx context.Context, script string, args ...string) (string, error) {
	if script == `exec "$@" 2>&1` {
		return "", h.may("check")
	}
	out, err := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...).Output()
	return strings.TrimSpace(string(out)), errors.Join(err, h.may("output"))
}

func (h *fakeHost) Put(context.Context, string, string) error { return h.may("put") }

func (h *fakeHost) Write(_ context.Context, path string, data []byte) error {
	return errors.Join(h.may("write"), os.WriteFile(path, data, 0o600))
}

func (h *fakeHost) Get(_ context.Context, remote, local string) error {
	if err := h.may("get " + remote); err != nil {
		return err
	}
	data, err := os.ReadFile(remote)
	return errors.Join(err, os.WriteFile(local, data, 0o644))
}

func (h *fakeHost) Start(_ context.Context, dir string, args []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase == JobRunning {
		h.t.Error("a second job was started beside the first")
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	h.log, h.dir, h.phase, h.cancel, h.done = safeLog{}, dir, JobRunning, cancel, done
	h.starts++
	go func() {
		defer close(done)
		err := h.job(ctx, args[len(args)-1], &h.log)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.phase = JobExited
		if errors.Is(err, errKilled) {
			h.phase = JobLost
		}
	}()
	return os.MkdirAll(dir, 0o755)
}

// errKilled is how a job ends that leaves no exit status.
var errKilled = errors.New("killed")

func (h *fakeHost) State(_ context.Context, dir string) (JobState, error) {
	if err := h.may("state"); err != nil {
		return JobState{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if dir != h.dir {
		return JobState{}, nil
	}
	return JobState{Phase: h.phase, LogSize: int64(len(h.log.from(0)))}, nil
}

func (h *fakeHost) Stop(context.Context, string, time.Duration) error {
	h.cancel()
	<-h.done
	h.mu.Lock()
	defer h.mu.Unlock()
	h.phase = JobStopped
	return nil
}

func (h *fakeHost) Follow(ctx context.Context, _ string, offset int64, w io.Writer) (JobState, int64, error) {
	written := int64(0)
	for {
		over := false
		select {
		case <-h.done:
			over = true
		case <-ctx.Done():
			return JobState{}, written, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
		n, err := w.Write(h.log.from(offset + written))
		written += int64(n)
		if err = errors.Join(err, h.may("follow")); err != nil {
			return JobState{}, written, err
		}
		if over {
			state, err := h.State(ctx, h.dir)
			return state, written, err
		}
	}
}

func phasesOf(o *Options) func() map[Phase]int {
	var mu sync.Mutex
	seen := map[Phase]int{}
	o.Progress = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		seen[e.Phase]++
	}
	return func() map[Phase]int {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

func TestRunRemote(t *testing.T) {
	runner := &fakeRunner{missing: []string{"a warning"}}
	h := newFakeHost(t, runner)
	o := options(t, nil)
	phases := phasesOf(&o)
	r := h.remote()
	result, err := RunRemote(t.Context(), o, r)
	if err != nil {
		t.Fatal(err)
	}
	if result.Cells != 6 || result.Finished != 6 || result.Run.Finished == nil || len(runner.runs) != 6 || h.starts != 1 {
		t.Errorf("result = %+v, ran %q in %d jobs", result, runner.runs, h.starts)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 6 || len(got) != 1 || len(result.Run.Warnings) != 2 {
		t.Errorf("statuses = %v, warnings %q", got, result.Run.Warnings)
	}
	if seen := phases(); seen[CellDone] != 6 || seen[HostStarted] != 1 || seen[Seeding] == 0 {
		t.Errorf("phases = %v", seen)
	}
	if left, err := os.ReadDir(filepath.Join(h.root, "jobs")); err != nil || len(left) != 0 {
		t.Errorf("left on the load host: %v, %v", left, err)
	}
	o.Resume = result.Dir
	if _, err := RunRemote(t.Context(), o, r); err != nil || h.starts != 1 {
		t.Errorf("resuming a finished run: %v, %d jobs", err, h.starts)
	}
}

// Two runs at a time would measure each other.
func TestOneRunAtATime(t *testing.T) {
	runner := &fakeRunner{}
	h := newFakeHost(t, runner)
	jobs := filepath.Join(h.root, "jobs")
	for _, name := range []string{"an-old-one", "the-other", "the-other.copy"} {
		if err := os.MkdirAll(filepath.Join(jobs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.dir, h.phase = filepath.Join(jobs, "the-other"), JobRunning
	o := options(t, nil)
	_, err := RunRemote(t.Context(), o, h.remote())
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Run != "the-other" {
		t.Fatalf("a second run: %v", err)
	}
	if left, err := os.ReadDir(o.RunsDir); err != nil || len(left) != 0 {
		t.Errorf("the refused run left %v, %v", left, err)
	}
	if err := UnderWay(t.Context(), h.remote()); !errors.As(err, &busy) || busy.Run != "the-other" {
		t.Errorf("while it is under way: %v", err)
	}
	h.phase = JobExited
	if err := UnderWay(t.Context(), h.remote()); err != nil {
		t.Errorf("once it is over: %v", err)
	}
	if _, err := RunRemote(t.Context(), o, h.remote()); err != nil || len(runner.runs) != 6 {
		t.Errorf("once that is over: %v, ran %q", err, runner.runs)
	}
}

// A load host that nothing has run on is not under way, and stays as it is;
// one that cannot be asked is not taken for idle.
func TestUnderWayChangesNothing(t *testing.T) {
	h := newFakeHost(t, &fakeRunner{})
	if err := UnderWay(t.Context(), h.remote()); err != nil {
		t.Error(err)
	}
	if there, err := os.ReadDir(h.root); err != nil || len(there) != 0 {
		t.Errorf("it made %v (%v)", there, err)
	}
	for _, failing := range []string{"dial", "output", "state"} {
		if err := os.MkdirAll(filepath.Join(h.root, "jobs", "one"), 0o755); err != nil {
			t.Fatal(err)
		}
		h.fail = func(operation string) error {
			if operation == failing {
				return errCut
			}
			return nil
		}
		if err := UnderWay(t.Context(), h.remote()); !errors.Is(err, errCut) {
			t.Errorf("%s fails: %v", failing, err)
		}
	}
}

// TestEveryConnectionIsLost lets no connection live for longer than a few
// operations.
func TestEveryConnectionIsLost(t *testing.T) {
	runner := &fakeRunner{}
	h := newFakeHost(t, runner)
	o := options(t, nil)
	phases := phasesOf(&o)
	operations, limit := 0, 0
	h.fail = func(operation string) error {
		if operation == "dial" {
			operations, limit = 0, limit+1
			return nil
		}
		if operations++; operations > limit {
			return errCut
		}
		return nil
	}
	result, err := RunRemote(t.Context(), o, h.remote())
	if err != nil {
		t.Fatal(err)
	}
	if result.Finished != 6 || len(runner.runs) != 6 || phases()[HostLost] == 0 {
		t.Errorf("result = %+v, ran %q", result, runner.runs)
	}
}

func TestHalfACellIsNone(t *testing.T) {
	h := newFakeHost(t, &fakeRunner{})
	o := options(t, nil)
	full := errors.New("the disk is full")
	h.fail = func(operation string) error {
		if strings.HasPrefix(operation, "get ") {
			return full
		}
		return nil
	}
	result, err := RunRemote(t.Context(), o, h.remote())
	if !errors.Is(err, full) || result.Finished != 0 {
		t.Fatalf("error %v, result %+v", err, result)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 0 {
		t.Errorf("statuses = %v", got)
	}
	<-h.done
	h.fail = nil
	o.Resume = result.Dir
	if result, err = RunRemote(t.Context(), o, h.remote()); err != nil || result.Finished != 6 || h.starts != 1 {
		t.Errorf("error %v, result %+v, %d jobs", err, result, h.starts)
	}
}

func TestJobDiesAndIsStartedAgain(t *testing.T) {
	runner := &fakeRunner{}
	h := newFakeHost(t, runner)
	job := h.job
	h.job = func(ctx context.Context, file string, log io.Writer) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		ran := 0
		runner.cell = func(context.Context, Job, *record.CellWriter) (record.Cell, error) {
			if ran++; ran > 2 {
				cancel()
				return record.Cell{}, errKilled
			}
			return goodCell(), nil
		}
		if err := job(ctx, file, &withoutEnd{log}); err != nil {
			return errKilled
		}
		return nil
	}
	o := options(t, nil)
	phases := phasesOf(&o)
	result, err := RunRemote(t.Context(), o, h.remote())
	if err != nil || result.Finished != 6 || phases()[HostDied] != h.starts-1 || h.starts < 3 {
		t.Errorf("error %v, result %+v, %d jobs, phases %v", err, result, h.starts, phases())
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 6 {
		t.Errorf("statuses = %v", got)
	}
}

// withoutEnd is the log of a job that has no time for last words.
type withoutEnd struct{ to io.Writer }

func (w *withoutEnd) Write(p []byte) (int, error) {
	var line jobLine
	if json.Unmarshal(p, &line) == nil && line.End != nil && line.End.Error != "" {
		return len(p), nil
	}
	return w.to.Write(p)
}

func TestJobDiesForEver(t *testing.T) {
	h := newFakeHost(t, nil)
	h.job = func(_ context.Context, _ string, log io.Writer) error {
		_, _ = io.WriteString(log, "panic: out of luck\n")
		return errKilled
	}
	result, err := RunRemote(t.Context(), options(t, nil), h.remote())
	if err == nil || !strings.Contains(err.Error(), "out of luck") || h.starts != maxDeaths+1 || result.Finished != 0 {
		t.Errorf("error %v after %d jobs", err, h.starts)
	}
}

func TestLoadHostOutOfReach(t *testing.T) {
	h := newFakeHost(t, &fakeRunner{})
	h.fail = func(string) error { return errCut }
	r := h.remote()
	r.Patience = 20 * time.Millisecond
	_, err := RunRemote(t.Context(), options(t, nil), r)
	var reach *OutOfReachError
	if !errors.As(err, &reach) || !errors.Is(err, errCut) {
		t.Errorf("error = %v", err)
	}
	o := options(t, nil)
	o.Gone = func() bool { return true }
	r.Patience = time.Hour
	if _, err := RunRemote(t.Context(), o, r); !errors.Is(err, errGone) {
		t.Errorf("after down: %v", err)
	}
}

// stuckRunner runs the cells of a, and is then at one of another target until
// it is interrupted.
func stuckRunner(running chan<- struct{}) *fakeRunner {
	return &fakeRunner{cell: func(ctx context.Context, job Job, _ *record.CellWriter) (record.Cell, error) {
		if job.ID.Target == "a" {
			return goodCell(), nil
		}
		close(running)
		<-ctx.Done()
		out := goodCell()
		out.Interrupted = true
		return out, nil
	}}
}

func TestInterruptStopsTheJob(t *testing.T) {
	running := make(chan struct{})
	h := newFakeHost(t, stuckRunner(running))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-running
		cancel()
	}()
	result, err := RunRemote(ctx, options(t, nil), h.remote())
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "context canceled") {
		t.Fatalf("error = %v", err)
	}
	if got := statuses(t, result.Dir); result.Finished != 1 || got[record.Counted] != 1 || got[record.Partial] != 1 {
		t.Errorf("result %+v, statuses %v", result, got)
	}
}

// What a run has measured outlives the command that began it, and the
// environment.
func TestBringHome(t *testing.T) {
	running := make(chan struct{})
	h := newFakeHost(t, stuckRunner(running))
	killed := errors.New("the command is killed")
	var dead atomic.Bool
	h.fail = func(string) error {
		if dead.Load() {
			return killed
		}
		return nil
	}
	o := options(t, nil)
	go func() {
		<-running
		dead.Store(true)
	}()
	result, err := RunRemote(t.Context(), o, h.remote())
	if !errors.Is(err, killed) {
		t.Fatalf("error = %v", err)
	}
	dead.Store(false)
	if err := BringHome(t.Context(), result.Dir, h.remote()); err != nil {
		t.Fatal(err)
	}
	if got := statuses(t, result.Dir); got[record.Counted] != 1 || got[record.Partial] != 1 {
		t.Errorf("statuses %v", got)
	}
	if left, err := os.ReadDir(filepath.Join(h.root, "jobs")); err != nil || len(left) != 0 {
		t.Errorf("left on the load host: %v, %v", left, err)
	}
	// Nothing is there any more.
	if err := BringHome(t.Context(), result.Dir, h.remote()); err != nil {
		t.Error(err)
	}
}

func TestTargetsDownOnTheLoadHost(t *testing.T) {
	h := newFakeHost(t, &fakeRunner{inspect: func(target Target) (record.Target, error) {
		return factsOf(target), map[bool]error{true: errors.New("no answer")}[target.Name == "b"]
	}})
	result, err := RunRemote(t.Context(), options(t, nil), h.remote())
	var down *DownError
	if !errors.As(err, &down) || len(down.Targets) != 1 || down.Targets[0] != "b" || result.Finished != 3 || result.Skipped != 3 {
		t.Errorf("error %v, result %+v", err, result)
	}
}

func TestOneMirrorAtATime(t *testing.T) {
	h := newFakeHost(t, &fakeRunner{})
	result, err := RunRemote(t.Context(), options(t, nil), h.remote())
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMirror(result.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openMirror(result.Dir); !errors.Is(err, record.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := record.Resume(result.Dir, time.Now()); !errors.Is(err, record.ErrLocked) {
		t.Errorf("a local run: %v", err)
	}
	// What the load host says is not believed.
	if name := "=4Fdd_=4Eame.v2_1000_default_1_1"; !attemptFolder.MatchString(name) {
		t.Errorf("%q is not taken for a name", name) // of a cell of Odd_Name.v2
	}
	for _, bad := range []string{"../x", ".hidden", "a/b", "a b"} {
		if attemptFolder.MatchString(bad) || fileName.MatchString(bad) {
			t.Errorf("%q is taken for a name", bad)
		}
	}
	if err := m.addJournal([]byte("{}\n")); err == nil {
		t.Error("another run's journal was taken")
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
}

func TestJobFileKeepsPasswords(t *testing.T) {
	o := options(t, nil)
	o.Targets[0].Password = secret.New("hunter2hunter2")
	data, err := encodeJob(o)
	if err != nil {
		t.Fatal(err)
	}
	back, err := decodeJob(data)
	if err != nil || back.Targets[0].Password.Reveal() != o.Targets[0].Password.Reveal() || back.Settings.Seed != o.Settings.Seed {
		t.Errorf("%+v, %v", back, err)
	}
	file := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_ = RunJob(t.Context(), file, record.Tool{}, &fakeRunner{}, &log) // where RunsDir is, is of no interest here
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the job file is still there: %v", err)
	}
	if strings.Contains(log.String(), o.Targets[0].Password.Reveal()) {
		t.Error("the log holds the password")
	}
}
