package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// drain reads a cursor to its end and returns every _id, batch by batch.
func drain(t *testing.T, e *Engine, reply bson.Raw, between func()) string {
	t.Helper()
	batches := []string{ids(t, reply)}
	for {
		id := reply.Lookup("cursor", "id").Int64()
		if id == 0 {
			return strings.Join(batches, " | ")
		}
		if between != nil {
			between()
		}
		reply = run(t, e, "test", bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: "c"}, {Key: "batchSize", Value: 3}})
		values, err := reply.Lookup("cursor", "nextBatch").Array().Values()
		if err != nil {
			t.Fatal(err)
		}
		var batch []string
		for _, v := range values {
			batch = append(batch, shellText(lookup(v.Document(), "_id")))
		}
		batches = append(batches, strings.Join(batch, " "))
	}
}

func numbered(n int) string {
	var docs []string
	for i := range n {
		docs = append(docs, fmt.Sprintf(`{"_id":%d,"n":%d,"list":[%d,%d]}`, i, i, i, i+1))
	}
	return "[" + strings.Join(docs, ",") + "]"
}

// Whatever happens to the collection, a cursor goes on with what was there
// when it was opened.
func TestCursorsKeepTheirSnapshot(t *testing.T) {
	for _, c := range []struct{ options, want string }{
		{`{"batchSize":2}`, "0 1 | 2 3 4 | 5 6 7 | "},
		{`{"batchSize":0}`, " | 0 1 2 | 3 4 5 | 6 7"},
		{`{"batchSize":2,"filter":{"n":{"$gte":3}}}`, "3 4 | 5 6 7 | "},
		{`{"batchSize":1,"filter":{"n":{"$in":[1,3,5,7]}}}`, "1 | 3 5 7 | "},
		{`{"batchSize":2,"filter":{"_id":{"$in":[1,3,5,7]}}}`, "1 3 | 5 7"},
		{`{"batchSize":2,"sort":{"n":-1}}`, "7 6 | 5 4 3 | 2 1 0 | "},
		{`{"batchSize":2,"sort":{"unindexed":1,"n":-1}}`, "7 6 | 5 4 3 | 2 1 0"},
		{`{"batchSize":2,"filter":{"list":{"$gte":3}}}`, "2 3 | 4 5 6 | 7"},
		{`{"batchSize":2,"limit":4}`, "0 1 | 2 3"},
		{`{"batchSize":2,"limit":2}`, "0 1"},
		{`{"batchSize":2,"limit":5,"skip":1,"projection":{"n":1}}`, "1 2 | 3 4 5"},
		{`{"batchSize":2,"hint":{"$natural":-1}}`, "7 6 | 5 4 3 | 2 1 0 | "},
		{`{"batchSize":2,"limit":4,"singleBatch":true}`, "0 1"},
	} {
		t.Run(c.options, func(t *testing.T) {
			e := filled(t, numbered(8))
			run(t, e, "test", onC(t, "createIndexes", `{"indexes":[{"key":{"n":1},"name":"n_1"},{"key":{"list":1},"name":"list_1"}]}`))
			reply := run(t, e, "test", onC(t, "find", c.options))
			step := 100
			got := drain(t, e, reply, func() {
				step++
				run(t, e, "test", onC(t, "update", `{"updates":[{"q":{},"u":{"$inc":{"n":100}},"multi":true}]}`))
				run(t, e, "test", onC(t, "insert", fmt.Sprintf(`{"documents":[{"_id":%d,"n":5}]}`, step)))
				run(t, e, "test", onC(t, "delete", `{"deletes":[{"q":{"_id":{"$lt":7}},"limit":0}]}`))
			})
			if !strings.HasPrefix(got, c.want) || strings.Trim(got[len(c.want):], " |") != "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// The request's memory may be reused as soon as Run has returned.
func TestRequestsAreNotKept(t *testing.T) {
	e := New()
	send := func(command bson.D) bson.Raw {
		body, err := bson.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := e.Run(context.Background(), &Request{Database: "test", Name: command[0].Key, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		for i := range body {
			body[i] = 0xAA
		}
		return reply
	}
	send(append(bson.D{{Key: "createIndexes", Value: "c"}}, doc(t, `{"indexes":[{"key":{"n":1},"name":"n_1"}]}`)...))
	send(append(bson.D{{Key: "insert", Value: "c"}}, bson.E{Key: "documents", Value: array(t, numbered(8))}))
	send(append(bson.D{{Key: "update", Value: "c"}}, doc(t, `{"updates":[{"q":{"_id":3},"u":{"$set":{"s":"text"},"$push":{"list":{"a":1}}}},{"q":{"_id":9,"x":"y"},"u":{"n":9,"s":"upsert"},"upsert":true}]}`)...))
	reply := send(append(bson.D{{Key: "find", Value: "c"}}, doc(t, `{"filter":{"n":{"$gte":2},"s":{"$exists":true}},"projection":{"s":1,"list":1},"batchSize":1}`)...))
	if got := drain(t, e, reply, nil); got != "3 | 9" {
		t.Errorf("got %q", got)
	}
	got := extJSON(t, firstBatch(t, run(t, e, "test", onC(t, "find", `{"filter":{"_id":3}}`)))[0])
	if got != `{"_id":3,"n":3,"list":[3,4,{"a":1}],"s":"text"}` {
		t.Error(got)
	}
	checkIndexes(t, e.collection("test.c").data)
}

func TestCursorEnds(t *testing.T) {
	e := filled(t, numbered(8))
	clock := time.Unix(0, 0)
	e.cursors.now = func() time.Time { return clock }
	open := func(options string) int64 {
		id := run(t, e, "test", onC(t, "find", options)).Lookup("cursor", "id").Int64()
		if id == 0 {
			t.Fatal("no cursor")
		}
		return id
	}
	more := func(id int64, collection string) error {
		_, err := try(e, "test", nil, bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: collection}, {Key: "batchSize", Value: 1}})
		return err
	}
	idle, patient := open(`{"batchSize":1}`), open(`{"batchSize":1,"noCursorTimeout":true}`)
	check(t, more(idle, "other"), 13, "belongs to a different namespace")
	clock = clock.Add(9 * time.Minute)
	if err := more(idle, "c"); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(11 * time.Minute)
	check(t, more(idle, "c"), 43, "not found")
	if err := more(patient, "c"); err != nil {
		t.Fatal(err)
	}
	killed := open(`{"batchSize":1}`)
	reply := run(t, e, "test", onC(t, "killCursors", fmt.Sprintf(`{"cursors":[{"$numberLong":"%d"},{"$numberLong":"5"}]}`, killed)))
	want := fmt.Sprintf(`{"cursorsKilled":[%d],"cursorsNotFound":[5],"cursorsAlive":[],"cursorsUnknown":[],"ok":1.0}`, killed)
	if got := extJSON(t, reply); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	check(t, more(killed, "c"), 43, "")
	run(t, e, "test", onC(t, "drop", `{}`))
	if err := more(patient, "c"); err != nil {
		t.Errorf("a cursor on a dropped collection: %v", err)
	}
}
