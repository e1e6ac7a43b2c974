package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/report"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// runBench runs a bench in this process.
func (a *app) runBench(ctx context.Context, o bench.Options, asJSON bool) error {
	return a.runBenchOn(ctx, nil, o, asJSON)
}

// runBenchOn runs a bench with progress, on a load host unless that is nil,
// and says what became of it.
func (a *app) runBenchOn(ctx context.Context, host *bench.Remote, o bench.Options, asJSON bool) error {
	if err := o.Check(); err != nil {
		return fail(exitUsage, err, "")
	}
	for _, t := range o.Targets {
		if t.Engine == record.EngineEmbedded {
			a.console.Notef("NOTE: %s", embeddedNotice)
			break
		}
	}
	p := a.console.NewProgress()
	view := &benchView{progress: p}
	o.Progress = view.event
	var result *bench.Result
	var err error
	if host == nil {
		result, err = bench.Run(ctx, o)
	} else {
		result, err = bench.RunRemote(ctx, o, *host)
	}
	view.close()
	if result != nil {
		a.console.Notef("%d of %d cells finished%s, run record %s", result.Finished, result.Cells, notCounted(result), a.relative(result.Dir))
	}
	if err == nil {
		if asJSON {
			comparison, err := report.Load(result.Dir, report.Options{})
			if err != nil {
				return err
			}
			return report.Render(a.console.Out, report.FormatJSON, comparison)
		}
		a.console.Notef("`sandbox report` shows what differs")
		return nil
	}
	var down *bench.DownError
	var reach *bench.OutOfReachError
	var ssh *remote.Error
	var busy *bench.BusyError
	switch {
	case errors.As(err, &busy):
		return fail(exitUsage, err, busyHint)
	case result == nil:
		return err
	case errors.As(err, &reach):
		return fail(exitRemote, err, "the run goes on there: `sandbox bench --resume` finds it and brings it home")
	case errors.Is(err, context.Canceled): // below
	case errors.As(err, &ssh):
		return fail(exitRemote, err, "`sandbox bench --resume` goes on from here")
	case errors.As(err, &down):
		return fail(exitTarget, err, "`sandbox up` repairs the deployment, then `sandbox bench --resume` runs the missing cells")
	}
	return fail(exitCode(err), err, "`sandbox bench --resume` goes on from here")
}

func notCounted(r *bench.Result) string {
	var parts []string
	if r.Invalid > 0 {
		parts = append(parts, fmt.Sprintf("%d without a valid attempt", r.Invalid))
	}
	if r.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", r.Skipped))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// benchView shows a bench: one line per cell, and while it runs the
// operation types below it.
type benchView struct {
	progress *console.Progress
	task     *console.Task
	cell     string // of the task: cell and attempt
}

func (v *benchView) event(e bench.Event) {
	switch e.Phase {
	case bench.Inspecting:
		return
	case bench.HostCopying, bench.HostStarted, bench.HostFound, bench.HostLost, bench.HostBack, bench.HostDied, bench.HostStop, bench.HostLeft:
		v.progress.Notef("%s", hostNote(e))
		return
	case bench.TargetDown:
		v.end((*console.Task).Fail, "target down")
		v.progress.Notef("target %s is down: %s", e.Target, e.Reason)
		return
	case bench.Pausing:
		v.progress.Notef("pausing %s%s", console.Duration(e.Wait), timeLeft(e.Left))
		return
	case bench.CellDone:
		v.end((*console.Task).Done, summary(e.Outcome))
		return
	case bench.CellInvalid:
		v.end((*console.Task).Fail, "invalid: "+e.Reason)
		return
	case bench.CellFailed:
		v.end((*console.Task).Fail, e.Reason)
		return
	}
	if cell := fmt.Sprint(e.Cell, e.Attempt); v.task == nil || cell != v.cell {
		v.end((*console.Task).Fail, "not finished")
		v.task, v.cell = v.progress.Task(cellName(e)), cell
	}
	state := console.State{Detail: string(e.Phase)}
	switch e.Phase {
	case bench.Seeding:
		state.Done, state.Total = e.Seeded, e.Documents
		state.Detail = fmt.Sprintf("seeding %s of %s documents", console.Count(e.Seeded), console.Count(e.Documents))
	case bench.Running:
		if s := e.Load; s != nil {
			state.Done, state.Total = int64(s.Elapsed), int64(s.Elapsed+s.Remaining)
			state.Detail, state.Lines = loadLine(s), operationLines(s)
			if s.Remaining == 0 {
				state.Total = 0
			}
		}
	}
	state.Detail += timeLeft(e.Left)
	v.task.Update(state)
}

// hostNote is what happened to the run on the load host.
func hostNote(e bench.Event) string {
	switch e.Phase {
	case bench.HostCopying:
		return "load host: preparing"
	case bench.HostStarted:
		return "load host: the run has started there and goes on whatever happens here"
	case bench.HostFound:
		return "load host: the run is under way there; following it"
	case bench.HostLost:
		return "load host: connection lost, trying again; the run goes on there: " + e.Reason
	case bench.HostBack:
		return "load host: connected again"
	case bench.HostDied:
		return "load host: the run ended before its time, starting it again: " + e.Reason
	case bench.HostStop:
		return "load host: asking the run to stop; once more to leave it to itself, then `sandbox bench --resume` finds it"
	case bench.HostLeft:
		return "load host: the job's log could not be removed: " + e.Reason
	}
	return string(e.Phase)
}

// end ends the current cell's line.
func (v *benchView) end(how func(*console.Task, string), result string) {
	if v.task != nil {
		how(v.task, result)
		v.task = nil
	}
}

func (v *benchView) close() {
	v.end((*console.Task).Fail, "stopped; what was measured is kept")
	v.progress.Close()
}

func cellName(e bench.Event) string {
	name := fmt.Sprintf("%d/%d %s %s #%d", e.Number, e.Total, e.Cell.Target, workload.FormatSize(e.Cell.Size), e.Cell.Iteration)
	if e.Attempt > 1 {
		name += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return name
}

func timeLeft(left time.Duration) string {
	if left <= 0 {
		return ""
	}
	return ", " + console.Duration(left) + " left in all"
}

func summary(c *record.Cell) string {
	text := fmt.Sprintf("%s commands/s, mean %.2f ms, p99 %.2f ms", console.Count(int64(c.ThroughputPerS)), c.LatencyMS.Mean, c.LatencyMS.P99)
	if c.Errors > 0 {
		text += fmt.Sprintf(", %s errors", console.Count(c.Errors))
	}
	if !c.Complete {
		text += ", pass incomplete"
	}
	return text
}

func loadLine(s *loadgen.Snapshot) string {
	what := "running"
	if s.WarmingUp {
		what = "warming up"
	}
	text := fmt.Sprintf("%s, %s commands/s", what, console.Count(int64(s.PerSecond)))
	if s.Errors > 0 {
		text += fmt.Sprintf(", %s errors", console.Count(s.Errors))
	}
	return text
}

func operationLines(s *loadgen.Snapshot) []string {
	lines := make([]string, len(s.Operations))
	for i, o := range s.Operations {
		lines[i] = fmt.Sprintf("    %-11s %9s/s  mean %8.2f ms  errors %s", o.Type, console.Count(int64(o.PerSecond)),
			float64(o.Mean.Microseconds())/1000, console.Count(o.Errors))
	}
	return lines
}
