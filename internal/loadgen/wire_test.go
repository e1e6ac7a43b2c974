package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func connect(t testing.TB, uri string, change ...func(*mongodb.Options)) *mongodb.Client {
	t.Helper()
	o := mongodb.Options{URI: uri, Monitor: NewMonitor()}
	for _, f := range change {
		f(&o)
	}
	client, err := mongodb.Connect(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return client
}

func withAggregates(s *workload.Settings) { s.Mix.Aggregate = 10 }

// What a server receives is what the generators made, byte for byte.
func TestServerReceivesTheSequence(t *testing.T) {
	for _, workers := range []int{1, 16} {
		server := newNullServer(t)
		server.digest = true
		w := newWorkload(t, workers, withAggregates, func(s *workload.Settings) { s.OpsPerWorker = 4_000 / int64(workers) })
		r := mustRun(t, Options{Workload: w, Iteration: 2, Client: connect(t, server.uri()), OpsLimit: w.Settings().OpsPerWorker})
		if r.Cell.Errors != 0 || !r.Cell.Complete {
			t.Fatalf("%d errors %v, complete %v", r.Cell.Errors, r.Cell.ErrorCodes, r.Cell.Complete)
		}
		want := newDigest()
		for id := range workers {
			g := w.Generator(2, id)
			for i := range w.Settings().OpsPerWorker {
				want.add(g.Command(i).AppendCanonical(nil))
			}
		}
		got := server.received
		if got.sum != want.sum || got.count != want.count {
			t.Errorf("%d workers: the server's digest of %d commands is %x, the generators' of %d is %x", workers, got.count, got.sum, want.count, want.sum)
		}
		if workers == 1 {
			if !slices.Equal(got.chain.Sum(), want.chain.Sum()) {
				t.Error("the server received the commands in another order")
			}
			if fingerprint := w.Fingerprint(2, got.count, [][]byte{got.chain.Sum()}); fingerprint != r.Cell.Fingerprint {
				t.Errorf("the server's fingerprint is %s, the cell's %s", fingerprint, r.Cell.Fingerprint)
			}
		}
	}
}

// Limits, batch sizes and batches of inserts at their edges reach the server
// as they were made, too.
func TestServerReceivesEdges(t *testing.T) {
	for _, change := range []func(*workload.Settings){
		func(s *workload.Settings) { s.FindLimit = 0 },
		func(s *workload.Settings) { s.FindLimit = s.FindBatch },
		func(s *workload.Settings) { s.FindBatch, s.FindLimit = 1, 7 },
		func(s *workload.Settings) { s.InsertBatch = 1 },
		func(s *workload.Settings) { s.InsertBatch = 1000 },
	} {
		server := newNullServer(t)
		server.digest = true
		w := newWorkload(t, 1, change, withAggregates)
		r := mustRun(t, Options{Workload: w, Iteration: 1, Client: connect(t, server.uri()), OpsLimit: 150})
		want, g := newDigest(), w.Generator(1, 0)
		for i := range int64(150) {
			want.add(g.Command(i).AppendCanonical(nil))
		}
		if server.received.sum != want.sum || r.Cell.Errors != 0 {
			t.Errorf("settings %+v: the digests differ (%d errors)", w.Settings(), r.Cell.Errors)
		}
	}
}

func TestOutcomesFromTheWire(t *testing.T) {
	server := newNullServer(t)
	server.found = someFound()
	server.fault = func(command string) fault {
		if command == "find" || command == "aggregate" {
			return fault{batches: 2} // after the first, by getMore
		}
		return fault{}
	}
	w := newWorkload(t, 4, withAggregates)
	sink := &memorySink{}
	cell := mustRun(t, Options{Workload: w, Iteration: 1, Client: connect(t, server.uri()), OpsLimit: 500, Sink: sink}).Cell
	// A busy test machine is no finding of this test.
	cell.Warnings = slices.DeleteFunc(cell.Warnings, func(w string) bool { return strings.Contains(w, "of its CPUs") })
	if cell.Commands != 2000 || cell.Errors != 0 || cell.Retries != 0 || len(cell.Warnings) != 0 {
		t.Errorf("%d commands, %d errors, %d retries, warnings %q; want 2000 and nothing else", cell.Commands, cell.Errors, cell.Retries, cell.Warnings)
	}
	for name, want := range map[string]record.Operation{
		"find":       {Returned: 15},
		"aggregate":  {Returned: 15},
		"updateOne":  {Matched: 1, Modified: 1},
		"updateMany": {Matched: 1, Modified: 1},
		"deleteOne":  {Deleted: 1},
		"deleteMany": {Deleted: 1},
		"insertOne":  {Inserted: 1},
		"insertMany": {Inserted: 10},
	} {
		got := cell.Operations[name]
		n := got.Count
		if n == 0 || got.Returned != n*want.Returned || got.Matched != n*want.Matched || got.Modified != n*want.Modified ||
			got.Inserted != n*want.Inserted || got.Deleted != n*want.Deleted {
			t.Errorf("%s: %+v, want %d times %+v", name, got, n, want)
		}
	}
	if intervals, windows, _ := sink.sums(); intervals != 2000 || windows != 2000 {
		t.Errorf("%d commands in intervals, %d in windows, want 2000", intervals, windows)
	}
}

// The digest of what is read is that of its content: batches, the numbers of
// cursors, the order of fields and the types of numbers are the server's own.
func TestDigestFromTheWire(t *testing.T) {
	digestsOf := func(found []bson.Raw, batches int, digest bool) string {
		server := newNullServer(t)
		server.found = found
		server.fault = func(string) fault { return fault{batches: batches} }
		var lines bytes.Buffer
		mustRun(t, Options{
			Workload: newWorkload(t, 1, onlyFinds), Iteration: 1, OpsLimit: 3, Outcomes: &lines,
			Client: connect(t, server.uri(), func(o *mongodb.Options) { o.Digest = digest }),
		})
		return lines.String()
	}
	three := slices.Concat(someFound(), someFound(), someFound())
	whole := digestsOf(three, 0, true)
	if !regexp.MustCompile(`^0,0,find,,15,,([0-9a-f]{8})\n0,1,find,,15,,([0-9a-f]{8})\n0,2,`).MatchString(whole) {
		t.Errorf("%q", whole)
	}
	if got := digestsOf(someFound(), 2, true); got != whole {
		t.Errorf("in three batches %q, in one %q", got, whole)
	}
	var other []bson.Raw
	for _, document := range three {
		var d bson.D
		if err := bson.Unmarshal(document, &d); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(d)
		for i := range d {
			if n, ok := d[i].Value.(int64); ok {
				d[i].Value = float64(n)
			}
		}
		other = append(other, appendDocument(nil, d))
	}
	if got := digestsOf(other, 0, true); got != whole {
		t.Errorf("the same content written differently %q, want %q", got, whole)
	}
	if got := digestsOf(three[1:], 0, true); got == whole {
		t.Error("other content has the same digest")
	}
	if got := digestsOf(three, 0, false); !strings.HasPrefix(got, "0,0,find,,15,,\n") {
		t.Errorf("without digests %q", got)
	}
}

func TestErrorsFromTheWire(t *testing.T) {
	server := newNullServer(t)
	var finds, inserts, updates, deletes counter
	server.fault = func(command string) fault {
		switch command {
		case "find":
			if finds.Add(1) == 1 {
				return fault{code: 292, name: "QueryExceededMemoryLimitNoDiskUseAllowed"}
			}
		case "insert":
			switch inserts.Add(1) {
			case 1:
				return fault{write: 11000}
			case 2:
				return fault{write: 121}
			}
		case "update":
			switch updates.Add(1) {
			case 1:
				return fault{concern: 64, name: "WriteConcernTimeout"}
			case 2:
				return fault{code: 8888}
			}
		case "delete":
			if deletes.Add(1) == 1 {
				return fault{code: 112, name: "WriteConflict"}
			}
		}
		return fault{}
	}
	w := newWorkload(t, 1)
	cell := mustRun(t, Options{Workload: w, Iteration: 1, Client: connect(t, server.uri()), OpsLimit: 1000}).Cell
	got := map[string]int64{}
	for key, n := range cell.ErrorCodes {
		_, name, _ := strings.Cut(key, "/")
		got[name] += n
	}
	for _, name := range []string{
		"QueryExceededMemoryLimitNoDiskUseAllowed", "DuplicateKey", "code 121",
		"WriteConcern(WriteConcernTimeout)", "code 8888", "WriteConflict",
	} {
		if got[name] != 1 {
			t.Errorf("%s: %d, want 1 (all: %v)", name, got[name], cell.ErrorCodes)
		}
	}
	if cell.Errors != 6 || cell.Commands != 994 {
		t.Errorf("%d errors and %d commands, want 6 and 994", cell.Errors, cell.Commands)
	}
}

// Commands that succeed on the second attempt are no errors, but retries.
func TestRetriesAreCounted(t *testing.T) {
	server := newNullServer(t)
	var n counter
	var again atomic.Bool
	server.fault = func(string) fault {
		if again.Swap(false) {
			return fault{} // the second attempt
		}
		f := fault{}
		switch n.Add(1) {
		case 10, 20:
			f = fault{code: 91, name: "ShutdownInProgress", labels: []string{"RetryableWriteError"}}
		case 30:
			f = fault{hangUp: true}
		}
		again.Store(f.code != 0 || f.hangUp)
		return f
	}
	w := newWorkload(t, 1, func(s *workload.Settings) { s.Mix = workload.Mix{Find: 1, Insert: 1} })
	sink := &memorySink{}
	cell := mustRun(t, Options{Workload: w, Iteration: 1, Client: connect(t, server.uri()), OpsLimit: 100, Sink: sink}).Cell
	if cell.Retries != 3 || cell.Commands != 100 || cell.Errors != 0 {
		t.Errorf("%d retries, %d commands, %d errors %v; want 3, 100, 0", cell.Retries, cell.Commands, cell.Errors, cell.ErrorCodes)
	}
	var inIntervals, inWindows int64
	for _, v := range sink.intervals {
		inIntervals += *v.Retries
	}
	for _, v := range sink.windows {
		inWindows += *v.Retries
	}
	if inIntervals != 3 || inWindows != 3 {
		t.Errorf("%d retries in intervals, %d in windows, want 3", inIntervals, inWindows)
	}
}

func TestMissingMonitorIsTold(t *testing.T) {
	server := newNullServer(t)
	client := connect(t, server.uri(), func(o *mongodb.Options) { o.Monitor = nil })
	cell := mustRun(t, Options{Workload: newWorkload(t, 1), Iteration: 1, Client: client, OpsLimit: 10}).Cell
	// Ten commands may well take all of a busy machine's CPU, which is told too.
	if !slices.ContainsFunc(cell.Warnings, func(w string) bool { return strings.HasPrefix(w, "retries were not counted") }) {
		t.Errorf("warnings %q", cell.Warnings)
	}
}

func TestClientTimeout(t *testing.T) {
	server := newNullServer(t)
	var n counter
	server.fault = func(string) fault {
		if n.Add(1) == 50 {
			return fault{delay: 400 * time.Millisecond}
		}
		return fault{}
	}
	client := connect(t, server.uri(), func(o *mongodb.Options) { o.OpTimeout = 150 * time.Millisecond })
	w := newWorkload(t, 1, onlyFinds)
	cell := mustRun(t, Options{Workload: w, Iteration: 1, Client: client, OpsLimit: 100}).Cell
	if cell.ErrorCodes["find/Timeout"] != 1 || *cell.Timeouts != 1 || cell.Commands != 99 {
		t.Errorf("errors %v, %d timeouts, %d commands; want one timeout and 99", cell.ErrorCodes, *cell.Timeouts, cell.Commands)
	}
}

// A target that goes away for good ends the run with what there is.
func TestTargetDies(t *testing.T) {
	server := newNullServer(t)
	var n counter
	gone := make(chan struct{})
	server.fault = func(string) fault {
		if n.Add(1) == 2000 {
			close(gone)
		}
		return fault{}
	}
	client := connect(t, strings.Replace(server.uri(), "?", "?serverSelectionTimeoutMS=100&", 1))
	go func() {
		<-gone
		_ = server.listener.Close()
		server.hangUp()
	}()
	l := defaultLimits()
	l.dead = 300 * time.Millisecond
	r, err := run(context.Background(), Options{
		Workload: newWorkload(t, 4), Iteration: 1, Client: client, Duration: time.Minute,
	}, l)
	if !errors.Is(err, ErrTargetDown) {
		t.Fatalf("error %v, want ErrTargetDown", err)
	}
	if c := r.Cell; c.Valid || c.Commands < 1500 || c.Errors == 0 || c.DurationS > 30 {
		t.Errorf("%d commands, %d errors in %v s", c.Commands, c.Errors, c.DurationS)
	}
	for key := range r.Cell.ErrorCodes {
		if !strings.HasSuffix(key, "/Network") && !strings.HasSuffix(key, "/ServerSelection") {
			t.Errorf("errors %v, want Network and ServerSelection only", r.Cell.ErrorCodes)
		}
	}
}

func TestSeed(t *testing.T) {
	server := newNullServer(t)
	server.digest = true
	w := newWorkload(t, 3, func(s *workload.Settings) { s.Size = 2_345 })
	var last SeedProgress
	got, err := Seed(context.Background(), SeedOptions{
		Workload: w, Client: connect(t, server.uri()), Progress: func(p SeedProgress) { last = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for j := range w.Settings().Size {
		bytes += int64(len(w.AppendDocument(nil, j)))
	}
	if got.Documents != 2_345 || got.Bytes != bytes || got.DurationS <= 0 {
		t.Errorf("seeding %+v, want 2345 documents of %d bytes", got, bytes)
	}
	if last.Documents != 2_345 || last.Total != 2_345 || last.Bytes != bytes {
		t.Errorf("last progress %+v", last)
	}
}

// Every document arrives once, as it was made.
func TestSeedInsertsEveryDocumentOnce(t *testing.T) {
	w := newWorkload(t, 7, func(s *workload.Settings) { s.Size = 3_000 })
	want := map[string]bool{}
	for j := range w.Settings().Size {
		want[string(w.AppendDocument(nil, j))] = true
	}
	// Goes through the batches without a server.
	s := &seeding{workload: w, total: w.Settings().Size, stretch: 700}
	got := 0
	err := s.each(func(docs []bson.Raw) error {
		for _, d := range docs {
			if !want[string(d)] {
				t.Fatal("a document came twice or was never made")
			}
			delete(want, string(d))
			got++
		}
		return nil
	})
	if err != nil || got != 3_000 || len(want) != 0 {
		t.Errorf("%d documents, %d missing, error %v", got, len(want), err)
	}
}

func TestSeedFails(t *testing.T) {
	server := newNullServer(t)
	var n counter
	server.fault = func(string) fault {
		if n.Add(1) == 3 {
			return fault{write: 11000}
		}
		return fault{}
	}
	_, err := Seed(context.Background(), SeedOptions{Workload: newWorkload(t, 2), Client: connect(t, server.uri())})
	if mongodb.ErrorName(err) != mongodb.NameDuplicateKey || !strings.HasPrefix(err.Error(), "seed airline.flights: ") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Seed(ctx, SeedOptions{Workload: newWorkload(t, 2), Client: connect(t, server.uri())}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// Memory does not grow with the size of the data, because commands are made
// from numbers.
func TestMemory(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("starts processes whose memory the race detector multiplies")
	}
	var cell record.Cell
	if err := json.Unmarshal(clientProcess(t, startServerProcess(t)), &cell); err != nil {
		t.Fatal(err)
	}
	const limit = 64 << 20
	if rss := cell.Client.MaxRSSBytes; rss > limit || cell.Commands != 50_000 {
		t.Errorf("%d MiB for 20,000 documents and %d commands, want at most 64", rss>>20, cell.Commands)
	} else {
		t.Logf("%d MiB", rss>>20)
	}
}
