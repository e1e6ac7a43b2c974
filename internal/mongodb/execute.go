package mongodb

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// Outcome is what the server answered to a command, in numbers of documents.
type Outcome struct {
	Returned, Matched, Modified, Inserted, Deleted int64
	// Digest is that of the documents returned, if Digested: equal for equal
	// content, whatever the order of fields and documents and the types of
	// numbers. Digesting is the time that it took, inside Execute.
	Digest    uint32
	Digested  bool
	Digesting time.Duration
}

// Execute sends one command through the driver's ordinary CRUD methods, with
// the retries the client is configured for, and reads a find or an aggregate
// to its end, getMore by getMore, without decoding the documents. When it
// returns an error, the outcome holds what the driver still knows of the
// command; ErrorName names the error.
//
// Neither the command nor its bytes are kept after the return.
func (c *Client) Execute(ctx context.Context, cmd *workload.Command) (Outcome, error) {
	coll := c.collections.get(c.driver, cmd.Database, cmd.Collection)
	out, err := execute(ctx, coll, cmd, c.digest)
	if err != nil {
		return out, fmt.Errorf("%s on %s.%s: %w", cmd.Type, cmd.Database, cmd.Collection, err)
	}
	return out, nil
}

func execute(ctx context.Context, coll *mongo.Collection, cmd *workload.Command, digest bool) (Outcome, error) {
	read := drain
	if digest {
		read = drainDigesting
	}
	switch cmd.Type {
	case workload.Find:
		return read(ctx)(coll.Find(ctx, cmd.Filter, (*findOptions)(cmd)))
	case workload.Aggregate:
		return read(ctx)(coll.Aggregate(ctx, pipeline(cmd.Pipeline), (*aggregateOptions)(cmd)))
	case workload.UpdateOne:
		return updated(coll.UpdateOne(ctx, cmd.Filter, cmd.Update))
	case workload.UpdateMany:
		return updated(coll.UpdateMany(ctx, cmd.Filter, cmd.Update))
	case workload.DeleteOne:
		return deleted(coll.DeleteOne(ctx, cmd.Filter))
	case workload.DeleteMany:
		return deleted(coll.DeleteMany(ctx, cmd.Filter))
	case workload.InsertOne:
		if len(cmd.Documents) != 1 {
			return Outcome{}, fmt.Errorf("command has %d documents, want 1", len(cmd.Documents))
		}
		res, err := coll.InsertOne(ctx, cmd.Documents[0])
		if res == nil || err != nil {
			return Outcome{}, err
		}
		return Outcome{Inserted: 1}, nil
	case workload.InsertMany:
		res, err := coll.InsertMany(ctx, cmd.Documents)
		if res == nil {
			return Outcome{}, err
		}
		return Outcome{Inserted: int64(len(res.InsertedIDs))}, err
	default:
		return Outcome{}, fmt.Errorf("unknown operation type %d", cmd.Type)
	}
}

// drain reads a cursor to its end and counts its documents. It takes the
// results of the driver's methods as they are.
func drain(ctx context.Context) func(*mongo.Cursor, error) (Outcome, error) {
	return func(cur *mongo.Cursor, err error) (Outcome, error) {
		if err != nil {
			return Outcome{}, err
		}
		var n int64
		for {
			// The batch at hand is complete in memory: count it at once
			// instead of document by document.
			if cur.ID() == 0 {
				n += int64(cur.RemainingBatchLength())
				return Outcome{Returned: n}, cur.Close(ctx)
			}
			if !cur.Next(ctx) {
				break
			}
			n++
		}
		if err := cur.Err(); err != nil {
			// The server's cursor is gone or unreachable; what Close says
			// adds nothing.
			_ = cur.Close(context.WithoutCancel(ctx))
			return Outcome{Returned: n}, err
		}
		return Outcome{Returned: n}, cur.Close(ctx)
	}
}

// drainDigesting reads a cursor to its end, looking at every document.
func drainDigesting(ctx context.Context) func(*mongo.Cursor, error) (Outcome, error) {
	return func(cur *mongo.Cursor, err error) (Outcome, error) {
		if err != nil {
			return Outcome{}, err
		}
		var out Outcome
		var sum digest
		for cur.Next(ctx) { // which may wait for the server
			began := time.Now()
			sum.add(cur.Current)
			out.Returned++
			for cur.RemainingBatchLength() > 0 && cur.Next(ctx) { // which does not
				sum.add(cur.Current)
				out.Returned++
			}
			out.Digesting += time.Since(began)
		}
		if err := cur.Err(); err != nil {
			_ = cur.Close(context.WithoutCancel(ctx))
			return out, err
		}
		out.Digest, out.Digested = sum.fold(), true
		return out, cur.Close(ctx)
	}
}

func updated(res *mongo.UpdateResult, err error) (Outcome, error) {
	if res == nil {
		return Outcome{}, err
	}
	return Outcome{Matched: res.MatchedCount, Modified: res.ModifiedCount}, err
}

func deleted(res *mongo.DeleteResult, err error) (Outcome, error) {
	if res == nil {
		return Outcome{}, err
	}
	return Outcome{Deleted: res.DeletedCount}, err
}

// findOptions is a command as the options of its find: what options.Find()
// would hold, without a closure and a pointer for each.
type findOptions workload.Command

// List implements options.Lister.
func (f *findOptions) List() []func(*options.FindOptions) error {
	return []func(*options.FindOptions) error{f.apply}
}

func (f *findOptions) apply(o *options.FindOptions) error {
	if len(f.Projection) > 0 {
		o.Projection = f.Projection
	}
	if f.Limit != 0 {
		o.Limit = &f.Limit
	}
	if f.BatchSize != 0 {
		o.BatchSize = &f.BatchSize
	}
	return nil
}

// aggregateOptions is a command as the options of its aggregate.
type aggregateOptions workload.Command

// List implements options.Lister.
func (a *aggregateOptions) List() []func(*options.AggregateOptions) error {
	return []func(*options.AggregateOptions) error{a.apply}
}

func (a *aggregateOptions) apply(o *options.AggregateOptions) error {
	if a.BatchSize != 0 {
		o.BatchSize = &a.BatchSize
	}
	return nil
}

// pipeline is the BSON of an aggregation pipeline: the driver takes it as it
// is.
type pipeline bson.Raw

// MarshalBSONValue implements bson.ValueMarshaler.
func (p pipeline) MarshalBSONValue() (byte, []byte, error) {
	return byte(bson.TypeArray), p, nil
}

// collectionCache keeps the driver's collection handles, which are costly to
// make and safe to share. A workload has a handful of them: a list is
// searched faster than a map, and read without a lock. Its zero value is
// empty.
type collectionCache struct {
	known atomic.Pointer[[]cachedCollection]
	grow  sync.Mutex
}

type cachedCollection struct {
	database, name string
	handle         *mongo.Collection
}

func (c *collectionCache) get(client *mongo.Client, database, name string) *mongo.Collection {
	if handle := c.find(database, name); handle != nil {
		return handle
	}
	c.grow.Lock()
	defer c.grow.Unlock()
	if handle := c.find(database, name); handle != nil {
		return handle
	}
	var list []cachedCollection
	if known := c.known.Load(); known != nil {
		list = append(list, *known...)
	}
	handle := client.Database(database).Collection(name)
	list = append(list, cachedCollection{database, name, handle})
	c.known.Store(&list)
	return handle
}

func (c *collectionCache) find(database, name string) *mongo.Collection {
	known := c.known.Load()
	if known == nil {
		return nil
	}
	for i := range *known {
		if e := &(*known)[i]; e.name == name && e.database == database {
			return e.handle
		}
	}
	return nil
}
