package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Limit is what limited a cell's throughput.
type Limit string

// The limits, in the order in which they are looked for.
const (
	LimitLoadHost    Limit = "load_host"    // the load generator's own CPU
	LimitFlowControl Limit = "flow_control" // the primary held writers back, for secondaries to keep up
	LimitCPU         Limit = "cpu"          // of one member or more
	LimitDisk        Limit = "disk"         // of one member or more
	LimitCacheMisses Limit = "cache_misses" // commands waited for pages, at a disk that could have done more
	LimitEviction    Limit = "eviction"     // commands had to make room in the cache first
	LimitReplication Limit = "replication"  // writes waited for other members' acknowledgement
	LimitTickets     Limit = "tickets"      // commands waited to be let into the storage engine
	LimitNone        Limit = "none"         // nothing was at its limit
	LimitUnknown     Limit = "cannot_say"   // nothing known was, and not all is known
)

// The thresholds of the rules. docs/bottleneck.md gives the reasons; it and
// these lines change together.
const (
	// loadHostLimit is what the load generator marks cells by; the mark
	// decides.
	loadHostLimit = 0.70
	// cpuLimit: a machine whose CPUs are in use for this share of the
	// measured time has none left, because the mean hides what its peaks do.
	cpuLimit = 0.85
	// diskBusyLimit and diskInFlightLimit: the busiest disk nearly always
	// has something to do, and more than it does one after the other.
	diskBusyLimit     = 0.90
	diskInFlightLimit = 2
	// cacheWaitLimit and evictionWaitLimit are of the workers' time, over all
	// members that serve.
	cacheWaitLimit    = 0.20
	evictionWaitLimit = 0.20
	// flowControlLimit is of the workers' time, flowControlLagged of the
	// measured time.
	flowControlLimit  = 0.05
	flowControlLagged = 0.10
	// replicationLimit is of the workers' time; replicationLag is the lag
	// that flow control aims for unless it is told otherwise
	// (flowControlTargetLagSeconds). Lag alone holds nobody up: it is named,
	// and decides nothing.
	replicationLimit = 0.50
	replicationLag   = 10
	// ticketLimit is of the workers' time, over all members that serve.
	ticketLimit = 0.20
	// rateHeld: an open loop that came to this share of its rate kept it.
	rateHeld = 0.99
)

// Bottleneck is what limited a cell, with the numbers that say so.
type Bottleneck struct {
	Limit Limit
	// Member is the one at its limit, and Role what it was: PRIMARY,
	// SECONDARY, …; "" when it is none's or all's.
	Member, Role string
	// Where is whose limit it is, in words, of all members that reached it:
	// "the primary", "every member"; "" when it is none's.
	Where string
	// Evidence are the numbers that decided, and then those that put them in
	// proportion.
	Evidence []Evidence
	// Also are other limits that were reached.
	Also []Limit
	// Missing is what was not known, in words.
	Missing []string
}

// Evidence is a number that speaks for a verdict.
type Evidence struct {
	Member string // "" when it is no single member's
	Figure string // as in MemberMetrics.Values, or a name below
	Value  float64
	// Threshold is what Value had to reach for the verdict; 0 when it only
	// puts the others in proportion.
	Threshold float64
}

// Figures that are no member's.
const (
	LoadHostCPUShare  = "load_host_cpu_share"
	RateShare         = "rate_share"                 // of the rate asked for that was reached
	AllCacheWaitShare = "cache_wait_share_of_all"    // the sum over the members that serve
	AllEvictionWait   = "eviction_wait_share_of_all" // the same
	AllTicketWait     = "ticket_wait_share_of_all"   // the same
)

// bottleneckInput is all that the rules look at.
type bottleneckInput struct {
	embedded bool
	client   record.ClientUsage
	// rate is what an open loop was asked for, 0 in a closed one; throughput
	// what it came to, both per second.
	rate, throughput float64
	// primaryReads: nothing was read from secondaries.
	primaryReads bool
	members      []MemberMetrics
	// silent are data-bearing members without readings.
	silent []string
}

func (b *builder) bottleneckInput(in *CellInput, members []MemberMetrics) bottleneckInput {
	x := bottleneckInput{
		client: in.Cell.Client, rate: b.settings(in).Rate, throughput: in.Cell.ThroughputPerS, primaryReads: b.primaryReads(in), members: members,
	}
	t := &b.c.Targets[b.c.target(in.ID.Target)]
	x.embedded = t.Engine == record.EngineEmbedded
	for _, m := range t.Members {
		if m.Role != arbiter && !slices.ContainsFunc(members, func(x MemberMetrics) bool { return x.Member == m.Name }) {
			x.silent = append(x.silent, m.Name)
		}
	}
	return x
}

// found is a limit that was reached.
type found struct {
	limit    Limit
	member   *MemberMetrics   // nil when it is no single member's
	members  []*MemberMetrics // all that reached it, or had a tenth of it or more
	evidence []Evidence
}

// where puts into words whose limit it is.
func (f *found) where(all []MemberMetrics) string {
	if f.member == nil {
		return ""
	}
	members := f.members
	if members == nil {
		members = []*MemberMetrics{f.member}
	}
	primaries, secondaries, others := 0, 0, 0
	for _, m := range members {
		switch m.State {
		case "PRIMARY":
			primaries++
		case "SECONDARY":
			secondaries++
		default:
			others++
		}
	}
	followers := ""
	switch {
	case secondaries == 1:
		followers = "a secondary"
	case secondaries > 1:
		followers = fmt.Sprintf("%d secondaries", secondaries)
	}
	switch {
	case len(members) == len(all) && len(all) > 1:
		return "every member"
	case others > 0:
		return ""
	case primaries == 0:
		return followers
	case secondaries == 0:
		return "the primary"
	}
	return "the primary and " + followers
}

// bottleneckOf applies the rules in their order. The first limit that was
// reached is the verdict; the others are listed beside it.
func bottleneckOf(in bottleneckInput) Bottleneck {
	if in.embedded {
		return Bottleneck{Limit: LimitUnknown, Missing: []string{
			"the embedded engine answered, which has no disk, no WiredTiger cache and no oplog, and what limits it says nothing about MongoDB"}}
	}
	var reached []found
	for _, rule := range []func(*bottleneckInput) (found, bool){
		loadHostRule, flowControlRule, cpuRule, diskRule, cacheRule, evictionRule, replicationRule, ticketRule,
	} {
		if f, ok := rule(&in); ok {
			reached = append(reached, f)
		}
	}
	out := Bottleneck{Missing: in.missing()}
	held := in.rate > 0 && in.throughput >= rateHeld*in.rate
	switch {
	case held && (len(reached) == 0 || reached[0].limit != LimitLoadHost):
		// What is busy meanwhile limits nothing: the rate does.
		out.Limit = LimitNone
		out.Evidence = append([]Evidence{{Figure: RateShare, Value: in.throughput / in.rate, Threshold: rateHeld}}, in.highest()...)
	case len(reached) > 0:
		first := reached[0]
		out.Limit, out.Evidence = first.limit, first.evidence
		if first.member != nil {
			out.Member, out.Role = first.member.Member, first.member.State
			out.Where = first.where(in.members)
		}
		reached = reached[1:]
	case len(out.Missing) > 0:
		out.Limit, out.Evidence = LimitUnknown, in.highest()
	default:
		out.Limit, out.Evidence = LimitNone, in.highest()
	}
	for _, f := range reached {
		out.Also = append(out.Also, f.limit)
	}
	if m := in.most(LagMaxS); m != nil && m.Values[LagMaxS] >= replicationLag &&
		!slices.ContainsFunc(out.Evidence, func(e Evidence) bool { return e.Member == m.Member && e.Figure == LagMaxS }) {
		out.Evidence = append(out.Evidence, m.context(LagMaxS, LagMeanS)...)
	}
	return out
}

// serves tells whether a member answers commands: a secondary does when
// reads may go there.
func (in *bottleneckInput) serves(m *MemberMetrics) bool {
	return m.State != "SECONDARY" || !in.primaryReads
}

// mayLimit tells whether commands waited for what a member does: it answers
// them, or they were held up until it had followed.
func (in *bottleneckInput) mayLimit(m *MemberMetrics) bool {
	if in.serves(m) {
		return true
	}
	_, acknowledged := replicationRule(in)
	_, held := flowControlRule(in)
	return acknowledged || held
}

func loadHostRule(in *bottleneckInput) (found, bool) {
	return found{limit: LimitLoadHost, evidence: []Evidence{
		{Figure: LoadHostCPUShare, Value: in.client.CPUPercent / 100, Threshold: loadHostLimit}}}, in.client.ClientBound
}

func flowControlRule(in *bottleneckInput) (found, bool) {
	f := found{limit: LimitFlowControl}
	for i := range in.members {
		m := &in.members[i]
		if m.Values[FlowControlWaitShare] >= flowControlLimit {
			f.evidence = append(f.evidence, m.evidence(FlowControlWaitShare, flowControlLimit))
		}
		if m.Values[FlowControlLaggedShare] >= flowControlLagged {
			f.evidence = append(f.evidence, m.evidence(FlowControlLaggedShare, flowControlLagged))
		}
	}
	if len(f.evidence) == 0 {
		return f, false
	}
	// Whom the primary waited for: the secondary furthest behind.
	if f.member = in.most(LagMaxS); f.member != nil {
		f.evidence = append(f.evidence, f.member.context(LagMaxS, f.member.cpuFigure(), DiskBusyShare)...)
	}
	return f, true
}

func cpuRule(in *bottleneckInput) (found, bool) {
	f := found{limit: LimitCPU}
	f.members = in.saturated(func(m *MemberMetrics) (float64, bool) {
		v, ok := m.Values[m.cpuFigure()]
		return v, ok && v >= cpuLimit
	})
	for i, m := range f.members {
		f.evidence = append(f.evidence, m.evidence(m.cpuFigure(), cpuLimit))
		if i == 0 {
			f.member = m
		}
	}
	if f.member == nil {
		return f, false
	}
	if f.member.cpuFigure() == MachineCPUShare {
		f.evidence = append(f.evidence, f.member.context(ProcessCPUShare)...)
	}
	if f.member.Values[StealShare] >= 0.01 {
		f.evidence = append(f.evidence, f.member.context(StealShare)...)
	}
	f.evidence = append(f.evidence, f.member.context(DiskBusyShare)...)
	return f, true
}

func diskRule(in *bottleneckInput) (found, bool) {
	f := found{limit: LimitDisk}
	f.members = in.saturated(func(m *MemberMetrics) (float64, bool) {
		inFlight := m.Values[DiskInFlight]
		return inFlight, m.Values[DiskBusyShare] >= diskBusyLimit && inFlight >= diskInFlightLimit
	})
	for i, m := range f.members {
		f.evidence = append(f.evidence, m.evidence(DiskBusyShare, diskBusyLimit), m.evidence(DiskInFlight, diskInFlightLimit))
		if i == 0 {
			f.member = m
			f.evidence = append(f.evidence, m.context(DiskReadsPerS, DiskReadMS, DiskWritesPerS, CacheHitRatio, CacheWaitShare, EvictionWaitShare, m.cpuFigure())...)
		}
	}
	return f, f.member != nil
}

func cacheRule(in *bottleneckInput) (found, bool) {
	return in.waitRule(LimitCacheMisses, CacheWaitShare, AllCacheWaitShare, cacheWaitLimit,
		CacheHitRatio, CachePagesReadPerCommand, CacheReadMS, DiskBusyShare, DiskInFlight)
}

func evictionRule(in *bottleneckInput) (found, bool) {
	return in.waitRule(LimitEviction, EvictionWaitShare, AllEvictionWait, evictionWaitLimit,
		CacheFillShare, CacheDirtyShare, DiskWritesPerS, DiskBusyShare)
}

func replicationRule(in *bottleneckInput) (found, bool) {
	f := found{limit: LimitReplication, member: in.most(WriteConcernWaitShare)}
	if f.member == nil || f.member.Values[WriteConcernWaitShare] < replicationLimit {
		return f, false
	}
	f.evidence = []Evidence{f.member.evidence(WriteConcernWaitShare, replicationLimit)}
	return f, true
}

func ticketRule(in *bottleneckInput) (found, bool) {
	return in.waitRule(LimitTickets, TicketWaitShare, AllTicketWait, ticketLimit, TicketsExhaustedShare)
}

// waitRule holds when the members that serve spent a share of the workers'
// time waiting, all together. The others' threads wait, too, and no command
// with them.
func (in *bottleneckInput) waitRule(limit Limit, figure, all string, threshold float64, context ...string) (found, bool) {
	serving := in.over(func(m *MemberMetrics) (float64, bool) {
		v, ok := m.Values[figure]
		return v, ok && in.serves(m)
	})
	sum := 0.0
	for _, m := range serving {
		sum += m.Values[figure]
	}
	if len(serving) == 0 || sum < threshold {
		return found{limit: limit}, false
	}
	most := serving[0]
	sharing := slices.DeleteFunc(slices.Clone(serving), func(m *MemberMetrics) bool { return m.Values[figure] < sum/10 })
	return found{limit: limit, member: most, members: sharing, evidence: append(
		[]Evidence{{Figure: all, Value: sum, Threshold: threshold}}, most.context(append([]string{figure}, context...)...)...)}, true
}

// cpuFigure is the machine's CPU where the member told of it, else that of
// mongod alone.
func (m *MemberMetrics) cpuFigure() string {
	if _, ok := m.Values[MachineCPUShare]; ok {
		return MachineCPUShare
	}
	return ProcessCPUShare
}

func (m *MemberMetrics) evidence(figure string, threshold float64) Evidence {
	return Evidence{Member: m.Member, Figure: figure, Value: m.Values[figure], Threshold: threshold}
}

// context are figures that put evidence in proportion, those that are known.
func (m *MemberMetrics) context(figures ...string) []Evidence {
	var out []Evidence
	for _, figure := range figures {
		if _, ok := m.Values[figure]; ok {
			out = append(out, m.evidence(figure, 0))
		}
	}
	return out
}

// over are the members that a rule holds for, by descending value; among
// equal ones the primary comes first.
func (in *bottleneckInput) over(rule func(*MemberMetrics) (float64, bool)) []*MemberMetrics {
	var out []*MemberMetrics
	values := map[string]float64{}
	for i := range in.members {
		m := &in.members[i]
		if v, ok := rule(m); ok {
			values[m.Member] = v
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(x, y *MemberMetrics) int {
		switch {
		case values[x.Member] > values[y.Member]:
			return -1
		case values[x.Member] < values[y.Member]:
			return 1
		case x.State != y.State && x.State == "PRIMARY":
			return -1
		case x.State != y.State && y.State == "PRIMARY":
			return 1
		}
		return strings.Compare(x.Member, y.Member)
	})
	return out
}

// saturated are the members whose limit is one of the commands and that a
// rule holds for, by descending value. Where secondaries only follow, the
// primary is the first all the same.
func (in *bottleneckInput) saturated(rule func(*MemberMetrics) (float64, bool)) []*MemberMetrics {
	out := in.over(func(m *MemberMetrics) (float64, bool) {
		v, ok := rule(m)
		return v, ok && in.mayLimit(m)
	})
	if in.primaryReads {
		slices.SortStableFunc(out, func(x, y *MemberMetrics) int {
			return cmp.Compare(boolShare(y.State == "PRIMARY"), boolShare(x.State == "PRIMARY"))
		})
	}
	return out
}

// most is the member with the highest value of a figure, nil when none told.
func (in *bottleneckInput) most(figure string) *MemberMetrics {
	list := in.over(func(m *MemberMetrics) (float64, bool) {
		v, ok := m.Values[figure]
		return v, ok
	})
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// highest is how near the limits of members were whose limits count.
func (in *bottleneckInput) highest() []Evidence {
	most := func(figure string) *MemberMetrics {
		list := in.over(func(m *MemberMetrics) (float64, bool) {
			v, ok := m.Values[figure]
			return v, ok && in.mayLimit(m)
		})
		if len(list) == 0 {
			return nil
		}
		return list[0]
	}
	var out []Evidence
	if m := most(MachineCPUShare); m != nil {
		out = append(out, m.evidence(MachineCPUShare, 0))
	} else if m := most(ProcessCPUShare); m != nil {
		out = append(out, m.evidence(ProcessCPUShare, 0))
	}
	for _, figure := range [...]string{DiskBusyShare, CacheWaitShare, WriteConcernWaitShare} {
		if m := most(figure); m != nil {
			out = append(out, m.evidence(figure, 0))
		}
	}
	return out
}

// missing is what the rules could not look at, in words.
func (in *bottleneckInput) missing() []string {
	if len(in.members) == 0 {
		return []string{"there are no readings of the members"}
	}
	var out []string
	if len(in.silent) > 0 {
		out = append(out, "there are no readings of "+list(in.silent))
	}
	all := func(*MemberMetrics) bool { return true }
	// Only a primary holds writers back and has them wait for others.
	primary := func(m *MemberMetrics) bool { return m.State == "PRIMARY" }
	for _, needed := range [...]struct {
		what, figure, other string
		of                  func(*MemberMetrics) bool
	}{
		{"CPU", MachineCPUShare, ProcessCPUShare, all}, {"disks", DiskBusyShare, "", all}, {"WiredTiger cache", CacheWaitShare, "", all},
		{"time evicting pages", EvictionWaitShare, "", in.serves}, {"tickets", TicketWaitShare, TicketsExhaustedShare, in.serves},
		{"flow control", FlowControlWaitShare, FlowControlLaggedShare, primary}, {"waits for acknowledgement", WriteConcernWaitShare, "", primary},
	} {
		var silent []string
		for i := range in.members {
			m := &in.members[i]
			_, ok := m.Values[needed.figure]
			_, other := m.Values[needed.other]
			if !ok && !other && needed.of(m) {
				silent = append(silent, m.Member)
			}
		}
		if len(silent) > 0 {
			out = append(out, fmt.Sprintf("%s did not tell of the %s", list(silent), needed.what))
		}
	}
	return out
}

// GroupLimit is what limited a target in one group.
type GroupLimit struct {
	Group  int // index in Comparison.Groups
	Target string
	// Bottleneck is that of the first of the cells that share the most
	// frequent verdict.
	Bottleneck Bottleneck
	Cells, Of  int // how many cells have that verdict, of how many
}

// limits joins the verdicts of a target's cells in a group.
func (b *builder) limits() {
	for g := range b.c.Groups {
		group := &b.c.Groups[g]
		for t := range b.c.Targets {
			counts := map[Limit]int{}
			var all []*Bottleneck
			for i := range b.c.Cells {
				cell := &b.c.Cells[i]
				if cell.Bottleneck != nil && cell.Target == b.c.Targets[t].Name && cell.Size == group.Size && cell.Variant == group.Variant {
					all = append(all, cell.Bottleneck)
					counts[cell.Bottleneck.Limit]++
				}
			}
			var best *Bottleneck
			for _, x := range all {
				if best == nil || counts[x.Limit] > counts[best.Limit] {
					best = x
				}
			}
			if best != nil {
				b.c.Limits = append(b.c.Limits, GroupLimit{
					Group: g, Target: b.c.Targets[t].Name, Bottleneck: *best, Cells: counts[best.Limit], Of: len(all),
				})
			}
		}
	}
}
