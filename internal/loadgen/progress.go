package loadgen

import (
	"time"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// Snapshot is how a run stands. Its numbers are of this moment and may lack
// what ended within the last tenth of a second.
type Snapshot struct {
	WarmingUp bool
	Elapsed   time.Duration
	// Remaining is 0 when the end depends on the number of commands.
	Remaining        time.Duration
	Commands, Errors int64   // since the start
	PerSecond        float64 // successful commands, since the last snapshot
	// Lag is the most that a command since the last snapshot was started
	// late, open loop only.
	Lag        time.Duration
	Operations []OperationSnapshot // those that have occurred, in order
}

// OperationSnapshot is the share of an operation type.
type OperationSnapshot struct {
	Type             workload.OpType
	Commands, Errors int64         // since the start
	PerSecond        float64       // successful commands, since the last snapshot
	Mean             time.Duration // mean service time since the last snapshot; 0 if there was no command
}

// progress keeps what snapshots need.
type progress struct {
	at    time.Duration // of the last snapshot
	total [workload.NumOpTypes]counters
	since [workload.NumOpTypes]counters // since the last snapshot
	lag   time.Duration
}

type counters struct{ commands, errors, sumUS int64 }

func (p *progress) take(s *sample) {
	p.lag = max(p.lag, s.lag())
	total, since := &p.total[s.op], &p.since[s.op]
	if s.failure != 0 {
		total.errors++
		since.errors++
		return
	}
	total.commands++
	since.commands++
	since.sumUS += int64(s.service)
}

// snapshot is how things stand, and begins the next stretch.
func (p *progress) snapshot(now time.Duration) Snapshot {
	s := Snapshot{Elapsed: now, Lag: p.lag}
	elapsed := (now - p.at).Seconds()
	for op := range p.total {
		total, since := p.total[op], p.since[op]
		if total.commands == 0 && total.errors == 0 {
			continue
		}
		o := OperationSnapshot{Type: workload.OpType(op), Commands: total.commands, Errors: total.errors}
		if elapsed > 0 {
			o.PerSecond = float64(since.commands) / elapsed
		}
		if since.commands > 0 {
			o.Mean = time.Duration(since.sumUS) * time.Microsecond / time.Duration(since.commands)
		}
		s.Commands += o.Commands
		s.Errors += o.Errors
		s.PerSecond += o.PerSecond
		s.Operations = append(s.Operations, o)
	}
	p.at, p.lag = now, 0
	p.since = [workload.NumOpTypes]counters{}
	return s
}

// report calls Progress when it is time to.
func (c *collector) report(now time.Duration) {
	o := &c.phase.options
	if o.Progress == nil || now-c.progress.at < progressEvery {
		return
	}
	s := c.progress.snapshot(now)
	s.WarmingUp = c.phase.warmup
	s.Remaining = max(o.Duration-now, 0)
	o.Progress(s)
}
