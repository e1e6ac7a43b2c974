package engine

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// stagesOf lists the stages of a plan, the topmost first, an index scan with
// its index.
func stagesOf(plan bson.Raw) string {
	var out []string
	for plan != nil {
		name := plan.Lookup("stage").StringValue()
		if v := plan.Lookup("indexName"); name == "IXSCAN" {
			name += " " + v.StringValue()
		}
		out = append(out, name)
		next, err := plan.LookupErr("inputStage")
		if err != nil {
			break
		}
		plan = next.Document()
	}
	return strings.Join(out, " > ")
}

// planned returns an engine with 20 documents and the indexes of the flights
// workload that begin with flight_id, and some more.
func planned(t *testing.T) *Engine {
	t.Helper()
	var docs []string
	for i := range 20 {
		docs = append(docs, fmt.Sprintf(`{"_id":%d,"flight_id":%d,"equipment":{"plane_type":"P%d","seats":%d},"seats_available":%d,"status":"S%d","u":%d,"list":[%d,%d],"none":%d}`, i, i, i%3, i, i%7, i%2, i, i, i+100, i))
	}
	e := filled(t, "["+strings.Join(docs, ",")+"]")
	run(t, e, "test", onC(t, "createIndexes", `{"indexes":[
		{"key":{"flight_id":1,"equipment.plane_type":1},"name":"flight_id_1_equipment.plane_type_1"},
		{"key":{"flight_id":1,"seats_available":1},"name":"flight_id_1_seats_available_1"},
		{"key":{"equipment.plane_type":1},"name":"equipment.plane_type_1"},
		{"key":{"status":1,"flight_id":-1},"name":"status_1_flight_id_-1"},
		{"key":{"u":1},"name":"u_1","unique":true},
		{"key":{"list":1},"name":"list_1"}]}`))
	return e
}

// The shapes are those of MongoDB 8: "Explain Results" of the manual, and for
// the place of projections and the express path the server's planner
// (planner_analysis.cpp, get_executor_fast_paths, plan_executor_express).
func TestExplain(t *testing.T) {
	for _, c := range []struct {
		explained  string // without the collection
		want       string
		returned   int
		keys, docs int
	}{
		{`{"find":"c"}`, "COLLSCAN", 20, 0, 20},
		{`{"find":"c","filter":{"none":{"$gte":0}}}`, "COLLSCAN", 20, 0, 20},
		{`{"find":"c","filter":{"none":3}}`, "COLLSCAN", 1, 0, 20},
		{`{"find":"c","limit":5}`, "LIMIT > COLLSCAN", 5, 0, 5},
		{`{"find":"c","filter":{"flight_id":{"$in":[1,3,5,7,9,11,13,15,17,19]}},"limit":5,"batchSize":10}`, "LIMIT > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 5, 9, 5},
		{`{"find":"c","filter":{"flight_id":{"$in":[1,3,5]}},"limit":5,"batchSize":10,"projection":{"flight_id":1,"status":1}}`, "LIMIT > PROJECTION_SIMPLE > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 3, 5, 3},
		{`{"find":"c","filter":{"flight_id":{"$in":[1,3,5]}},"limit":5,"batchSize":10,"projection":{"equipment.plane_type":1}}`, "LIMIT > PROJECTION_DEFAULT > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 3, 5, 3},
		{`{"find":"c","filter":{"flight_id":7},"projection":{"_id":0}}`, "PROJECTION_SIMPLE > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 1, 1, 1},
		{`{"find":"c","filter":{"flight_id":{"$gte":5,"$lt":8}}}`, "FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 3, 3, 3},
		{`{"find":"c","filter":{"flight_id":5,"seats_available":{"$gt":1}}}`, "FETCH > IXSCAN flight_id_1_seats_available_1", 1, 1, 1},
		{`{"find":"c","filter":{"flight_id":{"$gt":17},"none":18}}`, "FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 1, 2, 2},
		{`{"find":"c","filter":{"equipment.plane_type":"P1"},"sort":{"seats_available":1}}`, "SORT > FETCH > IXSCAN equipment.plane_type_1", 7, 7, 7},
		{`{"find":"c","filter":{"status":"S1"},"sort":{"flight_id":-1},"limit":2}`, "LIMIT > FETCH > IXSCAN status_1_flight_id_-1", 2, 2, 2},
		{`{"find":"c","filter":{"status":"S1"},"sort":{"flight_id":1},"limit":2}`, "LIMIT > FETCH > IXSCAN status_1_flight_id_-1", 2, 2, 2},
		{`{"find":"c","sort":{"_id":-1},"limit":3}`, "LIMIT > FETCH > IXSCAN _id_", 3, 3, 3},
		{`{"find":"c","sort":{"none":1},"limit":3}`, "SORT > COLLSCAN", 3, 0, 20},
		{`{"find":"c","sort":{"none":1},"skip":2,"limit":3}`, "SKIP > SORT > COLLSCAN", 3, 0, 20},
		{`{"find":"c","sort":{"none":1},"projection":{"none":1}}`, "SORT > PROJECTION_SIMPLE > COLLSCAN", 20, 0, 20},
		{`{"find":"c","sort":{"none":1},"projection":{"u":1}}`, "PROJECTION_SIMPLE > SORT > COLLSCAN", 20, 0, 20},
		{`{"find":"c","filter":{"flight_id":{"$gt":3}},"skip":2,"limit":2}`, "LIMIT > SKIP > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 2, 4, 4},
		{`{"find":"c","filter":{"_id":3}}`, "EXPRESS_IXSCAN", 1, 1, 1},
		{`{"find":"c","filter":{"_id":99}}`, "EXPRESS_IXSCAN", 0, 0, 0},
		{`{"find":"c","filter":{"_id":3},"limit":1,"singleBatch":true,"projection":{"u":1}}`, "EXPRESS_IXSCAN", 1, 1, 1},
		{`{"find":"c","filter":{"_id":3},"batchSize":10}`, "IDHACK", 1, 1, 1},
		{`{"find":"c","filter":{"_id":3},"projection":{"equipment.seats":1}}`, "PROJECTION_DEFAULT > IDHACK", 1, 1, 1},
		{`{"find":"c","filter":{"_id":{"$in":[3,4]}}}`, "FETCH > IXSCAN _id_", 2, 2, 2},
		{`{"find":"c","filter":{"u":3}}`, "EXPRESS_IXSCAN", 1, 1, 1},
		{`{"find":"c","filter":{"flight_id":3},"limit":1}`, "EXPRESS_IXSCAN", 1, 1, 1},
		{`{"find":"c","filter":{"flight_id":3},"hint":"flight_id_1_seats_available_1"}`, "FETCH > IXSCAN flight_id_1_seats_available_1", 1, 1, 1},
		{`{"find":"c","filter":{"flight_id":3},"hint":{"$natural":1}}`, "COLLSCAN", 1, 0, 20},
		{`{"find":"c","filter":{"list":{"$gte":105}}}`, "FETCH > IXSCAN list_1", 15, 15, 15},
		{`{"find":"none"}`, "EOF", 0, 0, 0},
		{`{"update":"c","updates":[{"q":{"flight_id":3},"u":{"$set":{"status":"X"},"$inc":{"seats_available":-1}}}]}`, "UPDATE > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 0, 1, 1},
		{`{"update":"c","updates":[{"q":{"_id":{"$in":[1,2,3]}},"u":{"$set":{"status":"X"}},"multi":true}]}`, "UPDATE > FETCH > IXSCAN _id_", 0, 3, 3},
		{`{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"status":"X"}}}]}`, "EXPRESS_UPDATE", 0, 1, 1},
		{`{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"status":"X"}},"multi":true}]}`, "EXPRESS_UPDATE", 0, 1, 1},
		{`{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"status":"X"}},"upsert":true}]}`, "UPDATE > IDHACK", 0, 1, 1},
		{`{"update":"c","updates":[{"q":{"none":1},"u":{"$set":{"status":"X"}}}]}`, "UPDATE > COLLSCAN", 0, 0, 2},
		{`{"delete":"c","deletes":[{"q":{"flight_id":3},"limit":1}]}`, "DELETE > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 0, 1, 1},
		{`{"delete":"c","deletes":[{"q":{"_id":3},"limit":1}]}`, "EXPRESS_DELETE", 0, 1, 1},
		{`{"delete":"c","deletes":[{"q":{"_id":{"$in":[3,4]}},"limit":0}]}`, "BATCHED_DELETE > FETCH > IXSCAN _id_", 0, 2, 2},
		{`{"count":"c","query":{"none":{"$gt":3}}}`, "COUNT > COLLSCAN", 0, 0, 20},
		{`{"count":"c"}`, "RECORD_STORE_FAST_COUNT", 0, 0, 0},
		{`{"distinct":"c","key":"status","query":{"flight_id":{"$lt":2}}}`, "FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 2, 2, 2},
		{`{"aggregate":"c","pipeline":[{"$match":{"flight_id":{"$lt":5}}},{"$limit":2}],"cursor":{}}`, "LIMIT > FETCH > IXSCAN flight_id_1_equipment.plane_type_1", 2, 2, 2},
		{`{"findAndModify":"c","query":{"_id":3},"remove":true}`, "EXPRESS_DELETE", 0, 1, 1},
	} {
		t.Run(c.explained, func(t *testing.T) {
			e := planned(t)
			before := extJSON(t, run(t, e, "test", onC(t, "find", `{"batchSize":100}`)))
			reply := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, c.explained)}, {Key: "verbosity", Value: "allPlansExecution"}})
			if got := stagesOf(reply.Lookup("queryPlanner", "winningPlan").Document()); got != c.want {
				t.Errorf("plan %s, want %s", got, c.want)
			}
			if got := stagesOf(reply.Lookup("executionStats", "executionStages").Document()); got != c.want {
				t.Errorf("execution %s, want %s", got, c.want)
			}
			stats := reply.Lookup("executionStats").Document()
			for name, want := range map[string]int{"nReturned": c.returned, "totalKeysExamined": c.keys, "totalDocsExamined": c.docs} {
				if got := stats.Lookup(name).Int32(); int(got) != want {
					t.Errorf("%s is %d, want %d", name, got, want)
				}
			}
			if after := extJSON(t, run(t, e, "test", onC(t, "find", `{"batchSize":100}`))); after != before {
				t.Error("explain changed the collection")
			}
			planOnly := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, c.explained)}, {Key: "verbosity", Value: "queryPlanner"}})
			if got := stagesOf(planOnly.Lookup("queryPlanner", "winningPlan").Document()); got != c.want {
				t.Errorf("plan without execution %s, want %s", got, c.want)
			}
			if !lookup(planOnly, "executionStats").missing() {
				t.Error("verbosity queryPlanner executes")
			}
		})
	}
}

func TestExplainDetails(t *testing.T) {
	e := planned(t)
	reply := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, `{"find":"c","filter":{"flight_id":{"$in":[3,1]},"none":{"$lt":9}},"projection":{"flight_id":1},"limit":5,"batchSize":10}`)}, {Key: "verbosity", Value: "executionStats"}})
	scan := reply.Lookup("queryPlanner", "winningPlan", "inputStage", "inputStage", "inputStage").Document()
	want := `{"stage":"IXSCAN","keyPattern":{"flight_id":1,"equipment.plane_type":1},"indexName":"flight_id_1_equipment.plane_type_1","isMultiKey":false,` +
		`"multiKeyPaths":{"flight_id":[],"equipment.plane_type":[]},"isUnique":false,"isSparse":false,"isPartial":false,"indexVersion":2,"direction":"forward",` +
		`"indexBounds":{"flight_id":["[1, 1]","[3, 3]"],"equipment.plane_type":["[MinKey, MaxKey]"]}}`
	if got := extJSON(t, scan); got != want {
		t.Errorf("scan %s\nwant %s", got, want)
	}
	fetch := reply.Lookup("queryPlanner", "winningPlan", "inputStage", "inputStage").Document()
	if got := extJSON(t, fetch.Lookup("filter").Document()); got != `{"none":{"$lt":9}}` {
		t.Errorf("filter %s", got)
	}
	if got := extJSON(t, reply.Lookup("queryPlanner", "parsedQuery").Document()); got != `{"$and":[{"flight_id":{"$in":[1,3]}},{"none":{"$lt":9}}]}` {
		t.Errorf("parsed query %s", got)
	}
	if got := extJSON(t, reply.Lookup("command").Document()); !strings.HasSuffix(got, `"batchSize":10,"$db":"test"}`) {
		t.Errorf("command %s", got)
	}
	express := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, `{"delete":"c","deletes":[{"q":{"_id":3},"limit":1}]}`)}, {Key: "verbosity", Value: "executionStats"}})
	if got := extJSON(t, express.Lookup("queryPlanner", "winningPlan").Document()); got != `{"isCached":false,"stage":"EXPRESS_DELETE","keyPattern":"{ _id: 1 }","indexName":"_id_"}` {
		t.Errorf("express plan %s", got)
	}
	if got := express.Lookup("executionStats", "executionStages", "nWouldDelete").Int32(); got != 1 {
		t.Errorf("nWouldDelete %d", got)
	}
	backward := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, `{"find":"c","filter":{"status":{"$gte":"S1"}},"sort":{"status":-1,"flight_id":1}}`)}, {Key: "verbosity", Value: "queryPlanner"}})
	scan = backward.Lookup("queryPlanner", "winningPlan", "inputStage").Document()
	if got := extJSON(t, scan.Lookup("indexBounds").Document()); got != `{"status":["({}, \"S1\"]"],"flight_id":["[MinKey, MaxKey]"]}` {
		t.Errorf("backward bounds %s", got)
	}
	group := run(t, e, "test", bson.D{{Key: "explain", Value: doc(t, `{"aggregate":"c","pipeline":[{"$match":{"flight_id":{"$lt":5}}},{"$group":{"_id":"$status","n":{"$sum":1}}}],"cursor":{}}`)}, {Key: "verbosity", Value: "executionStats"}})
	if got := stagesOf(group.Lookup("stages", "0", "$cursor", "queryPlanner", "winningPlan").Document()); got != "FETCH > IXSCAN flight_id_1_equipment.plane_type_1" {
		t.Errorf("aggregation plan %s", got)
	}
	if got := group.Lookup("stages", "1", "nReturned").Int64(); got != 2 {
		t.Errorf("groups %d", got)
	}
}
