package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Remote says where and how a run is made elsewhere.
type Remote struct {
	// Dial connects to the load host once.
	Dial func(context.Context) (Host, error)
	// Lost reports whether an error is about the connection or the machine
	// rather than about what was asked of it, so that trying again may help.
	Lost func(error) bool
	// Program returns the path of this program for the load host, whose
	// uname says system ("Linux") and machine ("x86_64").
	Program func(system, machine string) (string, error)
	// JobCommand are the words after the program's that call RunJob; the
	// job file's path follows them. CheckCommand are those of a call that
	// shows whether the program runs there at all.
	JobCommand, CheckCommand []string
	// Dir is the folder for everything on the load host, relative to the home
	// directory unless absolute. Empty is "sandbox".
	Dir string
	// Patience is for how long the load host may be out of reach; 0 is an
	// hour. The run there goes on meanwhile.
	Patience time.Duration
	// RetryEvery is the first pause before another connection; it doubles up
	// to 30 times that. 0 is a second.
	RetryEvery time.Duration
}

func (r Remote) withDefaults() Remote {
	r.Dir = cmp.Or(r.Dir, "sandbox")
	r.Patience = cmp.Or(r.Patience, time.Hour)
	r.RetryEvery = cmp.Or(r.RetryEvery, time.Second)
	return r
}

const (
	stopGrace      = 90 * time.Second // for the job to end what it is at
	stopPatience   = 30 * time.Second // for the load host to be reached, to stop
	stopTimeout    = 10 * time.Minute // for all of it, with what is fetched
	cleanupTimeout = 30 * time.Second
	// maxDeaths is how often in a row a job may end before its time without
	// a cell finished in between.
	maxDeaths = 3
	// attachBytes is how much of the log of a running job is read again.
	attachBytes = 64 << 10
	maxTail     = 2 << 10
	maxJobLine  = 4 << 20
)

// OutOfReachError says that the load host was given up on. The run goes on
// there.
type OutOfReachError struct {
	For   time.Duration
	cause error
}

func (e *OutOfReachError) Error() string {
	return fmt.Sprintf("the load host has been out of reach for %s: %v", e.For.Round(time.Second), e.cause)
}

// Unwrap returns the last cause.
func (e *OutOfReachError) Unwrap() error { return e.cause }

// RunRemote does what Run does, on the load host: there it starts a job that
// makes the run, or finds the one that is running, follows it across lost
// connections, starts it again should it or its machine die, and brings home
// every cell as it finishes. The Runner of o is not used. When ctx ends, the
// job is asked to stop and what it measured is brought home. While another
// run's job is under way there, the error is a *BusyError and a new run leaves
// no record.
//
// This process may end at any moment: the job goes on, and RunRemote with
// Resume finds it.
func RunRemote(ctx context.Context, o Options, r Remote) (*Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reruns == 0 {
		o.Reruns = defaultReruns
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	f := &follower{Options: o, Remote: r.withDefaults()}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	err := f.run(ctx)
	if ctx.Err() != nil && !f.over {
		if err = f.stop(ctx); !f.complete { // else it was just in time
			err = errors.Join(interrupted(ctx), err)
		}
	}
	var busy *BusyError
	if f.created && errors.As(err, &busy) {
		return nil, errors.Join(fmt.Errorf("bench: %w", err), f.mirror.close(), os.RemoveAll(f.Resume))
	}
	result, resultErr := f.result()
	if err = errors.Join(err, resultErr, f.mirror.close()); err != nil {
		return result, fmt.Errorf("bench: %w", err)
	}
	return result, nil
}

// BringHome has the run whose record is in dir stopped on the load host,
// should it be under way there, and fetches what it has measured.
func BringHome(ctx context.Context, dir string, r Remote) error {
	f := &follower{Options: Options{Resume: dir}, Remote: r.withDefaults()}
	err := f.open()
	if err == nil {
		err = errors.Join(f.stop(ctx), f.mirror.close())
	}
	if err != nil {
		return fmt.Errorf("bring home run %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// follower is one remote run under way, seen from here.
type follower struct {
	Options
	Remote
	mirror  *mirror
	created bool // the record, by this process

	following bool  // a job that this process has seen alive
	offset    int64 // in its log
	skipLine  bool  // the log is read from the middle of a line on
	end       *jobEnd
	tail      []byte // what the job said last beside its events
	deaths    int    // since a cell was finished
	// doneAtDeath are the cells that were finished at the last one.
	doneAtDeath int
	over        bool // the run has ended, and what it measured is here
	complete    bool // and that is all
	stopping    bool

	mu       sync.Mutex
	contact  time.Time // when the load host was last heard of
	reported bool      // its loss
}

// open makes the record of a new run, or opens the one to go on with.
func (f *follower) open() error {
	if f.Resume == "" {
		run := record.Run{
			Started: f.Now().UTC(), Environment: f.Environment, Platform: f.Platform, Tool: f.Tool, CommandLine: f.CommandLine,
			Settings: f.Settings, Sizes: f.Sizes, Order: f.Order, Baseline: cmp.Or(f.Baseline, f.Targets[0].Name),
			Files: f.Files, Variables: f.Variables, Interval: f.Interval,
		}
		for _, t := range f.Targets {
			run.Targets = append(run.Targets, t.described())
		}
		run.Engine = engineOf(run.Targets)
		w, err := create(f.RunsDir, f.ID, run)
		if err != nil {
			return err
		}
		f.Resume, f.created = w.Dir(), true
		if err := w.Close(); err != nil {
			return err
		}
	}
	f.ID = filepath.Base(f.Resume)
	var err error
	if f.mirror, err = openMirror(f.Resume); err != nil {
		return fmt.Errorf("open run record %s: %w", f.Resume, err)
	}
	return nil
}

func (f *follower) result() (*Result, error) {
	result := &Result{Dir: f.Resume, Cells: len(plan(f.Order, f.Settings.Seed, f.Sizes, f.Targets))}
	if f.end != nil {
		result.Skipped = f.end.Skipped
	}
	r, err := record.Open(f.Resume)
	if err != nil {
		return result, err
	}
	result.Run = r.Run()
	if err := r.Close(); err != nil {
		return result, err
	}
	states, err := readStates(f.Resume)
	if err != nil {
		return result, err
	}
	result.count(plan(f.Order, f.Settings.Seed, f.Sizes, f.Targets), states, f.Reruns)
	return result, nil
}

func (f *follower) report(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Progress != nil {
		f.Progress(e)
	}
}

// heard notes that the load host is there.
func (f *follower) heard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.contact = time.Now()
}

func (f *follower) silence() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Since(f.contact)
}

// run connects, as often as it takes, until the run is over.
func (f *follower) run(ctx context.Context) error {
	f.heard()
	pause := f.RetryEvery
	for {
		before := f.offset
		err := f.connect(ctx)
		switch {
		case f.over || ctx.Err() != nil:
			return err
		case err == nil: // the job ended before its time: at once once more
			continue
		case !f.Lost(err):
			return err
		case f.Gone != nil && f.Gone():
			return fmt.Errorf("%w: %w", errGone, err)
		case f.silence() > f.Patience:
			return &OutOfReachError{For: f.silence(), cause: err}
		}
		if f.offset != before {
			pause = f.RetryEvery
		}
		if !f.reported {
			f.reported = true
			f.report(Event{Phase: HostLost, Reason: record.Redact(err.Error()), Wait: pause})
		}
		if !sleep(ctx, pause) {
			return interrupted(ctx)
		}
		pause = min(2*pause, 30*f.RetryEvery)
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// connect sees one connection to its end. nil means that the run is over, or
// that its job is, before its time.
func (f *follower) connect(ctx context.Context) error {
	host, err := f.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	f.heard()
	at, err := f.prepare(ctx, host)
	if err != nil {
		return err
	}
	state, err := host.State(ctx, at.job)
	if err != nil {
		return err
	}
	switch {
	case state.Phase == JobRunning && !f.following:
		f.attach(state)
		f.report(Event{Phase: HostFound})
	case f.following: // running or not: its log says how it went on
		if f.reported {
			f.report(Event{Phase: HostBack})
		}
	default:
		if err := alone(ctx, host, at.others); err != nil {
			return err
		}
		if err := f.start(ctx, host, at, state); err != nil || f.over {
			return err
		}
	}
	f.reported = false
	if state, err = f.follow(ctx, host, at); err != nil {
		return err
	}
	return f.ended(ctx, host, at, state)
}

// attach begins to read the log of a job that was running already.
func (f *follower) attach(state JobState) {
	f.following, f.end, f.tail = true, nil, nil
	f.offset = max(0, state.LogSize-attachBytes)
	f.skipLine = f.offset > 0
}

// places are the paths on the load host.
type places struct {
	program, runs, run    string
	job, jobFile, scratch string
	others                []string // folders of other runs' jobs, over or not
	system, machine       string
	known                 bool // the run has a record there
}

const prepareScript = `set -eu
umask 077
cd
mkdir -p -- "$1/bin" "$1/runs" "$1/jobs"
cd -- "$1"
pwd -P
uname -s
uname -m
if [ -e "runs/$2/run.json" ]; then echo known; else echo new; fi
cd jobs
` + listJobs

// notInPath is what a job's directory may not have in its name.
var notInPath = regexp.MustCompile(`[^A-Za-z0-9._-]`)

func (f *follower) prepare(ctx context.Context, host Host) (places, error) {
	said, err := host.Output(ctx, prepareScript, f.Dir, f.ID)
	if err != nil {
		return places{}, err
	}
	lines := strings.Split(said, "\n")
	if len(lines) < 4 {
		return places{}, fmt.Errorf("prepare the load host: unexpected answer %q", said)
	}
	root, jobs := lines[0], lines[0]+"/jobs/"
	job := notInPath.ReplaceAllString(f.ID, "_")
	at := places{
		program: root + "/bin/sandbox", runs: root + "/runs", run: root + "/runs/" + f.ID,
		job: jobs + job, jobFile: jobs + job + ".json", scratch: jobs + job + ".copy",
		system: lines[1], machine: lines[2], known: lines[3] == "known",
	}
	at.others = slices.DeleteFunc(jobsIn(jobs, lines[4:]), func(other string) bool { return other == at.job })
	return at, nil
}

// start starts the job where none is running; state is that of the last one.
func (f *follower) start(ctx context.Context, host Host, at places, state JobState) error {
	if at.known {
		// What was measured since anybody looked, perhaps all of it.
		if err := f.fetch(ctx, host, at, true); err != nil {
			return err
		}
		if finished, err := f.finished(); err != nil || finished {
			f.over, f.complete = finished, finished
			f.cleanUp(ctx, host, at)
			return err
		}
	} else if began, err := f.mirror.began(); err != nil {
		return err
	} else if began {
		if err := f.mirror.push(ctx, host, at.run); err != nil {
			return fmt.Errorf("tell the load host of the run: %w", err)
		}
	}
	program, err := f.Program(at.system, at.machine)
	if err != nil {
		return err
	}
	f.report(Event{Phase: HostCopying})
	if err := host.Put(ctx, program, at.program); err != nil {
		return err
	}
	check := append([]string{at.program}, f.CheckCommand...)
	if _, err := host.Output(ctx, `exec "$@" 2>&1`, check...); err != nil {
		return fmt.Errorf("%s does not run on the load host (%s %s): %w", program, at.system, at.machine, err)
	}
	if state.Phase != NoJob {
		if _, err := host.Output(ctx, `rm -rf -- "$1"`, at.job); err != nil {
			return err
		}
	}
	there := f.Options
	there.RunsDir = at.runs
	job, err := encodeJob(there)
	if err != nil {
		return err
	}
	if err := host.Write(ctx, at.jobFile, job); err != nil {
		return err
	}
	command := append([]string{at.program}, f.JobCommand...)
	if err := host.Start(ctx, at.job, append(command, at.jobFile)); err != nil {
		if !f.Lost(err) { // else the job may be there
			f.cleanUp(ctx, host, at)
		}
		return err
	}
	f.following, f.offset, f.skipLine, f.end, f.tail = true, 0, false, nil, nil
	f.report(Event{Phase: HostStarted})
	return nil
}

// finished reports whether the record here is complete.
func (f *follower) finished() (bool, error) {
	r, err := record.Open(f.Resume)
	if err != nil {
		return false, err
	}
	return r.Run().Finished != nil, r.Close()
}

// follow reads along until the job ends, and meanwhile brings every cell
// home soon after it has finished.
func (f *follower) follow(ctx context.Context, host Host, at places) (JobState, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	wake := make(chan struct{}, 1)
	wake <- struct{}{} // for what finished while nobody was looking
	var puller sync.WaitGroup
	puller.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-wake:
			}
			if err := f.fetch(ctx, host, at, false); err != nil {
				cancel(err)
				return
			}
		}
	})
	reader := &logReader{follower: f, wake: wake}
	state, written, err := host.Follow(ctx, at.job, f.offset, reader)
	f.offset += written - int64(len(reader.rest))
	cancel(nil)
	puller.Wait()
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	return state, err
}

// fetch brings home what is new, and when the job is over everything.
func (f *follower) fetch(ctx context.Context, host Host, at places, ended bool) error {
	said, err := host.Output(ctx, `if [ -e "$1" ]; then echo there; else echo missing; fi`, at.run+"/"+runFile)
	if err != nil || said == "missing" { // the job has made no record, so far
		return err
	}
	return f.mirror.pull(ctx, host, at.run, at.scratch, ended)
}

// logReader takes a job's log apart into events and what else was said.
type logReader struct {
	*follower
	wake chan<- struct{}
	rest []byte // of a line whose end has not come yet
}

func (l *logReader) Write(p []byte) (int, error) {
	l.heard()
	l.rest = append(l.rest, p...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			break
		}
		l.line(line)
		l.rest = rest
	}
	if len(l.rest) > maxJobLine {
		return 0, errors.New("the job's log is not what it should be")
	}
	return len(p), nil
}

func (l *logReader) line(text []byte) {
	if l.skipLine {
		l.skipLine = false
		return
	}
	var line jobLine
	if err := json.Unmarshal(text, &line); err != nil || line.Event == nil && line.End == nil {
		l.tail = append(append(l.tail, text...), '\n')
		l.tail = l.tail[max(0, len(l.tail)-maxTail):]
		return
	}
	if line.End != nil {
		l.end = line.End
		return
	}
	switch line.Event.Phase {
	case CellDone, CellInvalid, TargetDown:
		select {
		case l.wake <- struct{}{}:
		default: // it will look anyway
		}
	}
	l.report(*line.Event)
}

// ended deals with a job that is over.
func (f *follower) ended(ctx context.Context, host Host, at places, state JobState) error {
	if err := f.fetch(ctx, host, at, true); err != nil {
		return err
	}
	f.following = false
	finished, err := f.finished()
	if err != nil {
		return err
	}
	switch {
	case finished:
		f.over, f.complete = true, true
	case f.stopping:
		f.over = true
	case state.Phase == JobStopped:
		f.over, err = true, errors.New("the run was stopped on the load host, by another `sandbox bench`")
	case f.end != nil && f.end.Error != "" && !f.end.Interrupted:
		f.over, err = true, f.end.error()
	}
	if f.over {
		f.cleanUp(ctx, host, at)
		return err
	}
	// Killed, or ended with its machine.
	done, err := f.doneCells()
	if err != nil {
		return err
	}
	if done > f.doneAtDeath {
		f.deaths = 0
	}
	f.deaths, f.doneAtDeath = f.deaths+1, done
	reason := "its machine went down or it was killed"
	if last := strings.TrimSpace(string(f.tail)); last != "" {
		reason += "; it last said: " + record.Redact(last)
	}
	if f.deaths > maxDeaths {
		f.over = true
		f.cleanUp(ctx, host, at)
		return fmt.Errorf("the run died on the load host %d times without finishing a cell: %s", f.deaths, reason)
	}
	f.report(Event{Phase: HostDied, Reason: reason})
	return nil
}

func (f *follower) doneCells() (int, error) {
	states, err := readStates(f.Resume)
	done := 0
	for _, s := range states {
		if s.valid {
			done++
		}
		done += s.invalid
	}
	return done, err
}

// cleanUp removes the job from the load host; the record stays. What it
// cannot remove is no failure of the run's: the job file, which holds
// secrets, is gone since the job has read it.
func (f *follower) cleanUp(ctx context.Context, host Host, at places) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	remove := func(host Host) error {
		_, err := host.Output(ctx, `rm -rf -- "$@"`, at.job, at.jobFile, at.scratch)
		return err
	}
	err := remove(host)
	for tries := 0; tries < 3 && err != nil && f.Lost(err) && sleep(ctx, f.RetryEvery); tries++ {
		var again Host
		if again, err = f.Dial(ctx); err == nil {
			err = errors.Join(remove(again), again.Close())
		}
	}
	if err != nil {
		f.report(Event{Phase: HostLeft, Reason: record.Redact(err.Error())})
	}
}

// stop asks the job to end, and brings home what it has.
func (f *follower) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	f.stopping = true
	f.report(Event{Phase: HostStop})
	begin := time.Now()
	for {
		err := f.stopOnce(ctx)
		if err == nil || !f.Lost(err) {
			return err
		}
		if time.Since(begin) > stopPatience || !sleep(ctx, f.RetryEvery) {
			return &OutOfReachError{For: time.Since(begin), cause: err}
		}
	}
}

func (f *follower) stopOnce(ctx context.Context) error {
	dial, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	host, err := f.Dial(dial)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	at, err := f.prepare(ctx, host)
	if err != nil {
		return err
	}
	state, err := host.State(ctx, at.job)
	if err != nil {
		return err
	}
	if state.Phase == JobRunning {
		if !f.following {
			f.attach(state)
		}
		if err := host.Stop(ctx, at.job, stopGrace); err != nil {
			return err
		}
	}
	if state.Phase != NoJob && f.following {
		if state, err = f.follow(ctx, host, at); err != nil {
			return err
		}
	}
	return f.ended(ctx, host, at, state)
}
