package loadgen

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func TestClosedLoopNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{}
		r := mustRun(t, Options{
			Workload: newWorkload(t, 4), Iteration: 2, Client: steady(10 * time.Millisecond),
			Duration: 3500 * time.Millisecond, Sink: sink,
		})
		c := r.Cell
		if c.Commands != 4*350 || c.Errors != 0 || c.DurationS != 3.5 || c.ThroughputPerS != 400 {
			t.Errorf("%d commands, %d errors, %v s, %v/s; want 1400, 0, 3.5, 400", c.Commands, c.Errors, c.DurationS, c.ThroughputPerS)
		}
		if !c.Valid || c.Interrupted || c.Iteration != 2 || c.Size != 20_000 || c.ResponseMS != nil {
			t.Errorf("cell %+v", c)
		}
		near(t, "mean", c.LatencyMS.Mean, 10)
		near(t, "p99.9", c.LatencyMS.P999, 10)
		near(t, "max", c.LatencyMS.Max, 10)

		var lengths []float64
		for _, i := range sink.intervals {
			lengths = append(lengths, i.EndS-i.StartS)
		}
		if !slices.Equal(lengths, []float64{1, 1, 1, 0.5}) {
			t.Errorf("intervals of %v s, want 1, 1, 1 and what is left", lengths)
		}
		if len(sink.windows) != 4 || sink.windows[3].EndS != 3.5 {
			t.Errorf("windows %+v, want 4 of a second, the last until 3.5", sink.windows)
		}
		intervals, windows, failed := sink.sums()
		if intervals != c.Commands || windows != c.Commands || failed != 0 {
			t.Errorf("%d commands in intervals, %d in windows, want %d", intervals, windows, c.Commands)
		}
		var count int64
		for name, o := range c.Operations {
			h, err := hdrhistogram.Decode([]byte(o.Histogram))
			if err != nil || h.TotalCount() != o.Count {
				t.Errorf("%s: histogram of %d, want %d (%v)", name, h.TotalCount(), o.Count, err)
			}
			count += o.Count
		}
		if count != c.Commands {
			t.Errorf("%d commands in operations, want %d", count, c.Commands)
		}
		for _, check := range []struct {
			op        string
			got, want int64
		}{
			{"find", c.Operations["find"].Returned, 5 * c.Operations["find"].Count},
			{"updateMany", c.Operations["updateMany"].Matched, 2 * c.Operations["updateMany"].Count},
			{"updateOne", c.Operations["updateOne"].Modified, c.Operations["updateOne"].Count},
			{"deleteMany", c.Operations["deleteMany"].Deleted, 4 * c.Operations["deleteMany"].Count},
			{"insertMany", c.Operations["insertMany"].Inserted, 3 * c.Operations["insertMany"].Count},
		} {
			if check.got != check.want || check.want == 0 {
				t.Errorf("%s: outcome %d, want %d", check.op, check.got, check.want)
			}
		}
	})
}

// The rate is computed from the time that passed, not from the time that was
// asked for.
func TestThroughputUsesRealTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{}
		c := mustRun(t, Options{
			Workload: newWorkload(t, 2), Iteration: 1, Client: steady(16 * time.Second), Duration: 8 * time.Second, Sink: sink,
		}).Cell
		if c.Commands != 2 || c.DurationS != 16 || c.ThroughputPerS != 0.125 {
			t.Errorf("%d commands in %v s, %v/s; want 2 in 16, 0.125", c.Commands, c.DurationS, c.ThroughputPerS)
		}
		if last := sink.intervals[len(sink.intervals)-1]; last.EndS != 16 || last.StartS != 15 {
			t.Errorf("the last interval is %v to %v, want 15 to 16", last.StartS, last.EndS)
		}
	})
}

func TestStallIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		// From 2 s to 10 s nothing is answered.
		stalling := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(10 * time.Millisecond)
			if now := c.now(); now > 2*time.Second && now < 10*time.Second {
				time.Sleep(10*time.Second - now)
			}
			return mongodb.Outcome{}, nil
		})
		c.now()
		sink := &memorySink{}
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4, onlyFinds), Iteration: 1, Client: stalling, Duration: 12 * time.Second, Sink: sink,
		}).Cell
		if cell.LatencyMS.Max < 7900 {
			t.Errorf("max %v ms, want about 8000", cell.LatencyMS.Max)
		}
		if got := len(sink.intervals); got != 12 {
			t.Fatalf("%d intervals, want 12: empty ones count", got)
		}
		for i, interval := range sink.intervals {
			o := interval.Operations["find"]
			switch {
			case i >= 3 && i < 9 && len(interval.Operations) != 0:
				t.Errorf("second %d has %+v, want nothing", i, o)
			case i == 9 && (o.Count != 4 || o.MaxUS < 7_900_000):
				t.Errorf("the stall ends in second 9 with %+v, want 4 commands of 8 s", o)
			case (i < 2 || i > 9) && o.Count != 400:
				t.Errorf("second %d has %d commands, want 400", i, o.Count)
			}
		}
	})
}

// One stalled worker neither hides the others nor loses what it did before.
func TestStalledWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.now()
		var stalled atomic.Bool
		sink := &memorySink{}
		var seen []int64 // intervals at hand when the stall ends
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(10 * time.Millisecond)
			if c.now() >= 1500*time.Millisecond && !stalled.Swap(true) {
				time.Sleep(4 * time.Second)
				seen = append(seen, sink.written.Load())
			}
			return mongodb.Outcome{}, nil
		})
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4, onlyFinds), Iteration: 1, Client: client, Duration: 8 * time.Second, Sink: sink,
		}).Cell
		if want := int64(4*800 - 400); cell.Commands != want {
			t.Errorf("%d commands, want %d", cell.Commands, want)
		}
		if o := sink.intervals[5].Operations["find"]; o.MaxUS < 4_000_000 {
			t.Errorf("second 5 has %+v, want the command of 4 s", o)
		}
		if len(seen) != 1 || seen[0] < 4 {
			t.Errorf("%v intervals were written during the stall, want them as they end", seen)
		}
	})
}

// Every command that had to wait is charged with its wait in an open loop.
func TestOpenLoopChargesTheStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.now()
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(time.Millisecond)
			if now := c.now(); now > 2*time.Second && now < 4*time.Second {
				time.Sleep(4*time.Second - now)
			}
			return mongodb.Outcome{}, nil
		})
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4, onlyFinds), Iteration: 1, Client: client, Duration: 10 * time.Second, Rate: 100,
		}).Cell
		if cell.Commands != 1000 || cell.DurationS != 10 || cell.ThroughputPerS != 100 {
			t.Errorf("%d commands in %v s, %v/s; want 1000 in 10, 100", cell.Commands, cell.DurationS, cell.ThroughputPerS)
		}
		// Service: 4 of 1000 commands met the stall. Response: 200 were due
		// in it and waited one second on average.
		near(t, "service p99", cell.LatencyMS.P99, 1)
		if cell.LatencyMS.Max < 1900 {
			t.Errorf("service max %v ms, want 2000", cell.LatencyMS.Max)
		}
		h, err := hdrhistogram.Decode([]byte(cell.Operations["find"].ResponseHistogram))
		if err != nil {
			t.Fatal(err)
		}
		var late int64
		for _, bar := range h.Distribution() {
			if bar.From > 10_000 {
				late += bar.Count
			}
		}
		if late < 195 || late > 215 {
			t.Errorf("%d responses took more than 10 ms, want 200", late)
		}
		if p95 := cell.ResponseMS.P95; p95 < 1400 || p95 > 1600 {
			t.Errorf("response p95 %v ms, want 1500", p95)
		}
		if !slices.ContainsFunc(cell.Warnings, func(w string) bool { return strings.Contains(w, "after it was due, and ended at minute 0:04: ") }) {
			t.Errorf("warnings %q do not tell of the lag", cell.Warnings)
		}
	})
}

func TestOpenLoopFallsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lag time.Duration
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 2, onlyFinds), Iteration: 1, Client: steady(50 * time.Millisecond),
			Duration: 5 * time.Second, Rate: 100,
			Progress: func(s Snapshot) { lag = s.Lag },
		}).Cell
		// Two workers manage 40/s of the 100/s.
		if cell.Commands != 200 {
			t.Errorf("%d commands, want 200", cell.Commands)
		}
		if !slices.Contains(cell.Warnings, "300 of 500 commands that were due were not sent before the end") {
			t.Errorf("warnings %q do not count what was not sent", cell.Warnings)
		}
		if lag < 2*time.Second {
			t.Errorf("last snapshot's lag is %s, want about 3s", lag)
		}
	})
}

func TestOpenLoopStartsOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.now()
		starts := make(chan time.Duration, 100)
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			starts <- c.now()
			time.Sleep(time.Microsecond)
			return mongodb.Outcome{}, nil
		})
		mustRun(t, Options{Workload: newWorkload(t, 3), Iteration: 1, Client: client, Duration: time.Second, Rate: 10})
		close(starts)
		var got []time.Duration
		for at := range starts {
			got = append(got, at)
		}
		slices.Sort(got)
		if len(got) != 10 {
			t.Fatalf("%d commands, want 10", len(got))
		}
		for i, at := range got {
			if want := time.Duration(i) * 100 * time.Millisecond; at != want {
				t.Errorf("command %d started at %s, want %s", i, at, want)
			}
		}
	})
}

func TestFailuresAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		client := target(func(_ context.Context, cmd *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(time.Millisecond)
			switch n.Add(1) % 10 {
			case 1:
				time.Sleep(time.Second) // must not show in any latency
				return mongodb.Outcome{}, mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "conflict"}
			case 2:
				return mongodb.Outcome{}, mongo.CommandError{Code: 4242, Message: "odd"}
			}
			return mongodb.Outcome{Returned: 1}, nil
		})
		sink := &memorySink{}
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 2, onlyFinds), Iteration: 1, Client: client, OpsLimit: 500, Sink: sink,
		}).Cell
		if cell.Commands != 800 || cell.Errors != 200 {
			t.Errorf("%d commands and %d errors, want 800 and 200", cell.Commands, cell.Errors)
		}
		near(t, "max", cell.LatencyMS.Max, 1)
		if got := cell.ThroughputPerS * cell.DurationS; math.Abs(got-800) > 1e-6 {
			t.Errorf("throughput counts %v commands, want 800", got)
		}
		want := map[string]int64{"find/WriteConflict": 100, "find/code 4242": 100}
		if fmt.Sprint(cell.ErrorCodes) != fmt.Sprint(want) {
			t.Errorf("error codes %v, want %v", cell.ErrorCodes, want)
		}
		if o := cell.Operations["find"]; o.Count != 800 || o.Errors != 200 || o.Returned != 800 {
			t.Errorf("find: %+v", o)
		}
		if _, _, failed := sink.sums(); failed != 200 {
			t.Errorf("%d errors in intervals, want 200", failed)
		}
		if len(cell.Warnings) == 0 || !strings.HasPrefix(cell.Warnings[0], "200 of 1000 commands failed; the first, at minute 0:00: ") {
			t.Errorf("warnings %q", cell.Warnings)
		}
	})
}

func TestAllFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(10 * time.Millisecond)
			return mongodb.Outcome{}, mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized"}
		})
		// The target answers, so it is not down.
		r, err := Run(context.Background(), Options{Workload: newWorkload(t, 2), Iteration: 1, Client: client, Duration: 20 * time.Second})
		if !errors.Is(err, ErrAllFailed) || !strings.Contains(err.Error(), "not authorized") {
			t.Errorf("error %v, want ErrAllFailed with the cause", err)
		}
		if r.Cell.Commands != 0 || r.Cell.ThroughputPerS != 0 || r.Cell.Errors != 4000 || r.Cell.Valid {
			t.Errorf("cell %+v", r.Cell)
		}
	})
}

func TestTargetDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.now()
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(10 * time.Millisecond)
			if c.now() > 5*time.Second {
				return mongodb.Outcome{}, unreachableError()
			}
			return mongodb.Outcome{}, nil
		})
		r, err := Run(context.Background(), Options{
			Workload: newWorkload(t, 2, onlyFinds), Iteration: 1, Client: client, Duration: time.Hour,
		})
		if !errors.Is(err, ErrTargetDown) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v, want ErrTargetDown with the cause", err)
		}
		if got := r.Cell.DurationS; got < 15 || got > 15.2 {
			t.Errorf("gave up after %v s, want 15", got)
		}
		if r.Cell.Commands != 1000 || r.Cell.Valid || r.Cell.Interrupted {
			t.Errorf("partial cell %+v", r.Cell)
		}
	})
}

// An outage that ends in time, and one during which the target still
// answers, are no reason to stop.
func TestTargetNotDown(t *testing.T) {
	for _, test := range []struct {
		name  string
		until time.Duration
		err   func(int64) error
	}{
		{"back after nine seconds", 9 * time.Second, func(int64) error { return unreachableError() }},
		{"answers with other errors", 30 * time.Second, func(n int64) error {
			if n%2 == 0 {
				return mongo.CommandError{Code: 13435, Name: "NotPrimaryNoSecondaryOk"}
			}
			return unreachableError()
		}},
		{"silent for long", 30 * time.Second, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clock
				c.now()
				var n counter
				client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
					time.Sleep(10 * time.Millisecond)
					if now := c.now(); now < test.until {
						if test.err == nil {
							time.Sleep(test.until - now)
							return mongodb.Outcome{}, nil
						}
						return mongodb.Outcome{}, test.err(n.Add(1))
					}
					return mongodb.Outcome{}, nil
				})
				r := mustRun(t, Options{Workload: newWorkload(t, 2), Iteration: 1, Client: client, Duration: 40 * time.Second})
				if r.Cell.DurationS < 40 {
					t.Errorf("ended after %v s", r.Cell.DurationS)
				}
			})
		})
	}
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		time.AfterFunc(2505*time.Millisecond, cancel)
		sink := &memorySink{}
		r, err := Run(ctx, Options{
			Workload: newWorkload(t, 4), Iteration: 1, Client: steady(10 * time.Millisecond), Duration: time.Hour, Sink: sink,
		})
		if err != nil {
			t.Fatal(err)
		}
		// The commands under way are finished and count.
		if c := r.Cell; !c.Interrupted || !c.Valid || c.Commands != 4*251 || c.Errors != 0 || c.DurationS != 2.51 {
			t.Errorf("interrupted %v, %d commands, %d errors in %v s; want 1004, 0 in 2.51", c.Interrupted, c.Commands, c.Errors, c.DurationS)
		}
		if intervals, windows, _ := sink.sums(); intervals != 1004 || windows != 1004 {
			t.Errorf("%d commands in intervals, %d in windows, want 1004", intervals, windows)
		}
	})
}

func TestInterruptCancelsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		hanging := target(func(ctx context.Context, _ *workload.Command) (mongodb.Outcome, error) {
			<-ctx.Done()
			return mongodb.Outcome{}, ctx.Err()
		})
		began := time.Now()
		r, err := Run(ctx, Options{Workload: newWorkload(t, 3, onlyFinds), Iteration: 1, Client: hanging, Duration: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("ended after %s, want a second and five of grace", took)
		}
		if got := r.Cell.ErrorCodes["find/Canceled"]; got != 3 || !r.Cell.Interrupted {
			t.Errorf("%d cancelled commands, interrupted %v; want 3, true", got, r.Cell.Interrupted)
		}
	})
}

// A server that never answers does not keep a run from ending.
func TestOvertimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counter
		client := target(func(ctx context.Context, _ *workload.Command) (mongodb.Outcome, error) {
			if n.Add(1) > 100 {
				<-ctx.Done()
				return mongodb.Outcome{}, ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return mongodb.Outcome{}, nil
		})
		cell := mustRun(t, Options{Workload: newWorkload(t, 2), Iteration: 1, Client: client, Duration: 2 * time.Second}).Cell
		if cell.DurationS != 62 || cell.Commands != 100 || cell.Errors != 2 {
			t.Errorf("%v s, %d commands, %d errors; want 62, 100, 2", cell.DurationS, cell.Commands, cell.Errors)
		}
	})
}

func TestLatencyBeyondTheHistogram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cell := mustRun(t, Options{Workload: newWorkload(t, 1, onlyFinds), Iteration: 1, Client: steady(70 * time.Second), OpsLimit: 2}).Cell
		if cell.Commands != 2 || math.Abs(cell.LatencyMS.Max-60_000) > 60 {
			t.Errorf("%d commands, max %v ms; want 2, recorded as 60 s", cell.Commands, cell.LatencyMS.Max)
		}
		if !slices.ContainsFunc(cell.Warnings, func(w string) bool { return strings.HasPrefix(w, "2 commands took longer than 1m0s") }) {
			t.Errorf("warnings %q", cell.Warnings)
		}
	})
}

func TestSinkErrorKeepsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("disk full")
		sink := &memorySink{fail: full}
		r, err := Run(context.Background(), Options{
			Workload: newWorkload(t, 2), Iteration: 1, Client: steady(10 * time.Millisecond), Duration: time.Minute, Sink: sink,
		})
		if !errors.Is(err, full) || strings.Count(err.Error(), "disk full") != 1 {
			t.Errorf("error %v, want the sink's, once", err)
		}
		if c := r.Cell; c.DurationS > 4 || c.Commands != int64(c.DurationS*200+0.5) || c.Operations["find"].Count == 0 {
			t.Errorf("%d commands in %v s: the totals must be whole", c.Commands, c.DurationS)
		}
	})
}

// The warm-up reads iteration 0 and is in no number.
func TestWarmUp(t *testing.T) {
	for name, warmup := range map[string]Options{"time": {Warmup: 3 * time.Second}, "commands": {WarmupOps: 300}} {
		t.Run(name, func(t *testing.T) { testWarmUp(t, warmup) })
	}
}

func testWarmUp(t *testing.T, warmup Options) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(t, 2)
		first := slices.Clone(w.Generator(1, 0).Command(0).AppendCanonical(nil))
		var c clock
		c.now()
		var warm, warmWrites counter
		var started atomic.Bool
		client := target(func(_ context.Context, cmd *workload.Command) (mongodb.Outcome, error) {
			if c.now() < 3*time.Second {
				warm.Add(1)
				if cmd.Type != workload.Find {
					warmWrites.Add(1)
				}
			} else if string(cmd.AppendCanonical(nil)) == string(first) {
				started.Store(true)
			}
			time.Sleep(10 * time.Millisecond)
			return mongodb.Outcome{}, nil
		})
		var warming int
		cell := mustRun(t, Options{
			Workload: w, Iteration: 1, Client: client, Warmup: warmup.Warmup, WarmupOps: warmup.WarmupOps, Duration: time.Second,
			Progress: func(s Snapshot) {
				if s.WarmingUp {
					warming++
				}
			},
		}).Cell
		if warm.Load() != 600 || warmWrites.Load() != 0 {
			t.Errorf("the warm-up sent %d commands, %d of them writes; want 600, 0", warm.Load(), warmWrites.Load())
		}
		if cell.Commands != 200 || cell.DurationS != 1 || !started.Load() {
			t.Errorf("%d commands in %v s, from the sequence's start: %v; want 200 in 1, true", cell.Commands, cell.DurationS, started.Load())
		}
		if warming < 4 {
			t.Errorf("%d snapshots of the warm-up, want about 6", warming)
		}
	})
}

func TestInterruptedWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err := Run(ctx, Options{
			Workload: newWorkload(t, 2), Iteration: 1, Client: steady(time.Millisecond), Warmup: time.Minute, Duration: time.Minute,
		})
		if err != nil || !r.Cell.Interrupted || r.Cell.Commands != 0 || r.Cell.Fingerprint != "" {
			t.Errorf("result %+v, error %v; want an interrupted cell without commands", r, err)
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var snapshots []Snapshot
		mustRun(t, Options{
			Workload: newWorkload(t, 4), Iteration: 1, Client: steady(10 * time.Millisecond), Duration: 4 * time.Second,
			Progress: func(s Snapshot) { snapshots = append(snapshots, s) },
		})
		if len(snapshots) < 7 {
			t.Fatalf("%d snapshots in 4 s, want one every 500 ms", len(snapshots))
		}
		for _, s := range snapshots[1:] {
			if s.PerSecond < 390 || s.PerSecond > 410 {
				t.Errorf("%v commands/s, want 400", s.PerSecond)
			}
			if s.Elapsed+s.Remaining != 4*time.Second {
				t.Errorf("%s elapsed, %s remaining; want 4s together", s.Elapsed, s.Remaining)
			}
			for _, o := range s.Operations {
				if o.PerSecond > 0 && o.Mean != 10*time.Millisecond {
					t.Errorf("%s: mean %s, want 10ms", o.Type, o.Mean)
				}
			}
		}
	})
}

func TestIntervalLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{}
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4), Iteration: 1, Client: steady(10 * time.Millisecond), Duration: 2500 * time.Millisecond, Sink: sink,
		}).Cell
		text := sink.log.String()
		reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(text))
		counts := map[string]int64{}
		for {
			h, err := reader.NextIntervalHistogram()
			if err != nil {
				t.Fatal(err)
			}
			if h == nil {
				break
			}
			counts[h.Tag()] += h.TotalCount()
		}
		for name, o := range cell.Operations {
			if counts[name] != o.Count {
				t.Errorf("%s: %d commands in the log, want %d", name, counts[name], o.Count)
			}
		}
		if !strings.Contains(text, "\nTag=find,2.000,0.500,10.000,HISTF") {
			t.Errorf("no line for the finds of the last half second in:\n%s", text)
		}
	})
}

// The commands that are sent do not depend on how the workers are run.
func TestFingerprintsAreDeterministic(t *testing.T) {
	w := newWorkload(t, 16, func(s *workload.Settings) { s.OpsPerWorker = 1_100 })
	want, err := w.PrefixFingerprint(context.Background(), 3, 1_100, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 8} {
		runtime.GOMAXPROCS(procs)
		cell := mustRun(t, Options{
			Workload: w, Iteration: 3, OpsLimit: 1_200, // goes on beyond the pass
			Client: target(func(context.Context, *workload.Command) (mongodb.Outcome, error) { return mongodb.Outcome{}, nil }),
		}).Cell
		if !cell.Complete || cell.Fingerprint != want || cell.FingerprintCommands != 1_100 || cell.SequenceID != w.SequenceID(3) {
			t.Errorf("GOMAXPROCS %d: complete %v, fingerprint %s over %d, want %s over 1100", procs, cell.Complete, cell.Fingerprint, cell.FingerprintCommands, want)
		}
		if cell.Commands != 16*1_200 {
			t.Errorf("%d commands, want %d", cell.Commands, 16*1_200)
		}
	}
}

// An incomplete pass is fingerprinted over the longest prefix that every
// worker has sent, failed commands included.
func TestIncompletePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkload(t, 2)
		slow := w.Generator(1, 1)
		own := map[string]bool{}
		for i := range int64(2_300) {
			own[string(slow.Command(i).AppendCanonical(nil))] = true
		}
		var n counter
		client := target(func(_ context.Context, cmd *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(time.Millisecond)
			if own[string(cmd.AppendCanonical(nil))] {
				time.Sleep(time.Millisecond)
			}
			if n.Add(1)%3 == 0 {
				return mongodb.Outcome{}, unreachableError()
			}
			return mongodb.Outcome{}, nil
		})
		r := mustRun(t, Options{Workload: w, Iteration: 1, Client: client, Duration: 4501 * time.Millisecond})
		// Worker 0 sent 4,501 commands, worker 1 sent 2,251.
		sums := make([][]byte, 2)
		for id := range sums {
			chain, g := workload.NewChain(), w.Generator(1, id)
			for i := range int64(2_000) {
				chain.Add(g.Command(i).AppendCanonical(nil))
			}
			sums[id] = chain.Sum()
		}
		if want := w.Fingerprint(1, 2_000, sums); r.Cell.Complete || r.Cell.Fingerprint != want || r.Cell.FingerprintCommands != 2_000 {
			t.Errorf("complete %v, fingerprint %s over %d; want %s over 2000", r.Cell.Complete, r.Cell.Fingerprint, r.Cell.FingerprintCommands, want)
		}
		points := r.Checkpoints
		if points.Every != 1000 || len(points.Workers) != 2 || len(points.Workers[0]) != 4 || len(points.Workers[1]) != 2 {
			t.Fatalf("checkpoints %+v, want 4 and 2", points)
		}
		if points.Workers[0][1] != hex.EncodeToString(sums[0]) {
			t.Errorf("second checkpoint %s, want %x", points.Workers[0][1], sums[0])
		}
	})
}

// A pass that ended before the first checkpoint of some worker is
// fingerprinted over the longest prefix with an early state.
func TestShortPass(t *testing.T) {
	for _, test := range []struct {
		limit, want int64
	}{{7, 0}, {10, 10}, {797, 790}, {999, 990}, {1_003, 1_000}} {
		w := newWorkload(t, 3)
		r := mustRun(t, Options{
			Workload: w, Iteration: 1, OpsLimit: test.limit,
			Client: target(func(context.Context, *workload.Command) (mongodb.Outcome, error) { return mongodb.Outcome{}, nil }),
		})
		if r.Cell.Complete || r.Cell.FingerprintCommands != test.want || (r.Cell.Fingerprint == "") != (test.want == 0) {
			t.Errorf("%d commands: complete %v, fingerprint %q over %d, want %d", test.limit, r.Cell.Complete, r.Cell.Fingerprint, r.Cell.FingerprintCommands, test.want)
		}
		if test.want > 0 {
			want, err := w.PrefixFingerprint(context.Background(), 1, test.want, nil)
			if err != nil || r.Cell.Fingerprint != want {
				t.Errorf("%d commands: fingerprint %s, want %s (%v)", test.limit, r.Cell.Fingerprint, want, err)
			}
		}
		// The record says the same of every prefix that it can, and where the
		// chains end.
		for _, n := range []int64{10, 500, 790, 990, 1_000, test.limit} {
			got, ok := r.Checkpoints.Fingerprint(r.Cell.SequenceID, n)
			if ok != (n <= test.limit) {
				t.Errorf("%d commands: a fingerprint over %d: %v", test.limit, n, ok)
			}
			want, err := w.PrefixFingerprint(context.Background(), 1, n, nil)
			if ok && (err != nil || got != want) {
				t.Errorf("%d commands: fingerprint over %d is %s, want %s (%v)", test.limit, n, got, want, err)
			}
		}
		for _, end := range r.Checkpoints.Last {
			if end.Commands != test.limit {
				t.Errorf("a chain ends after %d commands, want %d", end.Commands, test.limit)
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	w := newWorkload(t, 1)
	writes := newWorkload(t, 1, func(s *workload.Settings) { s.Mix = workload.Mix{Insert: 1} })
	good := Options{Workload: w, Iteration: 1, Client: steady(0), Duration: time.Second}
	for name, change := range map[string]func(*Options){
		"no workload":           func(o *Options) { o.Workload = nil },
		"no client":             func(o *Options) { o.Client = nil },
		"iteration 0":           func(o *Options) { o.Iteration = 0 },
		"no end":                func(o *Options) { o.Duration = 0 },
		"negative duration":     func(o *Options) { o.Duration = -1 },
		"negative limit":        func(o *Options) { o.OpsLimit = -1 },
		"negative warm-up":      func(o *Options) { o.Warmup = -1 },
		"negative warm-up ops":  func(o *Options) { o.WarmupOps = -1 },
		"negative rate":         func(o *Options) { o.Rate = -1 },
		"rate not a number":     func(o *Options) { o.Rate = math.NaN() },
		"nothing to warm up by": func(o *Options) { o.Workload, o.Warmup = writes, time.Second },
	} {
		o := good
		change(&o)
		if r, err := Run(context.Background(), o); err == nil || r != nil {
			t.Errorf("%s: result %v, error %v; want an error alone", name, r, err)
		}
	}
}

// slowSink holds the collector up once.
type slowSink struct {
	memorySink
	delay time.Duration
}

func (s *slowSink) Interval(v record.Interval) error {
	time.Sleep(s.delay)
	s.delay = 0
	return s.memorySink.Interval(v)
}

// A collector that is held up costs throughput, but no sample, and is told.
func TestSlowSinkLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &slowSink{delay: 15 * time.Second}
		w := newWorkload(t, 16, onlyFinds)
		cell := mustRun(t, Options{Workload: w, Iteration: 1, Client: steady(2 * time.Millisecond), Duration: 20 * time.Second, Sink: sink}).Cell
		intervals, windows, _ := sink.sums()
		if cell.Commands != intervals || cell.Commands != windows || cell.Operations["find"].Count != cell.Commands {
			t.Errorf("%d commands, %d in intervals, %d in windows", cell.Commands, intervals, windows)
		}
		// The rings hold 4,096 samples each, 8 s; then the workers wait
		// until the sink returns after 16 s.
		if cell.Commands < 16*(4_096+2_000) || cell.Commands > 16*8_000 {
			t.Errorf("%d commands", cell.Commands)
		}
		near(t, "max", cell.LatencyMS.Max, 2)
		if !slices.ContainsFunc(cell.Warnings, func(w string) bool { return strings.Contains(w, "for the recording of their results") }) {
			t.Errorf("warnings %q do not tell of the wait", cell.Warnings)
		}
	})
}

// A sample that comes after its interval was written is not lost.
func TestLateSample(t *testing.T) {
	sink := &memorySink{}
	p := newPhase(Options{Workload: newWorkload(t, 1), Iteration: 1, Sink: sink}, defaultLimits())
	w := newWorker(p, 0, newRing(1))
	p.workers = []*worker{w}
	push := func(end time.Duration) { w.ring.push(&sample{end: end, service: 1}) }
	push(time.Second) // the end of the first interval belongs to it
	if err := p.collector.poll(2400 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	push(900 * time.Millisecond)
	push(2500 * time.Millisecond)
	if err := p.collector.finish(); err != nil {
		t.Fatal(err)
	}
	var counts []int64
	for _, i := range sink.intervals {
		counts = append(counts, i.Operations["find"].Count)
	}
	if !slices.Equal(counts, []int64{1, 0, 2}) {
		t.Errorf("intervals of %v commands, want 1, 0 and 2: the late one in the oldest that was open", counts)
	}
}
