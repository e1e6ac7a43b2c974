package bench

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func parse(t *testing.T, text string) bson.Raw {
	t.Helper()
	var doc bson.D
	if err := bson.UnmarshalExtJSON([]byte(text), false, &doc); err != nil {
		t.Fatal(err)
	}
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The forms are those of the server's documentation of explain results.
func TestPlanStages(t *testing.T) {
	for name, c := range map[string]struct {
		explain string
		want    []string
	}{
		"find": {`{"queryPlanner":{"winningPlan":{"stage":"LIMIT","inputStage":{"stage":"PROJECTION_SIMPLE","inputStage":
			{"stage":"FETCH","inputStage":{"stage":"IXSCAN","indexName":"flight_id_1_seats_available_1"}}}}}}`,
			[]string{"LIMIT", "PROJECTION_SIMPLE", "FETCH", "IXSCAN flight_id_1_seats_available_1"}},
		"express": {`{"queryPlanner":{"winningPlan":{"isCached":false,"stage":"EXPRESS_DELETE","keyPattern":"{ _id: 1 }","indexName":"_id_"}}}`,
			[]string{"EXPRESS_DELETE _id_"}},
		"slot-based engine": {`{"queryPlanner":{"winningPlan":{"queryPlan":{"stage":"GROUP","planNodeId":3,"inputStage":
			{"stage":"COLLSCAN"}},"slotBasedPlan":{}}}}`, []string{"GROUP", "COLLSCAN"}},
		"several inputs": {`{"queryPlanner":{"winningPlan":{"stage":"OR","inputStages":[{"stage":"IXSCAN","indexName":"a_1"},
			{"stage":"IXSCAN","indexName":"b_1"}]}}}`, []string{"OR", "IXSCAN a_1", "IXSCAN b_1"}},
		"aggregate": {`{"stages":[{"$cursor":{"queryPlanner":{"winningPlan":{"stage":"COLLSCAN"}}}},{"$group":{}},{"$sort":{}}]}`,
			[]string{"$sort", "$group", "COLLSCAN"}},
		"sharded": {`{"queryPlanner":{"winningPlan":{"stage":"SINGLE_SHARD","shards":[{"shardName":"s0","winningPlan":
			{"stage":"FETCH","inputStage":{"stage":"IXSCAN","indexName":"a_1"}}}]}}}`, []string{"SHARD_MERGE", "FETCH", "IXSCAN a_1"}},
		"nothing":     {`{}`, []string{}},
		"other types": {`{"queryPlanner":7,"stages":[1,{},{"$cursor":"x"}]}`, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := planStages(parse(t, c.explain)); !slices.Equal(got, c.want) {
				t.Errorf("stages %q, want %q", got, c.want)
			}
		})
	}
}

func TestPlanStagesEnds(t *testing.T) {
	plan := bson.D{{Key: "stage", Value: "COLLSCAN"}}
	for range 2 * maxPlanDepth {
		plan = bson.D{{Key: "stage", Value: "FETCH"}, {Key: "inputStage", Value: plan}}
	}
	raw, err := bson.Marshal(bson.D{{Key: "queryPlanner", Value: bson.D{{Key: "winningPlan", Value: plan}}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(planStages(raw)); got != maxPlanDepth+1 {
		t.Errorf("%d stages, want %d", got, maxPlanDepth+1)
	}
}

func TestExecutionNumber(t *testing.T) {
	for text, want := range map[string]int64{
		`{"executionStats":{"totalKeysExamined":10}}`:                                       10,
		`{"executionStats":{"totalKeysExamined":{"$numberLong":"11"}}}`:                     11,
		`{"stages":[{"$cursor":{"executionStats":{"totalKeysExamined":12}}},{"$sort":{}}]}`: 12,
		`{"stages":[]}`: 0,
		`{}`:            0,
	} {
		if got := executionNumber(parse(t, text), "totalKeysExamined"); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestRelaxedJSON(t *testing.T) {
	got, err := relaxedJSON(parse(t, `{"a":{"$numberInt":"1"},"b":{"$in":["x"]}}`))
	if err != nil || !strings.Contains(string(got), `"a":1`) {
		t.Errorf("%s, %v", got, err)
	}
}
