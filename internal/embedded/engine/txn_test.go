package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func in(t *testing.T, e *Engine, txn *Txn, name, options string) bson.Raw {
	t.Helper()
	reply, err := try(e, "test", txn, onC(t, name, options))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return reply
}

func hasLabel(err error) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(e.Labels, labelTransient)
}

func TestTransactionSeesItsWritesAndNoOthers(t *testing.T) {
	e := filled(t, `[{"_id":1,"n":1},{"_id":2,"n":2}]`)
	run(t, e, "test", onC(t, "createIndexes", `{"indexes":[{"key":{"n":1},"name":"n_1"}]}`))
	txn := e.Begin()
	in(t, e, txn, "find", `{}`) // takes the snapshot
	run(t, e, "test", onC(t, "insert", `{"documents":[{"_id":3,"n":3}]}`))
	in(t, e, txn, "insert", `{"documents":[{"_id":4,"n":4}]}`)
	in(t, e, txn, "update", `{"updates":[{"q":{"n":1},"u":{"$set":{"n":10}}}]}`)
	in(t, e, txn, "delete", `{"deletes":[{"q":{"_id":2},"limit":1}]}`)
	if got := ids(t, in(t, e, txn, "find", `{}`)); got != "1 4" {
		t.Errorf("inside: %s", got)
	}
	if got := ids(t, in(t, e, txn, "find", `{"filter":{"n":10}}`)); got != "1" {
		t.Errorf("inside, by index: %s", got)
	}
	if got := ids(t, run(t, e, "test", onC(t, "find", `{}`))); got != "1 2 3" {
		t.Errorf("outside: %s", got)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := ids(t, run(t, e, "test", onC(t, "find", `{"sort":{"n":1}}`))); got != "3 4 1" {
		t.Errorf("after the commit: %s", got)
	}
	checkIndexes(t, e.collection("test.c").data)
	check(t, txn.Commit(), 256, "")
	_, err := try(e, "test", txn, onC(t, "find", `{}`))
	check(t, err, 256, "")
}

func TestAbortedTransactionLeavesNothing(t *testing.T) {
	e := filled(t, `[{"_id":1}]`)
	txn := e.Begin()
	in(t, e, txn, "insert", `{"documents":[{"_id":2}]}`)
	in(t, e, txn, "delete", `{"deletes":[{"q":{},"limit":0}]}`)
	txn.Abort()
	txn.Abort()
	if got := ids(t, run(t, e, "test", onC(t, "find", `{}`))); got != "1" {
		t.Errorf("after the abort: %s", got)
	}
	checkIndexes(t, e.collection("test.c").data)
	check(t, txn.Commit(), 251, "")
	_, err := try(e, "test", txn, onC(t, "find", `{}`))
	check(t, err, 251, "")
	if !hasLabel(err) {
		t.Error("no label TransientTransactionError")
	}
	run(t, e, "test", onC(t, "insert", `{"documents":[{"_id":2}]}`))
}

func TestWriteConflicts(t *testing.T) {
	for _, c := range []struct{ name, first, firstOptions, second, secondOptions string }{
		{"both update", "update", `{"updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`, "update", `{"updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`},
		{"update and delete", "update", `{"updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`, "delete", `{"deletes":[{"q":{"_id":1},"limit":1}]}`},
		{"both insert one _id", "insert", `{"documents":[{"_id":9}]}`, "insert", `{"documents":[{"_id":9}]}`},
		{"both upsert", "update", `{"updates":[{"q":{"_id":9},"u":{"$set":{"n":1}},"upsert":true}]}`, "update", `{"updates":[{"q":{"_id":9},"u":{"$set":{"n":1}},"upsert":true}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := filled(t, `[{"_id":1,"n":1}]`)
			first, second := e.Begin(), e.Begin()
			in(t, e, first, c.first, c.firstOptions)
			_, err := try(e, "test", second, onC(t, c.second, c.secondOptions))
			check(t, err, 112, "")
			if !hasLabel(err) {
				t.Error("no label TransientTransactionError")
			}
			if err := first.Commit(); err != nil {
				t.Error(err)
			}
			check(t, second.Commit(), 251, "")
		})
		t.Run(c.name+", committed since the snapshot", func(t *testing.T) {
			e := filled(t, `[{"_id":1,"n":1}]`)
			txn := e.Begin()
			in(t, e, txn, "find", `{}`)
			run(t, e, "test", onC(t, c.first, c.firstOptions))
			_, err := try(e, "test", txn, onC(t, c.second, c.secondOptions))
			check(t, err, 112, "")
		})
	}
}

func TestDuplicateKeyAbortsTheTransaction(t *testing.T) {
	e := filled(t, `[{"_id":1}]`)
	txn := e.Begin()
	in(t, e, txn, "insert", `{"documents":[{"_id":2}]}`)
	reply := in(t, e, txn, "insert", `{"documents":[{"_id":1}]}`)
	if code := reply.Lookup("writeErrors", "0", "code").Int32(); code != 11000 {
		t.Errorf("code %d", code)
	}
	check(t, txn.Commit(), 251, "")
}

func TestCommandsOutsideOfTransactions(t *testing.T) {
	e := filled(t, `[{"_id":1}]`)
	for _, name := range []string{"count", "create", "drop", "listIndexes", "collStats"} {
		_, err := try(e, "test", e.Begin(), onC(t, name, `{}`))
		check(t, err, 263, "multi-document transaction")
	}
}

func TestWritersWaitForATransaction(t *testing.T) {
	for _, c := range []struct {
		name, command, options, want string
		commit                       bool
	}{
		{"update after a commit", "update", `{"updates":[{"q":{},"u":{"$inc":{"n":1}},"multi":true}]}`, `[{"_id":1,"n":11},{"_id":2,"n":3},{"_id":5,"n":6}]`, true},
		{"update after an abort", "update", `{"updates":[{"q":{},"u":{"$inc":{"n":1}},"multi":true}]}`, `[{"_id":1,"n":2},{"_id":2,"n":3}]`, false},
		{"insert after an abort", "insert", `{"documents":[{"_id":5}]}`, `[{"_id":1,"n":1},{"_id":2,"n":2},{"_id":5}]`, false},
		{"drop after a commit", "drop", `{}`, `[]`, true},
		{"index after a commit", "createIndexes", `{"indexes":[{"key":{"n":1},"name":"n_1"}]}`, `[{"_id":1,"n":10},{"_id":2,"n":2},{"_id":5,"n":5}]`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := filled(t, `[{"_id":1,"n":1},{"_id":2,"n":2}]`)
				txn := e.Begin()
				in(t, e, txn, "update", `{"updates":[{"q":{"_id":1},"u":{"$set":{"n":10}}}]}`)
				in(t, e, txn, "insert", `{"documents":[{"_id":5,"n":5}]}`)
				done := make(chan error, 1)
				go func() {
					_, err := try(e, "test", nil, onC(t, c.command, c.options))
					done <- err
				}()
				synctest.Wait()
				if len(done) > 0 {
					t.Fatal("the writer did not wait")
				}
				if c.commit {
					if err := txn.Commit(); err != nil {
						t.Fatal(err)
					}
				} else {
					txn.Abort()
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				reply := run(t, e, "test", onC(t, "find", `{}`))
				if got, want := extJSON(t, bson.D{{Key: "r", Value: reply.Lookup("cursor", "firstBatch")}}), extJSON(t, bson.D{{Key: "r", Value: array(t, c.want)}}); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := filled(t, `[{"_id":1,"n":1}]`)
		txn := e.Begin()
		in(t, e, txn, "update", `{"updates":[{"q":{"_id":1},"u":{"$set":{"n":10}}}]}`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		body, _ := bson.Marshal(onC(t, "delete", `{"deletes":[{"q":{},"limit":0}]}`))
		_, err := e.Run(ctx, &Request{Database: "test", Name: "delete", Body: body})
		check(t, err, 50, "")
		txn.Abort()
	})
}

// Transfers between accounts in transactions never change the total that a
// snapshot sees.
func TestTransfers(t *testing.T) {
	e := filled(t, `[{"_id":0,"n":100},{"_id":1,"n":100},{"_id":2,"n":100}]`)
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 60 {
				txn := e.Begin()
				_, err := try(e, "test", txn, bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{
					bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: (w + i) % 3}}}, {Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: -1}}}}}},
					bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: (w + i + 1) % 3}}}, {Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}}},
				}}})
				if err != nil {
					if !hasLabel(err) {
						t.Error(err)
					}
					continue
				}
				if err := txn.Commit(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 100 {
		reply := run(t, e, "test", onC(t, "aggregate", `{"pipeline":[{"$group":{"_id":null,"n":{"$sum":"$n"}}}],"cursor":{}}`))
		if got := reply.Lookup("cursor", "firstBatch", "0", "n").Int32(); got != 300 {
			t.Fatalf("total %d", got)
		}
	}
	wg.Wait()
	checkIndexes(t, e.collection("test.c").data)
}

// Readers, writers, cursors and index builds at the same time, for the race
// detector.
func TestConcurrency(t *testing.T) {
	e := filled(t, `[]`)
	var wg sync.WaitGroup
	worker := func(steps int, step func(i int) error) {
		wg.Go(func() {
			for i := range steps {
				if err := step(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for w := range 3 {
		worker(150, func(i int) error {
			_, err := try(e, "test", nil, bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{
				bson.D{{Key: "_id", Value: w*1000 + i}, {Key: "n", Value: i}, {Key: "list", Value: bson.A{i, w}}},
			}}})
			return err
		})
		worker(100, func(i int) error {
			_, err := try(e, "test", nil, onC(t, "update", `{"updates":[{"q":{"n":{"$lt":20}},"u":{"$inc":{"n":3}},"multi":true}]}`))
			return err
		})
		worker(100, func(i int) error {
			reply, err := try(e, "test", nil, onC(t, "find", `{"filter":{"n":{"$gte":0}},"batchSize":2}`))
			for err == nil {
				id := reply.Lookup("cursor", "id").Int64()
				if id == 0 {
					break
				}
				reply, err = try(e, "test", nil, bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: "c"}, {Key: "batchSize", Value: 50}})
			}
			return err
		})
	}
	worker(20, func(i int) error {
		_, err := try(e, "test", nil, onC(t, "createIndexes", `{"indexes":[{"key":{"n":1},"name":"n_1"},{"key":{"list":1},"name":"list_1"}]}`))
		if err == nil && i%3 == 2 {
			_, err = try(e, "test", nil, onC(t, "dropIndexes", `{"index":"n_1"}`))
		}
		return err
	})
	worker(40, func(i int) error {
		_, err := try(e, "test", nil, onC(t, "delete", `{"deletes":[{"q":{"n":{"$gt":100}},"limit":1}]}`))
		return err
	})
	worker(20, func(int) error {
		for _, name := range []string{"collStats", "listIndexes", "count"} {
			if _, err := try(e, "test", nil, onC(t, name, `{}`)); err != nil && !strings.HasPrefix(err.Error(), "NamespaceNotFound") {
				return err
			}
		}
		_, err := try(e, "admin", nil, bson.D{{Key: "listDatabases", Value: 1}})
		return err
	})
	wg.Wait()
	checkIndexes(t, e.collection("test.c").data)
}
