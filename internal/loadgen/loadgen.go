package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// The conditions that end a run without a usable measurement. Run returns
// them wrapped, together with the partial result.
var (
	// ErrTargetDown: no command succeeded for ten seconds, and all that
	// ended failed because the target could not be reached.
	ErrTargetDown = errors.New("target is down")
	// ErrAllFailed: commands were sent and every one failed.
	ErrAllFailed = errors.New("every command failed")
)

// Executor sends one command and waits for its end. *mongodb.Client is one.
// Run calls it from as many goroutines as the workload has workers; its
// connection pool must not be smaller, or the wait for a connection is
// measured as service time.
type Executor interface {
	Execute(context.Context, *workload.Command) (mongodb.Outcome, error)
}

// Sink takes measurements as they are made, always from one goroutine and
// in the order of time. An error ends the run.
type Sink interface {
	Interval(record.Interval) error
	Window(record.Window) error
	// Latency is where the HdrHistogram log goes, in whole lines: a line
	// per second and operation type, tagged with the type, values in µs,
	// maxima in ms.
	Latency() io.Writer
}

// Options say what to run.
type Options struct {
	Workload  *workload.Workload
	Iteration int // from 1
	// Client bounds its operations itself (mongodb.Options.OpTimeout).
	// Retries are counted if it was connected with NewMonitor.
	Client Executor
	// Duration is the time during which commands are started; those under
	// way at its end are waited for. OpsLimit ends a worker after so many
	// commands. At least one of them is set; what comes first ends the run.
	Duration time.Duration
	OpsLimit int64
	// Warmup, or WarmupOps commands of every worker, come before the measured
	// time and are in no number; with both, what comes first ends the warm-up.
	Warmup    time.Duration
	WarmupOps int64
	// Rate is the commands per second of all workers together, started at
	// fixed times whatever the answers (open loop). 0 is a closed loop: a
	// worker sends its next command when the last one has ended.
	Rate float64
	// Sink may be nil.
	Sink Sink
	// Outcomes, if set, takes the line of a record.Outcome for every
	// command. A worker's lines are in the order of its commands. Writes
	// are of whole lines, about one a second. Digests are those of a client
	// that makes them (mongodb.Options.Digest); the time for that is in no
	// latency.
	Outcomes io.Writer
	// Progress, if set, is called about twice a second from the goroutine
	// that collects the measurements: it must return soon.
	Progress func(Snapshot)
}

// Result is what was measured.
type Result struct {
	// Cell has everything but the target, the variant, the attempt, the
	// seeding and the servers' part. It is valid unless Run returned an
	// error.
	Cell        record.Cell
	Checkpoints record.Checkpoints
}

// limits are the times that tests shorten.
type limits struct {
	grace    time.Duration // for the commands under way when the user interrupts
	overtime time.Duration // for the commands under way at the end of the duration
	dead     time.Duration // without a success until the target counts as down
}

func defaultLimits() limits {
	return limits{grace: 5 * time.Second, overtime: time.Minute, dead: 10 * time.Second}
}

// Run warms up, sends commands and measures them. When ctx is cancelled, the
// workers finish the command they are at (after five seconds it is
// cancelled) and the result so far comes back marked Interrupted, without an
// error. With ErrTargetDown, ErrAllFailed and errors of the sink, too, there
// is a result; only bad options give none.
func Run(ctx context.Context, o Options) (*Result, error) {
	return run(ctx, o, defaultLimits())
}

func run(ctx context.Context, o Options, l limits) (*Result, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("run workload: %w", err)
	}
	p := newPhase(o, l)
	err := warmUp(ctx, o, l, p)
	if err == nil && !p.interrupted {
		err = wrap("run workload", p.run(ctx))
	}
	r, resultErr := p.result()
	err = errors.Join(err, resultErr)
	if err == nil && r.Cell.Commands == 0 && r.Cell.Errors > 0 && !p.interrupted {
		err = fmt.Errorf("run workload: %w: %s", ErrAllFailed, p.failures.first().text)
	}
	if err != nil {
		r.Cell.Valid = false
		r.Cell.InvalidReasons = append(r.Cell.InvalidReasons, err.Error())
	}
	return r, err
}

// warmUp comes before the phase that is measured, which it marks interrupted
// if the user does not let it come to its end.
func warmUp(ctx context.Context, o Options, l limits, measured *phase) error {
	if o.Warmup == 0 && o.WarmupOps == 0 {
		return nil
	}
	o.Iteration, o.Duration, o.OpsLimit = 0, o.Warmup, o.WarmupOps
	o.Sink, o.Outcomes = nil, nil
	p := newPhase(o, l)
	p.warmup = true
	err := p.run(ctx)
	measured.interrupted = p.interrupted
	return wrap("warm up", err)
}

func wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", operation, err)
}

func (o *Options) check() error {
	switch {
	case o.Workload == nil || o.Client == nil:
		return errors.New("workload and client must be set")
	case o.Iteration < 1:
		return fmt.Errorf("iteration %d: want 1 or more", o.Iteration)
	case o.Duration < 0 || o.OpsLimit < 0 || o.Warmup < 0 || o.WarmupOps < 0:
		return errors.New("duration, number of commands and warm-up must not be negative")
	case o.Duration == 0 && o.OpsLimit == 0:
		return errors.New("neither a duration nor a number of commands is set")
	case o.Rate < 0 || math.IsNaN(o.Rate) || math.IsInf(o.Rate, 0):
		return fmt.Errorf("rate %v: want a number of commands per second, or 0", o.Rate)
	}
	if mix := o.Workload.Settings().Mix; (o.Warmup > 0 || o.WarmupOps > 0) && mix.Find == 0 && mix.Aggregate == 0 {
		return errors.New("a warm-up reads only, and the mix has no find and no aggregate")
	}
	return nil
}
