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
	Size         int64 // documents seeded, at least Workers
	Workers      int   // 1 to 1024
	OpsPerWorker int64 // length of a pass, commands per worker
	Mix          Mix
	InsertBatch  int // documents in an insertMany, 1 to 1000
	FindBatch    int // keys in an $in list, and the cursor's batch size
	FindLimit    int // limit of a find; 0 is none
}

// Command is one message to the server. Its slices are valid until the
// generator that made it makes the next one.
type Command struct {
	Type       OpType
	Shape      string // query shape: operation type and the filter's structure
	Database   string
	Collection string
	Filter     bson.Raw   // find, update*, delete*
	Update     bson.Raw   // update*
	Projection bson.Raw   // find
	Pipeline   bson.Raw   // aggregate: the BSON array's bytes
	Documents  []bson.Raw // insert*
	Limit      int64
	BatchSize  int32
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
