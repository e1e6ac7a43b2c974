package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// forge makes records that look like those of real runs, from the level and
// the noise of every target at every size.
type forge struct {
	t   testing.TB
	run record.Run
	// throughput per second by size and target.
	throughput map[int64]map[string]float64
	noise      float64 // relative standard deviation of a minute, and of a second in it
	between    float64 // and of an iteration
	window     float64 // seconds
	grid       int     // distinct latencies of a window
	// operations are by how much longer than on others an operation type takes
	// on a target.
	operations map[string]map[string]float64
	alike      bool               // the targets do all the same, but for chance
	cpu        map[string]float64 // µs per command on the primary
	// response time is so many times the service time, by target; none in a
	// closed loop.
	response map[string]float64
	// older records do not say when there were timeouts and retries.
	older  bool
	change func(*record.Cell)
}

var mixShares = []struct {
	name   string
	share  float64
	factor float64 // of the mean latency
}{
	{"find", 0.60, 0.8}, {"updateOne", 0.10, 1.1}, {"updateMany", 0.10, 1.5}, {"deleteOne", 0.05, 1.1},
	{"deleteMany", 0.05, 1.4}, {"insertOne", 0.05, 1.2}, {"insertMany", 0.05, 1.9},
}

func newForge(t testing.TB, targets []record.Target, sizes []record.Size, duration time.Duration) *forge {
	started := time.Date(2026, 11, 6, 9, 30, 0, 0, time.UTC)
	return &forge{t: t, noise: 0.015, between: 0.003, window: 60, grid: 400,
		run: record.Run{
			SchemaVersion: record.SchemaVersion, ID: "20261106-093000-first-look", Started: started, Finished: &started,
			Environment: "mongodb-9-first-look", Platform: "gcp", Engine: record.EngineMongod, Order: "sequential",
			Tool: record.Tool{Version: "v0.3.0", Commit: "c68c204", GoVersion: "go1.26.8", OS: "linux", Arch: "amd64"},
			Settings: record.Settings{
				Workload: "flights", Seed: 178477, Workers: 16, OpsPerWorker: 250000,
				Mix:         map[string]int{"find": 60, "update": 20, "delete": 10, "insert": 5, "bulk_insert": 5, "aggregate": 0},
				InsertBatch: 10, FindBatch: 10, FindLimit: 5, Duration: duration, ReadPreference: "secondary", Explain: true,
			},
			Sizes: sizes, Baseline: targets[0].Name, Targets: targets, Interval: 5 * time.Minute,
			Files:    []record.InputFile{{Name: "mongodb-9-first-look.tfvars", SHA256: digest("file"), Text: "replsets = {}\n"}},
			LoadHost: record.MachineFacts{OS: "CentOS Stream 9", Kernel: "5.14.0-687.el9.x86_64", CPUModel: "Intel(R) Xeon(R) CPU @ 2.60GHz", CPUs: 8, MemoryMB: 7955},
		},
		throughput: map[int64]map[string]float64{}, cpu: map[string]float64{},
	}
}

func digest(parts ...any) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return hex.EncodeToString(sum[:])
}

func memberName(target string, i int) string { return fmt.Sprintf("%s-rs%d", target, i) }

func (f *forge) target(name, distribution, release, version string) record.Target {
	t := record.Target{
		Name: name, Distribution: distribution, Release: release, RequestedVersion: version, ActualVersion: version,
		GitVersion: digest(version)[:40], Engine: record.EngineMongod, ReplicaSet: name,
	}
	for i := range 3 {
		role := "SECONDARY"
		if i == 0 {
			role = "PRIMARY"
		}
		t.Members = append(t.Members, record.MemberFacts{
			Name: memberName(name, i), Address: fmt.Sprintf("10.128.%d.%d:27017", name[len(name)-1], i+2), Role: role, Version: version, FCV: version[:3],
			Machine: record.MachineFacts{OS: "CentOS Stream 9", Kernel: "5.14.0-687.el9.x86_64", CPUModel: "Intel(R) Xeon(R) CPU @ 2.60GHz", CPUs: 4, MemoryMB: 15732},
			Cloud:   record.CloudFacts{MachineType: "n2-standard-4", CPUPlatform: "Intel Ice Lake", Zone: "northamerica-northeast1-a", DiskType: "pd-ssd", DiskGB: 80},
			Settings: map[string]string{
				"storage.engine": "wiredTiger", "wiredTiger.cache_bytes": "7750000000", "default.writeConcern": `{"w":"majority"}`,
				"setParameter.internalQueryStatsSampleRate": "0", "setParameter.syncdelay": "60", "setParameter.enableFlowControl": "true",
				"cmdLine.replication.enableMajorityReadConcern": "true", "cmdLine.security.authorization": "enabled",
				"memory.thp_enabled": "always", "memory.thp_defrag": "defer+madvise", "memory.thp_max_ptes_none": "0", "memory.overcommit_memory": "1",
				"disk.file_system": "xfs", "disk.mount_options": "noatime,rw", "disk.capacity_bytes": "85857402880",
			},
		})
	}
	return t
}

func (f *forge) encode(h *hdrhistogram.Histogram) string {
	encoded, err := record.EncodeHistogram(h)
	if err != nil {
		f.t.Fatal(err)
	}
	return encoded
}

// trouble puts into the given seconds of a cell what went wrong then, and into
// the cell's totals.
func trouble(c *CellInput, seconds map[float64]record.Trouble) {
	c.Cell.ErrorCodes = map[string]int64{}
	timeouts := int64(0)
	for _, v := range seconds {
		c.Cell.Retries += *v.Retries
		timeouts += *v.Timeouts
		for code, n := range v.ErrorCodes {
			c.Cell.ErrorCodes[code] += n
			c.Cell.Errors += n
		}
	}
	c.Cell.Timeouts = &timeouts
	calm := c.Intervals
	c.Intervals = func(yield func(record.Interval, error) bool) {
		for v, err := range calm {
			if v.Retries != nil && seconds[v.StartS].Retries != nil {
				v.Trouble = seconds[v.StartS]
				v.Operations = maps.Clone(v.Operations)
				for code, n := range v.ErrorCodes {
					name, _, _ := strings.Cut(code, "/")
					o := v.Operations[name]
					o.Errors += n
					v.Operations[name] = o
				}
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func ptr(n int64) *int64 { return &n }

func values[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// commandLine asks for the run as it is: what is not the default of a flag
// has its flag.
func commandLine(r *record.Run) []string {
	s := &r.Settings
	line := []string{"sandbox", "bench"}
	for _, file := range r.Files {
		line = append(line, "-var-file", file.Name)
	}
	var sizes []string
	for _, size := range r.Sizes {
		sizes = append(sizes, fmt.Sprintf("%s:%d", size.Label, size.Iterations))
	}
	line = append(line, "--sizes", strings.Join(sizes, ","), "--duration", flagDuration(s.Duration.Seconds()))
	for _, flag := range []struct {
		name, value string
		given       bool
	}{
		{"--order", r.Order, r.Order != "interleaved"},
		{"--interval", r.Interval.String(), r.Platform == "gcp" && r.Interval != 5*time.Minute},
		{"--ops-per-worker", fmt.Sprint(s.OpsPerWorker), s.OpsPerWorker != 250_000},
		{"--read-preference", s.ReadPreference, s.ReadPreference != "primary"},
		{"--rate", fmt.Sprint(s.Rate), s.Rate != 0},
		{"--op-timeout", s.OpTimeout.String(), s.OpTimeout != 0},
	} {
		if flag.given {
			line = append(line, flag.name, flag.value)
		}
	}
	if s.RecordOutcomes {
		line = append(line, "--record-outcomes")
	}
	if slices.ContainsFunc(r.Targets, func(t record.Target) bool { return t.AAOf != "" }) {
		line = append(line, "--aa")
	}
	return line
}

// finish is when the run ends whose cells these are.
func finish(r *record.Run, cells []CellInput) *time.Time {
	at := r.Started
	for i := range cells {
		if i > 0 {
			at = at.Add(r.Interval)
		}
		seeding := time.Duration(cells[i].Cell.Seeding.DurationS * float64(time.Second))
		at = at.Add(seeding + r.Settings.Duration + r.Settings.Duration/90) // and what comes before and after
	}
	at = at.Truncate(time.Second)
	return &at
}

// input forges all cells of the run.
func (f *forge) input() Input {
	f.run.CommandLine = commandLine(&f.run)
	in := Input{Run: f.run, Down: map[string]string{}, Failed: map[AttemptKey]string{}}
	for _, size := range f.run.Sizes {
		for iteration := 1; iteration <= size.Iterations; iteration++ {
			for _, t := range f.run.Targets {
				in.Cells = append(in.Cells, f.cell(t.Name, size.Documents, iteration))
			}
		}
	}
	if in.Run.Finished != nil {
		in.Run.Finished = finish(&in.Run, in.Cells)
	}
	return in
}

func (in *Input) find(t testing.TB, target string, size int64, iteration int) *CellInput {
	t.Helper()
	i := slices.IndexFunc(in.Cells, func(c CellInput) bool {
		return c.ID.Target == target && c.ID.Size == size && c.ID.Iteration == iteration
	})
	if i < 0 {
		t.Fatalf("no cell of %s at %d", target, size)
	}
	return &in.Cells[i]
}

func explain(operation, shape string, keys, documents, returned int64, stages ...string) record.Explain {
	return record.Explain{Operation: operation, Shape: shape, Stages: stages, Keys: keys, Documents: documents, Returned: returned, Command: json.RawMessage(`{}`)}
}

func explains(list ...record.Explain) func() ([]record.Explain, error) {
	return func() ([]record.Explain, error) { return list, nil }
}

// forgeries keeps what was forged: histograms take a while.
var forgeries sync.Map

// forged returns a copy that a test may change: of the run's and the cells'
// fields, not of what their maps and slices hold.
func forged(t testing.TB, name string, forge func(testing.TB) Input) Input {
	made, _ := forgeries.LoadOrStore(name, sync.OnceValue(func() Input { return forge(t) }))
	in := made.(func() Input)()
	in.Cells = slices.Clone(in.Cells)
	for i := range in.Cells {
		if in.Cells[i].Cell != nil {
			cell := *in.Cells[i].Cell
			in.Cells[i].Cell = &cell
		}
	}
	return in
}

// published is a run with the throughput of a published comparison, three
// iterations at the smallest size, incomplete passes at the largest.
func published(t testing.TB) Input { return forged(t, "published", forgePublished) }

func forgePublished(t testing.TB) Input {
	var f *forge
	targets := []record.Target{
		f.target("mongo9", "community", "9.0", "9.0.4"),
		f.target("psmdb80", "psmdb", "psmdb-80", "8.0.34-15"),
		f.target("psmdb83", "psmdb", "psmdb-83", "8.3.13-4"),
	}
	for i := range targets[0].Members {
		targets[0].Members[i].Settings["setParameter.internalQueryStatsSampleRate"] = "0.01"
	}
	f = newForge(t, targets, []record.Size{
		{Documents: 1_000_000, Label: "1M", Iterations: 3}, {Documents: 4_000_000, Label: "4M", Iterations: 1}, {Documents: 8_000_000, Label: "8M", Iterations: 1},
	}, 30*time.Minute)
	f.throughput = map[int64]map[string]float64{
		1_000_000: {"mongo9": 3667, "psmdb80": 3581, "psmdb83": 3342},
		4_000_000: {"mongo9": 2759, "psmdb80": 2585, "psmdb83": 2530},
		8_000_000: {"mongo9": 1546, "psmdb80": 1510, "psmdb83": 1510},
	}
	f.run.Settings.OpTimeout = 300 * time.Millisecond
	// What it plans otherwise takes it longer.
	f.operations = map[string]map[string]float64{"psmdb83": {"updateMany": 1.06}}
	f.cpu = map[string]float64{"mongo9": 512, "psmdb80": 540, "psmdb83": 571}
	in := f.input()
	// So much CPU that the primary has none left at 1M and 4M.
	scale := map[int64]float64{1_000_000: 1.89, 4_000_000: 2.58, 8_000_000: 2.3}
	for i := range in.Cells {
		cpu := in.Cells[i].Cell.CPUUSPerCommand
		cpu.Primary *= scale[in.Cells[i].ID.Size]
		cpu.Secondary *= scale[in.Cells[i].ID.Size]
		in.Cells[i].Samples = f.readings(&in.Cells[i], 60, f.publishedLoads(&in.Cells[i]))
		express := "EXPRESS_UPDATE _id_"
		if in.Cells[i].ID.Target == "psmdb83" {
			express = "UPDATE > IDHACK _id_"
		}
		if in.Cells[i].ID.Iteration == 1 {
			in.Cells[i].Explains = explains(
				explain("find", "find flights {flight_id: {$in}}", 14, 5, 5, "LIMIT", "FETCH", "IXSCAN flight_id_1_equipment.plane_type_1"),
				explain("find", "find flights {flight_id: {$in}}", 15, 5, 5, "LIMIT", "FETCH", "IXSCAN flight_id_1_equipment.plane_type_1"),
				explain("updateMany", "updateMany flights {_id: {$in}}", 10, 10, 10, express),
			)
		}
	}
	failed := in.find(t, "psmdb83", 4_000_000, 1).Cell
	// 16 workers run out of 300 ms at most 53 times a second.
	seconds := map[float64]record.Trouble{
		601:  {Retries: ptr(3), Timeouts: ptr(40), ErrorCodes: map[string]int64{"find/Timeout": 40, "updateOne/WriteConflict": 1}},
		602:  {Retries: ptr(4), Timeouts: ptr(40), ErrorCodes: map[string]int64{"find/Timeout": 40}},
		1210: {Retries: ptr(0), Timeouts: ptr(0), ErrorCodes: map[string]int64{"updateOne/WriteConflict": 11}},
	}
	for second := 603.0; second < 606; second++ {
		seconds[second] = record.Trouble{Retries: ptr(0), Timeouts: ptr(40), ErrorCodes: map[string]int64{"find/Timeout": 40}}
	}
	trouble(in.find(t, "psmdb83", 4_000_000, 1), seconds)
	// As the load generator writes it.
	failed.Warnings = []string{fmt.Sprintf("%d of %d commands failed; the first, at minute 10:01: "+
		"connection(10.128.51.2:27017[-12]) incomplete read of message header: context deadline exceeded", failed.Errors, failed.Errors+failed.Commands)}
	return in
}

// bare is a copy without all that takes time to read: windows, intervals and
// the members' readings, and with them intervals of confidence and courses.
func bare(in Input) Input {
	in.Cells = slices.Clone(in.Cells)
	for i := range in.Cells {
		in.Cells[i].Windows, in.Cells[i].Intervals, in.Cells[i].Samples = nil, nil, nil
	}
	return in
}

// standIn is a short run that the embedded engine answered.
func standIn(t testing.TB) Input { return forged(t, "standIn", forgeStandIn) }

func forgeStandIn(t testing.TB) Input {
	var f *forge
	var targets []record.Target
	for _, v := range [][3]string{{"mongo9", "community", "9.0.4"}, {"psmdb80", "psmdb", "8.0.34-15"}, {"psmdb83", "psmdb", "8.3.13-4"}} {
		x := f.target(v[0], v[1], "", v[2])
		x.ActualVersion, x.Engine, x.GitVersion = "0.1.0-sandbox-embedded", record.EngineEmbedded, ""
		for i := range x.Members {
			x.Members[i].Version = x.ActualVersion
			x.Members[i].FCV = "9.0"
			x.Members[i].Cloud = record.CloudFacts{}
			x.Members[i].Settings = map[string]string{"storage.engine": "inMemory"}
		}
		targets = append(targets, x)
	}
	f = newForge(t, targets, []record.Size{{Documents: 1000, Label: "1k", Iterations: 2}, {Documents: 4000, Label: "4k", Iterations: 2}, {Documents: 8000, Label: "8k", Iterations: 2}}, 10*time.Second)
	f.window, f.older = 1, true
	f.run.Engine, f.run.Platform, f.run.Environment, f.run.ID = record.EngineEmbedded, "local", "quickstart", "20261106-093000-quickstart"
	f.run.Files[0].Name = "quickstart.tfvars"
	f.run.Settings.OpsPerWorker = 2000
	f.run.Order = "interleaved"
	f.run.Interval = 0
	for size, base := range map[int64]float64{1000: 9100, 4000: 8700, 8000: 8350} {
		f.throughput[size] = map[string]float64{"mongo9": base, "psmdb80": base * 1.01, "psmdb83": base * 0.99}
	}
	return f.input()
}

// troubled is a run in which much went wrong: one target died, one cell is
// invalid, one was interrupted, one failed a lot, one got other commands,
// one came from another sequence.
func troubled(t testing.TB) Input { return forged(t, "troubled", forgeTroubled) }

func forgeTroubled(t testing.TB) Input {
	var f *forge
	targets := []record.Target{
		f.target("a-baseline", "community", "8.0", "8.0.34"), f.target("b-bigger-machines", "community", "9.0", "9.0.4"),
		f.target("c-died", "psmdb", "psmdb-80", "8.0.34-15"), f.target("d-other-commands", "psmdb", "psmdb-83", "8.3.13-4"),
	}
	for i := range targets[1].Members {
		targets[1].Members[i].Machine.CPUs = 8
		targets[1].Members[i].Machine.MemoryMB = 31900
		targets[1].Members[i].Cloud.MachineType = "n2-standard-8"
	}
	targets[1].Members[2].Machine.CPUModel = "AMD EPYC 7B12"
	targets[1].Members[2].Cloud.CPUPlatform = "AMD Rome"
	f = newForge(t, targets, []record.Size{{Documents: 100_000, Label: "100k", Iterations: 1}, {Documents: 1_000_000, Label: "1M", Iterations: 2}}, 2*time.Minute)
	f.window = 12
	f.run.Settings.OpsPerWorker = 30000
	f.run.Finished = nil
	f.run.ID = "20261106-093000-troubled"
	f.run.Warnings = []string{"the clock of the load host is not synchronised"}
	for _, size := range f.run.Sizes {
		f.throughput[size.Documents] = map[string]float64{"a-baseline": 5000, "b-bigger-machines": 9000, "c-died": 4800, "d-other-commands": 4900}
	}
	in := f.input()
	in.Down["c-died"] = "no primary for 60s (last answer: connection refused)"
	for i := 0; i < len(in.Cells); i++ {
		c := &in.Cells[i]
		switch {
		case c.ID.Target == "c-died" && c.ID.Size == 1_000_000:
			if c.ID.Iteration == 1 {
				c.Status, c.Cell = record.Partial, nil
				in.Failed[AttemptKey{c.ID.String(), 1}] = "no server could be selected"
				continue
			}
			in.Cells = slices.Delete(in.Cells, i, i+1)
			i--
		case c.ID.Target == "b-bigger-machines" && c.ID.Size == 1_000_000 && c.ID.Iteration == 2:
			c.Status, c.Cell.Valid = record.Invalid, false
			c.Cell.InvalidReasons = []string{"an election happened (term 2 to 3)"}
		case c.ID.Target == "a-baseline" && c.ID.Size == 1_000_000 && c.ID.Iteration == 2:
			c.Status, c.Cell.Interrupted, c.Cell.DurationS = record.Partial, true, 31.4
		case c.ID.Target == "a-baseline" && c.ID.Size == 100_000:
			// Its first secondary is no Linux machine.
			idle := memberLoad{processCPU: 0.3, machineCPU: 0.35, diskBusy: 0.2, inFlight: 0.3, pagesPerS: 9e4, hits: 0.999, pageWait: 0.02}
			other := idle
			other.without = []string{"system."}
			c.Samples = f.readings(c, 10, []memberLoad{idle, other, idle})
		case c.ID.Target == "c-died":
			slow := memberLoad{processCPU: 0.2, machineCPU: 0.25, iowait: 0.5, diskBusy: 0.98, inFlight: 9, readsPerS: 20, readMS: 30, writesPerS: 190, pagesPerS: 3e4, hits: 0.99, pageWait: 0.03, lag: 11}
			c.Samples = f.readings(c, 10, []memberLoad{{processCPU: 0.3, machineCPU: 0.35, flowWait: 0.31, flowLagged: 0.8, pagesPerS: 9e4, hits: 0.999}, slow, slow})
		case c.ID.Target == "d-other-commands" && c.ID.Size == 100_000:
			inner := c.Checkpoints
			c.Checkpoints = func() (record.Checkpoints, error) {
				v, err := inner()
				for i := 17; i < len(v.Workers[5]); i++ {
					v.Workers[5][i] = digest("other", i)
				}
				v.Last[5].State = digest("other", "end")
				return v, err
			}
			c.Cell.Fingerprint = digest("other")
		case c.ID.Target == "d-other-commands":
			c.Cell.SequenceID = digest("another sequence")
			other := f.run.Settings
			other.FindBatch = 20
			c.Settings = &other
		case c.ID.Target == "b-bigger-machines" && c.ID.Size == 100_000:
			seconds := map[float64]record.Trouble{7: {Retries: ptr(0), Timeouts: ptr(0), ErrorCodes: map[string]int64{"insertMany/DuplicateKey": 10}}}
			for second := range 10 {
				seconds[20+float64(second)] = record.Trouble{Retries: ptr(0), Timeouts: ptr(3999), ErrorCodes: map[string]int64{"find/Timeout": 3999}}
			}
			trouble(c, seconds)
			c.Cell.Client = record.ClientUsage{CPUPercent: 93, ClientBound: true}
		}
	}
	return in
}
