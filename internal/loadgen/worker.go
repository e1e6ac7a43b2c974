package loadgen

import (
	"context"
	"math"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// worker sends the commands of one worker of the workload.
type worker struct {
	id    int
	phase *phase
	gen   *workload.Generator
	ring  *ring

	chain     *workload.Chain
	canonical []byte
	timer     *time.Timer // open loop only

	sent     int64
	attempts int64         // of the command under way; see NewMonitor
	blocked  time.Duration // spent waiting for the collector
}

// run sends commands until the phase ends.
func (w *worker) run(ctx context.Context) {
	p := w.phase
	o := &p.options
	workers := int64(len(p.workers))
	ctx = context.WithValue(ctx, attemptsKey{}, &w.attempts)
	pass := o.Workload.Settings().OpsPerWorker
	if p.warmup {
		pass = 0 // nobody asks for its fingerprint
	}
	for i := int64(0); o.OpsLimit == 0 || w.sent < o.OpsLimit; i++ {
		cmd := w.gen.Command(i)
		if p.warmup && cmd.Type != workload.Find && cmd.Type != workload.Aggregate {
			continue
		}
		planned := time.Duration(-1)
		if o.Rate > 0 {
			planned = due(w.sent*workers+int64(w.id), o.Rate)
			if o.Duration > 0 && planned >= o.Duration {
				w.waitUntil(o.Duration) // the last stretch is part of the run
				return
			}
			w.waitUntil(planned)
		}
		if p.stopped.Load() {
			return
		}
		began := time.Since(p.base)
		if o.Duration > 0 && began >= o.Duration {
			return
		}
		w.attempts = 0
		outcome, err := o.Client.Execute(ctx, cmd)
		ended := time.Since(p.base)

		w.sent++
		s := sample{
			end:     ended,
			service: microseconds(ended - began - outcome.Digesting),
			op:      cmd.Type,
			outcome: outcomeOf(cmd.Type, outcome),
			digest:  outcome.Digest, digested: outcome.Digested,
			attempts: clamp(w.attempts),
		}
		if planned >= 0 {
			s.response = microseconds(ended - planned - outcome.Digesting)
		}
		if err != nil {
			s.failure = p.failures.number(err, ended)
		}
		w.publish(&s)
		// A command counts as sent whatever became of it: an error does not
		// tell whether the server has seen it.
		if i < pass {
			w.canonical = cmd.AppendCanonical(w.canonical[:0])
			w.chain.Add(w.canonical)
		}
	}
}

// publish hands a sample to the collector. The ring has room for seconds of
// samples; when the collector is held up for longer, by a sink on a slow
// disk, the worker waits: no sample is lost.
func (w *worker) publish(s *sample) {
	if w.ring.push(s) {
		return
	}
	began := time.Now()
	for !w.ring.push(s) {
		time.Sleep(time.Millisecond)
	}
	w.blocked += time.Since(began)
}

// waitUntil returns at the given time after the start, or when the phase is
// stopped.
func (w *worker) waitUntil(at time.Duration) {
	wait := at - time.Since(w.phase.base)
	if wait <= 0 {
		return
	}
	if w.timer == nil {
		w.timer = time.NewTimer(wait)
	} else {
		w.timer.Reset(wait)
	}
	select {
	case <-w.timer.C:
	case <-w.phase.stopping:
	}
}

// microseconds rounds to the nearest microsecond, from 1 to the largest a
// sample holds.
func microseconds(d time.Duration) uint32 {
	us := (d + time.Microsecond/2) / time.Microsecond
	return uint32(min(max(us, 1), math.MaxUint32))
}

// outcomeOf keeps the one or two numbers that an operation type has: how
// many documents it returned, matched, inserted or deleted, and how many it
// modified.
func outcomeOf(op workload.OpType, o mongodb.Outcome) [2]uint32 {
	switch op {
	case workload.Find, workload.Aggregate:
		return [2]uint32{clamp(o.Returned)}
	case workload.UpdateOne, workload.UpdateMany:
		return [2]uint32{clamp(o.Matched), clamp(o.Modified)}
	case workload.DeleteOne, workload.DeleteMany:
		return [2]uint32{clamp(o.Deleted)}
	default:
		return [2]uint32{clamp(o.Inserted)}
	}
}

func clamp(n int64) uint32 { return uint32(min(max(n, 0), math.MaxUint32)) }
