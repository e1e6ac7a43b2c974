package bench

import (
	"context"
	"encoding/json"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// shapeSearch is how many commands are looked at to find one of every shape:
// enough for a shape of one in a thousand commands.
const shapeSearch = 10_000

// explainShapes asks for the plan of one command of every query shape.
// Inserts have no plan. What cannot be explained becomes a warning: plans are
// context, not a measurement.
func explainShapes(ctx context.Context, client *mongodb.Client, w *workload.Workload, iteration int) (explains []record.Explain, warnings []string) {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	explains = []record.Explain{}
	seen := map[string]bool{}
	commands := w.Generator(iteration, 0)
	// Those past the pass: documents that the first commands of the pass
	// deleted would be looked up in vain.
	first := w.Settings().OpsPerWorker
	for i := first; i < first+shapeSearch && ctx.Err() == nil; i++ {
		command := commands.Command(i)
		if seen[command.Shape] || command.Type == workload.InsertOne || command.Type == workload.InsertMany {
			continue
		}
		seen[command.Shape] = true
		explain, err := explainCommand(ctx, client, command)
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("no plan of %s: %v", command.Shape, err))
			continue
		}
		explains = append(explains, explain)
	}
	return explains, warnings
}

func explainCommand(ctx context.Context, client *mongodb.Client, command *workload.Command) (record.Explain, error) {
	reply, err := client.Explain(ctx, command)
	if err != nil {
		return record.Explain{}, err
	}
	out := record.Explain{Operation: command.Type.String(), Shape: command.Shape}
	if out.Command, err = relaxedJSON(command.AppendCanonical(nil)); err != nil {
		return out, err
	}
	if out.Raw, err = relaxedJSON(reply); err != nil {
		return out, err
	}
	out.Stages = planStages(reply)
	out.Keys = executionNumber(reply, "totalKeysExamined")
	out.Documents = executionNumber(reply, "totalDocsExamined")
	out.Returned = executionNumber(reply, "nReturned")
	return out, nil
}

// relaxedJSON is the document as relaxed extended JSON.
func relaxedJSON(doc bson.Raw) (json.RawMessage, error) {
	text, err := bson.MarshalExtJSON(doc, false, false)
	if err != nil {
		return nil, fmt.Errorf("render as JSON: %w", err)
	}
	return text, nil
}

// planStages lists the stages of the winning plan, outermost first, an index
// scan with the name of its index. It reads the forms that explain has had
// since MongoDB 5.0: queryPlanner at the top, or inside the $cursor stage of
// an aggregation, or once per shard; the plan itself at the top of
// winningPlan or, from the slot-based engine, in its queryPlan.
func planStages(explain bson.Raw) []string {
	stages := []string{}
	if shards, ok := explain.Lookup("queryPlanner", "winningPlan", "shards").ArrayOK(); ok {
		values, _ := bson.Raw(shards).Values()
		for i, shard := range values {
			if plan, ok := shard.DocumentOK(); ok && i == 0 { // all run the same command
				stages = append(stages, "SHARD_MERGE")
				return appendPlan(stages, document(plan, "winningPlan"))
			}
		}
	}
	if pipeline, ok := explain.Lookup("stages").ArrayOK(); ok {
		// An aggregation's last stage is the outermost.
		values, _ := bson.Raw(pipeline).Values()
		for i := len(values) - 1; i >= 0; i-- {
			stage, ok := values[i].DocumentOK()
			if !ok {
				continue
			}
			first, err := stage.IndexErr(0)
			if err != nil {
				continue
			}
			if first.Key() == "$cursor" {
				stages = appendPlan(stages, document(stage, "$cursor", "queryPlanner", "winningPlan"))
				continue
			}
			stages = append(stages, first.Key())
		}
		return stages
	}
	return appendPlan(stages, document(explain, "queryPlanner", "winningPlan"))
}

func document(doc bson.Raw, path ...string) bson.Raw {
	inner, _ := doc.Lookup(path...).DocumentOK()
	return inner
}

// maxPlanDepth is far deeper than any plan of these commands.
const maxPlanDepth = 100

func appendPlan(stages []string, plan bson.Raw) []string {
	if inner := document(plan, "queryPlan"); inner != nil {
		plan = inner
	}
	return appendStage(stages, plan, 0)
}

func appendStage(stages []string, plan bson.Raw, depth int) []string {
	name, ok := plan.Lookup("stage").StringValueOK()
	if !ok || depth > maxPlanDepth {
		return stages
	}
	if index, ok := plan.Lookup("indexName").StringValueOK(); ok {
		name += " " + index
	}
	stages = append(stages, name)
	for _, key := range []string{"inputStage", "outerStage", "innerStage"} {
		stages = appendStage(stages, document(plan, key), depth+1)
	}
	if inputs, ok := plan.Lookup("inputStages").ArrayOK(); ok {
		values, _ := bson.Raw(inputs).Values()
		for _, v := range values {
			if input, ok := v.DocumentOK(); ok {
				stages = appendStage(stages, input, depth+1)
			}
		}
	}
	return stages
}

// executionNumber is a number of executionStats, wherever those are.
func executionNumber(explain bson.Raw, name string) int64 {
	if n, ok := explain.Lookup("executionStats", name).AsInt64OK(); ok {
		return n
	}
	pipeline, _ := explain.Lookup("stages").ArrayOK()
	values, _ := bson.Raw(pipeline).Values()
	for _, v := range values {
		if stage, ok := v.DocumentOK(); ok {
			if n, ok := stage.Lookup("$cursor", "executionStats", name).AsInt64OK(); ok {
				return n
			}
		}
	}
	return 0
}
