package record

import (
	"encoding/json"
	"fmt"
	"time"
)

// SchemaVersion is the version of the run record's layout and JSON forms.
// Readers refuse newer ones and understand older ones.
const SchemaVersion = 1

// Engine tells what answered the commands.
const (
	EngineMongod   = "mongod"   // a MongoDB server
	EngineEmbedded = "embedded" // the stand-in engine: its numbers say nothing about MongoDB
)

// Run is the head of a run record (run.json): everything needed to repeat
// the run, and nothing secret.
type Run struct {
	SchemaVersion int        `json:"schema_version"`
	ID            string     `json:"id"`
	Started       time.Time  `json:"started"`
	Finished      *time.Time `json:"finished,omitempty"`
	Environment   string     `json:"environment"`
	Platform      string     `json:"platform"`
	// Engine is EngineMongod or EngineEmbedded; one embedded target makes
	// the whole run embedded.
	Engine      string   `json:"engine"`
	Tool        Tool     `json:"tool"`
	CommandLine []string `json:"command_line"`
	Settings    Settings `json:"settings"`
	Sizes       []Size   `json:"sizes"`
	// Order is sequential, interleaved or random.
	Order    string       `json:"order"`
	Baseline string       `json:"baseline"`
	Targets  []Target     `json:"targets"`
	Files    []InputFile  `json:"files,omitempty"`
	LoadHost MachineFacts `json:"load_host"`
	// Variables were set outside of files when the environment was made; nil
	// when that is not known.
	Variables []Variable    `json:"variables"`
	Warnings  []string      `json:"warnings,omitempty"`
	Interval  time.Duration `json:"interval_ns"` // pause between cells
}

// Tool identifies the program that made the record.
type Tool struct {
	Version   string `json:"version"`
	Commit    string `json:"commit,omitempty"`
	GoVersion string `json:"go_version"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
}

// Settings are the workload and load settings that all cells share.
type Settings struct {
	Workload     string         `json:"workload"`
	Seed         uint64         `json:"seed"`
	Workers      int            `json:"workers"`
	OpsPerWorker int64          `json:"ops_per_worker"`
	Mix          map[string]int `json:"mix"`
	InsertBatch  int            `json:"insert_batch"`
	FindBatch    int            `json:"find_batch"`
	FindLimit    int            `json:"find_limit"`

	Duration time.Duration `json:"duration_ns"`
	// Warmup or WarmupCommands, of all workers together, come before the
	// measured time.
	Warmup         time.Duration `json:"warmup_ns,omitempty"`
	WarmupCommands int64         `json:"warmup_commands,omitempty"`
	Rate           float64       `json:"rate_per_s,omitempty"` // 0: closed loop
	OpTimeout      time.Duration `json:"op_timeout_ns,omitempty"`
	ReadPreference string        `json:"read_preference"`
	WriteConcern   string        `json:"write_concern"` // "": the server's default
	RecordOutcomes bool          `json:"record_outcomes,omitempty"`
	Explain        bool          `json:"explain,omitempty"`
}

// WarmsUp reports whether something comes before the measured time.
func (s *Settings) WarmsUp() bool { return s.Warmup > 0 || s.WarmupCommands > 0 }

// Size is a data size and how often it is repeated.
type Size struct {
	Documents  int64  `json:"documents"`
	Label      string `json:"label"` // as typed: 4M
	Iterations int    `json:"iterations"`
}

// Target is a deployment as the subject of the run.
type Target struct {
	Name             string `json:"name"`
	Distribution     string `json:"distribution"`
	Release          string `json:"release,omitempty"`
	RequestedVersion string `json:"requested_version"`
	// ActualVersion and GitVersion are what the servers said of themselves
	// in buildInfo.
	ActualVersion string `json:"actual_version"`
	GitVersion    string `json:"git_version,omitempty"`
	Engine        string `json:"engine"`
	ReplicaSet    string `json:"replica_set,omitempty"`
	// AAOf names the target whose deployment is measured a second time under
	// this one's name, for the noise floor.
	AAOf    string        `json:"aa_of,omitempty"`
	Members []MemberFacts `json:"members,omitempty"`
}

// MemberFacts are the facts of one member that decide parity.
type MemberFacts struct {
	Name    string       `json:"name"`
	Address string       `json:"address"`
	Role    string       `json:"role"` // PRIMARY, SECONDARY, ARBITER when the run began
	Version string       `json:"version"`
	FCV     string       `json:"fcv,omitempty"`
	Machine MachineFacts `json:"machine"`
	// MachineID tells the machine from others of the same name, as one that
	// was made anew is; "" where nothing does.
	MachineID string `json:"machine_id,omitempty"`
	// Cloud is empty where no platform made the machine, and in records of
	// earlier programs.
	Cloud CloudFacts `json:"cloud,omitzero"`
	// Settings are the facts that should be equal between members, flat:
	// "setParameter.x", "storage.engine", "wiredTiger.cache_bytes", …
	Settings map[string]string `json:"settings,omitempty"`
}

// CloudFacts say what the platform made for a member: what its machine's own
// operating system does not tell. What is not known is empty.
type CloudFacts struct {
	MachineType string `json:"machine_type,omitempty"` // n2-standard-4
	CPUPlatform string `json:"cpu_platform,omitempty"` // Intel Ice Lake
	Zone        string `json:"zone,omitempty"`
	// The disk that holds the data; an arbiter has none.
	DiskType string `json:"disk_type,omitempty"` // pd-ssd
	DiskGB   int    `json:"disk_gb,omitempty"`   // 10^9 or 2^30 bytes, as the cloud counts them
}

// Contradicts reports whether both know a fact and say different things.
func (c CloudFacts) Contradicts(other CloudFacts) bool {
	differ := func(x, y string) bool { return x != "" && y != "" && x != y }
	return differ(c.MachineType, other.MachineType) || differ(c.CPUPlatform, other.CPUPlatform) || differ(c.Zone, other.Zone) ||
		differ(c.DiskType, other.DiskType) || c.DiskGB > 0 && other.DiskGB > 0 && c.DiskGB != other.DiskGB
}

// MachineFacts describe a computer.
type MachineFacts struct {
	OS       string `json:"os,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	CPUModel string `json:"cpu_model,omitempty"`
	CPUs     int    `json:"cpus,omitempty"`
	MemoryMB int64  `json:"memory_mb,omitempty"`
}

// InputFile is a copy of a file that described the environment.
type InputFile struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Variable is a variable of the environment that no file set.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"` // redacted when it is secret
	// Sensitive: its value is not recorded.
	Sensitive bool `json:"sensitive,omitempty"`
}

// DefaultVariant is the variant of a run that sweeps nothing.
const DefaultVariant = "default"

// CellID names a cell: target x size x variant x iteration.
type CellID struct {
	Target    string `json:"target"`
	Size      int64  `json:"size"` // documents seeded
	Variant   string `json:"variant"`
	Iteration int    `json:"iteration"` // from 1
}

// String is the cell's name in journals and messages.
func (id CellID) String() string {
	return fmt.Sprintf("%s/%d/%s/%d", id.Target, id.Size, id.Variant, id.Iteration)
}

// Cell is the outcome of one cell (cell.json).
type Cell struct {
	CellID
	// Attempt counts the tries at this cell in this run, from 1.
	Attempt int `json:"attempt"`
	// Valid is false when something happened during the cell that makes its
	// numbers worthless; InvalidReasons say what.
	Valid          bool     `json:"valid"`
	InvalidReasons []string `json:"invalid_reasons,omitempty"`
	// Complete: every worker sent its whole pass.
	Complete bool `json:"complete"`
	// Interrupted: the user stopped the cell before its time.
	Interrupted bool      `json:"interrupted,omitempty"`
	Started     time.Time `json:"started"`
	// DurationS is the measured time in seconds, by the monotonic clock:
	// the measured start to the end of the last command.
	DurationS float64 `json:"duration_s"`

	// SequenceID digests the settings that define the command sequence;
	// cells with different ones are never put side by side.
	SequenceID string `json:"sequence_id"`
	// Fingerprint covers the first FingerprintCommands commands of every
	// worker: the whole pass when Complete, else the longest checkpointed
	// prefix that every worker sent, and where one did not come to its first
	// checkpoint the longest with an early state. Empty when there is none.
	Fingerprint         string `json:"fingerprint"`
	FingerprintCommands int64  `json:"fingerprint_commands"`

	Seeding Seeding `json:"seeding"`
	// Definitions are those of the collections and indexes that were seeded,
	// as the members had them before the commands; none in older records.
	Definitions []Definitions `json:"definitions,omitempty"`

	// Commands succeeded; Errors failed and are in no throughput and no
	// latency of Commands.
	Commands int64 `json:"commands"`
	Errors   int64 `json:"errors"`
	Retries  int64 `json:"retries"`
	// Timeouts are those of Errors whose time limit ran out; nil in records
	// that do not tell.
	Timeouts       *int64  `json:"timeouts,omitempty"`
	ThroughputPerS float64 `json:"throughput_per_s"`
	// Service time over all successful commands, milliseconds.
	LatencyMS Latency `json:"latency_ms"`
	// Response time (intended start to reply), open-loop runs only.
	ResponseMS *Latency             `json:"response_ms,omitempty"`
	Operations map[string]Operation `json:"operations"`
	// ErrorCodes counts failures by "operation/code name".
	ErrorCodes map[string]int64 `json:"error_codes,omitempty"`

	CPUUSPerCommand *CPUPerCommand `json:"cpu_us_per_command,omitempty"`
	Client          ClientUsage    `json:"client"`
	Warnings        []string       `json:"warnings,omitempty"`
}

// Definitions are how members define what they hold, by "collection NAME" and
// "index NAME.INDEX", in extended JSON.
type Definitions struct {
	Members []string          `json:"members"` // that define it so
	Facts   map[string]string `json:"facts"`
}

// Seeding says how the data got there.
type Seeding struct {
	Documents int64   `json:"documents"`
	Bytes     int64   `json:"bytes"`
	DurationS float64 `json:"duration_s"`
}

// Latency summarises a histogram, in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// Operation is one operation type's share of a cell.
type Operation struct {
	Count     int64   `json:"count"`
	Errors    int64   `json:"errors"`
	LatencyMS Latency `json:"latency_ms"`
	Returned  int64   `json:"returned,omitempty"`
	Matched   int64   `json:"matched,omitempty"`
	Modified  int64   `json:"modified,omitempty"`
	Inserted  int64   `json:"inserted,omitempty"`
	Deleted   int64   `json:"deleted,omitempty"`
	// Histogram of service time in µs: HdrHistogram V2, deflated, base64
	// (the encoding of .hlog files).
	Histogram string `json:"histogram,omitempty"`
	// ResponseHistogram: the same for response time, open loop only.
	ResponseHistogram string `json:"response_histogram,omitempty"`
}

// CPUPerCommand is server CPU time (user and system) per successful
// command, microseconds, from serverStatus.extra_info.
type CPUPerCommand struct {
	Primary   float64 `json:"primary"`
	Secondary float64 `json:"secondary"` // sum over the secondaries
}

// ClientUsage is what the load generator itself used during the cell.
type ClientUsage struct {
	CPUS       float64 `json:"cpu_s"`
	CPUPercent float64 `json:"cpu_percent"` // of all the load host's CPUs
	// MachineCPUPercent is what everything on the load host used of all its
	// CPUs, the load generator included; 0 when the system does not tell.
	MachineCPUPercent float64 `json:"machine_cpu_percent,omitempty"`
	ClientBound       bool    `json:"client_bound"`
	MaxRSSBytes       int64   `json:"max_rss_bytes,omitempty"`
}

// Interval is one second of a cell (a line of intervals.ndjson).
type Interval struct {
	StartS     float64                      `json:"start_s"` // since the measured start
	EndS       float64                      `json:"end_s"`
	Operations map[string]IntervalOperation `json:"operations"`
	Trouble
}

// Trouble is what went wrong in an interval or a window, over all operation
// types. A command counts where it ended.
type Trouble struct {
	// Retries are attempts beyond a command's first; nil where they were not
	// counted, as in older records.
	Retries *int64 `json:"retries,omitempty"`
	// Timeouts are failed commands whose time limit ran out; nil in older
	// records, which lack ErrorCodes, too.
	Timeouts *int64 `json:"timeouts,omitempty"`
	// ErrorCodes are as in Cell; none when no command failed.
	ErrorCodes map[string]int64 `json:"error_codes,omitempty"`
}

// IntervalOperation is one operation type's share of an interval.
type IntervalOperation struct {
	Count  int64 `json:"count"`
	Errors int64 `json:"errors,omitempty"`
	SumUS  int64 `json:"sum_us"`
	MaxUS  int64 `json:"max_us"`
}

// Window is a longer stretch with full histograms (a line of
// windows.ndjson), the unit of the statistics: whole minutes where the cell
// is long enough for ten of them, else a tenth of it but at least a second.
type Window struct {
	StartS     float64                    `json:"start_s"`
	EndS       float64                    `json:"end_s"`
	Operations map[string]WindowOperation `json:"operations"`
	Trouble
}

// WindowOperation is one operation type's share of a window.
type WindowOperation struct {
	Count     int64  `json:"count"`
	Errors    int64  `json:"errors,omitempty"`
	SumUS     int64  `json:"sum_us"`
	Histogram string `json:"histogram,omitempty"` // as in Operation
	// ResponseSumUS and ResponseHistogram: the same for response time, open
	// loop only; older records lack them.
	ResponseSumUS     int64  `json:"response_sum_us,omitempty"`
	ResponseHistogram string `json:"response_histogram,omitempty"`
}

// Sample is one reading of a member (a line of members.ndjson).
type Sample struct {
	At     time.Time          `json:"at"`
	Phase  string             `json:"phase"` // before, during, after
	Member string             `json:"member"`
	State  string             `json:"state"` // PRIMARY, SECONDARY, …
	Values map[string]float64 `json:"values,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// Explain is the plan of one sampled command (an element of explain.json).
type Explain struct {
	Operation string          `json:"operation"`
	Shape     string          `json:"shape"`
	Command   json.RawMessage `json:"command"` // extended JSON
	Stages    []string        `json:"stages"`  // outermost first: LIMIT, FETCH, "IXSCAN flight_id_1_…"
	Keys      int64           `json:"keys_examined"`
	Documents int64           `json:"documents_examined"`
	Returned  int64           `json:"returned"`
	Raw       json.RawMessage `json:"raw,omitempty"`
}
