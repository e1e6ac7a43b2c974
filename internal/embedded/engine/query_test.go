package engine

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Collections that the MongoDB manual uses in its examples. Where the manual
// lets the server make _id values, numbers in the order of insertion stand
// here.
const (
	inventory = `[
		{"_id":1,"item":"journal","qty":25,"size":{"h":14,"w":21,"uom":"cm"},"status":"A"},
		{"_id":2,"item":"notebook","qty":50,"size":{"h":8.5,"w":11,"uom":"in"},"status":"A"},
		{"_id":3,"item":"paper","qty":100,"size":{"h":8.5,"w":11,"uom":"in"},"status":"D"},
		{"_id":4,"item":"planner","qty":75,"size":{"h":22.85,"w":30,"uom":"cm"},"status":"D"},
		{"_id":5,"item":"postcard","qty":45,"size":{"h":10,"w":15.25,"uom":"cm"},"status":"A"}]`
	tagged = `[
		{"_id":1,"item":"journal","qty":25,"tags":["blank","red"],"dim_cm":[14,21]},
		{"_id":2,"item":"notebook","qty":50,"tags":["red","blank"],"dim_cm":[14,21]},
		{"_id":3,"item":"paper","qty":100,"tags":["red","blank","plain"],"dim_cm":[14,21]},
		{"_id":4,"item":"planner","qty":75,"tags":["blank","red"],"dim_cm":[22.85,30]},
		{"_id":5,"item":"postcard","qty":45,"tags":["blue"],"dim_cm":[10,15.25]}]`
	instock = `[
		{"_id":1,"item":"journal","instock":[{"warehouse":"A","qty":5},{"warehouse":"C","qty":15}]},
		{"_id":2,"item":"notebook","instock":[{"warehouse":"C","qty":5}]},
		{"_id":3,"item":"paper","instock":[{"warehouse":"A","qty":60},{"warehouse":"B","qty":15}]},
		{"_id":4,"item":"planner","instock":[{"warehouse":"A","qty":40},{"warehouse":"B","qty":5}]},
		{"_id":5,"item":"postcard","instock":[{"warehouse":"B","qty":15},{"warehouse":"C","qty":35}]}]`
	nulls   = `[{"_id":1,"item":null},{"_id":2}]`
	scores  = `[{"_id":1,"results":[82,85,88]},{"_id":2,"results":[75,88,89]}]`
	surveys = `[
		{"_id":1,"results":[{"product":"abc","score":10},{"product":"xyz","score":5}]},
		{"_id":2,"results":[{"product":"abc","score":8},{"product":"xyz","score":7}]},
		{"_id":3,"results":[{"product":"abc","score":7},{"product":"xyz","score":8}]},
		{"_id":4,"results":[{"product":"abc","score":7},{"product":"def","score":8}]}]`
	products = `[
		{"_id":100,"sku":"abc123","description":"Single line description."},
		{"_id":101,"sku":"abc789","description":"First line\nSecond line"},
		{"_id":102,"sku":"xyz456","description":"Many spaces before     line"},
		{"_id":103,"sku":"xyz789","description":"Multiple\nline description"},
		{"_id":104,"sku":"Abc789","description":"SKU starts with A"}]`
	spices = `[
		{"_id":1,"saffron":5,"cinnamon":5,"mustard":null},
		{"_id":2,"saffron":3,"cinnamon":null,"mustard":8},
		{"_id":3,"saffron":null,"cinnamon":3,"mustard":9},
		{"_id":4,"saffron":1,"cinnamon":2,"mustard":3},
		{"_id":5,"saffron":2,"mustard":5},
		{"_id":6,"saffron":3,"cinnamon":2},
		{"_id":7,"saffron":4},
		{"_id":8,"cinnamon":2,"mustard":4},
		{"_id":9,"cinnamon":4},
		{"_id":10,"mustard":7}]`
	parts = `[
		{"_id":1,"item":{"name":"ab","code":"123"},"qty":15,"tags":["A","B","C"]},
		{"_id":2,"item":{"name":"cd","code":"123"},"qty":20,"tags":["B"]},
		{"_id":3,"item":{"name":"ij","code":"456"},"qty":25,"tags":["A","B"]},
		{"_id":4,"item":{"name":"xy","code":"456"},"qty":30,"tags":["B","A"]},
		{"_id":5,"item":{"name":"mn","code":"000"},"qty":20,"tags":[["A","B"],"C"]}]`
	mixed = `[
		{"_id":1,"v":{"$minKey":1}},
		{"_id":2},
		{"_id":3,"v":null},
		{"_id":4,"v":-5},
		{"_id":5,"v":{"$numberLong":"3"}},
		{"_id":6,"v":3.5},
		{"_id":7,"v":{"$numberDecimal":"4"}},
		{"_id":8,"v":"abc"},
		{"_id":9,"v":{"a":1}},
		{"_id":10,"v":[[1]]},
		{"_id":11,"v":{"$binary":{"base64":"AQI=","subType":"00"}}},
		{"_id":12,"v":{"$oid":"507f1f77bcf86cd799439011"}},
		{"_id":13,"v":false},
		{"_id":14,"v":true},
		{"_id":15,"v":{"$date":"2020-01-01T00:00:00Z"}},
		{"_id":16,"v":{"$timestamp":{"t":1,"i":1}}},
		{"_id":17,"v":{"$regularExpression":{"pattern":"a","options":""}}},
		{"_id":18,"v":{"$maxKey":1}}]`
)

// array parses a JSON array of documents.
func array(tb testing.TB, text string) bson.A {
	tb.Helper()
	return doc(tb, `{"a":`+text+`}`)[0].Value.(bson.A)
}

// filled returns an engine with documents in test.c.
func filled(tb testing.TB, docs string) *Engine {
	tb.Helper()
	e := New()
	if a := array(tb, docs); len(a) > 0 {
		run(tb, e, "test", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: a}})
	}
	return e
}

// onC builds a command on test.c from its options.
func onC(tb testing.TB, name, options string) bson.D {
	tb.Helper()
	return append(bson.D{{Key: name, Value: "c"}}, doc(tb, options)...)
}

// firstBatch returns a reply's documents.
func firstBatch(tb testing.TB, reply bson.Raw) []bson.Raw {
	tb.Helper()
	values, err := reply.Lookup("cursor", "firstBatch").Array().Values()
	if err != nil {
		tb.Fatal(err)
	}
	var out []bson.Raw
	for _, v := range values {
		out = append(out, v.Document())
	}
	return out
}

// ids lists the _id values of a reply.
func ids(tb testing.TB, reply bson.Raw) string {
	tb.Helper()
	var out []string
	for _, d := range firstBatch(tb, reply) {
		out = append(out, shellText(lookup(d, "_id")))
	}
	return strings.Join(out, " ")
}

// extJSON shows documents for comparison.
func extJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := bson.MarshalExtJSON(v, false, false)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		source  string // page of the MongoDB manual that the result is from
		docs    string
		options string // of the find command
		want    string
	}{
		{"tutorial/query-documents", inventory, `{"filter":{}}`, "1 2 3 4 5"},
		{"tutorial/query-documents", inventory, `{"filter":{"status":"D"}}`, "3 4"},
		{"tutorial/query-documents", inventory, `{"filter":{"status":{"$in":["A","D"]}}}`, "1 2 3 4 5"},
		{"tutorial/query-documents", inventory, `{"filter":{"status":"A","qty":{"$lt":30}}}`, "1"},
		{"tutorial/query-documents", inventory, `{"filter":{"$or":[{"status":"A"},{"qty":{"$lt":30}}]}}`, "1 2 5"},
		{"tutorial/query-documents", inventory, `{"filter":{"status":"A","$or":[{"qty":{"$lt":30}},{"item":{"$regularExpression":{"pattern":"^p","options":""}}}]}}`, "1 5"},
		{"tutorial/query-embedded-documents", inventory, `{"filter":{"size":{"h":14,"w":21,"uom":"cm"}}}`, "1"},
		{"tutorial/query-embedded-documents", inventory, `{"filter":{"size":{"w":21,"h":14,"uom":"cm"}}}`, ""},
		{"tutorial/query-embedded-documents", inventory, `{"filter":{"size.uom":"in"}}`, "2 3"},
		{"tutorial/query-embedded-documents", inventory, `{"filter":{"size.h":{"$lt":15}}}`, "1 2 3 5"},
		{"tutorial/query-embedded-documents", inventory, `{"filter":{"size.h":{"$lt":15},"size.uom":"in","status":"D"}}`, "3"},
		{"tutorial/query-arrays", tagged, `{"filter":{"tags":["red","blank"]}}`, "2"},
		{"tutorial/query-arrays", tagged, `{"filter":{"tags":"red"}}`, "1 2 3 4"},
		{"tutorial/query-arrays", tagged, `{"filter":{"dim_cm":{"$gt":25}}}`, "4"},
		{"tutorial/query-arrays", tagged, `{"filter":{"dim_cm":{"$gt":15,"$lt":20}}}`, "1 2 3 5"},
		{"tutorial/query-arrays", tagged, `{"filter":{"dim_cm":{"$elemMatch":{"$gt":22,"$lt":30}}}}`, "4"},
		{"tutorial/query-arrays", tagged, `{"filter":{"dim_cm.1":{"$gt":25}}}`, "4"},
		{"tutorial/query-arrays", tagged, `{"filter":{"tags":{"$size":3}}}`, "3"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock":{"warehouse":"A","qty":5}}}`, "1"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock":{"qty":5,"warehouse":"A"}}}`, ""},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock.qty":{"$lte":20}}}`, "1 2 3 4 5"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock.0.qty":{"$lte":20}}}`, "1 2 5"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock":{"$elemMatch":{"qty":5,"warehouse":"A"}}}}`, "1"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock":{"$elemMatch":{"qty":{"$gt":10,"$lte":20}}}}}`, "1 3 5"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock.qty":{"$gt":10,"$lte":20}}}`, "1 3 4 5"},
		{"tutorial/query-array-of-documents", instock, `{"filter":{"instock.qty":5,"instock.warehouse":"A"}}`, "1 4"},
		{"tutorial/query-for-null-fields", nulls, `{"filter":{"item":null}}`, "1 2"},
		{"tutorial/query-for-null-fields", nulls, `{"filter":{"item":{"$ne":null}}}`, ""},
		{"tutorial/query-for-null-fields", nulls, `{"filter":{"item":{"$exists":false}}}`, "2"},
		{"reference/operator/query/eq", parts, `{"filter":{"qty":{"$eq":20}}}`, "2 5"},
		{"reference/operator/query/eq", parts, `{"filter":{"item.name":{"$eq":"ab"}}}`, "1"},
		{"reference/operator/query/eq", parts, `{"filter":{"tags":{"$eq":"B"}}}`, "1 2 3 4"},
		{"reference/operator/query/eq", parts, `{"filter":{"tags":{"$eq":["A","B"]}}}`, "3 5"},
		{"reference/operator/query/gt", parts, `{"filter":{"qty":{"$gt":20}}}`, "3 4"},
		{"reference/operator/query/gte", parts, `{"filter":{"qty":{"$gte":20}}}`, "2 3 4 5"},
		{"reference/operator/query/lt", parts, `{"filter":{"qty":{"$lt":20}}}`, "1"},
		{"reference/operator/query/lte", parts, `{"filter":{"qty":{"$lte":20}}}`, "1 2 5"},
		{"reference/operator/query/in", inventory, `{"filter":{"qty":{"$in":[5,45,75]}}}`, "4 5"},
		{"reference/operator/query/in", tagged, `{"filter":{"tags":{"$in":["blue","plain"]}}}`, "3 5"},
		{"reference/operator/query/in", inventory, `{"filter":{"item":{"$in":[{"$regularExpression":{"pattern":"^pl","options":""}},{"$regularExpression":{"pattern":"^no","options":""}}]}}}`, "2 4"},
		{"reference/operator/query/nin", inventory, `{"filter":{"qty":{"$nin":[25,50]}}}`, "3 4 5"},
		{"reference/operator/query/nin: fields that do not exist match", nulls, `{"filter":{"none":{"$nin":[1]}}}`, "1 2"},
		{"reference/operator/query/ne", inventory, `{"filter":{"status":{"$ne":"A"}}}`, "3 4"},
		{"reference/operator/query/ne: fields that do not exist match", spices, `{"filter":{"saffron":{"$ne":3}}}`, "1 3 4 5 7 8 9 10"},
		{"reference/operator/query/not: fields that do not exist match", spices, `{"filter":{"mustard":{"$not":{"$gt":4}}}}`, "1 4 6 7 8 9"},
		{"reference/operator/query/not: regular expressions", inventory, `{"filter":{"item":{"$not":{"$regularExpression":{"pattern":"^p.*","options":""}}}}}`, "1 2"},
		{"reference/operator/query/nor", inventory, `{"filter":{"$nor":[{"status":"A"},{"qty":75}]}}`, "3"},
		{"reference/operator/query/and", inventory, `{"filter":{"$and":[{"$or":[{"qty":{"$lt":30}},{"qty":{"$gt":90}}]},{"$or":[{"status":"D"},{"item":"journal"}]}]}}`, "1 3"},
		{"reference/operator/query/exists", spices, `{"filter":{"saffron":{"$exists":true}}}`, "1 2 3 4 5 6 7"},
		{"reference/operator/query/exists", spices, `{"filter":{"cinnamon":{"$exists":false}}}`, "5 7 10"},
		{"reference/operator/query/exists: and $nin", spices, `{"filter":{"saffron":{"$exists":true,"$nin":[3,5]}}}`, "3 4 5 7"},
		{"reference/operator/query/elemMatch", scores, `{"filter":{"results":{"$elemMatch":{"$gte":80,"$lt":85}}}}`, "1"},
		{"reference/operator/query/elemMatch", surveys, `{"filter":{"results":{"$elemMatch":{"product":"xyz","score":{"$gte":8}}}}}`, "3"},
		{"reference/operator/query/elemMatch: $ne inside", surveys, `{"filter":{"results":{"$elemMatch":{"product":{"$ne":"xyz"}}}}}`, "1 2 3 4"},
		{"reference/operator/query/elemMatch: $ne outside", surveys, `{"filter":{"results.product":{"$ne":"xyz"}}}`, "4"},
		{"reference/operator/query/size", tagged, `{"filter":{"tags":{"$size":1}}}`, "5"},
		{"reference/operator/query/regex", products, `{"filter":{"sku":{"$regex":"789$"}}}`, "101 103 104"},
		{"reference/operator/query/regex: option i", products, `{"filter":{"sku":{"$regex":"^ABC","$options":"i"}}}`, "100 101 104"},
		{"reference/operator/query/regex: option m", products, `{"filter":{"description":{"$regex":"^S","$options":"m"}}}`, "100 101 104"},
		{"reference/operator/query/regex: without option m", products, `{"filter":{"description":{"$regex":"^S"}}}`, "100 104"},
		{"reference/operator/query/regex: option s", products, `{"filter":{"description":{"$regex":"m.*line","$options":"si"}}}`, "102 103"},
		{"reference/bson-type-comparison-order", mixed, `{"sort":{"v":1,"_id":1}}`, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"},
		{"reference/bson-type-comparison-order: descending", mixed, `{"sort":{"v":-1,"_id":1}}`, "18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 2 3 1"},
		{"reference/bson-type-comparison-order: numbers", `[{"_id":1,"v":1},{"_id":2,"v":{"$numberLong":"1"}},{"_id":3,"v":1.0},{"_id":4,"v":{"$numberDecimal":"1"}},{"_id":5,"v":"1"}]`, `{"filter":{"v":1}}`, "1 2 3 4"},
		{"reference/bson-type-comparison-order: arrays, smallest element", `[{"_id":1,"v":[3,9]},{"_id":2,"v":[1,20]},{"_id":3,"v":2}]`, `{"sort":{"v":1}}`, "2 3 1"},
		{"reference/bson-type-comparison-order: arrays, largest element", `[{"_id":1,"v":[3,9]},{"_id":2,"v":[1,20]},{"_id":3,"v":12}]`, `{"sort":{"v":-1}}`, "2 3 1"},
		{"reference/bson-type-comparison-order: an empty array is less than null", `[{"_id":1,"v":null},{"_id":2,"v":[]},{"_id":3}]`, `{"sort":{"v":1,"_id":1}}`, "2 1 3"},
		{"reference/bson-type-comparison-order: objects, types before names", `[{"_id":1,"v":{"b":1}},{"_id":2,"v":{"a":"x"}},{"_id":3,"v":{"a":2}},{"_id":4,"v":{"a":1,"c":1}}]`, `{"sort":{"v":1}}`, "4 3 1 2"},
		{"reference/bson-type-comparison-order: binary, length first", `[{"_id":1,"v":{"$binary":{"base64":"/w==","subType":"00"}}},{"_id":2,"v":{"$binary":{"base64":"AAA=","subType":"00"}}},{"_id":3,"v":{"$binary":{"base64":"AA==","subType":"05"}}}]`, `{"sort":{"v":1}}`, "1 3 2"},
		{"reference/mql/query-predicates/type-bracketing", mixed, `{"filter":{"v":{"$gt":3}}}`, "6 7"},
		{"reference/mql/query-predicates/type-bracketing: strings", mixed, `{"filter":{"v":{"$gte":""}}}`, "8"},
		{"reference/mql/query-predicates/type-bracketing: booleans", mixed, `{"filter":{"v":{"$lte":true}}}`, "13 14"},
		{"reference/method/cursor.sort", inventory, `{"sort":{"status":1,"qty":-1}}`, "2 5 1 3 4"},
		{"reference/method/cursor.sort: embedded field", inventory, `{"sort":{"size.h":1,"_id":-1}}`, "3 2 5 1 4"},
		{"reference/method/cursor.sort: missing as null", spices, `{"sort":{"cinnamon":1,"_id":1},"limit":6}`, "2 5 7 10 4 6"},
		{"reference/method/cursor.limit", inventory, `{"sort":{"qty":1},"limit":2}`, "1 5"},
		{"reference/method/cursor.limit: 0 is no limit", inventory, `{"limit":0}`, "1 2 3 4 5"},
		{"reference/method/cursor.skip", inventory, `{"sort":{"qty":1},"skip":1,"limit":2}`, "5 2"},
		{"reference/method/cursor.skip: past the end", inventory, `{"skip":9}`, ""},
		{"reference/command/find: singleBatch", inventory, `{"batchSize":2,"singleBatch":true}`, "1 2"},
		{"reference/method/cursor.hint: $natural", inventory, `{"hint":{"$natural":-1}}`, "5 4 3 2 1"},
	} {
		t.Run(c.source+" "+c.options, func(t *testing.T) {
			reply := run(t, filled(t, c.docs), "test", onC(t, "find", c.options))
			if got := ids(t, reply); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestProjection(t *testing.T) {
	const journal = `[{"_id":1,"item":"journal","status":"A","size":{"h":14,"w":21,"uom":"cm"},"instock":[{"warehouse":"A","qty":5},{"warehouse":"C","qty":15}]}]`
	for _, c := range []struct{ source, docs, projection, want string }{
		{"tutorial/project-fields-from-query-results", journal, `{"item":1,"status":1}`, `{"_id":1,"item":"journal","status":"A"}`},
		{"tutorial/project-fields-from-query-results", journal, `{"item":1,"status":1,"_id":0}`, `{"item":"journal","status":"A"}`},
		{"tutorial/project-fields-from-query-results", journal, `{"status":0,"instock":0}`, `{"_id":1,"item":"journal","size":{"h":14,"w":21,"uom":"cm"}}`},
		{"tutorial/project-fields-from-query-results", journal, `{"item":1,"status":1,"size.uom":1}`, `{"_id":1,"item":"journal","status":"A","size":{"uom":"cm"}}`},
		{"tutorial/project-fields-from-query-results: nested form", journal, `{"item":1,"size":{"uom":1}}`, `{"_id":1,"item":"journal","size":{"uom":"cm"}}`},
		{"tutorial/project-fields-from-query-results", journal, `{"size.uom":0,"instock":0}`, `{"_id":1,"item":"journal","status":"A","size":{"h":14,"w":21}}`},
		{"tutorial/project-fields-from-query-results", journal, `{"item":1,"status":1,"instock.qty":1}`, `{"_id":1,"item":"journal","status":"A","instock":[{"qty":5},{"qty":15}]}`},
		{"tutorial/project-fields-from-query-results: _id only", journal, `{"_id":1}`, `{"_id":1}`},
		{"tutorial/project-fields-from-query-results: all but _id", `[{"_id":1,"a":2}]`, `{"_id":0}`, `{"a":2}`},
		{"reference/operator/aggregation/project: fields that do not exist are left out", `[{"_id":1,"a":2}]`, `{"b":1}`, `{"_id":1}`},
		{"reference/operator/aggregation/project: scalars have no fields", `[{"_id":1,"a":2}]`, `{"a.b":1}`, `{"_id":1}`},
		{"reference/method/db.collection.find: a new field from another", `[{"_id":1,"a":{"b":2}}]`, `{"_id":0,"c":"$a.b"}`, `{"c":2}`},
	} {
		t.Run(c.source+" "+c.projection, func(t *testing.T) {
			reply := run(t, filled(t, c.docs), "test", onC(t, "find", `{"projection":`+c.projection+`}`))
			if got := extJSON(t, firstBatch(t, reply)[0]); got != extJSON(t, doc(t, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestUpdate(t *testing.T) {
	const product = `{"_id":100,"quantity":250,"instock":true,"reorder":false,"details":{"model":"14QQ","make":"Clothes Corp"},"tags":["apparel","clothing"],"ratings":[{"by":"Customer007","rating":4}]}`
	const metrics = `{"_id":1,"sku":"abc123","quantity":10,"metrics":{"orders":2,"ratings":3.5}}`
	for _, c := range []struct{ source, doc, update, want string }{
		{"reference/operator/update/set", product, `{"$set":{"quantity":500,"details":{"model":"2600","make":"Fashionaires"},"tags":["coats","outerwear","clothing"]}}`,
			`{"_id":100,"quantity":500,"instock":true,"reorder":false,"details":{"model":"2600","make":"Fashionaires"},"tags":["coats","outerwear","clothing"],"ratings":[{"by":"Customer007","rating":4}]}`},
		{"reference/operator/update/set: embedded", product, `{"$set":{"details.make":"Kustom Kidz"}}`,
			`{"_id":100,"quantity":250,"instock":true,"reorder":false,"details":{"model":"14QQ","make":"Kustom Kidz"},"tags":["apparel","clothing"],"ratings":[{"by":"Customer007","rating":4}]}`},
		{"reference/operator/update/set: in arrays", product, `{"$set":{"tags.1":"rain gear","ratings.0.rating":2}}`,
			`{"_id":100,"quantity":250,"instock":true,"reorder":false,"details":{"model":"14QQ","make":"Clothes Corp"},"tags":["apparel","rain gear"],"ratings":[{"by":"Customer007","rating":2}]}`},
		{"reference/operator/update/set: a path that does not exist", `{"_id":1}`, `{"$set":{"a.b.c":1}}`, `{"_id":1,"a":{"b":{"c":1}}}`},
		{"core/document: new fields in lexicographic order", `{"_id":1}`, `{"$set":{"b":1,"a":2,"10":3,"9":4}}`, `{"_id":1,"9":4,"10":3,"a":2,"b":1}`},
		{"reference/operator/update/set: past an array's end", `{"_id":1,"a":[1]}`, `{"$set":{"a.3":4}}`, `{"_id":1,"a":[1,null,null,4]}`},
		{"reference/operator/update/unset", `{"_id":1,"item":"chisel","quantity":50,"instock":true}`, `{"$unset":{"quantity":"","instock":""}}`, `{"_id":1,"item":"chisel"}`},
		{"reference/operator/update/unset: an array's element becomes null", `{"_id":1,"a":[1,2,3]}`, `{"$unset":{"a.1":""}}`, `{"_id":1,"a":[1,null,3]}`},
		{"reference/operator/update/unset: a field that does not exist", `{"_id":1}`, `{"$unset":{"a.b":""}}`, `{"_id":1}`},
		{"reference/operator/update/inc", metrics, `{"$inc":{"quantity":-2,"metrics.orders":1}}`, `{"_id":1,"sku":"abc123","quantity":8,"metrics":{"orders":3,"ratings":3.5}}`},
		{"reference/operator/update/inc: a field that does not exist", `{"_id":1}`, `{"$inc":{"n":5}}`, `{"_id":1,"n":5}`},
		{"reference/operator/update/inc: doubles", metrics, `{"$inc":{"metrics.ratings":0.5,"quantity":1.5}}`, `{"_id":1,"sku":"abc123","quantity":11.5,"metrics":{"orders":2,"ratings":4.0}}`},
		{"reference/operator/update/inc: an int grows to a long", `{"_id":1,"n":2147483647}`, `{"$inc":{"n":1}}`, `{"_id":1,"n":{"$numberLong":"2147483648"}}`},
		{"reference/operator/update/mul", `{"_id":1,"price":10.5,"quantity":25}`, `{"$mul":{"price":1.25,"quantity":2}}`, `{"_id":1,"price":13.125,"quantity":50}`},
		{"reference/operator/update/mul: a field that does not exist", `{"_id":2}`, `{"$mul":{"price":100}}`, `{"_id":2,"price":0}`},
		{"reference/operator/update/min", `{"_id":1,"highScore":800,"lowScore":200}`, `{"$min":{"lowScore":150}}`, `{"_id":1,"highScore":800,"lowScore":150}`},
		{"reference/operator/update/min: not less", `{"_id":1,"highScore":800,"lowScore":150}`, `{"$min":{"lowScore":250}}`, `{"_id":1,"highScore":800,"lowScore":150}`},
		{"reference/operator/update/max", `{"_id":1,"highScore":800,"lowScore":200}`, `{"$max":{"highScore":950}}`, `{"_id":1,"highScore":950,"lowScore":200}`},
		{"reference/operator/update/push", `{"_id":1,"scores":[44,78,38,80]}`, `{"$push":{"scores":89}}`, `{"_id":1,"scores":[44,78,38,80,89]}`},
		{"reference/operator/update/push: $each", `{"_id":1,"name":"joe","scores":[44,78]}`, `{"$push":{"scores":{"$each":[90,92,85]}}}`, `{"_id":1,"name":"joe","scores":[44,78,90,92,85]}`},
		{"reference/operator/update/push: a field that does not exist", `{"_id":1}`, `{"$push":{"a":1}}`, `{"_id":1,"a":[1]}`},
		{"reference/operator/update/push: an array as one element", `{"_id":1,"a":[1]}`, `{"$push":{"a":[2,3]}}`, `{"_id":1,"a":[1,[2,3]]}`},
		{"reference/operator/update/pull", `{"_id":1,"fruits":["apples","pears","oranges","grapes","bananas"],"vegetables":["carrots","celery","squash","carrots"]}`,
			`{"$pull":{"fruits":{"$in":["apples","oranges"]},"vegetables":"carrots"}}`, `{"_id":1,"fruits":["pears","grapes","bananas"],"vegetables":["celery","squash"]}`},
		{"reference/operator/update/pull: a condition", `{"_id":1,"votes":[3,5,6,7,7,8]}`, `{"$pull":{"votes":{"$gte":6}}}`, `{"_id":1,"votes":[3,5]}`},
		{"reference/operator/update/pull: documents", `{"_id":1,"results":[{"item":"A","score":5},{"item":"B","score":8}]}`, `{"$pull":{"results":{"score":8,"item":"B"}}}`, `{"_id":1,"results":[{"item":"A","score":5}]}`},
		{"reference/operator/update/setOnInsert: an update does nothing", `{"_id":1,"a":1}`, `{"$setOnInsert":{"b":1}}`, `{"_id":1,"a":1}`},
		{"reference/command/update: replacement", `{"_id":1,"a":1,"b":2}`, `{"c":3}`, `{"_id":1,"c":3}`},
	} {
		t.Run(c.source+" "+c.update, func(t *testing.T) {
			e := filled(t, "["+c.doc+"]")
			reply := run(t, e, "test", onC(t, "update", `{"updates":[{"q":{},"u":`+c.update+`}]}`))
			got := extJSON(t, firstBatch(t, run(t, e, "test", onC(t, "find", `{}`)))[0])
			if got != extJSON(t, doc(t, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			modified := got != extJSON(t, doc(t, c.doc))
			if n := lookup(reply, "nModified"); n.i32() != int32(btoi(modified)) || lookup(reply, "n").i32() != 1 {
				t.Errorf("reply %s", extJSON(t, reply))
			}
		})
	}
}

func TestUpsert(t *testing.T) {
	for _, c := range []struct{ source, query, update, want string }{
		{"reference/operator/update/setOnInsert", `{"_id":1}`, `{"$set":{"item":"apple"},"$setOnInsert":{"defaultQty":100}}`, `{"_id":1,"defaultQty":100,"item":"apple"}`},
		{"reference/command/update: equality conditions", `{"_id":1,"item":"x","size.h":3,"qty":{"$gt":5}}`, `{"$set":{"a":1}}`, `{"_id":1,"item":"x","size":{"h":3},"a":1}`},
		{"reference/command/update: $and of equalities", `{"_id":1,"$and":[{"a":1},{"b":{"$eq":2}}]}`, `{"$inc":{"n":1}}`, `{"_id":1,"a":1,"b":2,"n":1}`},
		{"reference/command/update: replacement keeps the query's _id", `{"_id":7,"a":1}`, `{"b":2}`, `{"_id":7,"b":2}`},
	} {
		t.Run(c.source+" "+c.query, func(t *testing.T) {
			e := New()
			reply := run(t, e, "test", onC(t, "update", `{"updates":[{"q":`+c.query+`,"u":`+c.update+`,"upsert":true}]}`))
			got := extJSON(t, firstBatch(t, run(t, e, "test", onC(t, "find", `{}`)))[0])
			if got != extJSON(t, doc(t, c.want)) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			id := doc(t, c.want)[0].Value
			want := fmt.Sprintf(`{"n":1,"upserted":[{"index":0,"_id":%v}],"nModified":0,"ok":1.0}`, id)
			if got := extJSON(t, reply); got != want {
				t.Errorf("reply %s, want %s", got, want)
			}
		})
	}
}

func TestAggregate(t *testing.T) {
	const sales = `[
		{"_id":1,"item":"abc","price":10,"quantity":2},
		{"_id":2,"item":"jkl","price":20,"quantity":1},
		{"_id":3,"item":"xyz","price":5,"quantity":10},
		{"_id":4,"item":"xyz","price":5,"quantity":20},
		{"_id":5,"item":"abc","price":10,"quantity":10}]`
	const exams = `[{"_id":1,"subject":"History","score":88},{"_id":2,"subject":"History","score":92},{"_id":3,"subject":"History","score":97},{"_id":4,"subject":"History","score":71},{"_id":5,"subject":"History","score":79},{"_id":6,"subject":"History","score":83}]`
	const shirts = `[{"_id":1,"item":"ABC1","sizes":["S","M","L"]}]`
	const sizes = `[{"_id":1,"item":"ABC","price":80,"sizes":["S","M","L"]},{"_id":2,"item":"EFG","price":120,"sizes":[]},{"_id":3,"item":"IJK","price":160,"sizes":"M"},{"_id":4,"item":"LMN","price":10},{"_id":5,"item":"XYZ","price":5.75,"sizes":null}]`
	for _, c := range []struct{ source, docs, pipeline, want string }{
		{"reference/operator/aggregation/match", exams, `[{"$match":{"score":{"$gt":90}}},{"$project":{"score":1}}]`, `[{"_id":2,"score":92},{"_id":3,"score":97}]`},
		{"reference/operator/aggregation/count", exams, `[{"$match":{"score":{"$gt":80}}},{"$count":"passing_scores"}]`, `[{"passing_scores":4}]`},
		{"reference/operator/aggregation/count: nothing to count", exams, `[{"$match":{"score":{"$gt":100}}},{"$count":"n"}]`, `[]`},
		{"reference/operator/aggregation/group: distinct values", sales, `[{"$group":{"_id":"$item"}},{"$sort":{"_id":1}}]`, `[{"_id":"abc"},{"_id":"jkl"},{"_id":"xyz"}]`},
		{"reference/operator/aggregation/group: null", sales, `[{"$group":{"_id":null,"total":{"$sum":"$quantity"},"n":{"$sum":1}}}]`, `[{"_id":null,"total":43,"n":5}]`},
		{"reference/operator/aggregation/group: $count", sales, `[{"$group":{"_id":"$item","n":{"$count":{}}}},{"$sort":{"_id":1}}]`, `[{"_id":"abc","n":2},{"_id":"jkl","n":1},{"_id":"xyz","n":2}]`},
		{"reference/operator/aggregation/group: a document as _id", sales, `[{"$group":{"_id":{"i":"$item","p":"$price"},"n":{"$sum":1}}},{"$sort":{"n":-1,"_id":1}},{"$limit":1}]`, `[{"_id":{"i":"abc","p":10},"n":2}]`},
		{"reference/operator/aggregation/sum: what is no number is ignored", `[{"_id":1,"v":1},{"_id":2,"v":"x"},{"_id":3},{"_id":4,"v":2.5}]`, `[{"$group":{"_id":null,"s":{"$sum":"$v"},"none":{"$sum":"$w"}}}]`, `[{"_id":null,"s":3.5,"none":0}]`},
		{"reference/operator/aggregation/avg", sales, `[{"$group":{"_id":"$item","avgQuantity":{"$avg":"$quantity"}}},{"$sort":{"_id":1}}]`, `[{"_id":"abc","avgQuantity":6.0},{"_id":"jkl","avgQuantity":1.0},{"_id":"xyz","avgQuantity":15.0}]`},
		{"reference/operator/aggregation/avg: without numbers", sales, `[{"$group":{"_id":null,"a":{"$avg":"$none"}}}]`, `[{"_id":null,"a":null}]`},
		{"reference/operator/aggregation/min, max", sales, `[{"$group":{"_id":"$item","lo":{"$min":"$quantity"},"hi":{"$max":"$quantity"}}},{"$sort":{"_id":1}}]`, `[{"_id":"abc","lo":2,"hi":10},{"_id":"jkl","lo":1,"hi":1},{"_id":"xyz","lo":10,"hi":20}]`},
		{"reference/operator/aggregation/first, last", sales, `[{"$sort":{"_id":1}},{"$group":{"_id":"$item","f":{"$first":"$quantity"},"l":{"$last":"$quantity"}}},{"$sort":{"_id":1}}]`, `[{"_id":"abc","f":2,"l":10},{"_id":"jkl","f":1,"l":1},{"_id":"xyz","f":10,"l":20}]`},
		{"reference/operator/aggregation/push", sales, `[{"$sort":{"_id":1}},{"$group":{"_id":"$item","q":{"$push":{"p":"$price","q":"$quantity"}}}},{"$match":{"_id":"abc"}}]`, `[{"_id":"abc","q":[{"p":10,"q":2},{"p":10,"q":10}]}]`},
		{"reference/operator/aggregation/addToSet", sales, `[{"$sort":{"_id":1}},{"$group":{"_id":"$item","p":{"$addToSet":"$price"}}},{"$match":{"_id":"xyz"}}]`, `[{"_id":"xyz","p":[5]}]`},
		{"reference/operator/aggregation/sort, skip, limit", sales, `[{"$sort":{"quantity":-1}},{"$skip":1},{"$limit":2},{"$project":{"quantity":1}}]`, `[{"_id":3,"quantity":10},{"_id":5,"quantity":10}]`},
		{"reference/operator/aggregation/limit before sort", sales, `[{"$limit":2},{"$sort":{"price":-1}},{"$project":{"_id":1}}]`, `[{"_id":2},{"_id":1}]`},
		{"reference/operator/aggregation/unwind", shirts, `[{"$unwind":"$sizes"}]`, `[{"_id":1,"item":"ABC1","sizes":"S"},{"_id":1,"item":"ABC1","sizes":"M"},{"_id":1,"item":"ABC1","sizes":"L"}]`},
		{"reference/operator/aggregation/unwind: missing, null, empty, scalar", sizes, `[{"$unwind":{"path":"$sizes"}},{"$project":{"sizes":1}}]`, `[{"_id":1,"sizes":"S"},{"_id":1,"sizes":"M"},{"_id":1,"sizes":"L"},{"_id":3,"sizes":"M"}]`},
		{"reference/operator/aggregation/unwind: includeArrayIndex", sizes, `[{"$unwind":{"path":"$sizes","includeArrayIndex":"i"}},{"$project":{"i":1}}]`, `[{"_id":1,"i":{"$numberLong":"0"}},{"_id":1,"i":{"$numberLong":"1"}},{"_id":1,"i":{"$numberLong":"2"}},{"_id":3,"i":null}]`},
		{"reference/operator/aggregation/unwind: preserveNullAndEmptyArrays", sizes, `[{"$unwind":{"path":"$sizes","preserveNullAndEmptyArrays":true}},{"$project":{"sizes":1}}]`, `[{"_id":1,"sizes":"S"},{"_id":1,"sizes":"M"},{"_id":1,"sizes":"L"},{"_id":2},{"_id":3,"sizes":"M"},{"_id":4},{"_id":5,"sizes":null}]`},
		{"reference/operator/aggregation/project: a new field", sales, `[{"$match":{"_id":1}},{"$project":{"_id":0,"name":"$item","k":{"$literal":1}}}]`, `[{"name":"abc","k":1}]`},
		{"reference/operator/aggregation/project: fields of an array's documents", `[{"_id":1,"a":[{"b":1},{"c":2},{"b":3}]}]`, `[{"$project":{"_id":0,"bs":"$a.b"}}]`, `[{"bs":[1,3]}]`},
	} {
		t.Run(c.source+" "+c.pipeline, func(t *testing.T) {
			reply := run(t, filled(t, c.docs), "test", onC(t, "aggregate", `{"pipeline":`+c.pipeline+`,"cursor":{}}`))
			if got, want := extJSON(t, bson.D{{Key: "r", Value: reply.Lookup("cursor", "firstBatch")}}), extJSON(t, bson.D{{Key: "r", Value: array(t, c.want)}}); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestReplies(t *testing.T) {
	for _, c := range []struct{ source, docs, name, options, want string }{
		{"reference/command/count", inventory, "count", `{"query":{"status":"A"}}`, `{"n":3,"ok":1.0}`},
		{"reference/command/count: all", inventory, "count", `{}`, `{"n":5,"ok":1.0}`},
		{"reference/command/count: skip", inventory, "count", `{"query":{"qty":{"$gt":30}},"skip":1}`, `{"n":3,"ok":1.0}`},
		{"reference/command/count: limit", inventory, "count", `{"limit":2}`, `{"n":2,"ok":1.0}`},
		{"reference/command/distinct", inventory, "distinct", `{"key":"status"}`, `{"values":["A","D"],"ok":1.0}`},
		{"reference/command/distinct: embedded, with a query", inventory, "distinct", `{"key":"size.uom","query":{"status":"D"}}`, `{"values":["cm","in"],"ok":1.0}`},
		{"reference/command/distinct: the elements of arrays", `[{"_id":1,"sizes":["M","L"]},{"_id":2,"sizes":"S"},{"_id":3,"sizes":["L"]}]`, "distinct", `{"key":"sizes"}`, `{"values":["L","M","S"],"ok":1.0}`},
		{"reference/command/insert", `[]`, "insert", `{"documents":[{"_id":1},{"_id":2}]}`, `{"n":2,"ok":1.0}`},
		{"reference/command/insert: ordered stops", `[{"_id":1}]`, "insert", `{"documents":[{"_id":1},{"_id":2}]}`,
			`{"n":0,"writeErrors":[{"index":0,"code":11000,"keyPattern":{"_id":1},"keyValue":{"_id":1},"errmsg":"E11000 duplicate key error collection: test.c index: _id_ dup key: { _id: 1 }"}],"ok":1.0}`},
		{"reference/command/insert: unordered goes on", `[{"_id":1}]`, "insert", `{"documents":[{"_id":1},{"_id":2}],"ordered":false}`,
			`{"n":1,"writeErrors":[{"index":0,"code":11000,"keyPattern":{"_id":1},"keyValue":{"_id":1},"errmsg":"E11000 duplicate key error collection: test.c index: _id_ dup key: { _id: 1 }"}],"ok":1.0}`},
		{"reference/command/update: multi", inventory, "update", `{"updates":[{"q":{"status":"A"},"u":{"$set":{"status":"X"}},"multi":true}]}`, `{"n":3,"nModified":3,"ok":1.0}`},
		{"reference/command/update: one", inventory, "update", `{"updates":[{"q":{"status":"A"},"u":{"$set":{"status":"X"}}}]}`, `{"n":1,"nModified":1,"ok":1.0}`},
		{"reference/command/update: nothing changes", inventory, "update", `{"updates":[{"q":{"status":"A"},"u":{"$set":{"status":"A"}},"multi":true}]}`, `{"n":3,"nModified":0,"ok":1.0}`},
		{"reference/command/delete: limit 1", inventory, "delete", `{"deletes":[{"q":{"status":"D"},"limit":1}]}`, `{"n":1,"ok":1.0}`},
		{"reference/command/delete: limit 0", inventory, "delete", `{"deletes":[{"q":{"status":"D"},"limit":0},{"q":{"_id":1},"limit":0}]}`, `{"n":3,"ok":1.0}`},
		{"reference/command/findAndModify: the old document", inventory, "findAndModify", `{"query":{"_id":1},"update":{"$inc":{"qty":1}},"fields":{"qty":1}}`,
			`{"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":1,"qty":25},"ok":1.0}`},
		{"reference/command/findAndModify: the new document", inventory, "findAndModify", `{"query":{"status":"A"},"sort":{"qty":-1},"update":{"$inc":{"qty":1}},"new":true,"fields":{"qty":1}}`,
			`{"lastErrorObject":{"n":1,"updatedExisting":true},"value":{"_id":2,"qty":51},"ok":1.0}`},
		{"reference/command/findAndModify: upsert", inventory, "findAndModify", `{"query":{"_id":9},"update":{"$set":{"a":1}},"upsert":true,"new":true}`,
			`{"lastErrorObject":{"n":1,"updatedExisting":false,"upserted":9},"value":{"_id":9,"a":1},"ok":1.0}`},
		{"reference/command/findAndModify: remove", inventory, "findAndModify", `{"query":{"_id":5},"remove":true,"fields":{"qty":1}}`,
			`{"lastErrorObject":{"n":1},"value":{"_id":5,"qty":45},"ok":1.0}`},
		{"reference/command/findAndModify: nothing found", inventory, "findAndModify", `{"query":{"_id":9},"remove":true}`, `{"lastErrorObject":{"n":0},"value":null,"ok":1.0}`},
		{"reference/command/createIndexes", inventory, "createIndexes", `{"indexes":[{"key":{"a":1},"name":"a_1"}]}`, `{"numIndexesBefore":1,"numIndexesAfter":2,"createdCollectionAutomatically":false,"ok":1.0}`},
		{"reference/command/createIndexes: creates the collection", `[]`, "createIndexes", `{"indexes":[{"key":{"a":1},"name":"a_1"}]}`, `{"numIndexesBefore":1,"numIndexesAfter":2,"createdCollectionAutomatically":true,"ok":1.0}`},
		{"reference/command/createIndexes: exists", inventory, "createIndexes", `{"indexes":[{"key":{"_id":1},"name":"_id_"}]}`, `{"numIndexesBefore":1,"numIndexesAfter":1,"createdCollectionAutomatically":false,"note":"all indexes already exist","ok":1.0}`},
		{"reference/command/listIndexes", inventory, "listIndexes", `{}`, `{"cursor":{"firstBatch":[{"v":2,"key":{"_id":1},"name":"_id_"}],"id":0,"ns":"test.c"},"ok":1.0}`},
		{"reference/command/drop", inventory, "drop", `{}`, `{"nIndexesWas":1,"ns":"test.c","ok":1.0}`},
		{"reference/command/drop: no error since 7.0", `[]`, "drop", `{}`, `{"ok":1.0}`},
		{"reference/command/create: again, with the same options", inventory, "create", `{}`, `{"ok":1.0}`},
		{"reference/command/find: a collection that does not exist", `[]`, "find", `{}`, `{"cursor":{"firstBatch":[],"id":0,"ns":"test.c"},"ok":1.0}`},
	} {
		t.Run(c.source, func(t *testing.T) {
			reply := run(t, filled(t, c.docs), "test", onC(t, c.name, c.options))
			if got, want := extJSON(t, reply), extJSON(t, doc(t, c.want)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Many fields in one update, projection or filter take no quadratic time.
func TestManyFields(t *testing.T) {
	const n = 50000
	set, project, in := bson.D{}, bson.D{}, bson.A{}
	for i := range n {
		name := fmt.Sprintf("f%d", i)
		set = append(set, bson.E{Key: name, Value: i})
		project = append(project, bson.E{Key: name, Value: 1})
		in = append(in, i)
	}
	e := filled(t, `[{"_id":1}]`)
	for range 2 {
		reply := run(t, e, "test", bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "u", Value: bson.D{{Key: "$set", Value: set}}}}}}})
		if lookup(reply, "n").i32() != 1 {
			t.Fatal(extJSON(t, reply))
		}
	}
	reply := run(t, e, "test", bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "f9", Value: bson.D{{Key: "$in", Value: in}}}}}, {Key: "projection", Value: project}})
	if got := countElements(firstBatch(t, reply)[0]); got != n+1 {
		t.Errorf("%d fields", got)
	}
}
