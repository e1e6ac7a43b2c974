package loadgen

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

const (
	intervalLength = time.Second
	// lateness is how long after its end an interval is still open for
	// samples whose worker was held up between the command's end and the
	// ring. A sample that is later still goes to the oldest open interval.
	lateness = 250 * time.Millisecond
)

// tally adds up the successful commands of one operation type, and counts
// the failed ones.
type tally struct {
	count, errors int64
	sumUS, maxUS  int64
	latency       *hdrhistogram.Histogram // µs; nil until needed

	// Response times, open loop only.
	responseSumUS int64
	responses     *hdrhistogram.Histogram
}

func (t *tally) add(s *sample, openLoop bool) {
	t.count++
	t.sumUS += int64(s.service)
	t.maxUS = max(t.maxUS, int64(s.service))
	recordUS(&t.latency, s.service)
	if openLoop {
		t.responseSumUS += int64(s.response)
		recordUS(&t.responses, s.response)
	}
}

func (t *tally) merge(from *tally) {
	t.count += from.count
	t.errors += from.errors
	t.sumUS += from.sumUS
	t.maxUS = max(t.maxUS, from.maxUS)
	t.responseSumUS += from.responseSumUS
	if from.count > 0 {
		mergeUS(&t.latency, from.latency)
		mergeUS(&t.responses, from.responses)
	}
}

// reset makes t empty and keeps its memory.
func (t *tally) reset() {
	if t.count > 0 {
		t.latency.Reset()
		if t.responses != nil {
			t.responses.Reset()
		}
	}
	t.count, t.errors, t.sumUS, t.maxUS, t.responseSumUS = 0, 0, 0, 0, 0
}

func (t *tally) empty() bool { return t.count == 0 && t.errors == 0 }

func recordUS(h **hdrhistogram.Histogram, us uint32) {
	if *h == nil {
		*h = record.NewHistogram()
	}
	// Within the clamped bounds it cannot fail.
	_ = (*h).RecordValue(min(max(int64(us), record.MinLatencyUS), record.MaxLatencyUS))
}

func mergeUS(into **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	if *into == nil {
		*into = record.NewHistogram()
	}
	(*into).Merge(from) // equal geometry: drops nothing
}

// tallies are all that is counted in a stretch of time.
type tallies struct {
	operations [workload.NumOpTypes]tally
	trouble
}

func (t *tallies) empty() bool {
	for op := range t.operations {
		if !t.operations[op].empty() {
			return false
		}
	}
	return true
}

func (t *tallies) merge(from *tallies) {
	for op := range t.operations {
		t.operations[op].merge(&from.operations[op])
	}
	t.trouble.merge(&from.trouble)
}

func (t *tallies) reset() {
	for op := range t.operations {
		t.operations[op].reset()
	}
	t.trouble.reset()
}

// collector turns samples into intervals, windows and totals. It belongs to
// one goroutine.
type collector struct {
	phase  *phase
	window time.Duration

	// open are the intervals that are not written yet; the first one is
	// number next. Their memory is reused by way of spare.
	open, spare []*tallies
	next        int64
	inWindow    tallies
	windowStart time.Duration

	total     tallies
	outcomes  [workload.NumOpTypes][2]int64
	succeeded bool // any command
	observed  bool // any attempt, by the client's monitor
	clamped   int64
	lag       time.Duration // most that a command of an open loop started late
	lagEnd    time.Duration // when that command ended
	last      time.Duration // end of the last command

	// For finding out that the target is down.
	lastSuccess time.Duration
	unreachable uint16 // last such failure since then, 0 if there was none
	otherwise   bool   // the target answered since then, with an error

	answers  *answers // nil unless outcomes are recorded
	progress progress
	log      io.Writer
	logged   bool
	buffer   bytes.Buffer
	broken   error // what the sink said; it is not called again
}

func newCollector(p *phase) *collector {
	c := &collector{phase: p, window: windowLength(p.options.Duration)}
	if p.options.Sink != nil {
		c.log = p.options.Sink.Latency()
	}
	if p.options.Outcomes != nil {
		c.answers = &answers{sink: p.options.Outcomes, commands: make([]int64, p.options.Workload.Settings().Workers)}
	}
	return c
}

// poll takes what has come in until now and closes the intervals that are
// over.
func (c *collector) poll(now time.Duration) error {
	c.drain()
	for time.Duration(c.next+1)*intervalLength+lateness <= now {
		c.closeInterval(time.Duration(c.next+1) * intervalLength)
	}
	if c.broken != nil {
		return c.broken
	}
	c.report(now)
	if silence := now - c.lastSuccess; silence >= c.phase.limits.dead && c.unreachable != 0 && !c.otherwise {
		return targetDown(silence, c.phase.failures.get(c.unreachable).text)
	}
	return nil
}

// finish takes the last samples, which are all there by now, and closes what
// is open at the end of the measured time. It returns what the sink says for
// the first time.
func (c *collector) finish() error {
	before := c.broken
	c.drain()
	end := c.phase.measured()
	for time.Duration(c.next+1)*intervalLength <= end {
		c.closeInterval(time.Duration(c.next+1) * intervalLength)
	}
	if time.Duration(c.next)*intervalLength < end || len(c.open) > 0 && !c.open[0].empty() {
		c.closeInterval(end)
	}
	if c.windowStart < end || !c.inWindow.empty() {
		c.closeWindow(end)
	}
	c.writeAnswers()
	if before != nil {
		return nil
	}
	return c.broken
}

func (c *collector) drain() {
	for _, w := range c.phase.workers {
		if c.answers == nil {
			w.ring.drain(c.take)
			continue
		}
		w.ring.drain(func(s *sample) {
			c.take(s)
			c.answers.add(w.id, s, &c.phase.failures)
		})
	}
}

func (c *collector) take(s *sample) {
	in := c.interval(s.end)
	t := &in.operations[s.op]
	c.last = max(c.last, s.end)
	if lag := s.lag(); lag > c.lag {
		c.lag, c.lagEnd = lag, s.end
	}
	c.progress.take(s)
	if s.attempts > 0 {
		c.observed = true
		in.retries += int64(s.attempts - 1)
	}
	if s.failure != 0 {
		t.errors++
		failure := c.phase.failures.get(s.failure)
		in.fail(s, failure.timeout)
		if failure.unreachable {
			c.unreachable = s.failure
		} else {
			c.otherwise = true
		}
		return
	}
	c.succeeded = true
	t.add(s, c.phase.options.Rate > 0)
	if int64(max(s.service, s.response)) > record.MaxLatencyUS {
		c.clamped++
	}
	c.outcomes[s.op][0] += int64(s.outcome[0])
	c.outcomes[s.op][1] += int64(s.outcome[1])
	if s.end > c.lastSuccess {
		c.lastSuccess, c.unreachable, c.otherwise = s.end, 0, false
	}
}

// interval is the open interval that a command's end belongs to, the oldest
// one if that is closed already. An end on a boundary is the interval's end.
func (c *collector) interval(end time.Duration) *tallies {
	n := max(int64((end-1)/intervalLength)-c.next, 0)
	for int64(len(c.open)) <= n {
		if last := len(c.spare) - 1; last >= 0 {
			c.open = append(c.open, c.spare[last])
			c.spare = c.spare[:last]
		} else {
			c.open = append(c.open, &tallies{})
		}
	}
	return c.open[n]
}

// closeInterval writes the oldest open interval, which ends at end, and the
// window if it ends there, too.
func (c *collector) closeInterval(end time.Duration) {
	start := time.Duration(c.next) * intervalLength
	t := c.interval(start + 1)
	c.writeInterval(start, end, t)
	c.writeAnswers()
	c.inWindow.merge(t)
	t.reset()
	c.open = append(c.open[:0], c.open[1:]...)
	c.spare = append(c.spare, t)
	c.next++
	if end-c.windowStart >= c.window {
		c.closeWindow(end)
	}
}

func (c *collector) closeWindow(end time.Duration) {
	c.writeWindow(c.windowStart, end)
	c.total.merge(&c.inWindow)
	c.inWindow.reset()
	c.windowStart = end
}

func (c *collector) writeInterval(start, end time.Duration, t *tallies) {
	sink := c.phase.options.Sink
	if sink == nil || c.broken != nil {
		return
	}
	v := record.Interval{StartS: start.Seconds(), EndS: end.Seconds(), Operations: map[string]record.IntervalOperation{}, Trouble: c.recorded(&t.trouble)}
	c.buffer.Reset()
	if !c.logged {
		c.logged = true
		writeLogHeader(&c.buffer, c.phase.base)
	}
	for op := range t.operations {
		o := &t.operations[op]
		if o.empty() {
			continue
		}
		name := workload.OpType(op).String()
		v.Operations[name] = record.IntervalOperation{Count: o.count, Errors: o.errors, SumUS: o.sumUS, MaxUS: o.maxUS}
		if o.count > 0 {
			c.broke(writeLogLine(&c.buffer, name, start, end, o))
		}
	}
	c.broke(sink.Interval(v))
	if c.log != nil && c.buffer.Len() > 0 {
		_, err := c.log.Write(c.buffer.Bytes())
		c.broke(err)
	}
}

func (c *collector) writeWindow(start, end time.Duration) {
	sink := c.phase.options.Sink
	if sink == nil || c.broken != nil {
		return
	}
	v := record.Window{StartS: start.Seconds(), EndS: end.Seconds(), Operations: map[string]record.WindowOperation{}, Trouble: c.recorded(&c.inWindow.trouble)}
	for op := range c.inWindow.operations {
		o := &c.inWindow.operations[op]
		if o.empty() {
			continue
		}
		w := record.WindowOperation{Count: o.count, Errors: o.errors, SumUS: o.sumUS, ResponseSumUS: o.responseSumUS}
		if o.count > 0 {
			var err error
			w.Histogram, err = record.EncodeHistogram(o.latency)
			c.broke(err)
			w.ResponseHistogram, err = record.EncodeHistogram(o.responses)
			c.broke(err)
		}
		v.Operations[workload.OpType(op).String()] = w
	}
	c.broke(sink.Window(v))
}

func (c *collector) writeAnswers() {
	if c.broken == nil {
		c.broke(c.answers.flush())
	}
}

func (c *collector) broke(err error) {
	if c.broken == nil && err != nil {
		c.broken = fmt.Errorf("store measurements: %w", err)
	}
}

// The HdrHistogram log format, version 1.3, as the Java library's
// HistogramLogWriter writes it. Times are seconds since the start; readers
// recognise that by their distance from StartTime. Maxima are in ms.

func writeLogHeader(b *bytes.Buffer, start time.Time) {
	fmt.Fprintf(b, "#[Histogram log format version 1.3]\n")
	fmt.Fprintf(b, "#[StartTime: %.3f (seconds since epoch), %s]\n", float64(start.UnixMilli())/1000, start.UTC().Format(time.RFC3339))
	fmt.Fprintf(b, "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n")
}

func writeLogLine(b *bytes.Buffer, tag string, start, end time.Duration, t *tally) error {
	text, err := record.EncodeHistogram(t.latency)
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "Tag=%s,%.3f,%.3f,%.3f,%s\n", tag, start.Seconds(), (end - start).Seconds(), float64(t.maxUS)/1000, text)
	return nil
}
