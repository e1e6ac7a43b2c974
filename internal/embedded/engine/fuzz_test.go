package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// FuzzCommand runs arbitrary bytes as a command: BSON or, when they begin
// with a brace, extended JSON, whose mutations stay well-formed more often.
// Whatever it is, the engine answers in time, and its indexes agree with its
// documents afterwards.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{
		`{"find":"c","filter":{"a":{"$gt":1,"$lt":{"$numberLong":"9"}},"b.c":{"$in":[1,"x",null]}},"sort":{"a":1,"_id":-1},"projection":{"a":1,"b.c":1},"limit":3,"skip":1,"batchSize":2}`,
		`{"find":"c","filter":{"$or":[{"a":1},{"list":{"$elemMatch":{"$gte":2}}}],"d":{"$not":{"$regex":"^a","$options":"i"}},"e":{"$exists":false}},"hint":"a_1"}`,
		`{"insert":"c","documents":[{"_id":50,"a":[1,{"b":2}],"d":{"$date":"2020-01-01T00:00:00Z"}},{"x":{"$numberDecimal":"1.5"}}],"ordered":false}`,
		`{"update":"c","updates":[{"q":{"a":{"$gte":2}},"u":{"$set":{"b.c":1,"list.1":5},"$inc":{"a":1},"$unset":{"d":1},"$push":{"list":{"$each":[7,8]}}},"multi":true},{"q":{"_id":77},"u":{"$setOnInsert":{"a":1}},"upsert":true}]}`,
		`{"update":"c","updates":[{"q":{"_id":1},"u":{"a":5,"b":{"c":2}}},{"q":{},"u":{"$pull":{"list":{"$gt":1}},"$min":{"a":0},"$max":{"n":9},"$mul":{"m":2}}}]}`,
		`{"delete":"c","deletes":[{"q":{"_id":{"$in":[1,2]}},"limit":0},{"q":{"a":3},"limit":1,"hint":{"a":1}}]}`,
		`{"aggregate":"c","pipeline":[{"$match":{"a":{"$lt":9}}},{"$unwind":"$list"},{"$group":{"_id":"$b.c","s":{"$sum":"$a"},"v":{"$avg":"$a"},"p":{"$push":"$list"},"t":{"$addToSet":"$d"},"f":{"$first":"$$ROOT"}}},{"$sort":{"s":-1}},{"$project":{"_id":0,"s":1,"k":{"x":"$s","y":[1,"$v"]}}},{"$limit":5}],"cursor":{"batchSize":2}}`,
		`{"aggregate":"c","pipeline":[{"$sort":{"a":1}},{"$skip":1},{"$limit":2},{"$count":"n"}],"cursor":{},"explain":true}`,
		`{"findAndModify":"c","query":{"a":{"$ne":3}},"sort":{"a":-1},"update":{"$inc":{"a":1}},"new":true,"upsert":true,"fields":{"a":0}}`,
		`{"explain":{"find":"c","filter":{"a":{"$in":[1,2,3]},"b.c":{"$gt":0}},"sort":{"b.c":1}},"verbosity":"executionStats"}`,
		`{"explain":{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":2}}}]},"verbosity":"allPlansExecution"}`,
		`{"createIndexes":"c","indexes":[{"key":{"list":1,"a":-1},"name":"x"},{"key":{"b.c":1},"name":"y","unique":true}]}`,
		`{"dropIndexes":"c","index":"*"}`,
		`{"count":"c","query":{"a":{"$gt":0}},"skip":1,"limit":-2}`,
		`{"distinct":"c","key":"list.b","query":{"a":1}}`,
		`{"listCollections":1,"filter":{"name":"c"},"cursor":{}}`,
		`{"listIndexes":"c"}`, `{"collStats":"c","scale":1024}`, `{"create":"d"}`, `{"drop":"c"}`, `{"dropDatabase":1}`,
		`{"getMore":{"$numberLong":"1"},"collection":"c"}`, `{"killCursors":"c","cursors":[{"$numberLong":"1"}]}`,
	} {
		f.Add([]byte(seed))
		var d bson.D
		if err := bson.UnmarshalExtJSON([]byte(seed), false, &d); err != nil {
			f.Fatalf("%s: %v", seed, err)
		}
		raw, err := bson.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	docs := array(f, `[{"_id":1,"a":1,"b":{"c":1},"list":[1,2,3]},{"_id":2,"a":2,"b":[{"c":1},{"c":"x"}],"list":[{"b":1},{"b":[2]}]},
		{"_id":3,"a":3.5,"d":"abc","list":[]},{"_id":4,"a":{"$numberLong":"4"},"d":null},{"_id":5,"a":{"$numberDecimal":"5.5"},"b":7}]`)
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) > 0 && input[0] == '{' {
			var d bson.D
			if bson.UnmarshalExtJSON(input, false, &d) != nil {
				return
			}
			raw, err := bson.Marshal(d)
			if err != nil {
				return
			}
			input = raw
		}
		e := New()
		run(t, e, "test", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: docs}})
		run(t, e, "test", bson.D{{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: bson.A{
			bson.D{{Key: "key", Value: bson.D{{Key: "a", Value: 1}}}, {Key: "name", Value: "a_1"}},
			bson.D{{Key: "key", Value: bson.D{{Key: "b.c", Value: -1}, {Key: "a", Value: 1}}}, {Key: "name", Value: "b.c_-1_a_1"}},
		}}})
		name := ""
		if validate(input) == nil {
			it := fieldsOf(input)
			var first element
			if it.next(&first) {
				name = string(first.key)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, txn := range []*Txn{nil, e.Begin()} {
			reply, err := e.Run(ctx, &Request{Database: "test", Name: name, Body: input, Txn: txn})
			var failed *Error
			switch {
			case err == nil:
				if err := validate(reply); err != nil {
					t.Fatalf("the reply is malformed: %v", err)
				}
			case !errors.As(err, &failed):
				t.Fatalf("not an *Error: %v", err)
			case failed.Code == codeMaxTimeMSExpired || failed.Code == 1:
				t.Fatal(err)
			}
			if txn != nil {
				_ = txn.Commit()
			}
		}
		for _, c := range e.all() {
			checkIndexes(t, c.data)
		}
	})
}

// dice draws choices from bytes, so that the fuzzer's mutations become
// choices.
type dice struct{ b []byte }

func (d *dice) roll(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0]) % n
	d.b = d.b[1:]
	return v
}

func (d *dice) value(words []string, depth int) any {
	n := d.roll(12)
	if depth == 0 && n < 7 {
		n += 5
	}
	switch {
	case n < 4:
		doc := bson.D{}
		for range d.roll(4) {
			doc = append(doc, bson.E{Key: words[d.roll(len(words))], Value: d.value(words, depth-1)})
		}
		return doc
	case n < 6:
		list := bson.A{}
		for range d.roll(4) {
			list = append(list, d.value(words, depth-1))
		}
		return list
	case n < 8:
		return int32(d.roll(9) - 3)
	case n == 8:
		return "$" + words[d.roll(len(words))]
	case n == 9:
		return words[d.roll(len(words))]
	}
	g := generator{rand.New(rand.NewPCG(uint64(d.roll(256)), 0))}
	return g.scalar()
}

// FuzzVocabulary runs commands made of the words that the engine knows.
func FuzzVocabulary(f *testing.F) {
	e := New()
	commands := e.Commands()
	words := strings.Fields(`_id a b c b.c list list.0 list.b d filter query q u update updates deletes documents pipeline cursor batchSize
		sort projection fields limit skip hint key index indexes name unique verbosity collection cursors multi upsert new remove ordered
		$eq $ne $gt $gte $lt $lte $in $nin $exists $not $and $or $nor $elemMatch $size $regex $options $all
		$set $unset $inc $mul $min $max $push $each $pull $setOnInsert $natural
		$match $group $sum $avg $first $last $addToSet $sort $limit $skip $project $count $unwind path includeArrayIndex preserveNullAndEmptyArrays $literal`)
	for i := range 40 {
		g := rand.New(rand.NewPCG(uint64(i), 3))
		seed := make([]byte, 100)
		for k := range seed {
			seed[k] = byte(g.UintN(256))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		d := &dice{input}
		e := filled(t, `[{"_id":1,"a":1,"b":{"c":1},"list":[1,2,3]},{"_id":2,"a":2,"b":[{"c":1},{"c":"x"}],"list":[{"b":1},{"b":[2]}]},{"_id":3,"a":3.5,"d":"abc","list":[]}]`)
		run(t, e, "test", onC(t, "createIndexes", `{"indexes":[{"key":{"a":1},"name":"a_1"},{"key":{"b.c":-1,"a":1},"name":"b"},{"key":{"list":1},"name":"l"}]}`))
		for range 4 {
			c := bson.D{{Key: commands[d.roll(len(commands))], Value: "c"}}
			switch c[0].Key {
			case "update":
				c = append(c, bson.E{Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: d.value(words, 3)}, {Key: "u", Value: d.value(words, 3)}, {Key: "multi", Value: d.roll(2) == 0}, {Key: "upsert", Value: d.roll(2) == 0}}}})
			case "find", "count":
				c = append(c, bson.E{Key: "filter", Value: d.value(words, 4)})
			case "aggregate":
				c = append(c, bson.E{Key: "pipeline", Value: bson.A{bson.D{{Key: words[len(words)-1-d.roll(15)], Value: d.value(words, 3)}}}}, bson.E{Key: "cursor", Value: bson.D{}})
			case "explain":
				c[0].Value = bson.D{{Key: commands[d.roll(len(commands))], Value: "c"}, {Key: "filter", Value: d.value(words, 3)}}
			}
			for range d.roll(3) {
				c = append(c, bson.E{Key: words[d.roll(len(words))], Value: d.value(words, 3)})
			}
			reply, err := try(e, "test", nil, c)
			var failed *Error
			if err != nil && (!errors.As(err, &failed) || failed.Code == 1) {
				t.Fatalf("%v: %v", c, err)
			}
			if err == nil {
				if err := validate(reply); err != nil {
					t.Fatalf("%v: the reply is malformed: %v", c, err)
				}
			}
		}
		for _, c := range e.all() {
			checkIndexes(t, c.data)
		}
	})
}
