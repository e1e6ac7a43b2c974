package loadgen

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func TestDue(t *testing.T) {
	for _, test := range []struct {
		n    int64
		rate float64
		want time.Duration
	}{
		{0, 1000, 0},
		{1, 1000, time.Millisecond},
		{10, 3, 3333333333},
		{8_640_000_000, 1000, 100 * 24 * time.Hour},
		{1, 1e-30, math.MaxInt64},
	} {
		if got := due(test.n, test.rate); got != test.want {
			t.Errorf("due(%d, %v) = %d, want %d", test.n, test.rate, got, test.want)
		}
	}
}

func TestDueBefore(t *testing.T) {
	for _, rate := range []float64{0.1, 1, 3, 7.77, 100, 12345.678} {
		for _, end := range []time.Duration{1, time.Millisecond, time.Second, 10*time.Second + 1, time.Hour} {
			n := dueBefore(end, rate)
			if n > 0 && due(n-1, rate) >= end || due(n, rate) < end {
				t.Errorf("dueBefore(%s, %v) = %d: command %d is due at %s, the next at %s", end, rate, n, n-1, due(n-1, rate), due(n, rate))
			}
		}
	}
}

func TestWindowLength(t *testing.T) {
	for duration, want := range map[time.Duration]time.Duration{
		0:                                      time.Second,
		500:                                    time.Second,
		19 * time.Second:                       time.Second,
		29 * time.Second:                       2 * time.Second,
		5 * time.Minute:                        30 * time.Second,
		599*time.Second + 999*time.Millisecond: 59 * time.Second,
		10 * time.Minute:                       time.Minute,
		24 * time.Hour:                         time.Minute,
	} {
		if got := windowLength(duration); got != want {
			t.Errorf("windows of a run of %s are %s long, want %s", duration, got, want)
		}
	}
}

func TestRingSize(t *testing.T) {
	for workers, want := range map[int]int{1: 8192, 8: 8192, 16: 4096, 1024: 64} {
		if got := len(newRing(workers).slots); got != want {
			t.Errorf("ring of one of %d workers holds %d samples, want %d", workers, got, want)
		}
	}
}

// No sample is lost, doubled or torn on its way, however often the ring is
// full.
func TestRingKeepsEverySample(t *testing.T) {
	const samples = 200_000
	r := newRing(1024)
	go func() {
		for i := range samples {
			s := sample{end: time.Duration(i), service: uint32(i), response: uint32(i)}
			for !r.push(&s) {
				runtime.Gosched()
			}
		}
	}()
	for next := 0; next < samples; {
		r.drain(func(s *sample) {
			if s.end != time.Duration(next) || s.service != uint32(next) || s.response != uint32(next) {
				t.Fatalf("sample %d is %+v", next, s)
			}
			next++
		})
		runtime.Gosched()
	}
}

func TestMicroseconds(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		-1: 1, 0: 1, 1499: 1, 1500: 2, time.Second: 1_000_000, 100 * time.Hour: math.MaxUint32,
	} {
		if got := microseconds(d); got != want {
			t.Errorf("microseconds(%d) = %d, want %d", d, got, want)
		}
	}
}

func TestFailureNumbers(t *testing.T) {
	var f failures
	first := f.number(unreachableError(), time.Second)
	second := f.number(errors.New("strange"), time.Second)
	if again := f.number(unreachableError(), 2*time.Second); first != 1 || second != 2 || again != 1 {
		t.Errorf("numbers %d, %d, %d; want 1, 2, 1", first, second, again)
	}
	if got := f.get(1); !got.unreachable || got.name != mongodb.NameNetwork || got.text != "refused" {
		t.Errorf("failure 1 is %+v", got)
	}
	if first := f.first(); f.get(2).unreachable || first.text != "refused" || first.at != time.Second {
		t.Errorf("failure 2 is %+v, the first is %+v", f.get(2), first)
	}
}

func TestMinute(t *testing.T) {
	for at, want := range map[time.Duration]string{
		0: "minute 0:00", 59999 * time.Millisecond: "minute 0:59", 601 * time.Second: "minute 10:01", 2 * time.Hour: "minute 120:00",
	} {
		if got := minute(at); got != want {
			t.Errorf("%s is %q, want %q", at, got, want)
		}
	}
}

// The path of a command allocates nothing of its own.
func TestRecordingAllocatesNothing(t *testing.T) {
	p := newPhase(Options{Workload: newWorkload(t, 1), Iteration: 1}, defaultLimits())
	w := newWorker(p, 0, newRing(1))
	p.workers = []*worker{w}
	var i int64
	step := func() {
		cmd := w.gen.Command(i % 500)
		s := sample{end: time.Duration(i+1) * time.Microsecond, service: 100, op: cmd.Type, outcome: outcomeOf(cmd.Type, mongodb.Outcome{})}
		w.publish(&s)
		w.canonical = cmd.AppendCanonical(w.canonical[:0])
		w.chain.Add(w.canonical)
		p.collector.drain()
		i++
	}
	for range 1000 {
		step() // buffers and histograms come to their size
	}
	if n := testing.AllocsPerRun(400, step); n > 0 {
		t.Errorf("%v allocations per command, want none", n)
	}
}

func TestUsage(t *testing.T) {
	before := readUsage()
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		_ = workload.NewChain()
	}
	used := clientUsage(before, readUsage(), 100*time.Millisecond)
	if used.CPUS <= 0 || used.CPUPercent <= 0 || used.MaxRSSBytes < 1<<20 || used.MaxRSSBytes > 8<<30 {
		t.Errorf("usage %+v", used)
	}
	if busy := clientUsage(usage{}, usage{cpu: time.Hour}, time.Second); !busy.ClientBound {
		t.Errorf("usage %+v is not client-bound", busy)
	}
	if runtime.GOOS == "linux" && (used.MachineCPUPercent <= 0 || used.MachineCPUPercent > 100) {
		t.Errorf("all of the machine: %v %%", used.MachineCPUPercent)
	}
	if u := clientUsage(usage{machineBusy: 10, machineAll: 100}, usage{machineBusy: 30, machineAll: 150}, time.Second); u.MachineCPUPercent != 40 {
		t.Errorf("20 of 50 seconds are %v %%", u.MachineCPUPercent)
	}
	if u := clientUsage(usage{}, usage{machineBusy: 30, machineAll: 150}, time.Second); u.MachineCPUPercent != 0 {
		t.Errorf("%v %%, since the machine was started", u.MachineCPUPercent)
	}
}

func TestBrief(t *testing.T) {
	raw, err := bson.Marshal(bson.D{{Key: "keyValue", Value: bson.D{{Key: "flight_id", Value: int64(7)}}}})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(n int, message string, raw bson.Raw) mongo.BulkWriteException {
		list := make([]mongo.BulkWriteError, n)
		for i := range list {
			list[i] = mongo.BulkWriteError{WriteError: mongo.WriteError{Index: i, Code: 11000, Message: message, Raw: raw}}
		}
		return mongo.BulkWriteException{WriteErrors: list}
	}
	const message = "E11000 duplicate key error collection: airline.flights index: flight_id_1 dup key: { flight_id: 7 }"
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"many": {refused(1000, message, raw),
			`code 11000 (DuplicateKey): index flight_id_1 already has key {"flight_id":7} (and 999 more documents were refused)`},
		"one, without a key beside it": {refused(1, message, nil),
			"code 11000 (DuplicateKey): index flight_id_1 already has key { flight_id: 7 }"},
		"a server of few words": {refused(1, "E11000", nil), "code 11000 (DuplicateKey): index (not named) already has key (not told)"},
		"another code": {mongo.WriteException{WriteErrors: mongo.WriteErrors{{Code: 112, Message: strings.Repeat("é", 500)}}},
			"code 112: " + strings.Repeat("é", briefly/2) + "…"},
		"no write error": {mongo.CommandError{Code: 1, Message: "boo"}, mongo.CommandError{Code: 1, Message: "boo"}.Error()},
	} {
		got := brief(fmt.Errorf("insert: %w", test.err))
		if name == "no write error" {
			test.want = "insert: " + test.want
		}
		if got.Error() != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if mongodb.ErrorName(got) != mongodb.ErrorName(test.err) {
			t.Errorf("%s: is %s now", name, mongodb.ErrorName(got))
		}
	}
	if brief(nil) != nil {
		t.Error("no error became one")
	}
}
