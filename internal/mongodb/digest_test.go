package mongodb

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func digestOf(t testing.TB, documents ...any) uint32 {
	t.Helper()
	var d digest
	for _, document := range documents {
		raw, err := bson.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		d.add(raw)
	}
	return d.fold()
}

func e(key string, value any) bson.E { return bson.E{Key: key, Value: value} }

func decimal(t testing.TB, text string) bson.Decimal128 {
	t.Helper()
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Versions may write the same content differently. Each group is one
// content, and different from all others.
func TestDigest(t *testing.T) {
	id := bson.ObjectID{1, 2, 3}
	groups := map[string][][]any{
		"nothing":        {{}},
		"empty document": {{bson.D{}}},
		"two of them":    {{bson.D{}, bson.D{}}},
		"order of fields": {
			{bson.D{e("a", "x"), e("b", bson.D{e("c", true), e("d", nil)})}},
			{bson.D{e("b", bson.D{e("d", nil), e("c", true)}), e("a", "x")}},
		},
		"order of documents": {
			{bson.D{e("a", "1"), e("b", "2")}, bson.D{e("a", "3"), e("b", "4")}},
			{bson.D{e("b", "4"), e("a", "3")}, bson.D{e("a", "1"), e("b", "2")}},
		},
		"fields of other documents": {{bson.D{e("a", "1"), e("b", "4")}, bson.D{e("a", "3"), e("b", "2")}}},
		"types of a whole number": {
			{bson.D{e("a", int32(2))}}, {bson.D{e("a", int64(2))}}, {bson.D{e("a", 2.0)}}, {bson.D{e("a", decimal(t, "2"))}},
			{bson.D{e("a", decimal(t, "2.00"))}}, {bson.D{e("a", decimal(t, "0.2E1"))}},
		},
		"zero": {
			{bson.D{e("a", int32(0))}}, {bson.D{e("a", math.Copysign(0, -1))}}, {bson.D{e("a", decimal(t, "-0"))}}, {bson.D{e("a", decimal(t, "0E+6000"))}},
		},
		"types of a fraction": {{bson.D{e("a", 0.5)}}, {bson.D{e("a", decimal(t, "0.5"))}}, {bson.D{e("a", decimal(t, "0.50"))}}},
		"no double is 0.1":    {{bson.D{e("a", decimal(t, "0.1"))}}, {bson.D{e("a", decimal(t, "0.10"))}}},
		"nearly 0.1":          {{bson.D{e("a", 0.1)}}},
		"an odd large number": {{bson.D{e("a", int64(1<<60+1))}}, {bson.D{e("a", decimal(t, "1152921504606846977"))}}},
		"an even one":         {{bson.D{e("a", int64(1<<60))}}, {bson.D{e("a", float64(1<<60))}}, {bson.D{e("a", decimal(t, "1152921504606846976"))}}},
		"larger than 64 bits": {{bson.D{e("a", float64(1<<70))}}, {bson.D{e("a", decimal(t, "1180591620717411303424"))}}},
		"huge":                {{bson.D{e("a", decimal(t, "1E6000"))}}, {bson.D{e("a", decimal(t, "10E5999"))}}},
		"another huge one":    {{bson.D{e("a", decimal(t, "1E6001"))}}},
		"negative huge":       {{bson.D{e("a", decimal(t, "-1E6000"))}}},
		"not a number":        {{bson.D{e("a", math.NaN())}}, {bson.D{e("a", math.Float64frombits(math.Float64bits(math.NaN())|1<<63))}}, {bson.D{e("a", decimal(t, "NaN"))}}},
		"infinite":            {{bson.D{e("a", math.Inf(1))}}, {bson.D{e("a", decimal(t, "Infinity"))}}},
		"minus infinite":      {{bson.D{e("a", math.Inf(-1))}}, {bson.D{e("a", decimal(t, "-Infinity"))}}},
		"text":                {{bson.D{e("a", "2")}}},
		"another name":        {{bson.D{e("b", int32(2))}}},
		"null":                {{bson.D{e("a", nil)}}},
		"true":                {{bson.D{e("a", true)}}},
		"false":               {{bson.D{e("a", false)}}},
		"date":                {{bson.D{e("a", bson.DateTime(2))}}},
		"object id":           {{bson.D{e("a", id)}}},
		"list":                {{bson.D{e("a", bson.A{int32(1), int32(2)})}}, {bson.D{e("a", bson.A{1.0, int64(2)})}}},
		"list the other way":  {{bson.D{e("a", bson.A{int32(2), int32(1)})}}},
		"list of a list":      {{bson.D{e("a", bson.A{bson.A{int32(1), int32(2)}})}}},
		"document of places":  {{bson.D{e("a", bson.D{e("0", int32(1)), e("1", int32(2))})}}},
		"deeper":              {{bson.D{e("a", bson.D{e("a", int32(2))})}}},
		"empty list":          {{bson.D{e("a", bson.A{})}}},
		"empty inside":        {{bson.D{e("a", bson.D{})}}},
		"dotted name":         {{bson.D{e("a.a", int32(2))}}},
	}
	seen := map[uint32]string{}
	for name, group := range groups {
		first := digestOf(t, group[0]...)
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[first] = name
		for i := range group {
			if digestOf(t, group[i]...) != first {
				t.Errorf("%s: number %d differs from the first", name, i)
			}
		}
	}
}

// A digest is kept in records and compared years later.
func TestDigestStays(t *testing.T) {
	got := digestOf(t,
		bson.D{e("flight_id", int64(4711)), e("status", "On Time"), e("equipment", bson.D{e("amenities", bson.A{"wifi", "power"})})},
		bson.D{e("flight_id", int64(4712)), e("seats_available", int32(-3))},
	)
	if want := uint32(0x8ee34dad); got != want {
		t.Errorf("digest %08x, want %08x: records with digests cannot be compared with earlier ones any more", got, want)
	}
}

func TestDigestAllocatesNothing(t *testing.T) {
	raw, err := bson.Marshal(bson.D{e("flight_id", int64(4711)), e("duration", int32(90)), e("price", 12.5), e("gate", "C17"), e("equipment", bson.D{e("seats", int32(180))})})
	if err != nil {
		t.Fatal(err)
	}
	var d digest
	if n := testing.AllocsPerRun(100, func() { d.add(raw) }); n > 0 {
		t.Errorf("%v allocations a document", n)
	}
}

// FuzzDigest hands arbitrary bytes to the digest: a server may send anything.
// With its fields turned around, a document keeps its digest.
func FuzzDigest(f *testing.F) {
	for _, document := range []bson.D{
		{}, {e("a", int32(1)), e("b", 2.5), e("c", bson.A{"x", nil})}, {e("d", bson.Decimal128{}), e("e", bson.D{e("f", bson.D{})})},
		{e("g", bson.NewDecimal128(0x5FFE000000000000, 1)), e("h", bson.Timestamp{T: 1})},
	} {
		raw, err := bson.Marshal(document)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:len(raw)-1])
	}
	f.Add([]byte("\x0c\x00\x00\x00\x03a\x00\xff\xff\xff\x7f\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again digest
		d.add(data)
		if bson.Raw(data).Validate() != nil {
			return
		}
		elements, err := bson.Raw(data).Elements()
		if err != nil {
			t.Fatal(err)
		}
		turned := []byte{0, 0, 0, 0}
		for i := len(elements) - 1; i >= 0; i-- {
			turned = append(turned, elements[i]...)
		}
		turned = append(turned, 0)
		again.add(turned)
		if len(elements) > 0 && d != again {
			t.Fatalf("%x and %x", data, turned)
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	raw, err := bson.Marshal(bson.D{
		e("flight_id", int64(4711)), e("flight_code", "LH4711"), e("origin", "FRA"), e("destination", "JFK"), e("flight_date", bson.DateTime(1)),
		e("status", "On Time"), e("gate", "C17"), e("seats_available", int32(17)),
	})
	if err != nil {
		b.Fatal(err)
	}
	var d digest
	for b.Loop() {
		d.add(raw)
	}
}
