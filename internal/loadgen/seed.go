package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

const (
	// A batch ends at either limit. They are small beside what a message
	// may hold (48 MB): every batch is in memory three times, as documents
	// and twice in the driver, for each of the parallel inserts.
	batchDocuments = 1000
	batchBytes     = 128 << 10
	// maxSeeders bounds the inserts under way at once.
	maxSeeders = 16
)

// SeedOptions say what to seed.
type SeedOptions struct {
	Workload *workload.Workload
	Client   *mongodb.Client
	// Parallel is the number of inserts under way at once, at most 16; 0 is
	// one for each worker of the workload, up to that.
	Parallel int
	// Progress, if set, is called about twice a second, and at the end.
	Progress func(SeedProgress)
}

// SeedProgress is how far seeding is.
type SeedProgress struct {
	Documents, Total int64
	Bytes            int64 // of the documents so far
}

// Seed drops the workload's collections, creates them with their indexes in
// order, and fills them. It returns when every document is acknowledged, but
// does not wait for secondaries; the time it reports is that of the inserts.
func Seed(ctx context.Context, o SeedOptions) (record.Seeding, error) {
	if o.Workload == nil || o.Client == nil || o.Parallel < 0 {
		return record.Seeding{}, errors.New("seed: workload and client must be set, parallelism not negative")
	}
	collections := o.Workload.Collections()
	if len(collections) != 1 {
		return record.Seeding{}, fmt.Errorf("seed: %d collections, want 1: documents are numbered in one", len(collections))
	}
	target := collections[0]
	coll := o.Client.Driver().Database(target.Database).Collection(target.Name)
	if err := coll.Drop(ctx); err != nil {
		return record.Seeding{}, fmt.Errorf("seed: drop %s.%s: %w", target.Database, target.Name, err)
	}
	if err := o.Client.CreateIndexes(ctx, target); err != nil {
		return record.Seeding{}, fmt.Errorf("seed: %w", err)
	}
	settings := o.Workload.Settings()
	parallel := o.Parallel
	if parallel == 0 {
		parallel = settings.Workers
	}
	parallel = min(parallel, maxSeeders)
	s := &seeding{workload: o.Workload, collection: coll, total: settings.Size}
	// Small collections are split evenly, too.
	s.stretch = min(max(s.total/int64(4*parallel), 1), batchDocuments)
	result, err := s.run(ctx, parallel, o.Progress)
	if err != nil {
		return result, fmt.Errorf("seed %s.%s: %w", target.Database, target.Name, err)
	}
	return result, nil
}

// seeding is shared by the goroutines that insert.
type seeding struct {
	workload   *workload.Workload
	collection *mongo.Collection
	total      int64
	stretch    int64 // documents a goroutine takes on at once

	claimed          atomic.Int64 // documents that some goroutine has taken on
	documents, bytes atomic.Int64 // acknowledged
}

func (s *seeding) run(ctx context.Context, parallel int, progress func(SeedProgress)) (record.Seeding, error) {
	began := time.Now()
	report := func() {
		if progress != nil {
			progress(SeedProgress{Documents: s.documents.Load(), Total: s.total, Bytes: s.bytes.Load()})
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for range parallel {
		group.Go(func() error { return s.insert(groupCtx) })
	}
	done := make(chan error, 1)
	go func() { done <- group.Wait() }()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			report()
		case err := <-done:
			report()
			return record.Seeding{
				Documents: s.documents.Load(),
				Bytes:     s.bytes.Load(),
				DurationS: time.Since(began).Seconds(),
			}, err
		}
	}
}

func (s *seeding) insert(ctx context.Context) error {
	unordered := options.InsertMany().SetOrdered(false)
	return s.each(func(docs []bson.Raw) error {
		_, err := s.collection.InsertMany(ctx, docs, unordered)
		return brief(err)
	})
}

// each takes on one stretch of documents after the other and hands them over
// in batches, whose memory is used again.
func (s *seeding) each(insert func([]bson.Raw) error) error {
	var b batch
	for {
		first := s.claimed.Add(s.stretch) - s.stretch
		if first >= s.total {
			return nil
		}
		end := min(first+s.stretch, s.total)
		for j := first; j < end; {
			b.reset()
			for ; j < end && len(b.bytes) < batchBytes; j++ {
				b.add(s.workload, j)
			}
			if err := insert(b.list()); err != nil {
				return err
			}
			s.documents.Add(int64(len(b.ends)))
			s.bytes.Add(int64(len(b.bytes)))
		}
	}
}

// batch is some documents in one buffer, whose memory is used again.
type batch struct {
	bytes []byte
	ends  []int
	docs  []bson.Raw
}

func (b *batch) reset() { b.bytes, b.ends = b.bytes[:0], b.ends[:0] }

func (b *batch) add(w *workload.Workload, j int64) {
	b.bytes = w.AppendDocument(b.bytes, j)
	b.ends = append(b.ends, len(b.bytes))
}

// list cuts the buffer into its documents; only now is it sure not to move.
func (b *batch) list() []bson.Raw {
	b.docs = b.docs[:0]
	start := 0
	for _, end := range b.ends {
		b.docs = append(b.docs, bson.Raw(b.bytes[start:end:end]))
		start = end
	}
	return b.docs
}
