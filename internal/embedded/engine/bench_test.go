package engine

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/workload"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// flights returns the flights workload and an engine seeded with its
// documents and indexes.
func flights(tb testing.TB, size int64) (*workload.Workload, *Engine) {
	tb.Helper()
	w, err := workload.New(workload.Settings{
		Workload: "flights", Seed: 178477, Size: size, Workers: 1, OpsPerWorker: 1000000,
		Mix: workload.DefaultMix(), InsertBatch: 10, FindBatch: 10, FindLimit: 5,
	})
	if err != nil {
		tb.Fatal(err)
	}
	e := New()
	for _, c := range w.Collections() {
		indexes := bson.A{}
		for _, ix := range c.Indexes {
			indexes = append(indexes, bson.D{{Key: "key", Value: ix.Keys}, {Key: "name", Value: ix.Name}})
		}
		run(tb, e, c.Database, bson.D{{Key: "createIndexes", Value: c.Name}, {Key: "indexes", Value: indexes}})
		for j := int64(0); j < size; {
			docs := make([]bson.Raw, 0, 1000)
			for ; len(docs) < cap(docs) && j < size; j++ {
				docs = append(docs, w.AppendDocument(nil, j))
			}
			body, err := bson.Marshal(bson.D{{Key: "insert", Value: c.Name}})
			if err != nil {
				tb.Fatal(err)
			}
			if _, err := e.Run(context.Background(), &Request{Database: c.Database, Name: "insert", Body: body, Sequences: map[string][]bson.Raw{"documents": docs}}); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return w, e
}

// request turns a workload's command into what the server hands over.
func request(c *workload.Command) *Request {
	body := c.AppendCanonical(nil)
	elements := fieldsOf(body)
	var first element
	elements.next(&first)
	return &Request{Database: c.Database, Name: string(first.key), Body: body}
}

func benchmarkFlights(b *testing.B, only workload.OpType, all bool) {
	w, e := flights(b, 100000)
	g := w.Generator(0, 0)
	var chunk []*Request
	next := int64(0)
	refill := func() {
		chunk = chunk[:0]
		for len(chunk) < 2000 {
			c := g.Command(next)
			next++
			if all || c.Type == only {
				chunk = append(chunk, request(c))
			}
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	var used time.Duration
	began := cpuTime(b)
	for n := 0; n < b.N; n++ {
		if n%2000 == 0 {
			b.StopTimer()
			used += cpuTime(b) - began
			refill()
			began = cpuTime(b)
			b.StartTimer()
		}
		if _, err := e.Run(context.Background(), chunk[n%2000]); err != nil {
			b.Fatal(err)
		}
	}
	used += cpuTime(b) - began
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	b.ReportMetric(float64(used.Nanoseconds())/float64(b.N)/1000, "cpu-us/op")
}

// cpuTime is what the process has used so far, which other work on the
// machine hardly changes.
func cpuTime(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFlightsMix runs the published mix on 100,000 documents with seven
// indexes. Run it with -cpu 1.
func BenchmarkFlightsMix(b *testing.B) { benchmarkFlights(b, 0, true) }

func BenchmarkFlights(b *testing.B) {
	for t := workload.Find; t < workload.Aggregate; t++ {
		b.Run(t.String(), func(b *testing.B) { benchmarkFlights(b, t, false) })
	}
}

func BenchmarkSeed(b *testing.B) {
	for b.Loop() {
		flights(b, 10000)
	}
}

// run runs a command that must succeed.
func run(tb testing.TB, e *Engine, database string, command bson.D) bson.Raw {
	tb.Helper()
	reply, err := try(e, database, nil, command)
	if err != nil {
		tb.Fatalf("%s: %v", command[0].Key, err)
	}
	return reply
}

// try runs a command.
func try(e *Engine, database string, txn *Txn, command bson.D) (bson.Raw, error) {
	body, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: database}))
	if err != nil {
		return nil, err
	}
	return e.Run(context.Background(), &Request{Database: database, Name: command[0].Key, Body: body, Txn: txn})
}

// doc parses relaxed extended JSON.
func doc(tb testing.TB, text string) bson.D {
	tb.Helper()
	var d bson.D
	if err := bson.UnmarshalExtJSON([]byte(text), false, &d); err != nil {
		tb.Fatalf("%s: %v", strconv.Quote(text), err)
	}
	return d
}
