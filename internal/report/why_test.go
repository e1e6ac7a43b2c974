package report

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/stats"
)

func metrics(member, state string, values map[string]float64) MemberMetrics {
	all := map[string]float64{
		MachineCPUShare: 0.4, DiskBusyShare: 0.3, DiskInFlight: 0.4, CacheWaitShare: 0.02, EvictionWaitShare: 0.01,
		TicketWaitShare: 0, FlowControlWaitShare: 0, WriteConcernWaitShare: 0.1,
	}
	for figure, v := range values {
		all[figure] = v
	}
	return MemberMetrics{Member: member, State: state, Values: all}
}

func without(m MemberMetrics, figures ...string) MemberMetrics {
	for _, figure := range figures {
		delete(m.Values, figure)
	}
	return m
}

func TestBottleneckRules(t *testing.T) {
	type values = map[string]float64
	set := func(primary, first, second values) bottleneckInput {
		return bottleneckInput{members: []MemberMetrics{metrics("m0", "PRIMARY", primary), metrics("m1", "SECONDARY", first), metrics("m2", "SECONDARY", second)}}
	}
	clientBound := set(values{MachineCPUShare: 0.97}, nil, nil)
	clientBound.client = record.ClientUsage{CPUPercent: 84, ClientBound: true}
	embedded := set(values{MachineCPUShare: 0.97}, nil, nil)
	embedded.embedded = true
	rate := func(throughput float64) bottleneckInput {
		in := set(values{MachineCPUShare: 0.91}, nil, nil)
		in.rate, in.throughput = 1000, throughput
		return in
	}
	silent := set(nil, nil, nil)
	silent.members, silent.silent = silent.members[:2], []string{"m2"}
	process := set(nil, nil, nil)
	process.members[0] = without(metrics("m0", "PRIMARY", values{ProcessCPUShare: 0.88}), MachineCPUShare)
	noDisks := set(nil, nil, nil)
	noDisks.members[1] = without(noDisks.members[1], DiskBusyShare, DiskInFlight)
	primaryReads := func(primary, first, second values) bottleneckInput {
		in := set(primary, first, second)
		in.primaryReads = true
		return in
	}
	untold := func(member int, figures ...string) bottleneckInput {
		in := primaryReads(nil, nil, nil)
		in.members[member] = without(in.members[member], figures...)
		return in
	}
	noDisksButCPU := set(values{MachineCPUShare: 0.9}, nil, nil)
	noDisksButCPU.members[1] = without(noDisksButCPU.members[1], DiskBusyShare, DiskInFlight)

	for name, test := range map[string]struct {
		in      bottleneckInput
		limit   Limit
		member  string
		also    []Limit
		figures []string // that decided
		missing string   // is in Missing
	}{
		"nothing":                         {set(nil, nil, nil), LimitNone, "", nil, nil, ""},
		"primary's CPU":                   {set(values{MachineCPUShare: 0.85}, values{MachineCPUShare: 0.84}, nil), LimitCPU, "m0", nil, []string{MachineCPUShare}, ""},
		"a secondary's CPU":               {set(nil, values{MachineCPUShare: 0.86}, values{MachineCPUShare: 0.96}), LimitCPU, "m2", nil, []string{MachineCPUShare, MachineCPUShare}, ""},
		"the busiest member's CPU":        {set(values{MachineCPUShare: 0.90}, nil, values{MachineCPUShare: 0.95}), LimitCPU, "m2", nil, []string{MachineCPUShare, MachineCPUShare}, ""},
		"the primary's before a follower": {primaryReads(values{MachineCPUShare: 0.90, WriteConcernWaitShare: 0.6}, values{MachineCPUShare: 0.95}, nil), LimitCPU, "m0", []Limit{LimitReplication}, []string{MachineCPUShare, MachineCPUShare}, ""},
		"CPU of who answers nothing":      {primaryReads(values{MachineCPUShare: 0.50}, values{MachineCPUShare: 0.86}, nil), LimitNone, "", nil, nil, ""},
		"disk of who answers nothing":     {primaryReads(nil, values{DiskBusyShare: 0.97, DiskInFlight: 6}, nil), LimitNone, "", nil, nil, ""},
		"one that answers nothing beside": {primaryReads(values{MachineCPUShare: 0.90}, values{MachineCPUShare: 0.95}, nil), LimitCPU, "m0", nil, []string{MachineCPUShare}, ""},
		"who is waited for, by writers":   {primaryReads(values{WriteConcernWaitShare: 0.6}, values{MachineCPUShare: 0.93}, nil), LimitCPU, "m1", []Limit{LimitReplication}, []string{MachineCPUShare}, ""},
		"who is waited for, by flow control": {primaryReads(values{FlowControlWaitShare: 0.3}, values{DiskBusyShare: 0.97, DiskInFlight: 6, LagMaxS: 9}, nil), LimitFlowControl, "m1", []Limit{LimitDisk},
			[]string{FlowControlWaitShare}, ""},
		"appliers' waits":                               {primaryReads(nil, values{CacheWaitShare: 0.3, TicketWaitShare: 0.3}, values{CacheWaitShare: 0.3, EvictionWaitShare: 0.5}), LimitNone, "", nil, nil, ""},
		"waits of the primary alone":                    {primaryReads(values{CacheWaitShare: 0.19}, values{CacheWaitShare: 0.3}, nil), LimitNone, "", nil, nil, ""},
		"writers that evict":                            {primaryReads(values{EvictionWaitShare: 0.31}, nil, nil), LimitEviction, "m0", nil, []string{AllEvictionWait}, ""},
		"cache misses before eviction":                  {set(values{EvictionWaitShare: 0.31, CacheWaitShare: 0.31}, nil, nil), LimitCacheMisses, "m0", []Limit{LimitEviction}, []string{AllCacheWaitShare}, ""},
		"eviction not known":                            {untold(0, EvictionWaitShare), LimitUnknown, "", nil, nil, "m0 did not tell of the time evicting pages"},
		"tickets not known":                             {untold(0, TicketWaitShare), LimitUnknown, "", nil, nil, "m0 did not tell of the tickets"},
		"flow control not known":                        {untold(0, FlowControlWaitShare), LimitUnknown, "", nil, nil, "m0 did not tell of the flow control"},
		"acknowledgement not known":                     {untold(0, WriteConcernWaitShare), LimitUnknown, "", nil, nil, "m0 did not tell of the waits for acknowledgement"},
		"none of which limits one that answers nothing": {untold(1, EvictionWaitShare, TicketWaitShare, FlowControlWaitShare, WriteConcernWaitShare), LimitNone, "", nil, nil, ""},
		"equally busy: the primary":                     {set(values{MachineCPUShare: 0.9}, values{MachineCPUShare: 0.9}, nil), LimitCPU, "m0", nil, []string{MachineCPUShare, MachineCPUShare}, ""},
		"only mongod's CPU known":                       {process, LimitCPU, "m0", nil, []string{ProcessCPUShare}, ""},
		"disk of a secondary":                           {set(nil, values{DiskBusyShare: 0.97, DiskInFlight: 6}, nil), LimitDisk, "m1", nil, []string{DiskBusyShare, DiskInFlight}, ""},
		"busy, one operation at a time":                 {set(nil, values{DiskBusyShare: 0.97, DiskInFlight: 1.1}, nil), LimitNone, "", nil, nil, ""},
		"CPU before disk":                               {set(values{MachineCPUShare: 0.9}, values{DiskBusyShare: 0.97, DiskInFlight: 6}, nil), LimitCPU, "m0", []Limit{LimitDisk}, []string{MachineCPUShare}, ""},
		"cache misses add up":                           {set(nil, values{CacheWaitShare: 0.10}, values{CacheWaitShare: 0.11}), LimitCacheMisses, "m2", nil, []string{AllCacheWaitShare}, ""},
		"flow control before all members":               {set(values{FlowControlWaitShare: 0.06, MachineCPUShare: 0.9}, values{LagMaxS: 3}, values{LagMaxS: 14}), LimitFlowControl, "m2", []Limit{LimitCPU}, []string{FlowControlWaitShare}, ""},
		"flow control by its own word":                  {set(values{FlowControlLaggedShare: 0.2}, nil, nil), LimitFlowControl, "", nil, []string{FlowControlLaggedShare}, ""},
		"acknowledgement":                               {set(values{WriteConcernWaitShare: 0.55}, nil, nil), LimitReplication, "m0", nil, []string{WriteConcernWaitShare}, ""},
		"lag alone":                                     {set(nil, values{LagMaxS: 12}, nil), LimitNone, "", nil, nil, ""},
		"tickets":                                       {set(values{TicketWaitShare: 0.15}, values{TicketWaitShare: 0.06}, nil), LimitTickets, "m0", nil, []string{AllTicketWait}, ""},
		"load host before all":                          {clientBound, LimitLoadHost, "", []Limit{LimitCPU}, []string{LoadHostCPUShare}, ""},
		"rate held":                                     {rate(995), LimitNone, "", []Limit{LimitCPU}, []string{RateShare}, ""},
		"rate not held":                                 {rate(700), LimitCPU, "m0", nil, []string{MachineCPUShare}, ""},
		"embedded engine":                               {embedded, LimitUnknown, "", nil, nil, "embedded engine"},
		"no readings":                                   {bottleneckInput{}, LimitUnknown, "", nil, nil, "no readings of the members"},
		"a silent member":                               {silent, LimitUnknown, "", nil, nil, "no readings of m2"},
		"disks not known":                               {noDisks, LimitUnknown, "", nil, nil, "m1 did not tell of the disks"},
		"disks not known, CPU at its end":               {noDisksButCPU, LimitCPU, "m0", nil, []string{MachineCPUShare}, "m1 did not tell of the disks"},
	} {
		t.Run(name, func(t *testing.T) {
			got := bottleneckOf(test.in)
			if got.Limit != test.limit || got.Member != test.member || !slices.Equal(got.Also, test.also) {
				t.Errorf("%s of %q, also %v; want %s of %q, also %v", got.Limit, got.Member, got.Also, test.limit, test.member, test.also)
			}
			var decided []string
			for _, e := range got.Evidence {
				if e.Threshold != 0 {
					decided = append(decided, e.Figure)
					if e.Value < e.Threshold {
						t.Errorf("%s: %v is below %v", e.Figure, e.Value, e.Threshold)
					}
				}
			}
			if !slices.Equal(decided, test.figures) {
				t.Errorf("decided by %v, want %v", decided, test.figures)
			}
			if !strings.Contains(strings.Join(got.Missing, "; "), test.missing) || test.missing == "" && len(got.Missing) > 0 {
				t.Errorf("missing %v, want %q", got.Missing, test.missing)
			}
		})
	}
}

// Lag is named beside any verdict, once, and decides none.
func TestLagIsEvidence(t *testing.T) {
	lags := func(primary map[string]float64, lag float64) (n int) {
		got := bottleneckOf(bottleneckInput{members: []MemberMetrics{
			metrics("m0", "PRIMARY", primary), metrics("m1", "SECONDARY", map[string]float64{LagMaxS: lag, LagMeanS: 4}),
		}})
		for _, e := range got.Evidence {
			if e.Figure == LagMaxS {
				n++
				if e.Threshold != 0 || e.Member != "m1" {
					t.Errorf("%+v", e)
				}
			}
		}
		return n
	}
	for name, primary := range map[string]map[string]float64{
		"none": nil, "cpu": {MachineCPUShare: 0.9}, "flow control": {FlowControlWaitShare: 0.2}, "replication": {WriteConcernWaitShare: 0.6},
	} {
		if n := lags(primary, 12); n != 1 {
			t.Errorf("%s: lag is named %d times", name, n)
		}
	}
	if n := lags(nil, 9); n != 0 {
		t.Error("little lag is named")
	}
}

// Only a cell's own settings say where its reads went.
func TestReadsDecideWhoseLimitsCount(t *testing.T) {
	in := published(t)
	primary := in.Run.Settings
	primary.ReadPreference = "primary"
	in.find(t, "mongo9", 8_000_000, 1).Settings = &primary
	c := build(t, in)
	for i := range c.Cells {
		b := c.Cells[i].Bottleneck
		ofSecondary := slices.ContainsFunc(b.Evidence, func(e Evidence) bool { return e.Threshold != 0 && strings.HasSuffix(e.Member, "-rs1") })
		if c.Cells[i].Size == 8_000_000 && ofSecondary == (c.Cells[i].Target == "mongo9") {
			t.Errorf("%s: %+v", c.Cells[i].CellID, b.Evidence)
		}
	}
}

// The published run was read as bound by CPU at 4M and by disk at 8M.
func TestPublishedLimits(t *testing.T) {
	c := build(t, published(t))
	type limit struct {
		size, target string
		limit        Limit
		role, member string
	}
	var got []limit
	for _, l := range c.Limits {
		got = append(got, limit{c.Groups[l.Group].Label, l.Target, l.Bottleneck.Limit, l.Bottleneck.Role, l.Bottleneck.Member})
	}
	var want []limit
	for _, size := range []string{"1M", "4M", "8M"} {
		for _, target := range []string{"mongo9", "psmdb80", "psmdb83"} {
			if size == "8M" {
				want = append(want, limit{size, target, LimitDisk, "SECONDARY", target + "-rs1"})
			} else {
				want = append(want, limit{size, target, LimitCPU, "PRIMARY", target + "-rs0"})
			}
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(limit{})); diff != "" {
		t.Error(diff)
	}
	for i := range c.Cells {
		if c.Cells[i].Bottleneck == nil || len(c.Cells[i].Members) != 3 || c.Cells[i].Steady == nil {
			t.Errorf("%s has no bottleneck, members or steadiness", c.Cells[i].CellID)
		}
	}
}

// reading is one of a member, at seconds after the measured start.
func reading(at float64, phase, member, state string, values map[string]float64) record.Sample {
	return record.Sample{At: time.Unix(1_800_000_000, 0).Add(time.Duration(at * float64(time.Second))), Phase: phase, Member: member, State: state, Values: values}
}

func TestMemberFigures(t *testing.T) {
	b := &builder{c: &Comparison{
		Run:     record.Run{Settings: record.Settings{Workers: 10}},
		Targets: []Target{{Target: record.Target{Name: "a", Members: []record.MemberFacts{{Name: "m0", Machine: record.MachineFacts{CPUs: 4}}}}}},
	}}
	in := &CellInput{ID: record.CellID{Target: "a"}, Cell: &record.Cell{Started: time.Unix(1_800_000_000, 0), DurationS: 100, Commands: 100_000, ThroughputPerS: 1000}}
	before := map[string]float64{
		"cpu.user_us": 1e6, "cpu.system_us": 0, "system.cpu.user_ms": 0, "system.cpu.idle_ms": 0, "system.cpu.iowait_ms": 0, "system.cpu.steal_ms": 0,
		"system.disk.sda.busy_ms": 0, "system.disk.sda.reads": 0, "system.disk.sdb.busy_ms": 0, "system.disk.sdb.queued_ms": 0,
		"system.disk.sdb.reads": 10, "system.disk.sdb.read_ms": 0, "system.disk.sdb.read_bytes": 0,
		"cache.pages_requested": 100, "cache.pages_read": 50, "cache.max_bytes": 1000, "cache.bytes": 0, "cache.application_read_us": 0, "cache.application_reads": 5,
		"tickets.read_available": 0, "tickets.write_available": 9, "checkpoint.count": 3, "checkpoint.total_ms": 100,
		"flowcontrol.waited_us": 7, "writeconcern.wait_ms": 0, "network.bytes_in": 500,
	}
	after := map[string]float64{
		"cpu.user_us": 101e6, "cpu.system_us": 100e6, "system.cpu.user_ms": 200e3, "system.cpu.idle_ms": 140e3, "system.cpu.iowait_ms": 40e3, "system.cpu.steal_ms": 20e3,
		"system.disk.sda.busy_ms": 1e3, "system.disk.sda.reads": 1000, "system.disk.sdb.busy_ms": 90e3, "system.disk.sdb.queued_ms": 350e3,
		"system.disk.sdb.reads": 199010, "system.disk.sdb.read_ms": 300e3, "system.disk.sdb.read_bytes": 100e6,
		"cache.pages_requested": 1e6 + 100, "cache.pages_read": 25e3 + 50, "cache.max_bytes": 1000, "cache.bytes": 0, "cache.application_read_us": 250e6, "cache.application_reads": 20e3 + 5,
		"tickets.read_available": 5, "tickets.write_available": 9, "checkpoint.count": 5, "checkpoint.total_ms": 20100,
		"flowcontrol.waited_us": 3, "writeconcern.wait_ms": 100e3, "network.bytes_in": 1e6 + 500,
	}
	in.Samples = values([]record.Sample{
		reading(0, "before", "m0", "PRIMARY", before), reading(0, "before", "arbiter", "ARBITER", nil),
		reading(25, "during", "m0", "PRIMARY", map[string]float64{"cache.bytes": 700, "tickets.read_available": 0, "tickets.write_available": 3, "repl.lag_s": 2}),
		reading(50, "during", "m0", "PRIMARY", map[string]float64{"cache.bytes": 900, "tickets.read_available": 4, "tickets.write_available": 3, "repl.lag_s": 6}),
		reading(60, "during", "once", "SECONDARY", map[string]float64{"cache.bytes": 1}),
		reading(100, "after", "m0", "PRIMARY", after), reading(100, "after", "gone", "", nil),
	})
	got := b.members(in)
	want := []MemberMetrics{{Member: "m0", State: "PRIMARY", Readings: 4, SpanS: 100, Values: map[string]float64{
		CPUUSPerCommand: 2000, ProcessCPUShare: 0.5, MachineCPUShare: 0.55, IOWaitShare: 0.1, StealShare: 0.05,
		DiskBusyShare: 0.9, DiskInFlight: 3.5, DiskReadsPerS: 2000, DiskReadsPerCommand: 2, DiskReadMS: 1.5, DiskReadBytesPerS: 1e6, DiskReadBytesPerCommand: 1000,
		CacheHitRatio: 0.975, CachePagesReadPerCommand: 0.25, CacheFillShare: 0.8, CacheWaitShare: 0.25, CacheReadMS: 12.5,
		TicketsExhaustedShare: 0.5, LagMaxS: 6, LagMeanS: 4, CheckpointCount: 2, CheckpointMeanS: 10, CheckpointShare: 0.2,
		WriteConcernWaitShare: 0.1, NetworkInBytesPerS: 10000,
	}}}
	near := cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 1e-9*max(math.Abs(x), math.Abs(y)) })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("-want +got (flow control was set back, and is not known):\n%s", diff)
	}

	// What was used before the first command and after the last one is the
	// commands' all the same, as in the cell's own CPU per command.
	in.Samples = values([]record.Sample{reading(-4, "before", "m0", "PRIMARY", before), reading(121, "after", "m0", "PRIMARY", after)})
	got = b.members(in)
	if len(got) != 1 || got[0].SpanS != 125 || math.Abs(got[0].Values[CPUUSPerCommand]-2000) > 1e-9 {
		t.Errorf("with idle edges: %+v", got)
	}
	in.Samples = values([]record.Sample{reading(0, "during", "m0", "PRIMARY", before), reading(50, "during", "m0", "PRIMARY", after)})
	if got = b.members(in); len(got) != 1 || math.Abs(got[0].Values[CPUUSPerCommand]-4000) > 1e-9 {
		t.Errorf("half a cell: %+v", got)
	}

	// Room in the cache is waited for, or made: the wait is part of it where
	// the version tells of it.
	for want, grew := range map[float64]map[string]float64{
		0.25: {"cache.application_eviction_us": 250e6}, 0.5: {"cache.application_eviction_us": 250e6, "cache.application_wait_us": 500e6}, 0.75: {"cache.application_wait_us": 750e6},
	} {
		none := map[string]float64{}
		for name := range grew {
			none[name] = 0
		}
		in.Samples = values([]record.Sample{reading(0, "before", "m0", "PRIMARY", none), reading(100, "after", "m0", "PRIMARY", grew)})
		if got = b.members(in); len(got) != 1 || math.Abs(got[0].Values[EvictionWaitShare]-want) > 1e-9 {
			t.Errorf("%v: %+v, want %v", grew, got, want)
		}
	}

	// A warm-up is not part of it, and damage costs a line.
	b.c.Run.Settings.Warmup = time.Minute
	in.Samples = func(yield func(record.Sample, error) bool) {
		_ = yield(reading(-60, "before", "m0", "PRIMARY", map[string]float64{"cpu.user_us": 0, "cpu.system_us": 0}), nil) &&
			yield(reading(-1, "during", "m0", "PRIMARY", map[string]float64{"cpu.user_us": 0, "cpu.system_us": 0}), nil) &&
			yield(reading(1, "during", "m0", "PRIMARY", map[string]float64{"cpu.user_us": 1e6, "cpu.system_us": 0}), nil) &&
			yield(record.Sample{}, errors.New("line 4")) &&
			yield(reading(101, "after", "m0", "PRIMARY", map[string]float64{"cpu.user_us": 3e6, "cpu.system_us": 0}), nil)
	}
	got = b.members(in)
	if len(got) != 1 || got[0].SpanS != 100 || got[0].Values[CPUUSPerCommand] != 20 {
		t.Errorf("after a warm-up: %+v", got)
	}
	b.c.Run.Settings.Warmup, b.c.Run.Settings.WarmupCommands = 0, 500
	if counted := b.members(in); !cmp.Equal(counted, got) {
		t.Errorf("after a warm-up of 500 commands: %+v", counted)
	}
	if notes := b.damage.list(); len(notes) != 1 || !strings.Contains(notes[0], "line 4") {
		t.Errorf("damage: %v", notes)
	}
}

// course replaces a cell's seconds by those of a rate that changes.
func (f *forge) course(in *CellInput, rate func(second float64) float64) {
	var list []record.Interval
	for second := 0.0; second < in.Cell.DurationS; second++ {
		noise := 1 + 0.02*math.Sin(second*1.7) + 0.01*math.Cos(second*0.61)
		r := rate(second) * noise
		list = append(list, record.Interval{StartS: second, EndS: second + 1, Operations: map[string]record.IntervalOperation{
			"find": {Count: int64(r), SumUS: int64(float64(f.run.Settings.Workers) * 1e6)},
		}})
	}
	in.Intervals = values(list)
}

func TestSteadyState(t *testing.T) {
	one := func(t *testing.T, duration time.Duration, rate func(float64) float64) (*Steady, Check) {
		t.Helper()
		var f *forge
		f = newForge(t, []record.Target{f.target("a", "community", "9.0", "9.0.4")}, []record.Size{{Documents: 1000, Label: "1k", Iterations: 1}}, duration)
		f.grid, f.window = 10, duration.Seconds()/5
		f.throughput[1000] = map[string]float64{"a": 3000}
		in := f.input()
		f.course(&in.Cells[0], rate)
		c := build(t, in)
		i := slices.IndexFunc(c.Fairness.Checks, func(c Check) bool { return c.Name == "Steady state" })
		if i < 0 || c.Cells[0].Steady == nil {
			t.Fatal("no check of the steady state")
		}
		return c.Cells[0].Steady, c.Fairness.Checks[i]
	}
	s, check := one(t, 30*time.Minute, func(float64) float64 { return 3000 })
	if !s.Known || !s.Reached || check.Status != OK || !strings.Contains(check.Text, "no steady rise or fall and no jump was found in the throughput or mean latency of any cell. To be noticed in every cell with a probability of 80 %, ") {
		t.Errorf("a steady cell: %+v, %+v", s, check)
	}
	s, check = one(t, 30*time.Minute, func(at float64) float64 { return 3000 * (1 + 0.12*at/1800) })
	if s.Reached || s.Shape != stats.Trend || math.Abs(s.Change-0.12) > 0.02 || check.Status != Caution ||
		!strings.Contains(check.Text, "throughput rose by 12 % over the measured time, still rising by 5") || !strings.Contains(check.Text, "longer --warmup") {
		t.Errorf("a rising cell: %+v, %+v", s, check)
	}
	s, check = one(t, 30*time.Minute, func(at float64) float64 {
		if at < 360 {
			return 2400
		}
		return 3000
	})
	if s.Reached || s.Shape != stats.Jump || s.AtS != 360 || s.SteadyFromS != 360 || !strings.Contains(check.Text, "throughput rose by 25 % at 6 min") ||
		!strings.Contains(check.Text, "--warmup 6m") {
		t.Errorf("a cell that jumps: %+v, %+v", s, check)
	}
	s, check = one(t, 8*time.Second, func(float64) float64 { return 3000 })
	if s.Known || check.Status != Caution || !strings.Contains(check.Text, "not known") {
		t.Errorf("a short cell: %+v, %+v", s, check)
	}
}

func TestPlansAreJoinedToLatency(t *testing.T) {
	c := build(t, published(t))
	found := false
	for _, p := range c.Plans {
		for i, plan := range p.Targets {
			if plan.Samples == 0 {
				continue
			}
			d := c.difference(p.Group, c.Targets[i].Name, MetricMean, p.Operation)
			if plan.MeanMS <= 0 || (d == nil) != (plan.Difference == nil) || d != nil && *d != *plan.Difference {
				t.Errorf("%s of %s: %v ms, %v; want %v", p.Shape, c.Targets[i].Name, plan.MeanMS, plan.Difference, d)
			}
			found = found || plan.Difference != nil
		}
	}
	if !found {
		t.Error("no plan has a difference in latency")
	}
}

// What was sent other commands has no limit beside the others'.
func TestRefusedCellsHaveNoLimit(t *testing.T) {
	in := published(t)
	in.find(t, "psmdb80", 8_000_000, 1).Cell.SequenceID = "another"
	c := build(t, in)
	refused := 0
	for i := range c.Cells {
		if x := &c.Cells[i]; x.State == StateRefused {
			refused++
			if x.Members != nil || x.Bottleneck != nil {
				t.Errorf("%s: %+v", x.CellID, x.Bottleneck)
			}
		}
	}
	limit := func(l GroupLimit) bool { return l.Target == "psmdb80" && c.Groups[l.Group].Size == 8_000_000 }
	if refused != 1 || slices.ContainsFunc(c.Limits, limit) {
		t.Errorf("%d cells refused, limits %+v", refused, c.Limits)
	}
}
