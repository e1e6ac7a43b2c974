package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Runner prepares and measures single cells.
type Runner interface {
	// Inspect asks a target for its facts; warnings name those it did not
	// tell. An error means that the target cannot be reached.
	Inspect(ctx context.Context, t Target) (facts record.Target, warnings []string, err error)
	// RunCell drops, indexes and seeds, waits for the secondaries, runs the
	// load and explains, and writes to the cell's files as it goes; the
	// caller ends the cell. The outcome's validity, its identity excepted,
	// is the runner's to tell. An error means that there is no usable
	// outcome; one that is loadgen.ErrTargetDown, that trying again is of no
	// use. When ctx ends before the measurement is complete, what there is
	// comes back with an error or marked Interrupted.
	RunCell(ctx context.Context, job Job, cell *record.CellWriter) (record.Cell, error)
	// LoadHost describes the machine that makes the load.
	LoadHost(ctx context.Context) (record.MachineFacts, error)
}

// Job is one cell to be run.
type Job struct {
	Target   Target
	ID       record.CellID
	Settings record.Settings
	// Progress takes the phase and what belongs to it; it is never nil.
	Progress func(Event)
}

// Result says what became of a run.
type Result struct {
	Dir string
	Run record.Run
	// Cells were planned. Finished are done, in this process or before, and
	// Invalid of them have no valid attempt. Skipped belong to targets that
	// went down.
	Cells, Finished, Invalid, Skipped int
}

// count counts the cells that are done.
func (r *Result) count(cells []record.CellID, states map[record.CellID]state, reruns int) {
	for _, id := range cells {
		if s := states[id]; s.done(reruns) {
			r.Finished++
			if !s.valid {
				r.Invalid++
			}
		}
	}
}

// DownError says which targets could not be measured to the end. It is
// loadgen.ErrTargetDown.
type DownError struct {
	Targets []string
	causes  []error
}

func (e *DownError) Error() string {
	if len(e.causes) > 0 && errors.Is(e.causes[len(e.causes)-1], errGone) {
		return errGone.Error() // whatever was the matter with the others
	}
	parts := make([]string, len(e.Targets))
	for i, name := range e.Targets {
		parts[i] = fmt.Sprintf("target %s went down: %v", name, e.causes[i])
	}
	return strings.Join(parts, "; ")
}

// Unwrap returns loadgen.ErrTargetDown and what was the matter with each
// target.
func (e *DownError) Unwrap() []error { return append([]error{loadgen.ErrTargetDown}, e.causes...) }

// Run runs every cell that the record does not have yet. The result is set
// as soon as there is a record, with an error too.
//
// When ctx ends, the error is ctx's; the run can be resumed. When targets go
// down, the others are measured to the end and the error is a *DownError;
// the run can be resumed as well.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reruns == 0 {
		o.Reruns = defaultReruns
	}
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if o.Runner == nil {
		return nil, errors.New("bench: no runner")
	}
	b := &bench{
		Options:  o,
		cells:    plan(o.Order, o.Settings.Seed, o.Sizes, o.Targets),
		down:     &DownError{},
		estimate: &estimate{load: o.Settings.Warmup + o.Settings.Duration, interval: o.Interval, seen: map[int64]*average{}},
	}
	b.progress = &progress{report: o.Progress, estimate: b.estimate, now: o.Now}
	if err := b.open(ctx); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	present, stop := whilePresent(ctx, o.Gone, o.Targets)
	err := b.run(present)
	if errors.Is(context.Cause(present), errGone) {
		err = b.gone()
	}
	stop()
	result := &Result{Dir: b.writer.Dir(), Run: b.writer.Run(), Cells: len(b.cells), Skipped: b.skipped}
	result.count(b.cells, b.states, b.Reruns)
	if err = errors.Join(err, b.writer.Close()); err != nil {
		return result, fmt.Errorf("bench: %w", err)
	}
	return result, nil
}

// bench is one run under way.
type bench struct {
	Options
	cells    []record.CellID
	writer   *record.Writer
	states   map[record.CellID]state
	down     *DownError
	skipped  int
	progress *progress
	estimate *estimate
}

// state is what is known of a cell's attempts.
type state struct {
	valid   bool // there is a valid one
	invalid int  // finished and invalid ones
	failed  int  // given up, by this process
}

// done: there is a valid attempt, or as many invalid ones as there may be.
func (s state) done(reruns int) bool { return s.valid || s.invalid > max(0, reruns) }

func (b *bench) done(s state) bool { return s.done(b.Reruns) }

// open inspects the targets and creates or opens the record.
func (b *bench) open(ctx context.Context) error {
	host, err := b.Runner.LoadHost(ctx)
	if err != nil {
		return fmt.Errorf("describe the load host: %w", err)
	}
	targets, warnings, down, err := b.inspect(ctx)
	if err != nil {
		return err
	}
	run := record.Run{
		Started: b.Now().UTC(), Environment: b.Environment, Platform: b.Platform, Engine: engineOf(targets),
		Tool: b.Tool, CommandLine: b.CommandLine, Settings: b.Settings, Sizes: b.Sizes, Order: b.Order,
		Baseline: b.Baseline, Targets: targets, Files: b.Files, Variables: b.Variables, LoadHost: host, Interval: b.Interval,
		Warnings: warnings,
	}
	if run.Baseline == "" {
		run.Baseline = targets[0].Name
	}
	b.states = map[record.CellID]state{}
	if b.Resume == "" {
		b.writer, err = create(b.RunsDir, b.ID, run)
	} else {
		err = b.resume(run)
	}
	if err != nil {
		return err
	}
	for i, cause := range down {
		if cause == nil {
			continue
		}
		if err := b.giveUp(targets[i].Name, cause); err != nil {
			return errors.Join(err, b.writer.Close())
		}
	}
	return nil
}

// inspect asks all targets for their facts. warnings name facts that were not
// told, down has the reason for those targets that did not answer; when none
// does, that is an error.
func (b *bench) inspect(ctx context.Context) (targets []record.Target, warnings []string, down []error, err error) {
	targets = make([]record.Target, len(b.Targets))
	down = make([]error, len(b.Targets))
	failed := &DownError{}
	for i, t := range b.Targets {
		b.progress.send(Event{Phase: Inspecting, Target: t.Name})
		var missing []string
		targets[i], missing, down[i] = b.Runner.Inspect(ctx, t)
		if ctx.Err() != nil {
			return nil, nil, nil, interrupted(ctx)
		}
		warnings = append(warnings, missing...)
		if down[i] != nil {
			targets[i] = t.described()
			failed.Targets = append(failed.Targets, t.Name)
			failed.causes = append(failed.causes, down[i])
		}
	}
	if len(failed.Targets) == len(b.Targets) {
		return nil, nil, nil, failed
	}
	return targets, warnings, down, nil
}

// described is the target as the options know it.
func (t Target) described() record.Target {
	r := record.Target{
		Name: t.Name, Distribution: t.Distribution, Release: t.Release, RequestedVersion: t.RequestedVersion,
		Engine: t.Engine, ReplicaSet: t.ReplicaSet, AAOf: t.AAOf,
	}
	if r.Engine == "" {
		r.Engine = record.EngineMongod
	}
	return r
}

func engineOf(targets []record.Target) string {
	for _, t := range targets {
		if t.Engine == record.EngineEmbedded {
			return record.EngineEmbedded
		}
	}
	return record.EngineMongod
}

// create makes the record of a new run. Without an id of their own, two runs
// that begin in the same second get different folders.
func create(runsDir, id string, run record.Run) (*record.Writer, error) {
	if id != "" {
		run.ID = id
		return record.Create(filepath.Join(runsDir, id), run)
	}
	id = record.NewID(run.Started, run.Environment)
	for n := 1; ; n++ {
		run.ID = id
		if n > 1 {
			run.ID = fmt.Sprintf("%s-%d", id, n)
		}
		w, err := record.Create(filepath.Join(runsDir, run.ID), run)
		if err == nil || n == 100 || (!errors.Is(err, fs.ErrExist) && !errors.Is(err, record.ErrLocked)) {
			return w, err
		}
	}
}

// resume opens the record and reads from it what is done.
func (b *bench) resume(now record.Run) error {
	w, err := record.Resume(b.Resume, b.Now())
	if err != nil {
		return err
	}
	b.writer = w
	err = checkSame(w.Run(), now)
	if err == nil {
		err = b.readStates()
	}
	if err == nil {
		err = b.completeFacts(now)
	}
	if err != nil {
		return fmt.Errorf("resume %s: %w", b.Resume, errors.Join(err, w.Close()))
	}
	return nil
}

func (b *bench) readStates() (err error) {
	b.states, err = readStates(b.Resume)
	return err
}

// readStates reads from the record in dir what is done.
func readStates(dir string) (map[record.CellID]state, error) {
	r, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	cells, err := r.Cells()
	if err != nil {
		return nil, err
	}
	states := map[record.CellID]state{}
	for _, c := range cells {
		s := states[c.ID]
		switch c.Status {
		case record.Counted, record.Superseded:
			s.valid = true
		case record.Invalid:
			s.invalid++
		case record.Partial, record.Damaged: // run again
		}
		states[c.ID] = s
	}
	return states, nil
}

// completeFacts adds the facts of targets that were down when the run began,
// and what is new of what the targets do not tell.
func (b *bench) completeFacts(now record.Run) error {
	run := b.writer.Run()
	changed := false
	targets := append([]record.Target(nil), run.Targets...)
	for i := range targets {
		if targets[i].ActualVersion == "" && now.Targets[i].ActualVersion != "" {
			targets[i], changed = now.Targets[i], true
		}
		if members, moved := withoutMoved(targets[i].Members, now.Targets[i].Members); moved {
			targets[i].Members, changed = members, true
			now.Warnings = append(slices.Clone(now.Warnings), fmt.Sprintf("%s was resumed on other machines than it began on", targets[i].Name))
		}
	}
	for _, warning := range now.Warnings {
		if warning = record.Redact(warning); !slices.Contains(run.Warnings, warning) {
			run.Warnings, changed = append(slices.Clone(run.Warnings), warning), true
		}
	}
	if !changed {
		return nil
	}
	run.Targets = targets
	return b.writer.SetRun(run)
}

// withoutMoved leaves out on which machines members ran that are on others
// now: the run's cells are of no single one.
func withoutMoved(began, now []record.MemberFacts) (members []record.MemberFacts, moved bool) {
	members = slices.Clone(began)
	for i := range members {
		k := slices.IndexFunc(now, func(m record.MemberFacts) bool { return m.Name == members[i].Name })
		if k < 0 {
			continue
		}
		m, was := &members[i], members[i]
		if was.MachineID != "" && now[k].MachineID != "" && was.MachineID != now[k].MachineID {
			m.MachineID, moved = "", true
		}
		if was.Cloud.Contradicts(now[k].Cloud) { // a machine can be given another type and keep its id
			m.Cloud, moved = record.CloudFacts{}, true
		}
	}
	return members, moved
}

// giveUp notes that a target is down.
func (b *bench) giveUp(target string, cause error) error {
	b.down.Targets = append(b.down.Targets, target)
	b.down.causes = append(b.down.causes, cause)
	b.progress.send(Event{Phase: TargetDown, Target: target, Reason: record.Redact(cause.Error())})
	return b.writer.Log(record.Event{At: b.Now(), Event: record.TargetDown, Target: target, Reason: cause.Error()})
}

// gone gives up all targets that are not down yet.
func (b *bench) gone() error {
	for _, t := range b.Targets {
		if b.isDown(t.Name) {
			continue
		}
		if err := b.giveUp(t.Name, errGone); err != nil {
			return err
		}
	}
	b.skipped = 0
	for _, id := range b.cells {
		if !b.done(b.states[id]) {
			b.skipped++
		}
	}
	return b.down
}

func (b *bench) isDown(target string) bool {
	return slices.Contains(b.down.Targets, target)
}

// todo is what is left from cell i on.
func (b *bench) todo(i int) []record.CellID {
	var todo []record.CellID
	for _, id := range b.cells[i:] {
		if !b.done(b.states[id]) && !b.isDown(id.Target) {
			todo = append(todo, id)
		}
	}
	return todo
}

// run runs the cells that are left.
func (b *bench) run(ctx context.Context) error {
	first := true
	for i, id := range b.cells {
		if b.done(b.states[id]) {
			continue
		}
		if b.isDown(id.Target) {
			b.skipped++
			continue
		}
		if !first {
			b.estimate.begin(b.todo(i), time.Time{})
			if err := b.pause(ctx); err != nil {
				return err
			}
		}
		first = false
		if err := b.runCell(ctx, i); err != nil {
			return err
		}
	}
	if len(b.down.Targets) > 0 {
		return b.down
	}
	return b.finish()
}

// finish marks the run as done, once.
func (b *bench) finish() error {
	run := b.writer.Run()
	if run.Finished != nil {
		return nil
	}
	now := b.Now().UTC()
	run.Finished = &now
	if err := b.writer.SetRun(run); err != nil {
		return err
	}
	return b.writer.Log(record.Event{At: now, Event: record.RunFinished})
}

// pause waits between two cells.
func (b *bench) pause(ctx context.Context) error {
	if b.Interval == 0 {
		return nil
	}
	b.progress.begin(Event{Total: len(b.cells)})
	b.progress.send(Event{Phase: Pausing, Wait: b.Interval})
	timer := time.NewTimer(b.Interval)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return b.interrupt(ctx)
	}
}

// interruptedError says that the user, or a time limit, ended the run. What
// the context calls that is of no interest to a reader.
type interruptedError struct{ cause error }

func (e *interruptedError) Error() string { return "interrupted" }
func (e *interruptedError) Unwrap() error { return e.cause }

func interrupted(ctx context.Context) error { return &interruptedError{ctx.Err()} }

// interrupt logs that the user ended the run between two cells.
func (b *bench) interrupt(ctx context.Context) error {
	err := b.writer.Log(record.Event{At: b.Now(), Event: record.Interrupted})
	return errors.Join(interrupted(ctx), err)
}

// runCell tries cell i until it is done, its target is down or ctx ends. An
// error ends the run.
func (b *bench) runCell(ctx context.Context, i int) error {
	id := b.cells[i]
	target := b.target(id.Target)
	for !b.done(b.states[id]) && !b.isDown(id.Target) {
		if ctx.Err() != nil {
			return b.interrupt(ctx)
		}
		writer, err := b.writer.Begin(id, b.Now())
		if err != nil {
			return err
		}
		b.estimate.begin(b.todo(i), b.Now())
		b.progress.begin(Event{Target: id.Target, Cell: id, Number: i + 1, Total: len(b.cells), Attempt: writer.Attempt()})
		cell, err := b.Runner.RunCell(ctx, Job{Target: target, ID: id, Settings: b.Settings, Progress: b.progress.send}, writer)
		interrupt := ctx.Err() != nil && (err != nil || cell.Interrupted)
		b.estimate.end(b.Now(), err == nil && !interrupt)
		if interrupt {
			cell.Interrupted = true
			cell.Valid = false
			err := writer.Abandon(&cell, record.Interrupted, "", b.Now())
			return errors.Join(interrupted(ctx), err)
		}
		if err := b.end(writer, cell, err); err != nil {
			return err
		}
	}
	return nil
}

// end keeps the outcome of an attempt. Its error ends the run.
func (b *bench) end(writer *record.CellWriter, cell record.Cell, failure error) error {
	id := writer.ID()
	s := b.states[id]
	defer func() { b.states[id] = s }()
	if failure != nil {
		s.failed++
		cell.Valid = false
		if err := writer.Abandon(&cell, record.CellFailed, failure.Error(), b.Now()); err != nil {
			return err
		}
		b.progress.send(Event{Phase: CellFailed, Reason: record.Redact(failure.Error())})
		if errors.Is(failure, loadgen.ErrTargetDown) || s.failed > max(0, b.Reruns) {
			return b.giveUp(id.Target, failure)
		}
		return nil
	}
	if err := writer.Finish(cell, b.Now()); err != nil {
		return err
	}
	if cell.Valid {
		s.valid = true
		b.progress.send(Event{Phase: CellDone, Outcome: &cell})
		return nil
	}
	s.invalid++
	b.progress.send(Event{Phase: CellInvalid, Outcome: &cell, Reason: record.Redact(strings.Join(cell.InvalidReasons, "; "))})
	return nil
}

func (b *bench) target(name string) Target {
	for _, t := range b.Targets {
		if t.Name == name {
			return t
		}
	}
	return Target{} // the plan was made of these targets
}
