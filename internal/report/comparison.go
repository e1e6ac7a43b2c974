package report

import (
	"slices"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// Comparison is all that a report says, in values. Lists are in the order in
// which they are shown: sizes as in the run, targets as in the run,
// iterations ascending.
type Comparison struct {
	// Run is the head of the run; of several runs that of the first, with
	// the targets and sizes of all.
	Run record.Run
	// Runs are the runs that are compared when they are several, else none.
	Runs []RunHead
	// Placements is the number of sets of machines that pooled runs were
	// made on, a level of their own in every interval; 0 unless Runs are
	// pooled.
	Placements int
	pool       *pooling
	asked      asked
	// Baseline is the target that the others are compared with, unless
	// Target.Baseline says otherwise.
	Baseline string
	Targets  []Target
	// Groups are what is put side by side: one per size and variant.
	Groups []Group
	// Cells are all attempts, also those that count for nothing.
	Cells       []Cell
	Missing     []Missing
	Fairness    Fairness
	Differences []Difference
	Errors      []ErrorCount
	Plans       []Plan
	// Answers are there if outcomes were recorded: one per group, iteration
	// and target other than the baseline.
	Answers   []Answers
	Timelines []Timeline
	// Thresholds are the answers to what was asked for, in its order.
	Thresholds []ThresholdResult
	Repeats    []Repeat
	// Limits are what limited each target in each group.
	Limits []GroupLimit
	// Warnings are the limits of what this run can tell, in plain words.
	Warnings []string
}

// Embedded tells whether the stand-in engine answered for any target.
func (c *Comparison) Embedded() bool {
	if c.Run.Engine == record.EngineEmbedded {
		return true
	}
	for i := range c.Targets {
		if c.Targets[i].Engine == record.EngineEmbedded {
			return true
		}
	}
	return false
}

// target is the index of a target in Targets, -1 if there is none.
func (c *Comparison) target(name string) int {
	return slices.IndexFunc(c.Targets, func(t Target) bool { return t.Name == name })
}

// groupOf is the index of a size and variant in Groups, -1 if there is none.
func (c *Comparison) groupOf(size int64, variant string) int {
	return slices.IndexFunc(c.Groups, func(g Group) bool { return g.Size == size && g.Variant == variant })
}

// Target is a target of the run, or of one of several.
type Target struct {
	record.Target
	// Baseline is the target that this one is compared with, empty when
	// others are compared with it.
	Baseline string
	// Run is the index in Comparison.Runs of the run that it belongs to, 0
	// when there is only one, and Origin its name there.
	Run    int
	Origin string
	// Down is why the target's remaining cells were given up, else "".
	Down string
}

// Group is a size and variant: the cells in it are put side by side.
type Group struct {
	Size    int64
	Variant string
	Label   string // the size as typed, and the variant unless it is the default
	// Iterations is how often the size was to be repeated.
	Iterations int
	Summaries  []Summary // one per target, in the targets' order
}

// Summary is a target's result in a group, over its counted cells.
type Summary struct {
	Target string
	// Cells is the number of counted cells; 0 when the target has no result
	// here, for the reason in Absent.
	Cells  int
	Absent string
	// Refused says why the result is not put beside the baseline's.
	Refused string

	Commands       int64
	Errors         int64
	DurationS      float64
	ThroughputPerS float64
	LatencyMS      record.Latency
	// ResponseMS is response time, nil in a closed loop.
	ResponseMS *record.Latency
	Operations []OperationSummary
	CPU        *record.CPUPerCommand
	// CPUInterval is that of CPU; zeros where there is none.
	CPUInterval CPUInterval
	// DatasetDocuments and DatasetBytes (of BSON) are what was seeded, 0 when
	// unknown.
	DatasetDocuments, DatasetBytes int64
	// Unplanned are the operation types of which no plan was recorded, without
	// inserts, which have none.
	Unplanned []string
}

// Shown tells whether the summary may stand beside the others.
func (s *Summary) Shown() bool { return s.Cells > 0 && s.Refused == "" }

// OperationSummary is one operation type's share of a Summary.
type OperationSummary struct {
	Type      string
	Count     int64
	Errors    int64
	LatencyMS record.Latency
}

// CellState says what a cell is worth.
type CellState string

// The states of a cell.
const (
	StateCounted     CellState = "counted"
	StateInvalid     CellState = "invalid"      // ended, and worthless
	StateInterrupted CellState = "interrupted"  // stopped by the user
	StatePartial     CellState = "partial"      // begun and not ended
	StateDamaged     CellState = "damaged"      // its files cannot be used
	StateSuperseded  CellState = "superseded"   // a later attempt counts
	StateRefused     CellState = "not compared" // sound, but not of the same commands
)

// Cell is one attempt at a cell.
type Cell struct {
	record.CellID
	Attempt int
	State   CellState
	// Reason is why the cell does not count, else "".
	Reason string
	// Result is nil when the attempt left no numbers.
	Result *record.Cell
	// Members are what the members did meanwhile, in the order of their
	// readings; of counted cells only, as are Bottleneck and Steady, which
	// are nil for others. Steady is also nil for a cell without a course.
	Members    []MemberMetrics
	Bottleneck *Bottleneck
	Steady     *Steady
	// CPUInterval is that of Result's CPU per command, from this cell alone;
	// zeros where there is none.
	CPUInterval CPUInterval
}

// Missing is a cell that the run asked for and has no counted attempt.
type Missing struct {
	record.CellID
	Reason string
}

// Status grades a finding about fairness.
type Status string

// The statuses.
const (
	OK      Status = "ok"      // as it should be
	Caution Status = "caution" // limits what can be concluded
	Unfair  Status = "unfair"  // the comparison does not hold
)

// Fairness is whether the comparison holds.
type Fairness struct {
	Fair      bool // no check is Unfair
	Checks    []Check
	Sequences []Sequence
	Parity    []Parity
	// Compared are the facts that any member told and that were compared, also
	// where they do not differ.
	Compared []string
}

// Check is one question about fairness and its answer.
type Check struct {
	Name   string
	Status Status
	Text   string
}

// Sequence tells for one size, variant and iteration whether the targets
// were sent the same commands.
type Sequence struct {
	Group     int // index in Comparison.Groups
	Iteration int
	Same      bool
	// Commands is over how many commands, all workers together, equality
	// was proven.
	Commands int64
	// Fingerprint is that of the first PerWorker commands of every worker,
	// which all targets were sent; "" and 0 when no fingerprint covers what
	// they have in common.
	Fingerprint string
	PerWorker   int64
	// Problem says what differs, or why nothing was proven.
	Problem string
}

// Cause says what a difference between targets' facts belongs to.
type Cause string

// The causes.
const (
	CauseVersion     Cause = "version"     // comes with the versions compared
	CauseEnvironment Cause = "environment" // should have been equal
)

// Parity is a fact that differs between targets, or between the members of
// one.
type Parity struct {
	Fact   string
	Cause  Cause
	Values []string // one per target, in the targets' order
}

// The metrics of differences. Latencies are those of service time.
const (
	MetricThroughput   = "throughput"
	MetricMean         = "latency_mean"
	MetricP50          = "latency_p50"
	MetricP95          = "latency_p95"
	MetricP99          = "latency_p99"
	MetricP999         = "latency_p99_9" // over all operations only
	MetricCPUPrimary   = "cpu_per_command_primary"
	MetricCPUSecondary = "cpu_per_command_secondary"
)

// AllOperations is the operation of differences that cover all of them.
const AllOperations = "all"

// Difference compares a target with the baseline in one group.
type Difference struct {
	Group     int // index in Comparison.Groups
	Target    string
	Baseline  string
	Metric    string
	Operation string // an operation type, or AllOperations
	// Value and Base are the target's and the baseline's: commands per
	// second, milliseconds, or microseconds of CPU per command.
	Value, Base float64
	Ratio       stats.Ratio
	Direction   stats.Direction
	// Noise is the same ratio of the baseline measured a second time to
	// itself; 0 when that was not done.
	Noise float64
	// targetKnown and baseKnown: that side's uncertainty is.
	targetKnown, baseKnown bool
}

// ErrorCount counts failed commands by operation type and code.
type ErrorCount struct {
	Group     int
	Target    string
	Operation string
	Code      string
	Count     int64
	// Share is Count divided by all commands sent in the target's cells of
	// the group.
	Share float64
	// SlowestMS is the successful command of the operation type that took
	// longest in these cells; 0 when there was none, or the type is unknown.
	SlowestMS float64
}

// Plan is how the targets answered one query shape.
type Plan struct {
	Group     int
	Operation string
	Shape     string
	Same      bool
	// Targets has one entry per target, in the targets' order.
	Targets []TargetPlan
}

// PlanRelation says whether two targets plan a query shape alike.
type PlanRelation string

// The relations of a target's plans to its baseline's.
const (
	PlanUnknown   PlanRelation = ""          // of a baseline, and where one of the two was not explained
	PlanSame      PlanRelation = "same"      // the same plans were seen
	PlanDifferent PlanRelation = "different" // one of them was seen on one side only
)

// TargetPlan is the plan of a shape on one target.
type TargetPlan struct {
	// Variants are the distinct plans seen, "LIMIT > FETCH > IXSCAN …", by
	// how often and then by name; none when nothing was explained.
	Variants []string
	Samples  int
	// Against says how they compare with those of the target's own baseline.
	Against PlanRelation
	// Per document returned (or changed), over the samples.
	KeysPerReturned      float64
	DocumentsPerReturned float64
	// MeanMS is the mean latency of the shape's operation type, of which
	// other shapes may be part; 0 when there was none. Difference is that
	// from the baseline's; nil for the baseline and where there is none.
	MeanMS     float64
	Difference *Difference
}

// Timeline is the course of one cell.
type Timeline struct {
	Group     int
	Target    string
	Iteration int
	Step      time.Duration // length of a point's bin
	Points    []Point
	// Windows are those of the statistics; none when they are damaged.
	Windows []WindowPoint
	Trouble Trouble
}

// WindowPoint is a window of a timeline: long enough for a percentile.
type WindowPoint struct {
	AtS     float64 // the window's middle, seconds since the measured start
	Seconds float64
	Count   int64 // successful commands
	P99MS   float64
}

// Point is a bin of a timeline.
type Point struct {
	AtS            float64 // the bin's middle, seconds since the measured start
	ThroughputPerS float64
	MeanMS         float64
	MaxMS          float64 // of the slowest command
	Errors         int64
}
