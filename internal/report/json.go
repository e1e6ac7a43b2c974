package report

import (
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// jsonSchemaVersion is the version of the JSON form. Fields may be added
// under one version; none is removed or changes its meaning.
const jsonSchemaVersion = 1

type jsonReport struct {
	SchemaVersion int     `json:"schema_version"`
	Run           jsonRun `json:"run"`
	// Runs are all that are compared when they are several; Run is the
	// first then.
	Runs        []jsonRun        `json:"runs,omitempty"`
	Baseline    string           `json:"baseline"`
	Targets     []jsonTarget     `json:"targets"`
	Cells       []jsonCell       `json:"cells"`
	Missing     []jsonMissing    `json:"missing"`
	Summaries   []jsonSummary    `json:"summaries"`
	Limits      []jsonLimit      `json:"limits"`
	Comparisons []jsonComparison `json:"comparisons"`
	Fair        bool             `json:"fair"`
	Fairness    jsonFairness     `json:"fairness"`
	Checks      []jsonThreshold  `json:"checks"`
	Plans       []jsonPlan       `json:"plans"`
	Outcomes    []jsonAnswers    `json:"outcomes"`
	Warnings    []string         `json:"warnings"`
}

type jsonRun struct {
	ID          string              `json:"id"`
	Started     time.Time           `json:"started"`
	Finished    *time.Time          `json:"finished,omitempty"`
	Environment string              `json:"environment"`
	Platform    string              `json:"platform"`
	Engine      string              `json:"engine"`
	Seed        uint64              `json:"seed"`
	Order       string              `json:"order,omitempty"`
	Settings    record.Settings     `json:"settings"`
	Sizes       []record.Size       `json:"sizes"`
	Tool        record.Tool         `json:"tool"`
	CommandLine []string            `json:"command_line"`
	Files       []jsonFile          `json:"files"`
	LoadHost    record.MachineFacts `json:"load_host"`
	// Label is how the targets of several runs are told apart.
	Label string `json:"label,omitempty"`
	// Placement is the run's set of machines, when the runs are pooled.
	Placement int `json:"placement,omitempty"`
}

type jsonFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
}

type jsonTarget struct {
	Name             string `json:"name"`
	Distribution     string `json:"distribution,omitempty"`
	RequestedVersion string `json:"requested_version"`
	ActualVersion    string `json:"actual_version"`
	GitVersion       string `json:"git_version,omitempty"`
	Engine           string `json:"engine"`
	Down             string `json:"down,omitempty"`
	// Run is the label of the target's run when several are compared.
	Run string `json:"run,omitempty"`
	// AAOf is the baseline that was measured a second time as this target.
	AAOf    string             `json:"aa_of,omitempty"`
	Members []jsonTargetMember `json:"members,omitempty"`
}

type jsonCell struct {
	Target              string                   `json:"target"`
	Size                int64                    `json:"size"`
	Variant             string                   `json:"variant"`
	Iteration           int                      `json:"iteration"`
	Attempt             int                      `json:"attempt"`
	State               CellState                `json:"state"`
	Reason              string                   `json:"reason,omitempty"`
	Valid               bool                     `json:"valid"`
	Complete            bool                     `json:"complete"`
	SequenceID          string                   `json:"sequence_id"`
	Fingerprint         string                   `json:"fingerprint"`
	FingerprintCommands int64                    `json:"fingerprint_commands"`
	Commands            int64                    `json:"commands"`
	Errors              int64                    `json:"errors"`
	Retries             int64                    `json:"retries"`
	Timeouts            *int64                   `json:"timeouts,omitempty"`
	DurationS           float64                  `json:"duration_s"`
	ThroughputPerS      float64                  `json:"throughput_per_s"`
	LatencyMS           record.Latency           `json:"latency_ms"`
	ResponseMS          *record.Latency          `json:"response_ms,omitempty"`
	Operations          map[string]jsonOperation `json:"operations"` // encoding/json sorts the names
	ErrorCodes          map[string]int64         `json:"error_codes,omitempty"`
	Trouble             []jsonTrouble            `json:"trouble,omitempty"`
	CPU                 *jsonCPU                 `json:"cpu_us_per_command"`
	Members             []jsonMember             `json:"members,omitempty"`
	Bottleneck          *jsonBottleneck          `json:"bottleneck,omitempty"`
	Steady              *jsonSteady              `json:"steady,omitempty"`
	// Run is the label of the cell's run when several are pooled.
	Run string `json:"run,omitempty"`
}

type jsonOperation struct {
	Count     int64          `json:"count"`
	Errors    int64          `json:"errors"`
	LatencyMS record.Latency `json:"latency_ms"`
}

type jsonMissing struct {
	Target    string `json:"target"`
	Size      int64  `json:"size"`
	Variant   string `json:"variant"`
	Iteration int    `json:"iteration"`
	Reason    string `json:"reason"`
}

type jsonSummary struct {
	Target     string `json:"target"`
	Size       int64  `json:"size"`
	Variant    string `json:"variant"`
	Iterations int    `json:"iterations"`
	Refused    string `json:"refused,omitempty"`
	// What was seeded, and the smallest cache of a data-bearing member.
	DatasetDocuments int64 `json:"dataset_documents,omitempty"`
	DatasetBytes     int64 `json:"dataset_bytes,omitempty"`
	CacheBytes       int64 `json:"cache_bytes,omitempty"`

	Commands       int64                    `json:"commands"`
	Errors         int64                    `json:"errors"`
	DurationS      float64                  `json:"duration_s"`
	ThroughputPerS float64                  `json:"throughput_per_s"`
	LatencyMS      record.Latency           `json:"latency_ms"`
	ResponseMS     *record.Latency          `json:"response_ms,omitempty"`
	Operations     map[string]jsonOperation `json:"operations"`
	CPU            *jsonCPU                 `json:"cpu_us_per_command"`
	// Unplanned are operation types without a recorded plan.
	Unplanned []string `json:"operations_without_plan,omitempty"`
}

// jsonComparison: ratio is target divided by baseline; low and high bound its
// 95 % interval and are null without one. within_run: the interval is blind
// to what differs from run to run. detectable is the true relative
// difference that would have been found with a probability of 80 %.
// placements is the smaller number of sets of machines that a side was
// measured on, absent unless runs are pooled. aa_ratio is the ratio of
// the baseline measured a second time to itself, absent when that was not
// done; within_aa: the difference is no larger.
type jsonComparison struct {
	Target     string   `json:"target"`
	Baseline   string   `json:"baseline"`
	Size       int64    `json:"size"`
	Variant    string   `json:"variant"`
	Metric     string   `json:"metric"`
	Operation  string   `json:"operation"`
	Ratio      float64  `json:"ratio"`
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	Verdict    string   `json:"verdict"`
	Outcome    string   `json:"outcome"`
	WithinRun  bool     `json:"within_run"`
	Detectable *float64 `json:"detectable"`
	Placements int      `json:"placements,omitempty"`
	AARatio    *float64 `json:"aa_ratio,omitempty"`
	WithinAA   *bool    `json:"within_aa,omitempty"`
}

type jsonFairness struct {
	Checks    []jsonCheck    `json:"checks"`
	Sequences []jsonSequence `json:"sequences"`
	Parity    []jsonParity   `json:"parity"`
	Compared  []string       `json:"compared"`
}

type jsonCheck struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Text   string `json:"text"`
}

type jsonSequence struct {
	Size        int64  `json:"size"`
	Variant     string `json:"variant"`
	Iteration   int    `json:"iteration"`
	Same        bool   `json:"same"`
	Commands    int64  `json:"commands"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// FingerprintCommands of every worker are what Fingerprint covers.
	FingerprintCommands int64  `json:"fingerprint_commands,omitempty"`
	Problem             string `json:"problem,omitempty"`
}

type jsonParity struct {
	Fact   string     `json:"fact"`
	Cause  Cause      `json:"cause"`
	Values []jsonFact `json:"values"`
}

type jsonFact struct {
	Target string `json:"target"`
	Value  string `json:"value"`
}

type jsonPlan struct {
	Size      int64            `json:"size"`
	Variant   string           `json:"variant"`
	Operation string           `json:"operation"`
	Shape     string           `json:"shape"`
	Same      bool             `json:"same"`
	Targets   []jsonTargetPlan `json:"targets"`
}

type jsonTargetPlan struct {
	Target                       string   `json:"target"`
	Samples                      int      `json:"samples"`
	Plans                        []string `json:"plans"`
	KeysExaminedPerReturned      float64  `json:"keys_examined_per_returned"`
	DocumentsExaminedPerReturned float64  `json:"documents_examined_per_returned"`
	// AgainstBaseline is absent for a baseline and where one of the two was
	// not explained.
	AgainstBaseline PlanRelation `json:"against_baseline,omitempty"`
	// Latency is that of the shape's operation type.
	Latency *jsonPlanLatency `json:"latency,omitempty"`
}

func renderJSON(w io.Writer, c *Comparison) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(newJSON(c))
}

func newJSON(c *Comparison) *jsonReport {
	// Lists are never null, so that readers need not look.
	out := &jsonReport{
		SchemaVersion: jsonSchemaVersion, Run: newJSONRun(&c.heads()[0].Run), Checks: newJSONThresholds(c),
		Baseline: c.Baseline, Targets: []jsonTarget{}, Cells: []jsonCell{}, Missing: []jsonMissing{}, Summaries: []jsonSummary{},
		Limits: newJSONLimits(c), Comparisons: []jsonComparison{}, Fair: c.Fairness.Fair, Plans: []jsonPlan{}, Outcomes: newJSONAnswers(c), Warnings: c.AllWarnings(),
		Fairness: jsonFairness{Checks: []jsonCheck{}, Sequences: []jsonSequence{}, Parity: []jsonParity{}},
	}
	for i := range c.Runs {
		out.Runs = append(out.Runs, newJSONRun(&c.Runs[i].Run))
		out.Runs[i].Label, out.Runs[i].Placement = c.Runs[i].Label, c.Runs[i].Placement
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		out.Targets = append(out.Targets, jsonTarget{
			Name: t.Name, Distribution: t.Distribution, RequestedVersion: t.RequestedVersion, ActualVersion: t.ActualVersion,
			GitVersion: t.GitVersion, Engine: t.Engine, Down: t.Down, AAOf: t.AAOf, Members: newJSONTargetMembers(t),
		})
		if len(c.Runs) > 0 && c.pool == nil {
			out.Targets[i].Run = c.Runs[t.Run].Label
		}
	}
	for i := range c.Cells {
		out.Cells = append(out.Cells, newJSONCell(&c.Cells[i]))
		out.Cells[i].Trouble = newJSONTrouble(c, &c.Cells[i])
		if c.pool != nil {
			run, _ := c.pool.origin(c.Cells[i].Size, c.Cells[i].Iteration)
			out.Cells[i].Run = c.Runs[run].Label
		}
	}
	for _, m := range c.Missing {
		out.Missing = append(out.Missing, jsonMissing{m.Target, m.Size, m.Variant, m.Iteration, m.Reason})
	}
	for g := range c.Groups {
		group := &c.Groups[g]
		for i := range group.Summaries {
			s := &group.Summaries[i]
			if s.Cells == 0 {
				continue
			}
			operations := map[string]jsonOperation{}
			for _, o := range s.Operations {
				operations[o.Type] = jsonOperation{o.Count, o.Errors, o.LatencyMS}
			}
			out.Summaries = append(out.Summaries, jsonSummary{
				Target: s.Target, Size: group.Size, Variant: group.Variant, Iterations: s.Cells, Refused: s.Refused,
				DatasetDocuments: s.DatasetDocuments, DatasetBytes: s.DatasetBytes, CacheBytes: c.Targets[i].CacheBytes(), Commands: s.Commands,
				Errors: s.Errors, DurationS: s.DurationS, ThroughputPerS: s.ThroughputPerS, LatencyMS: s.LatencyMS, ResponseMS: s.ResponseMS, Operations: operations, CPU: newJSONCPU(s.CPU, &s.CPUInterval),
				Unplanned: s.Unplanned,
			})
		}
	}
	for i := range c.Differences {
		d := &c.Differences[i]
		x := jsonComparison{
			Target: d.Target, Baseline: d.Baseline, Size: c.Groups[d.Group].Size, Variant: c.Groups[d.Group].Variant,
			Metric: d.Metric, Operation: d.Operation, Ratio: digits(d.Ratio.Value), Verdict: d.Verdict(),
			Outcome: d.outcomeWord(), WithinRun: d.Ratio.WithinRun, Placements: d.Ratio.Placements,
		}
		if d.Ratio.HasInterval() {
			low, high, detectable := digits(d.Ratio.Low), digits(d.Ratio.High), digits(d.Ratio.Detectable)
			x.Low, x.High, x.Detectable = &low, &high, &detectable
		}
		if d.Noise > 0 {
			floor, within := digits(d.Noise), d.WithinNoise()
			x.AARatio, x.WithinAA = &floor, &within
		}
		out.Comparisons = append(out.Comparisons, x)
	}
	for _, check := range c.Fairness.Checks {
		out.Fairness.Checks = append(out.Fairness.Checks, jsonCheck(check))
	}
	for _, s := range c.Fairness.Sequences {
		g := &c.Groups[s.Group]
		out.Fairness.Sequences = append(out.Fairness.Sequences, jsonSequence{g.Size, g.Variant, s.Iteration, s.Same, s.Commands, s.Fingerprint, s.PerWorker, s.Problem})
	}
	out.Fairness.Compared = append([]string{}, c.Fairness.Compared...)
	for _, p := range c.Fairness.Parity {
		x := jsonParity{Fact: p.Fact, Cause: p.Cause, Values: []jsonFact{}}
		for i, v := range p.Values {
			x.Values = append(x.Values, jsonFact{c.Targets[i].Name, v})
		}
		out.Fairness.Parity = append(out.Fairness.Parity, x)
	}
	for i := range c.Plans {
		p := &c.Plans[i]
		x := jsonPlan{Size: c.Groups[p.Group].Size, Variant: c.Groups[p.Group].Variant, Operation: p.Operation, Shape: p.Shape, Same: p.Same, Targets: []jsonTargetPlan{}}
		for t, plan := range p.Targets {
			if plan.Samples > 0 {
				x.Targets = append(x.Targets, jsonTargetPlan{
					c.Targets[t].Name, plan.Samples, plan.Variants, digits(plan.KeysPerReturned), digits(plan.DocumentsPerReturned), plan.Against, newJSONPlanLatency(&plan),
				})
			}
		}
		out.Plans = append(out.Plans, x)
	}
	return out
}

func newJSONRun(r *record.Run) jsonRun {
	run := jsonRun{
		ID: r.ID, Started: r.Started, Finished: r.Finished, Environment: r.Environment, Platform: r.Platform, Engine: r.Engine,
		Seed: r.Settings.Seed, Order: r.Order, Settings: r.Settings, Sizes: append([]record.Size{}, r.Sizes...), Tool: r.Tool,
		CommandLine: append([]string{}, r.CommandLine...), Files: []jsonFile{}, LoadHost: r.LoadHost,
	}
	for _, f := range r.Files {
		run.Files = append(run.Files, jsonFile{f.Name, f.SHA256})
	}
	return run
}

func newJSONCell(c *Cell) jsonCell {
	x := jsonCell{
		Target: c.Target, Size: c.Size, Variant: c.Variant, Iteration: c.Iteration, Attempt: c.Attempt, State: c.State, Reason: c.Reason,
		Operations: map[string]jsonOperation{},
	}
	n := c.Result
	if n == nil {
		return x
	}
	x.Valid, x.Complete = n.Valid, n.Complete
	x.SequenceID, x.Fingerprint, x.FingerprintCommands = n.SequenceID, n.Fingerprint, n.FingerprintCommands
	x.Commands, x.Errors, x.Retries, x.Timeouts = n.Commands, n.Errors, n.Retries, n.Timeouts
	x.DurationS, x.ThroughputPerS = n.DurationS, n.ThroughputPerS
	x.LatencyMS, x.ResponseMS, x.ErrorCodes, x.CPU = n.LatencyMS, n.ResponseMS, n.ErrorCodes, newJSONCPU(n.CPUUSPerCommand, &c.CPUInterval)
	for name, o := range n.Operations {
		x.Operations[name] = jsonOperation{o.Count, o.Errors, o.LatencyMS}
	}
	x.Members, x.Bottleneck, x.Steady = newJSONMembers(c.Members), newJSONBottleneck(c.Bottleneck), newJSONSteady(c.Steady)
	return x
}

// digits keeps six significant digits: more would be noise of the last bit,
// and differ between processors.
func digits(v float64) float64 {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
