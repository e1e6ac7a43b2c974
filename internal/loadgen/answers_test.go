package loadgen

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// Every command has one line, in the order of its worker, with what the
// server answered; the lines add up to the cell.
func TestOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers = 3
		var out bytes.Buffer
		var sent atomic.Int64 // by all workers
		w := newWorkload(t, workers)
		result, err := Run(context.Background(), Options{
			Workload: w, Iteration: 1, Duration: 2500 * time.Millisecond, Outcomes: &out, Warmup: time.Second,
			Client: target(func(ctx context.Context, cmd *workload.Command) (mongodb.Outcome, error) {
				if sent.Add(1)%10 == 0 && cmd.Type != workload.Find { // the warm-up finds
					time.Sleep(time.Millisecond)
					return mongodb.Outcome{}, mongo.CommandError{Code: 112, Name: "WriteConflict"}
				}
				o, err := steady(time.Millisecond)(ctx, cmd)
				if cmd.Type == workload.Find {
					time.Sleep(500 * time.Microsecond)
					o.Digest, o.Digested, o.Digesting = 0x0badcafe, true, 500*time.Microsecond
				}
				return o, err
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		next := make([]int64, workers)
		var failed int64
		for line := range strings.Lines(out.String()) {
			fields := strings.Split(strings.TrimSpace(line), ",")
			if len(fields) != 7 {
				t.Fatalf("line %q", line)
			}
			worker, err := strconv.Atoi(fields[0])
			if err != nil || fields[1] != strconv.FormatInt(next[worker], 10) {
				t.Fatalf("line %q, want command %d", line, next[worker])
			}
			cmd := w.Generator(1, worker).Command(next[worker])
			if fields[2] != cmd.Type.String() {
				t.Fatalf("line %q, want a %s", line, cmd.Type)
			}
			want := map[workload.OpType]string{
				workload.Find: "5,,0badcafe", workload.UpdateOne: "2,1,", workload.UpdateMany: "2,1,", workload.DeleteOne: "4,,",
				workload.DeleteMany: "4,,", workload.InsertOne: "3,,", workload.InsertMany: "3,,",
			}[cmd.Type]
			switch fields[3] {
			case "WriteConflict":
				failed++
			case "":
				if got := strings.Join(fields[4:], ","); got != want {
					t.Fatalf("line %q, want %s", line, want)
				}
			default:
				t.Fatalf("line %q", line)
			}
			next[worker]++
		}
		if total := next[0] + next[1] + next[2]; total != result.Cell.Commands+result.Cell.Errors || failed != result.Cell.Errors || failed == 0 {
			t.Errorf("%d lines, %d of them failed; the cell has %d and %d", total, failed, result.Cell.Commands+result.Cell.Errors, result.Cell.Errors)
		}
		// What the digest took is no part of the command.
		near(t, "mean of finds", result.Cell.Operations["find"].LatencyMS.Mean, 1)
	})
}
