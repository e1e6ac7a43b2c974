package workload

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestDescribe(t *testing.T) {
	w := newWorkload(t, nil)
	d, err := w.Describe()
	if err != nil {
		t.Fatal(err)
	}
	if d.Block != 100 || d.InsertedPer1000 != 550 || d.DeletedPer1000 != 550 || d.GrowthPer1000 != 0 || d.EmptyAfter != 0 {
		t.Errorf("block %d, inserted %v, deleted %v, growth %v, empty after %d",
			d.Block, d.InsertedPer1000, d.DeletedPer1000, d.GrowthPer1000, d.EmptyAfter)
	}
	want := []OperationShare{
		{"find", 60, 60, 2_400_000, 5},
		{"updateOne", 10, 10, 400_000, 1},
		{"updateMany", 10, 10, 400_000, 10},
		{"deleteOne", 5, 5, 200_000, 1},
		{"deleteMany", 5, 5, 200_000, 10},
		{"insertOne", 5, 5, 200_000, 1},
		{"insertMany", 5, 5, 200_000, 10},
	}
	if diff := cmp.Diff(want, d.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
	size := d.DocumentBytes
	if size.Sample != 10_000 || size.Mean < 2000 || size.Mean > 3000 ||
		size.Min > size.P50 || size.P50 > size.P95 || size.P95 > size.Max || size.Min < 1000 || size.Max > 5000 {
		t.Errorf("document sizes %+v", size)
	}
	if d.SeededBytes != size.Mean*1_000_000 {
		t.Errorf("seeded bytes %d", d.SeededBytes)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}

	// The examples are whole commands, one of every operation type in the mix.
	var operations []string
	for _, shape := range d.Shapes {
		operations = append(operations, shape.Operation)
		var doc bson.D
		if err := bson.UnmarshalExtJSON(shape.Example, true, &doc); err != nil {
			t.Errorf("%s: %v", shape.Shape, err)
		} else if doc[len(doc)-1].Key != "$db" {
			t.Errorf("%s: example %s", shape.Shape, shape.Example)
		}
	}
	if want := []string{"find", "updateOne", "updateMany", "deleteOne", "deleteMany", "insertOne", "insertMany"}; !slices.Equal(operations, want) {
		t.Errorf("shapes of %q, want %q", operations, want)
	}
}

func TestDescribeOtherMixes(t *testing.T) {
	w := newWorkload(t, func(s *Settings) {
		s.Mix = Mix{Find: 1, Update: 1, Aggregate: 1}
		s.FindLimit, s.OpsPerWorker, s.Workers = 0, 1000, 1
	})
	d, err := w.Describe()
	if err != nil {
		t.Fatal(err)
	}
	want := []OperationShare{
		{"find", 100. * 34 / 102, 34, 333, 10},
		{"updateOne", 100. * 17 / 102, 17, 167, 1},
		{"updateMany", 100. * 17 / 102, 17, 167, 10},
		{"aggregate", 100. * 34 / 102, 34, 333, 8},
	}
	if diff := cmp.Diff(want, d.Operations); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}

	w = newWorkload(t, func(s *Settings) { s.Mix = Mix{Delete: 1}; s.Size, s.Workers = 1100, 2; s.InsertBatch = 1 })
	if d, err = w.Describe(); err != nil {
		t.Fatal(err)
	}
	// A block of 100 deletes 50 + 500 of the worker's 550 documents.
	if d.GrowthPer1000 != -5500 || d.EmptyAfter != 100 {
		t.Errorf("growth %v, empty after %d", d.GrowthPer1000, d.EmptyAfter)
	}
}
