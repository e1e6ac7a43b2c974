package engine

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func names(t *testing.T, reply bson.Raw) string {
	t.Helper()
	var out []string
	for _, d := range firstBatch(t, reply) {
		out = append(out, d.Lookup("name").StringValue())
	}
	return strings.Join(out, " ")
}

func TestCatalog(t *testing.T) {
	e := New()
	if !slices.IsSorted(e.Commands()) || !slices.Contains(e.Commands(), "find") {
		t.Errorf("commands: %v", e.Commands())
	}
	for _, name := range []string{"b", "a"} {
		run(t, e, "one", bson.D{{Key: "create", Value: name}})
	}
	run(t, e, "two", bson.D{{Key: "insert", Value: "x.y"}, {Key: "documents", Value: bson.A{bson.D{{Key: "a", Value: 1}}}}})
	if got := names(t, run(t, e, "one", bson.D{{Key: "listCollections", Value: 1}})); got != "a b" {
		t.Errorf("collections of one: %s", got)
	}
	if got := names(t, run(t, e, "two", bson.D{{Key: "listCollections", Value: 1}, {Key: "nameOnly", Value: true}})); got != "x.y" {
		t.Errorf("collections of two: %s", got)
	}
	if got := names(t, run(t, e, "one", bson.D{{Key: "listCollections", Value: 1}, {Key: "filter", Value: bson.D{{Key: "name", Value: "b"}}}})); got != "b" {
		t.Errorf("filtered: %s", got)
	}
	databases := run(t, e, "admin", bson.D{{Key: "listDatabases", Value: 1}, {Key: "nameOnly", Value: true}})
	if got := extJSON(t, databases); got != `{"databases":[{"name":"one"},{"name":"two"}],"ok":1.0}` {
		t.Errorf("databases: %s", got)
	}
	stats := run(t, e, "two", bson.D{{Key: "collStats", Value: "x.y"}})
	if n := stats.Lookup("count").Int32(); n != 1 {
		t.Errorf("count: %d", n)
	}
	if got := extJSON(t, run(t, e, "one", bson.D{{Key: "dropDatabase", Value: 1}})); got != `{"dropped":"one","ok":1.0}` {
		t.Errorf("dropDatabase: %s", got)
	}
	if got := extJSON(t, run(t, e, "admin", bson.D{{Key: "listDatabases", Value: 1}, {Key: "nameOnly", Value: true}})); got != `{"databases":[{"name":"two"}],"ok":1.0}` {
		t.Errorf("databases: %s", got)
	}
}

func TestIndexLifecycle(t *testing.T) {
	e := filled(t, numbered(50))
	create := `{"indexes":[{"key":{"n":1},"name":"n_1"},{"key":{"list":-1,"n":1},"name":"list_-1_n_1"},{"key":{"_id":1,"n":1},"name":"both","unique":true}]}`
	run(t, e, "test", onC(t, "createIndexes", create))
	checkIndexes(t, e.collection("test.c").data)
	reply := run(t, e, "test", onC(t, "createIndexes", create))
	if note, ok := reply.Lookup("note").StringValueOK(); !ok || note != "all indexes already exist" {
		t.Errorf("created again: %s", extJSON(t, reply))
	}
	if got := names(t, run(t, e, "test", onC(t, "listIndexes", `{}`))); got != "_id_ n_1 list_-1_n_1 both" {
		t.Errorf("indexes: %s", got)
	}
	if got := run(t, e, "test", onC(t, "dropIndexes", `{"index":{"list":-1,"n":1}}`)).Lookup("nIndexesWas").Int32(); got != 4 {
		t.Errorf("nIndexesWas %d", got)
	}
	run(t, e, "test", onC(t, "dropIndexes", `{"index":["n_1"]}`))
	if got := names(t, run(t, e, "test", onC(t, "listIndexes", `{}`))); got != "_id_ both" {
		t.Errorf("indexes: %s", got)
	}
	run(t, e, "test", onC(t, "dropIndexes", `{"index":"*"}`))
	if got := names(t, run(t, e, "test", onC(t, "listIndexes", `{}`))); got != "_id_" {
		t.Errorf("indexes: %s", got)
	}
	// A failing build leaves nothing of the whole command.
	_, err := try(e, "test", nil, onC(t, "createIndexes", `{"indexes":[{"key":{"n":1},"name":"n_1"},{"key":{"none":1},"name":"none_1","unique":true}]}`))
	check(t, err, 11000, "dup key: { none: null }")
	if got := names(t, run(t, e, "test", onC(t, "listIndexes", `{}`))); got != "_id_" {
		t.Errorf("indexes: %s", got)
	}
}

func TestInsertMakesIDs(t *testing.T) {
	e := filled(t, `[{"a":1},{"b":1,"_id":7}]`)
	docs := firstBatch(t, run(t, e, "test", onC(t, "find", `{}`)))
	if id := docs[0].Lookup("_id"); id.Type != bson.TypeObjectID || docs[0][5] != '_' {
		t.Errorf("the _id is %v", id)
	}
	if got := extJSON(t, docs[1]); got != `{"_id":7,"b":1}` {
		t.Errorf("the _id is not moved to the front: %s", got)
	}
}
