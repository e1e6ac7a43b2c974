package embedded_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// BenchmarkFlights runs the flights mix at 100,000 documents through the
// driver and the server in one process. The bar is 15,000 commands/s with
// GOMAXPROCS=1, client included:
//
//	GOMAXPROCS=1 go test -run '^$' -bench Flights -benchtime 100000x ./internal/embedded
func BenchmarkFlights(b *testing.B) {
	const size, workers = 100_000, 16
	ctx := context.Background()
	s, err := embedded.Start(ctx, embedded.Config{ReplicaSet: "rs", Initiate: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	client, err := mongodb.Connect(ctx, mongodb.Options{URI: s.URI(), AppName: "bench", MaxPoolSize: workers + 4})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = client.Close(ctx) }()
	w, err := workload.New(workload.Settings{Workload: "flights", Seed: 178477, Size: size, Workers: workers, OpsPerWorker: 250_000,
		Mix: workload.DefaultMix(), InsertBatch: 10, FindBatch: 10, FindLimit: 5})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	seed(b, ctx, client, w, size)
	b.Logf("seeded %d documents in %v", size, time.Since(start))

	generators := make([]*workload.Generator, workers)
	for i := range generators {
		generators[i] = w.Generator(0, i)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	runtime.GC()
	b.ResetTimer()
	cpu := cpuTime(b)
	for i := range workers {
		wg.Go(func() {
			for n := int64(0); next.Add(1) <= int64(b.N); n++ {
				if _, err := client.Execute(ctx, generators[i].Command(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
	// What one core could do alone, when the machine has other work as well.
	b.ReportMetric(float64(b.N)/(cpuTime(b)-cpu).Seconds(), "commands/cpu-s")
}

// cpuTime is the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func seed(b *testing.B, ctx context.Context, client *mongodb.Client, w *workload.Workload, size int64) {
	b.Helper()
	for _, c := range w.Collections() {
		coll := client.Driver().Database(c.Database).Collection(c.Name)
		var specs bson.A
		for _, index := range c.Indexes {
			specs = append(specs, bson.D{{Key: "key", Value: index.Keys}, {Key: "name", Value: index.Name}})
		}
		if err := client.Driver().Database(c.Database).RunCommand(ctx, bson.D{{Key: "createIndexes", Value: c.Name}, {Key: "indexes", Value: specs}}).Err(); err != nil {
			b.Fatal(err)
		}
		for from := int64(0); from < size; from += 1000 {
			docs := make([]any, 0, 1000)
			for j := from; j < min(from+1000, size); j++ {
				docs = append(docs, bson.Raw(w.AppendDocument(nil, j)))
			}
			if _, err := coll.InsertMany(ctx, docs); err != nil {
				b.Fatal(err)
			}
		}
	}
}
