package workload

import "go.mongodb.org/mongo-driver/v2/bson"

// OpType is an operation type.
type OpType uint8

// The operation types, in the order every list of them uses.
const (
	Find OpType = iota
	UpdateOne
	UpdateMany
	DeleteOne
	DeleteMany
	InsertOne
	InsertMany
	Aggregate
	NumOpTypes = iota
)

// Mix weighs the kinds of command against each other; the weights need not
// add up to 100. Update and Delete are split evenly between their One and
// Many forms.
type Mix struct {
	Find, Update, Delete, Insert, BulkInsert, Aggregate int
}

// Settings define a command sequence completely: equal Settings give equal
// documents and commands, byte for byte, everywhere.
type Settings struct {
	Workload     string // "flights"
	Seed         uint64
	Size         int64 // documents seeded, Workers x FindBatch to MaxSize
	Workers      int   // 1 to 1024
	OpsPerWorker int64 // length of a pass, commands per worker, 1 to 10^10
	Mix          Mix
	InsertBatch  int // documents in an insertMany, 1 to 1000
	FindBatch    int // keys in an $in list, and the cursor's batch size
	FindLimit    int // limit of a find, up to 1,000,000; 0 is none
}

// Command is one message to the server. Its slices are valid until the
// generator that made it makes the next one.
type Command struct {
	Type       OpType
	Shape      string // query shape: operation type and the filter's structure
	Database   string
	Collection string
	Filter     bson.Raw // find, update*, delete*
	Update     bson.Raw // update*
	Projection bson.Raw // find
	// Pipeline, of an aggregate, is the BSON array's bytes: the driver takes
	// it as a bsoncore.Array.
	Pipeline  bson.Raw
	Documents []bson.Raw // insert*, which are ordered
	Limit     int64      // find; 0: send none
	BatchSize int32      // find; 0: send none
}

// Collection is a collection that the workload uses, with its indexes in
// the order they are created.
type Collection struct {
	Database string
	Name     string
	Indexes  []Index
}

// Index is a secondary index.
type Index struct {
	Name string   // as MongoDB would name it
	Keys bson.Raw // ordered
}
