package loadgen

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// The bars: what a command and a seeded document may cost this process, as
// a multiple of what the driver alone costs it.
const (
	commandBar = 1.25
	seedBar    = 1.6
)

// BenchmarkCostRatio compares the client's CPU time per command with
// everything on (generation, fingerprint, recording into a run record) with
// that of bare loops that send the same commands, made beforehand, through
// the same client; and the CPU time per seeded document with that of bare
// InsertMany loops. The null server runs in a process of its own, so its CPU
// time does not count. Both sides take turns in short rounds; the medians of
// the rounds' ratios are reported.
//
//	go test -run xxx -bench CostRatio ./internal/loadgen
func BenchmarkCostRatio(b *testing.B) {
	uri := startServerProcess(b)
	const workers, rounds = 16, 5

	command := func(b *testing.B, outcomes bool) {
		// Few prebuilt commands, sent several times, keep the heap as small
		// as the load generator's, so that it is collected as often.
		const perWorker, laps = 1_000, 4
		w := newWorkload(b, workers, func(s *workload.Settings) { s.Size, s.OpsPerWorker = 1_000_000, 250_000 })
		prebuilt := make([][]workload.Command, workers)
		for id := range prebuilt {
			g := w.Generator(1, id)
			for i := range int64(perWorker / laps) {
				prebuilt[id] = append(prebuilt[id], clone(g.Command(i)))
			}
		}
		bareClient := connect(b, uri, func(o *mongodb.Options) { o.Monitor = nil })
		client := connect(b, uri, func(o *mongodb.Options) { o.Digest = outcomes })
		cells := newCells(b)
		bare := func() {
			var running sync.WaitGroup
			for id := range prebuilt {
				running.Go(func() {
					for range laps {
						for i := range prebuilt[id] {
							if _, err := bareClient.Execute(context.Background(), &prebuilt[id][i]); err != nil {
								b.Error(err)
							}
						}
					}
				})
			}
			running.Wait()
		}
		full := func() {
			cell := cells()
			o := Options{Workload: w, Iteration: 1, Client: client, OpsLimit: perWorker, Sink: cell}
			if outcomes {
				var err error
				if o.Outcomes, err = cell.Outcomes(); err != nil {
					b.Fatal(err)
				}
			}
			r, err := Run(context.Background(), o)
			if err != nil || r.Cell.Commands != workers*perWorker {
				b.Errorf("%d commands, %v", r.Cell.Commands, err)
			}
		}
		compare(b, bare, full, rounds, workers*perWorker, "command", commandBar)
	}
	b.Run("command", func(b *testing.B) { command(b, false) })
	// With what the server answered written down, digests included.
	b.Run("command-outcomes", func(b *testing.B) { command(b, true) })

	b.Run("document", func(b *testing.B) {
		// Batches as large as Seed's.
		const documents, parallel, perBatch = 24_000, 8, 50
		w := newWorkload(b, parallel, func(s *workload.Settings) { s.Size = documents })
		client := connect(b, uri)
		coll := client.Driver().Database("airline").Collection("flights")
		// One batch of prebuilt documents for each loop.
		batches := make([][]bson.Raw, parallel)
		for i := range batches {
			for j := range int64(perBatch) {
				batches[i] = append(batches[i], w.AppendDocument(nil, int64(i)*perBatch+j))
			}
		}
		bare := func() {
			var running sync.WaitGroup
			for _, batch := range batches {
				running.Go(func() {
					for range documents / parallel / perBatch {
						if _, err := coll.InsertMany(context.Background(), batch); err != nil {
							b.Error(err)
						}
					}
				})
			}
			running.Wait()
		}
		full := func() {
			if _, err := Seed(context.Background(), SeedOptions{Workload: w, Client: client}); err != nil {
				b.Error(err)
			}
		}
		compare(b, bare, full, rounds, documents, "document", seedBar)
	})
}

// compare runs both sides in turns and reports the medians.
func compare(b *testing.B, bare, full func(), rounds, units int, unit string, bar float64) {
	bare() // connections, buffers
	full()
	for b.Loop() {
		var bares, fulls, ratios []float64
		for range rounds {
			x, y := cpuOf(bare)/float64(units), cpuOf(full)/float64(units)
			bares, fulls, ratios = append(bares, x), append(fulls, y), append(ratios, y/x)
		}
		b.ReportMetric(median(bares), "bare-µs/"+unit)
		b.ReportMetric(median(fulls), "full-µs/"+unit)
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(slices.Min(ratios), "ratio-min")
		b.ReportMetric(slices.Max(ratios), "ratio-max")
		b.ReportMetric(bar, "bar")
		b.ReportMetric(0, "ns/op")
	}
}

// cpuOf is the CPU time of f in this process, in µs.
func cpuOf(f func()) float64 {
	before := readUsage()
	f()
	return float64((readUsage().cpu - before.cpu).Nanoseconds()) / 1000
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// newCells returns a function that begins a cell in a run record.
func newCells(b *testing.B) func() *record.CellWriter {
	writer, err := record.Create(filepath.Join(b.TempDir(), "run"), record.Run{ID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := writer.Close(); err != nil {
			b.Error(err)
		}
	})
	return func() *record.CellWriter {
		cell, err := writer.Begin(record.CellID{Target: "null", Size: 1, Variant: record.DefaultVariant, Iteration: 1}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		return cell
	}
}

// clone copies a command out of its generator's buffers.
func clone(c *workload.Command) workload.Command {
	d := *c
	d.Filter, d.Update, d.Projection, d.Pipeline = slices.Clone(c.Filter), slices.Clone(c.Update), slices.Clone(c.Projection), slices.Clone(c.Pipeline)
	d.Documents = make([]bson.Raw, len(c.Documents))
	for i := range c.Documents {
		d.Documents[i] = slices.Clone(c.Documents[i])
	}
	return d
}
