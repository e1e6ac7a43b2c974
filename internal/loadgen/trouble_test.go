package loadgen

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// troubled answers after 10 ms what a sound server would, as seen by a
// monitor, except: from 3 s to 5 s every command fails, from 6 s to 7 s every
// command runs out of time at the client, from 7 s to 8 s at the server, and
// from 12 s to 13 s every command takes three attempts.
func troubled(c *clock) target {
	c.now()
	return func(ctx context.Context, _ *workload.Command) (mongodb.Outcome, error) {
		// In the middle of the answer's time, so that no sample is on a
		// boundary.
		time.Sleep(5 * time.Millisecond)
		now := c.now()
		time.Sleep(5 * time.Millisecond)
		within := func(from, to time.Duration) bool { return now > from*time.Second && now < to*time.Second }
		attempts := ctx.Value(attemptsKey{}).(*int64)
		*attempts++
		switch {
		case within(3, 5):
			return mongodb.Outcome{}, mongo.CommandError{Code: 112, Name: "WriteConflict"}
		case within(6, 7):
			return mongodb.Outcome{}, context.DeadlineExceeded
		case within(7, 8):
			return mongodb.Outcome{}, mongo.CommandError{Code: 50, Name: "MaxTimeMSExpired"}
		case within(12, 13):
			*attempts += 2
		}
		return mongodb.Outcome{}, nil
	}
}

// Errors by code, timeouts and retries are in the seconds and in the windows
// in which they were, and nowhere else.
func TestTroubleIsWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &memorySink{}
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4, onlyFinds), Iteration: 1, Client: troubled(&clock{}), Duration: 20 * time.Second, Sink: sink,
		}).Cell
		const conflict, timeout, expired = "find/WriteConflict", "find/Timeout", "find/MaxTimeMSExpired"
		// Four workers send 400 commands a second.
		type want struct {
			retries, timeouts int64
			codes             map[string]int64
		}
		check := func(what string, at float64, got record.Trouble, w want) {
			t.Helper()
			if got.Retries == nil || got.Timeouts == nil || *got.Retries != w.retries || *got.Timeouts != w.timeouts || !maps.Equal(got.ErrorCodes, w.codes) {
				t.Errorf("%s at %v s: %s, want %+v", what, at, text(t, got), w)
			}
		}
		for i, v := range sink.intervals {
			check("second", v.StartS, v.Trouble, map[int]want{
				3: {codes: map[string]int64{conflict: 400}}, 4: {codes: map[string]int64{conflict: 400}},
				6: {timeouts: 400, codes: map[string]int64{timeout: 400}}, 7: {timeouts: 400, codes: map[string]int64{expired: 400}},
				12: {retries: 800},
			}[i])
		}
		for i, v := range sink.windows {
			check("window", v.StartS, v.Trouble, map[int]want{
				1: {codes: map[string]int64{conflict: 400}}, 2: {codes: map[string]int64{conflict: 400}},
				3: {timeouts: 800, codes: map[string]int64{timeout: 400, expired: 400}}, 6: {retries: 800},
			}[i])
		}
		if len(sink.intervals) != 20 || len(sink.windows) != 10 {
			t.Errorf("%d intervals and %d windows", len(sink.intervals), len(sink.windows))
		}
		check("cell", 0, record.Trouble{Retries: &cell.Retries, Timeouts: cell.Timeouts, ErrorCodes: cell.ErrorCodes},
			want{800, 800, map[string]int64{conflict: 800, timeout: 400, expired: 400}})
		if cell.Errors != 1600 {
			t.Errorf("%d errors, want 1600", cell.Errors)
		}
	})
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// What nobody counted is absent, what was counted and did not happen is 0.
func TestUncountedRetriesAreAbsent(t *testing.T) {
	for monitored, want := range map[bool]string{true: `"retries":0,"timeouts":0`, false: `"operations":{},"timeouts":0`} {
		synctest.Test(t, func(t *testing.T) {
			sink := &memorySink{}
			client := target(func(ctx context.Context, _ *workload.Command) (mongodb.Outcome, error) {
				time.Sleep(10 * time.Millisecond)
				if monitored {
					*ctx.Value(attemptsKey{}).(*int64)++
				}
				return mongodb.Outcome{}, nil
			})
			mustRun(t, Options{Workload: newWorkload(t, 1), Iteration: 1, Client: client, Duration: 2 * time.Second, Sink: sink})
			for _, v := range sink.intervals {
				v.Operations = map[string]record.IntervalOperation{}
				if got := text(t, v); !strings.Contains(got, want) {
					t.Errorf("monitored %v: %s, want %s", monitored, got, want)
				}
			}
		})
	}
}

// A window has the response times of its own commands: those that a stall
// kept waiting are in the windows in which they ended, and all windows
// together are the cell.
func TestResponseTimesByWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.now()
		client := target(func(context.Context, *workload.Command) (mongodb.Outcome, error) {
			time.Sleep(time.Millisecond)
			if now := c.now(); now > 6*time.Second && now < 7*time.Second {
				time.Sleep(7*time.Second - now)
			}
			return mongodb.Outcome{}, nil
		})
		sink := &memorySink{}
		cell := mustRun(t, Options{
			Workload: newWorkload(t, 4, onlyFinds), Iteration: 1, Client: client, Duration: 20 * time.Second, Rate: 100, Sink: sink,
		}).Cell
		merged := map[int32]int64{}
		var sum int64
		for i, w := range sink.windows {
			o := w.Operations["find"]
			buckets, err := record.DecodeHistogram(o.ResponseHistogram)
			if err != nil {
				t.Fatal(err)
			}
			var count int64
			for k, index := range buckets.Index {
				count += buckets.Count[k]
				merged[index] += buckets.Count[k]
			}
			sum += o.ResponseSumUS
			// About half a second on average for the hundred that were due in
			// the stalled second, of the window's 200.
			mean := float64(o.ResponseSumUS) / float64(o.Count)
			if stalled := i == 3; count != o.Count || stalled != (mean > 200_000 && mean < 300_000) || !stalled && mean > 1_100 {
				t.Errorf("window %d: %d response times of %d commands, mean %v µs", i, count, o.Count, mean)
			}
		}
		whole, err := record.DecodeHistogram(cell.Operations["find"].ResponseHistogram)
		if err != nil {
			t.Fatal(err)
		}
		of := map[int32]int64{}
		for k, index := range whole.Index {
			of[index] = whole.Count[k]
		}
		if !maps.Equal(of, merged) || len(sink.windows) != 10 {
			t.Errorf("the %d windows together are not the cell", len(sink.windows))
		}
		near(t, "mean", float64(sum)/float64(cell.Commands)/1000, cell.ResponseMS.Mean)
	})
}
