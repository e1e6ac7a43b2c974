package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// target is an Executor made of a function. It is meant for
// testing/synctest, where sleeping takes no time.
type target func(ctx context.Context, cmd *workload.Command) (mongodb.Outcome, error)

func (t target) Execute(ctx context.Context, cmd *workload.Command) (mongodb.Outcome, error) {
	return t(ctx, cmd)
}

// steady answers everything after the same time.
func steady(service time.Duration) target {
	return func(context.Context, *workload.Command) (mongodb.Outcome, error) {
		time.Sleep(service)
		return mongodb.Outcome{Returned: 5, Matched: 2, Modified: 1, Inserted: 3, Deleted: 4}, nil
	}
}

// memorySink keeps what it is given.
type memorySink struct {
	intervals []record.Interval
	windows   []record.Window
	log       bytes.Buffer
	discard   bool         // encode and forget
	fail      error        // returned by Interval from the third on
	written   atomic.Int64 // intervals, to be read while a run goes on
}

func (s *memorySink) Interval(v record.Interval) error {
	if s.discard {
		return json.NewEncoder(io.Discard).Encode(v)
	}
	if s.fail != nil && len(s.intervals) == 2 {
		return s.fail
	}
	s.intervals = append(s.intervals, v)
	s.written.Add(1)
	return nil
}

func (s *memorySink) Window(v record.Window) error {
	if s.discard {
		return json.NewEncoder(io.Discard).Encode(v)
	}
	s.windows = append(s.windows, v)
	return nil
}

func (s *memorySink) Latency() io.Writer {
	if s.discard {
		return io.Discard
	}
	return &s.log
}

// newWorkload makes a small workload; change may adapt its settings.
func newWorkload(t testing.TB, workers int, change ...func(*workload.Settings)) *workload.Workload {
	t.Helper()
	s := workload.DefaultSettings()
	s.Size, s.Workers, s.OpsPerWorker = 20_000, workers, 5_000
	for _, f := range change {
		f(&s)
	}
	w, err := workload.New(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// onlyFinds makes a workload of finds.
func onlyFinds(s *workload.Settings) { s.Mix = workload.Mix{Find: 1} }

// errRefused is an error that mongodb.ErrorName calls "Network".
var errRefused = errors.New("refused")

type networkError struct{ error }

func (networkError) Timeout() bool   { return false }
func (networkError) Temporary() bool { return false }

func unreachableError() error { return networkError{errRefused} }

// now counts virtual time from the first call.
type clock struct {
	once sync.Once
	zero time.Time
}

func (c *clock) now() time.Duration {
	c.once.Do(func() { c.zero = time.Now() })
	return time.Since(c.zero)
}

func mustRun(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// near fails unless got is within 0.2 % of want: histograms have 3 digits.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if got < want*0.998 || got > want*1.002 {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// sums adds up what went to a sink.
func (s *memorySink) sums() (intervals, windows, errors int64) {
	for _, i := range s.intervals {
		for _, o := range i.Operations {
			intervals += o.Count
			errors += o.Errors
		}
	}
	for _, w := range s.windows {
		for _, o := range w.Operations {
			windows += o.Count
		}
	}
	return intervals, windows, errors
}

type counter struct{ atomic.Int64 }
