package mongodb

import (
	"context"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// What the commands become on the wire is tested by package loadgen, with a
// server that compares them byte by byte.

func TestExecuteRefusesMalformedCommands(t *testing.T) {
	client, err := Connect(context.Background(), Options{URI: "mongodb://127.0.0.1:1/"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	for _, test := range []struct {
		command workload.Command
		want    string
	}{
		{workload.Command{Type: workload.InsertOne, Database: "a", Collection: "b"}, "insertOne on a.b: command has 0 documents, want 1"},
		{workload.Command{Type: workload.InsertMany, Database: "a", Collection: "b"}, "insertMany on a.b: "},
		{workload.Command{Type: workload.NumOpTypes, Database: "a", Collection: "b"}, "unknown operation type"},
	} {
		if _, err := client.Execute(context.Background(), &test.command); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %q", err, test.want)
		}
	}
}

func TestCollectionsAreMadeOnce(t *testing.T) {
	driver, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = driver.Disconnect(context.Background()) }()
	var cache collectionCache
	names := []string{"a", "b", "c"}
	handles := make([][]*mongo.Collection, 8)
	var running sync.WaitGroup
	for i := range handles {
		running.Go(func() {
			for _, name := range names {
				handles[i] = append(handles[i], cache.get(driver, "db", name))
			}
		})
	}
	running.Wait()
	for _, got := range handles {
		for i, name := range names {
			if got[i] != handles[0][i] || got[i].Name() != name || got[i].Database().Name() != "db" {
				t.Errorf("collection %s is %s.%s, and not the same for everybody", name, got[i].Database().Name(), got[i].Name())
			}
		}
	}
	if other := cache.get(driver, "other", "a"); other == handles[0][0] || other.Database().Name() != "other" {
		t.Error("two databases share a collection")
	}
}

func TestFindOptions(t *testing.T) {
	projection := bson.Raw{5, 0, 0, 0, 0}
	for _, test := range []struct {
		command workload.Command
		want    options.FindOptions
	}{
		{workload.Command{}, options.FindOptions{}},
		{workload.Command{Limit: 5, BatchSize: 10, Projection: projection}, options.FindOptions{Projection: projection}},
	} {
		var got options.FindOptions
		for _, set := range (*findOptions)(&test.command).List() {
			if err := set(&got); err != nil {
				t.Fatal(err)
			}
		}
		if (got.Limit != nil) != (test.command.Limit != 0) || (got.BatchSize != nil) != (test.command.BatchSize != 0) ||
			(got.Projection != nil) != (test.want.Projection != nil) {
			t.Errorf("options of %+v are %+v", test.command, got)
		}
		if got.Limit != nil && (*got.Limit != 5 || *got.BatchSize != 10) {
			t.Errorf("limit %d, batch size %d; want 5, 10", *got.Limit, *got.BatchSize)
		}
	}
}
