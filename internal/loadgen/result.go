package loadgen

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// result is the load part of the cell. There is always one; an error says
// that something in it is missing.
func (p *phase) result() (*Result, error) {
	o, c := &p.options, p.collector
	cell := record.Cell{
		CellID:      record.CellID{Size: o.Workload.Settings().Size, Iteration: o.Iteration},
		Valid:       true,
		Interrupted: p.interrupted,
		Started:     p.base.UTC(),
		SequenceID:  o.Workload.SequenceID(o.Iteration),
		Operations:  map[string]record.Operation{},
		Client:      clientUsage(p.started, p.finished, p.elapsed),
	}
	if p.base.IsZero() {
		cell.Started = time.Now().UTC() // it did not come to that
	}
	duration := p.measured()
	cell.DurationS = duration.Seconds()

	all := record.NewHistogram()
	var responses *hdrhistogram.Histogram
	if o.Rate > 0 {
		responses = record.NewHistogram()
	}
	var failed error
	for op := range c.total.operations {
		t := &c.total.operations[op]
		if t.empty() {
			continue
		}
		kind := workload.OpType(op)
		operation, err := p.operation(kind)
		if err != nil {
			failed = err
		}
		cell.Operations[kind.String()] = operation
		cell.Commands += t.count
		cell.Errors += t.errors
		if t.count > 0 {
			all.Merge(t.latency)
			if responses != nil {
				responses.Merge(t.responses)
			}
		}
	}
	cell.LatencyMS = record.LatencyOf(all)
	if responses != nil {
		summary := record.LatencyOf(responses)
		cell.ResponseMS = &summary
	}
	if duration > 0 {
		cell.ThroughputPerS = float64(cell.Commands) / duration.Seconds()
	}
	trouble := c.recorded(&c.total.trouble)
	cell.ErrorCodes, cell.Timeouts, cell.Retries = trouble.ErrorCodes, trouble.Timeouts, c.total.retries
	r := &Result{Cell: cell, Checkpoints: p.checkpoints()}
	r.Cell.Fingerprint, r.Cell.FingerprintCommands, r.Cell.Complete = p.fingerprint()
	r.Cell.Warnings = p.warnings(&r.Cell)
	return r, failed
}

// measured is the time from the start to the end of the last command. An
// open loop that came to its end lasted at least as long as it was meant to,
// even if its last commands were due and done a while before.
func (p *phase) measured() time.Duration {
	if o := &p.options; o.Rate > 0 && o.OpsLimit == 0 && !p.stopped.Load() {
		return max(p.collector.last, min(o.Duration, p.elapsed))
	}
	return p.collector.last
}

func (p *phase) operation(op workload.OpType) (record.Operation, error) {
	c := p.collector
	t := &c.total.operations[op]
	v := record.Operation{Count: t.count, Errors: t.errors}
	n := c.outcomes[op]
	switch op {
	case workload.Find, workload.Aggregate:
		v.Returned = n[0]
	case workload.UpdateOne, workload.UpdateMany:
		v.Matched, v.Modified = n[0], n[1]
	case workload.DeleteOne, workload.DeleteMany:
		v.Deleted = n[0]
	default:
		v.Inserted = n[0]
	}
	if t.count == 0 {
		return v, nil
	}
	v.LatencyMS = record.LatencyOf(t.latency)
	var err error
	if v.Histogram, err = record.EncodeHistogram(t.latency); err != nil {
		return v, err
	}
	v.ResponseHistogram, err = record.EncodeHistogram(t.responses)
	return v, err
}

func (p *phase) checkpoints() record.Checkpoints {
	v := record.Checkpoints{
		Every: workload.CheckpointEvery, Workers: make([][]string, len(p.workers)),
		EarlyEvery: workload.EarlyEvery, Early: make([][]string, len(p.workers)),
		Last: make([]record.ChainEnd, len(p.workers)),
	}
	for i, w := range p.workers {
		v.Workers[i] = digests(w.chain.Checkpoints())
		v.Early[i] = digests(w.chain.Early())
		v.Last[i] = record.ChainEnd{Commands: w.chain.Count(), State: hex.EncodeToString(w.chain.Sum())}
	}
	return v
}

func digests(sums [][]byte) []string {
	out := make([]string, len(sums))
	for i, sum := range sums {
		out[i] = hex.EncodeToString(sum)
	}
	return out
}

// fingerprint covers the whole pass if every worker has sent it, else the
// longest checkpointed prefix that every worker has sent, and where one has
// not come to its first checkpoint, the longest with an early state; without
// that it is empty.
func (p *phase) fingerprint() (text string, commands int64, complete bool) {
	o := &p.options
	if len(p.workers) == 0 {
		return "", 0, false
	}
	pass := o.Workload.Settings().OpsPerWorker
	least := pass
	for _, w := range p.workers {
		least = min(least, w.chain.Count())
	}
	sums := make([][]byte, len(p.workers))
	if least == pass {
		for i, w := range p.workers {
			sums[i] = w.chain.Sum()
		}
		return o.Workload.Fingerprint(o.Iteration, pass, sums), pass, true
	}
	every, states := int64(workload.CheckpointEvery), (*workload.Chain).Checkpoints
	if least < every {
		every, states = workload.EarlyEvery, (*workload.Chain).Early
	}
	whole := least / every
	if whole == 0 {
		return "", 0, false
	}
	for i, w := range p.workers {
		sums[i] = states(w.chain)[whole-1]
	}
	commands = whole * every
	return o.Workload.Fingerprint(o.Iteration, commands, sums), commands, false
}

// minute writes a time since the measured start as the report does: minute
// 10:01 is 601 seconds after it.
func minute(at time.Duration) string {
	s := int64(at / time.Second)
	return fmt.Sprintf("minute %d:%02d", s/60, s%60)
}

// warnings are what a reader of the numbers must know.
func (p *phase) warnings(cell *record.Cell) []string {
	var texts []string
	warn := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	o, c := &p.options, p.collector
	if cell.Errors > 0 {
		first := p.failures.first()
		warn("%d of %d commands failed; the first, at %s: %s", cell.Errors, cell.Commands+cell.Errors, minute(first.at), first.text)
	}
	if cell.Client.ClientBound {
		warn("the load generator used %.0f %% of its CPUs: it may be what limits the throughput", cell.Client.CPUPercent)
	}
	if c.clamped > 0 {
		warn("%d commands took longer than %s and are recorded as that", c.clamped, time.Duration(record.MaxLatencyUS)*time.Microsecond)
	}
	if p.cutOff {
		warn("commands that were still under way %s after the end were cancelled", p.limits.overtime)
	}
	var sent int64
	var blocked time.Duration
	for _, w := range p.workers {
		sent += w.sent
		blocked += w.blocked
	}
	if c.unobserved() {
		warn("retries were not counted: the client has no monitor for it")
	}
	if blocked > 0 {
		warn("the workers waited %s for the recording of their results", blocked.Round(time.Millisecond))
	}
	if o.Rate > 0 {
		const tolerable = 100 * time.Millisecond
		if c.lag > tolerable {
			warn("a command started %s after it was due, and ended at %s: the target or the load generator could not keep up with %g commands/s",
				c.lag.Round(time.Millisecond), minute(c.lagEnd), o.Rate)
		}
		if o.OpsLimit == 0 && !p.interrupted {
			if due := dueBefore(o.Duration, o.Rate); due > sent {
				warn("%d of %d commands that were due were not sent before the end", due-sent, due)
			}
		}
	}
	return texts
}
