package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// The codes are those of MongoDB's error_codes.yml, where the manual does not
// name them.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name, options string
		code          int32
		message       string // part of it
	}{
		{"find", `{"foo":1}`, 40415, "BSON field 'find.foo' is an unknown field."},
		{"find", `{"filter":"x"}`, 14, "BSON field 'find.filter' is the wrong type 'string', expected type 'object'"},
		{"find", `{"limit":-1}`, 51024, "BSON field 'limit' value must be >= 0"},
		{"find", `{"skip":-1}`, 51024, "skip"},
		{"find", `{"batchSize":-1}`, 51024, "batchSize"},
		{"find", `{"tailable":true}`, 238, "tailable"},
		{"find", `{"collation":{"locale":"fr"}}`, 238, "collation"},
		{"find", `{"let":{"a":1}}`, 238, "let"},
		{"find", `{"min":{"a":1}}`, 238, "min"},
		{"find", `{"returnKey":true}`, 238, "returnKey"},
		{"find", `{"hint":"none"}`, 2, "hint provided does not correspond to an existing index"},
		{"find", `{"filter":{"$foo":1}}`, 2, "unknown top level operator: $foo"},
		{"find", `{"filter":{"a":{"$foo":1}}}`, 2, "unknown operator: $foo"},
		{"find", `{"filter":{"a":{"$gt":1,"b":2}}}`, 2, "unknown operator: b"},
		{"find", `{"filter":{"a":{"$in":1}}}`, 2, "$in needs an array"},
		{"find", `{"filter":{"a":{"$in":[{"$gt":1}]}}}`, 2, "cannot nest $ under $in"},
		{"find", `{"filter":{"$and":1}}`, 2, "$and must be an array"},
		{"find", `{"filter":{"$or":[]}}`, 2, "must be a nonempty array"},
		{"find", `{"filter":{"$or":[1]}}`, 2, "entries need to be full objects"},
		{"find", `{"filter":{"a":{"$not":1}}}`, 2, "$not needs a regex or a document"},
		{"find", `{"filter":{"a":{"$not":{}}}}`, 2, "$not cannot be empty"},
		{"find", `{"filter":{"a":{"$size":-1}}}`, 2, "$size"},
		{"find", `{"filter":{"a":{"$elemMatch":1}}}`, 2, "$elemMatch needs an Object"},
		{"find", `{"filter":{"a":{"$regex":1}}}`, 2, "$regex has to be a string"},
		{"find", `{"filter":{"a":{"$regex":"("}}}`, 51091, "Regular expression is invalid"},
		{"find", `{"filter":{"a":{"$options":"i"}}}`, 2, "$options needs a $regex"},
		{"find", `{"filter":{"$where":"1"}}`, 238, "$where"},
		{"find", `{"filter":{"$expr":{"$eq":[1,1]}}}`, 238, "$expr"},
		{"find", `{"filter":{"a":{"$type":"int"}}}`, 238, "$type"},
		{"find", `{"sort":{"a":2}}`, 15975, "$sort key ordering must be 1"},
		{"find", `{"sort":{"a":"x"}}`, 15974, "Illegal key in $sort specification"},
		{"find", `{"projection":{"a":1,"b":0}}`, 31254, "Cannot do exclusion on field b in inclusion projection"},
		{"find", `{"projection":{"a":0,"b":1}}`, 31253, "Cannot do inclusion on field b in exclusion projection"},
		{"find", `{"projection":{"a":1,"a.b":1}}`, 31249, "Path collision"},
		{"find", `{"projection":{"a.b":1,"a":1}}`, 31250, "Path collision"},
		{"find", `{"projection":{"a":{"$slice":1}}}`, 238, "$slice"},
		{"find", `{"projection":{"a.$":1}}`, 238, "positional"},
		{"insert", `{"documents":[]}`, 21, "Write batch sizes must be between 1 and 100000. Got 0 operations."},
		{"insert", `{"documents":[1]}`, 14, "BSON field 'insert.documents.0' is the wrong type 'int', expected type 'object'"},
		{"insert", `{}`, 40414, "BSON field 'insert.documents' is missing but a required field"},
		{"insert", `{"documents":[{}],"foo":1}`, 40415, "BSON field 'insert.foo' is an unknown field."},
		{"update", `{"updates":[{"q":{},"foo":1,"u":{"$set":{"a":1}}}]}`, 40415, "BSON field 'update.updates.foo' is an unknown field."},
		{"update", `{"updates":[{"q":{}}]}`, 40414, "update.updates.u"},
		{"update", `{"updates":[{"u":{}}]}`, 40414, "update.updates.q"},
		{"update", `{"updates":[{"q":{},"u":{"$set":{"a":1}},"arrayFilters":[{"x":1}]}]}`, 238, "arrayFilters"},
		{"update", `{"updates":[{"q":{},"u":[{"$set":{"a":1}}]}]}`, 238, "pipeline"},
		{"update", `{"updates":[{"q":{},"u":{"$set":{"a.$[]":1}}}]}`, 238, "positional"},
		{"update", `{"updates":[{"q":{},"u":{"$rename":{"a":"b"}}}]}`, 238, "$rename"},
		{"delete", `{"deletes":[{"q":{},"limit":2}]}`, 9, "The limit field in delete objects must be 0 or 1. Got 2"},
		{"delete", `{"deletes":[{"q":{}}]}`, 40414, "delete.deletes.limit"},
		{"delete", `{"deletes":[{"q":{},"limit":1,"foo":1}]}`, 40415, "BSON field 'delete.deletes.foo' is an unknown field."},
		{"findAndModify", `{"query":{}}`, 9, "Either an update or remove=true must be specified"},
		{"findAndModify", `{"remove":true,"update":{"a":1}}`, 9, "Cannot specify both an update and remove=true"},
		{"findAndModify", `{"remove":true,"new":true}`, 9, "Cannot specify both new=true and remove=true"},
		{"findAndModify", `{"update":{"$inc":{"a":1}},"query":{"_id":3}}`, 14, "Cannot apply $inc to a value of non-numeric type"},
		{"aggregate", `{"pipeline":[]}`, 9, "The 'cursor' option is required"},
		{"aggregate", `{"cursor":{}}`, 40414, "aggregate.pipeline"},
		{"aggregate", `{"pipeline":[{"$foo":1}],"cursor":{}}`, 40324, "Unrecognized pipeline stage name: '$foo'"},
		{"aggregate", `{"pipeline":[{"$lookup":{}}],"cursor":{}}`, 238, "$lookup"},
		{"aggregate", `{"pipeline":[{}],"cursor":{}}`, 40323, "exactly one field"},
		{"aggregate", `{"pipeline":[{"$limit":0}],"cursor":{}}`, 15958, "the limit must be positive"},
		{"aggregate", `{"pipeline":[{"$limit":"x"}],"cursor":{}}`, 5107201, "invalid argument to $limit stage"},
		{"aggregate", `{"pipeline":[{"$skip":-1}],"cursor":{}}`, 5107200, "invalid argument to $skip stage"},
		{"aggregate", `{"pipeline":[{"$sort":{}}],"cursor":{}}`, 15976, "at least one sort key"},
		{"aggregate", `{"pipeline":[{"$match":1}],"cursor":{}}`, 15959, "match filter"},
		{"aggregate", `{"pipeline":[{"$project":{}}],"cursor":{}}`, 51272, "at least one field"},
		{"aggregate", `{"pipeline":[{"$count":""}],"cursor":{}}`, 40156, "non-empty string"},
		{"aggregate", `{"pipeline":[{"$group":{"n":{"$sum":1}}}],"cursor":{}}`, 15955, "must include an _id"},
		{"aggregate", `{"pipeline":[{"$group":{"_id":1,"n":{"$foo":1}}}],"cursor":{}}`, 15952, "unknown group operator '$foo'"},
		{"aggregate", `{"pipeline":[{"$group":{"_id":1,"n":1}}],"cursor":{}}`, 40234, "must be an accumulator object"},
		{"aggregate", `{"pipeline":[{"$group":{"_id":{"$foo":1}}}],"cursor":{}}`, 168, "Unrecognized expression '$foo'"},
		{"aggregate", `{"pipeline":[{"$group":{"_id":{"$add":[1,2]}}}],"cursor":{}}`, 238, "$add"},
		{"aggregate", `{"pipeline":[{"$unwind":"a"}],"cursor":{}}`, 28818, "prefixed with a '$'"},
		{"aggregate", `{"pipeline":[],"cursor":{},"foo":1}`, 40415, "BSON field 'aggregate.foo' is an unknown field."},
		{"count", `{"query":1}`, 14, "count.query"},
		{"distinct", `{}`, 40414, "distinct.key"},
		{"create", `{"capped":true,"size":1000}`, 238, "capped"},
		{"create", `{"foo":1}`, 40415, "create.foo"},
		{"createIndexes", `{"indexes":[{"key":{"a":1}}]}`, 9, "'name'"},
		{"createIndexes", `{"indexes":[{"key":{},"name":"x"}]}`, 67, "Index keys cannot be empty."},
		{"createIndexes", `{"indexes":[{"key":{"a":0},"name":"x"}]}`, 67, "cannot be 0"},
		{"createIndexes", `{"indexes":[{"key":{"a":"foo"},"name":"x"}]}`, 67, "Unknown index plugin 'foo'"},
		{"createIndexes", `{"indexes":[{"key":{"a":"text"},"name":"x"}]}`, 238, "text"},
		{"createIndexes", `{"indexes":[{"key":{"$**":1},"name":"x"}]}`, 238, "wildcard"},
		{"createIndexes", `{"indexes":[{"key":{"a":1},"name":"x","expireAfterSeconds":1}]}`, 238, "expireAfterSeconds"},
		{"createIndexes", `{"indexes":[{"key":{"a":1},"name":"x","foo":1}]}`, 197, "The field 'foo' is not valid for an index specification"},
		{"createIndexes", `{"indexes":[{"key":{"b":1},"name":"a_1"}]}`, 86, "same name"},
		{"createIndexes", `{"indexes":[{"key":{"a":1},"name":"other"}]}`, 85, "different name: a_1"},
		{"createIndexes", `{"indexes":[{"key":{"dup":1},"name":"dup_1","unique":true}]}`, 11000, "E11000 duplicate key error collection: test.c index: dup_1 dup key: { dup: 7 }"},
		{"createIndexes", `{"indexes":[{"key":{"x":1,"y":1},"name":"x_1_y_1"}]}`, 171, "cannot index parallel arrays"},
		{"dropIndexes", `{"index":"none"}`, 27, "index not found with name [none]"},
		{"dropIndexes", `{"index":"_id_"}`, 72, "cannot drop _id index"},
		{"explain", `{}`, 14, "explain"},
		{"collStats", `{"foo":1}`, 40415, "collStats.foo"},
		{"killCursors", `{}`, 40414, "killCursors.cursors"},
	} {
		t.Run(c.name+" "+c.options, func(t *testing.T) {
			e := filled(t, `[{"_id":1,"dup":7,"a":1},{"_id":2,"dup":7,"x":[1,2],"y":[3,4]},{"_id":3,"a":"text"}]`)
			run(t, e, "test", onC(t, "createIndexes", `{"indexes":[{"key":{"a":1},"name":"a_1"}]}`))
			_, err := try(e, "test", nil, onC(t, c.name, c.options))
			check(t, err, c.code, c.message)
		})
	}
}

func check(t *testing.T, err error, code int32, message string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want code %d", err, code)
	}
	if e.Code != code || !strings.Contains(e.Message, message) {
		t.Errorf("got %d %q, want %d %q", e.Code, e.Message, code, message)
	}
	if e.Name == "" {
		t.Error("the code has no name")
	}
}

func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		source, name, options string
		code                  int32
		message               string
	}{
		{"reference/operator/update", "update", `{"updates":[{"q":{},"u":{"$foo":{"a":1}}}]}`, 9, "Unknown modifier: $foo"},
		{"reference/operator/update: conflicts", "update", `{"updates":[{"q":{},"u":{"$set":{"a":1},"$inc":{"a":1}}}]}`, 40, "Updating the path 'a' would create a conflict at 'a'"},
		{"reference/operator/update: conflicts below", "update", `{"updates":[{"q":{},"u":{"$set":{"a":1,"a.b":1}}}]}`, 40, "Updating the path 'a.b' would create a conflict at 'a'"},
		{"reference/operator/update/inc", "update", `{"updates":[{"q":{"_id":1},"u":{"$inc":{"s":1}}}]}`, 14, "has the field 's' of non-numeric type string"},
		{"reference/operator/update/inc: operand", "update", `{"updates":[{"q":{},"u":{"$inc":{"a":"x"}}}]}`, 14, "Cannot increment with non-numeric argument"},
		{"reference/operator/update/push", "update", `{"updates":[{"q":{"_id":1},"u":{"$push":{"a":1}}}]}`, 2, "must be an array but is of type int"},
		{"reference/operator/update/pull", "update", `{"updates":[{"q":{"_id":1},"u":{"$pull":{"a":1}}}]}`, 2, "Cannot apply $pull to a non-array value"},
		{"reference/operator/update/set: below a scalar", "update", `{"updates":[{"q":{"_id":1},"u":{"$set":{"a.b":1}}}]}`, 28, "Cannot create field 'b' in element {a: 1}"},
		{"reference/command/update: _id", "update", `{"updates":[{"q":{"_id":1},"u":{"$set":{"_id":2}}}]}`, 66, "would modify the immutable field '_id'"},
		{"reference/command/update: _id in a replacement", "update", `{"updates":[{"q":{"_id":1},"u":{"_id":2}}]}`, 66, "_id"},
		{"reference/command/update: multi replacement", "update", `{"updates":[{"q":{},"u":{"a":1},"multi":true}]}`, 9, "multi update is not supported for replacement-style update"},
		{"reference/command/update: empty names", "update", `{"updates":[{"q":{},"u":{"$set":{"a.":1}}}]}`, 56, "contains an empty field name"},
		{"core/index-unique", "update", `{"updates":[{"q":{"_id":1},"u":{"$set":{"u":2}}}]}`, 11000, "index: u_1 dup key: { u: 2 }"},
		{"core/index-unique: missing counts as null", "insert", `{"documents":[{"_id":9}]}`, 11000, "dup key: { u: null }"},
		{"reference/limits: _id", "insert", `{"documents":[{"_id":[1]}]}`, 53, "The '_id' value cannot be of type array"},
		{"reference/command/delete: the filter", "delete", `{"deletes":[{"q":{"$foo":1},"limit":0}]}`, 2, "unknown top level operator"},
	} {
		t.Run(c.source, func(t *testing.T) {
			e := filled(t, `[{"_id":1,"a":1,"s":"x","u":1},{"_id":2,"u":2},{"_id":3}]`)
			run(t, e, "test", onC(t, "createIndexes", `{"indexes":[{"key":{"u":1},"name":"u_1","unique":true}]}`))
			before := extJSON(t, run(t, e, "test", onC(t, "find", `{}`)))
			reply := run(t, e, "test", onC(t, c.name, c.options))
			failed := reply.Lookup("writeErrors", "0").Document()
			if code := failed.Lookup("code").Int32(); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
			if text := failed.Lookup("errmsg").StringValue(); !strings.Contains(text, c.message) {
				t.Errorf("message %q, want %q", text, c.message)
			}
			if after := extJSON(t, run(t, e, "test", onC(t, "find", `{}`))); after != before {
				t.Errorf("the collection changed: %s", after)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	e := New()
	big := bson.D{{Key: "_id", Value: 1}, {Key: "s", Value: strings.Repeat("x", maxDocumentSize)}}
	nested := bson.D{}
	for range maxDepth + 1 {
		nested = bson.D{{Key: "a", Value: nested}}
	}
	for _, c := range []struct {
		name     string
		database string
		command  bson.D
		code     int32
	}{
		{"unknown command", "test", bson.D{{Key: "foo", Value: 1}}, 59},
		{"namespace of the wrong type", "test", bson.D{{Key: "find", Value: 1}}, 73},
		{"empty name", "test", bson.D{{Key: "find", Value: ""}}, 73},
		{"name with a dollar", "test", bson.D{{Key: "insert", Value: "a$b"}, {Key: "documents", Value: bson.A{bson.D{}}}}, 73},
		{"database with a dot", "te.st", bson.D{{Key: "find", Value: "c"}}, 73},
		{"no cursor", "test", bson.D{{Key: "getMore", Value: int64(1)}, {Key: "collection", Value: "c"}}, 43},
		{"cursor of the wrong type", "test", bson.D{{Key: "getMore", Value: "1"}, {Key: "collection", Value: "c"}}, 14},
		{"listIndexes without a collection", "test", bson.D{{Key: "listIndexes", Value: "c"}}, 26},
		{"listDatabases elsewhere", "test", bson.D{{Key: "listDatabases", Value: 1}}, 13},
		{"dropIndexes without a collection", "test", bson.D{{Key: "dropIndexes", Value: "c"}, {Key: "index", Value: "*"}}, 26},
		{"explain of an unknown command", "test", bson.D{{Key: "explain", Value: bson.D{{Key: "foo", Value: 1}}}}, 59},
		{"explain verbosity", "test", bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "c"}}}, {Key: "verbosity", Value: "x"}}, 2},
		{"nested too deep", "test", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{nested}}}, 15},
		{"a path too long", "test", bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: strings.Repeat("a.", 200) + "a", Value: 1}}}}, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := try(e, c.database, nil, c.command)
			check(t, err, c.code, "")
		})
	}
	t.Run("a document too large", func(t *testing.T) {
		reply := run(t, e, "test", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{big}}})
		if code := reply.Lookup("writeErrors", "0", "code").Int32(); code != 2 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("a document grows too large", func(t *testing.T) {
		run(t, e, "test", bson.D{{Key: "insert", Value: "grow"}, {Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: 1}, {Key: "s", Value: strings.Repeat("x", maxDocumentSize-100)}}}}})
		reply := run(t, e, "test", bson.D{{Key: "update", Value: "grow"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "t", Value: strings.Repeat("x", 100)}}}}}}}}})
		if code := reply.Lookup("writeErrors", "0", "code").Int32(); code != 17419 {
			t.Errorf("code %d", code)
		}
	})
	t.Run("a sequence of another command", func(t *testing.T) {
		body, _ := bson.Marshal(bson.D{{Key: "insert", Value: "c"}})
		empty, _ := bson.Marshal(bson.D{})
		_, err := e.Run(context.Background(), &Request{Database: "test", Name: "insert", Body: body, Sequences: map[string][]bson.Raw{"updates": {empty}}})
		check(t, err, 40415, "insert.updates")
	})
	t.Run("malformed bodies", func(t *testing.T) {
		body, _ := bson.Marshal(bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "a", Value: "text"}}}})
		for i := range body {
			if _, err := e.Run(context.Background(), &Request{Database: "test", Name: "find", Body: body[:i]}); err == nil {
				t.Errorf("a body cut at %d is accepted", i)
			}
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		body, _ := bson.Marshal(bson.D{{Key: "find", Value: "c"}})
		_, err := e.Run(ctx, &Request{Database: "test", Name: "find", Body: body})
		check(t, err, 11601, "")
	})
	t.Run("past the deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), -1)
		defer cancel()
		body, _ := bson.Marshal(bson.D{{Key: "find", Value: "c"}})
		_, err := e.Run(ctx, &Request{Database: "test", Name: "find", Body: body})
		check(t, err, 50, "operation exceeded time limit")
	})
}
