package engine

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// generator makes random values from a small world, so that they meet.
type generator struct{ *rand.Rand }

func (g generator) scalar() any {
	switch g.IntN(14) {
	case 0:
		return nil
	case 1:
		return int32(g.IntN(6) - 3)
	case 2:
		return int64(g.IntN(6) - 3)
	case 3:
		return float64(g.IntN(12)-6) / 2
	case 4:
		return []string{"", "a", "b", "a\x00", "a\x00b", "ab"}[g.IntN(6)]
	case 5:
		return g.IntN(2) == 0
	case 6:
		return bson.DateTime(g.IntN(4) - 2)
	case 7:
		return bson.ObjectID{0: byte(g.IntN(3))}
	case 8:
		d, err := bson.ParseDecimal128([]string{"0", "1.5", "-2", "0.1", "2E+1", "NaN", "Infinity", "9007199254740993.5"}[g.IntN(8)])
		if err != nil {
			panic(err)
		}
		return d
	case 9:
		return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.1, 1 << 53, -(1 << 53), 1 << 63, math.Copysign(0, -1)}[g.IntN(8)]
	case 10:
		return []int64{1<<53 + 1, 1<<53 - 1, math.MaxInt64, math.MinInt64, -(1<<53 + 1), math.MaxInt64 - 512}[g.IntN(6)]
	case 11:
		return bson.Binary{Subtype: byte(g.IntN(2)), Data: bytes.Repeat([]byte{byte(g.IntN(2))}, g.IntN(3))}
	case 12:
		return bson.Timestamp{T: uint32(g.IntN(2)), I: uint32(g.IntN(2))}
	default:
		return []any{bson.MinKey{}, bson.MaxKey{}, bson.Regex{Pattern: "a"}, bson.D{}, bson.A{}}[g.IntN(5)]
	}
}

func (g generator) any(depth int) any {
	switch n := g.IntN(10); {
	case depth > 0 && n < 2:
		a := bson.A{}
		for range g.IntN(4) {
			a = append(a, g.any(depth-1))
		}
		return a
	case depth > 0 && n < 4:
		return g.document(depth - 1)
	}
	return g.scalar()
}

func (g generator) document(depth int) bson.D {
	d := bson.D{}
	for _, name := range []string{"a", "b", "c"} {
		if g.IntN(3) > 0 {
			d = append(d, bson.E{Key: name, Value: g.any(depth)})
		}
	}
	g.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
	return d
}

func (g generator) path() string {
	return []string{"a", "b", "c", "a.a", "a.b", "b.a", "a.b.c", "b.b"}[g.IntN(8)]
}

func (g generator) filter(depth int) bson.D {
	f := bson.D{}
	for range 1 + g.IntN(3) {
		switch n := g.IntN(12); {
		case depth > 0 && n == 0:
			f = append(f, bson.E{Key: []string{"$and", "$or", "$nor"}[g.IntN(3)], Value: bson.A{g.filter(depth - 1), g.filter(depth - 1)}})
		case n < 4:
			v := g.any(1)
			if _, ok := v.(bson.Regex); ok {
				v = "a"
			}
			f = append(f, bson.E{Key: g.path(), Value: v})
		default:
			f = append(f, bson.E{Key: g.path(), Value: g.operators()})
		}
	}
	return f
}

func (g generator) operators() bson.D {
	d := bson.D{}
	for range 1 + g.IntN(2) {
		v := g.any(1)
		if _, ok := v.(bson.Regex); ok {
			v = int32(1)
		}
		switch g.IntN(9) {
		case 0:
			d = append(d, bson.E{Key: "$in", Value: bson.A{v, g.any(1), g.scalar()}})
		case 1:
			d = append(d, bson.E{Key: "$ne", Value: v})
		case 2:
			d = append(d, bson.E{Key: "$exists", Value: g.IntN(2) == 0})
		case 3:
			d = append(d, bson.E{Key: "$not", Value: bson.D{{Key: "$gt", Value: v}}})
		case 4:
			d = append(d, bson.E{Key: "$elemMatch", Value: bson.D{{Key: "$gte", Value: v}}})
		case 5:
			d = append(d, bson.E{Key: "$eq", Value: v})
		default:
			d = append(d, bson.E{Key: []string{"$gt", "$gte", "$lt", "$lte"}[g.IntN(4)], Value: v})
		}
	}
	return d
}

func (g generator) value(tb testing.TB) value {
	tb.Helper()
	raw, err := bson.Marshal(bson.D{{Key: "v", Value: g.any(2)}})
	if err != nil {
		tb.Fatal(err)
	}
	return lookup(raw, "v")
}

// Two values compare as their encoded keys do, ascending and descending, and
// no key is the beginning of another one.
func TestKeysKeepTheOrder(t *testing.T) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	values := make([]value, 1500)
	for i := range values {
		values[i] = g.value(t)
	}
	for i, a := range values {
		ka := appendKey(nil, a)
		for _, b := range values[:i] {
			kb := appendKey(nil, b)
			want := compare(a, b)
			if got := bytes.Compare(ka, kb); got != cmp.Compare(want, 0) {
				t.Fatalf("%s and %s compare %d, their keys %d", shellText(a), shellText(b), want, got)
			}
			if want != -compare(b, a) {
				t.Fatalf("%s and %s compare differently the other way round", shellText(a), shellText(b))
			}
			if want != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
				t.Fatalf("the key of %s begins like that of %s", shellText(a), shellText(b))
			}
			da, db := appendKeyIn(nil, a, true), appendKeyIn(nil, b, true)
			if got := bytes.Compare(append(da, endOfKey), append(db, endOfKey)); got != -cmp.Compare(want, 0) {
				t.Fatalf("%s and %s compare %d, their descending keys %d", shellText(a), shellText(b), want, got)
			}
			ea, eb := newEntry(append(slices.Clone(ka), endOfKey), 1), newEntry(append(kb, endOfKey), 1)
			if lessEntry(ea, eb) != (want < 0) || ea.before(eb) != (want < 0) {
				t.Fatalf("%s and %s compare %d, their entries do not", shellText(a), shellText(b), want)
			}
		}
	}
}

// A filter finds the same documents by index as by a scan of the collection,
// in the order asked for, also after updates and deletions.
func TestIndexesFindWhatScansFind(t *testing.T) {
	indexes := []string{
		`{"a":1}`, `{"b":-1}`, `{"a":1,"b":-1}`, `{"a.b":1}`, `{"a.a":1,"a.b":1}`, `{"c":1,"a.b":-1}`, `{"b":1,"c":1,"a":1}`, `{"a.b.c":-1}`,
	}
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := generator{rand.New(rand.NewPCG(seed, 7))}
			e := New()
			var specs bson.A
			for _, i := range g.Perm(len(indexes))[:3] {
				specs = append(specs, bson.D{{Key: "key", Value: doc(t, indexes[i])}, {Key: "name", Value: indexes[i]}})
			}
			run(t, e, "test", bson.D{{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: specs}})
			for id := range 120 {
				d := append(bson.D{{Key: "_id", Value: id}}, g.document(2)...)
				// Parallel arrays are refused, which is fine.
				run(t, e, "test", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{d}}})
			}
			compareScans(t, e, g, 150)
			for range 60 {
				run(t, e, "test", bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{
					{Key: "q", Value: bson.D{{Key: "_id", Value: g.IntN(120)}}},
					{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: []string{"a", "b", "c"}[g.IntN(3)], Value: g.any(2)}}}}},
				}}}})
				run(t, e, "test", bson.D{{Key: "delete", Value: "c"}, {Key: "deletes", Value: bson.A{bson.D{
					{Key: "q", Value: bson.D{{Key: "_id", Value: g.IntN(400)}}}, {Key: "limit", Value: 1},
				}}}})
			}
			compareScans(t, e, g, 150)
			checkIndexes(t, e.collection("test.c").data)
		})
	}
}

func compareScans(t *testing.T, e *Engine, g generator, rounds int) {
	t.Helper()
	for range rounds {
		find := bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: g.filter(1)}, {Key: "batchSize", Value: 1000}}
		sorted := g.IntN(2) == 0
		if sorted {
			find = append(find, bson.E{Key: "sort", Value: bson.D{
				{Key: []string{"a", "b", "c", "a.b"}[g.IntN(4)], Value: 1 - 2*g.IntN(2)}, {Key: "_id", Value: 1},
			}})
		}
		got, err1 := try(e, "test", nil, slices.Clone(find))
		want, err2 := try(e, "test", nil, append(slices.Clone(find), bson.E{Key: "hint", Value: bson.D{{Key: "$natural", Value: 1}}}))
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("%s: %v, by a scan %v", extJSON(t, find), err1, err2)
		}
		if err1 != nil {
			continue
		}
		gotIDs, wantIDs := strings.Fields(ids(t, got)), strings.Fields(ids(t, want))
		if !sorted {
			slices.Sort(gotIDs)
			slices.Sort(wantIDs)
		}
		if !slices.Equal(gotIDs, wantIDs) {
			explained := run(t, e, "test", bson.D{{Key: "explain", Value: find}, {Key: "verbosity", Value: "queryPlanner"}})
			t.Fatalf("%s\nby plan %s\ngives %v\na scan gives %v", extJSON(t, find), extJSON(t, explained.Lookup("queryPlanner", "winningPlan").Document()), gotIDs, wantIDs)
		}
	}
}

// checkIndexes verifies that every index holds exactly the keys of the
// documents.
func checkIndexes(t *testing.T, s *store) {
	t.Helper()
	size := int64(0)
	for _, ix := range s.indexes {
		n, bytes := 0, int64(0)
		var l keyList
		it := s.records.Iter()
		for it.Next() {
			if err := ix.pattern.keys(it.Value(), &l); err != nil {
				t.Fatal(err)
			}
			for i := range l.len() {
				n++
				bytes += int64(len(l.at(i))) + ridSize
				if _, ok := ix.tree.Get(newEntry(l.at(i), it.Key())); !ok {
					t.Errorf("index %s misses a key of record %d", ix.name, it.Key())
				}
			}
		}
		if ix.tree.Len() != n || ix.size != bytes {
			t.Errorf("index %s has %d keys of %d bytes, want %d of %d", ix.name, ix.tree.Len(), ix.size, n, bytes)
		}
	}
	it := s.records.Iter()
	for it.Next() {
		size += int64(len(it.Value()))
	}
	if s.size != size {
		t.Errorf("size is %d, want %d", s.size, size)
	}
}
