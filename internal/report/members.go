package report

import (
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// MemberMetrics is what one member did while a cell was measured, from its
// readings.
type MemberMetrics struct {
	Member   string
	State    string  // PRIMARY, SECONDARY, STANDALONE, …, at the last reading
	Readings int     // within the measured time
	SpanS    float64 // seconds between the first and the last of them
	// Values are the figures by name; what the member did not tell is
	// absent, never 0.
	Values map[string]float64
}

// Names of the figures. Shares are from 0 to 1. "Of the workers' time" is of
// the time of all workers of the load generator together, each of which has
// one command under way at most. "Per command" is per successful command of
// the cell, whichever member answered it. Disk figures are of the member's
// machine.
const (
	CPUUSPerCommand = "cpu_us_per_command" // of mongod, µs, user and system
	ProcessCPUShare = "process_cpu_share"  // mongod's, of all CPUs of the machine
	MachineCPUShare = "machine_cpu_share"  // in use, time taken by the hypervisor included
	IOWaitShare     = "iowait_share"       // CPUs idle while something waits for a disk
	StealShare      = "steal_share"        // taken by the hypervisor

	DiskBusyShare           = "disk_busy_share" // of the time the busiest disk had something to do
	DiskInFlight            = "disk_in_flight"  // mean number of operations waiting or served there
	DiskReadsPerS           = "disk_reads_per_s"
	DiskWritesPerS          = "disk_writes_per_s"
	DiskReadBytesPerS       = "disk_read_bytes_per_s"
	DiskWriteBytesPerS      = "disk_write_bytes_per_s"
	DiskReadMS              = "disk_read_ms"  // mean time of a read, waiting included
	DiskWriteMS             = "disk_write_ms" // mean time of a write, waiting included
	DiskReadsPerCommand     = "disk_reads_per_command"
	DiskReadBytesPerCommand = "disk_read_bytes_per_command"

	CacheHitRatio            = "cache_hit_ratio" // 1 - pages read into / pages requested from the cache
	CachePagesReadPerCommand = "cache_pages_read_per_command"
	CacheFillShare           = "cache_fill_share"            // mean, of the configured size
	CacheDirtyShare          = "cache_dirty_share"           // mean, of the configured size
	CacheWaitShare           = "cache_wait_share"            // for pages to be read, of the workers' time
	CacheReadMS              = "cache_read_ms"               // mean time of a page to be read, waiting included
	EvictionWaitShare        = "eviction_wait_share"         // making room in the cache, by evicting or waiting for it, of the workers' time
	EvictionsPerS            = "application_evictions_per_s" // evictions tried by threads that serve commands

	NetworkInBytesPerS  = "network_in_bytes_per_s" // of mongod
	NetworkOutBytesPerS = "network_out_bytes_per_s"

	TicketsExhaustedShare  = "tickets_exhausted_share"   // of the readings found no read or no write ticket left
	TicketWaitShare        = "ticket_wait_share"         // of the workers' time
	FlowControlWaitShare   = "flow_control_wait_share"   // writers held back, of the workers' time
	FlowControlLaggedShare = "flow_control_lagged_share" // of the time that writers were to be held back
	WriteConcernWaitShare  = "write_concern_wait_share"  // for other members to acknowledge, of the workers' time
	LagMaxS                = "lag_max_s"                 // behind the primary
	LagMeanS               = "lag_mean_s"

	CheckpointCount = "checkpoints"
	CheckpointMeanS = "checkpoint_mean_s"
	CheckpointShare = "checkpoint_share" // of the time that one was being written
	ElectionCount   = "elections"
)

// Names of the readings, as package mongodb takes them.
const (
	readCacheBytes = "cache.bytes"
	readDirtyBytes = "cache.dirty_bytes"
	readLag        = "repl.lag_s"
	diskPrefix     = "system.disk."
)

// memberReadings gathers a member's readings of the measured time; each is
// looked at once.
type memberReadings struct {
	first, last record.Sample
	count       int
	gauges      map[string]*gauge
}

// gauge follows a value that goes up and down.
type gauge struct {
	sum, max float64
	count    int
}

func (g *gauge) add(v float64) {
	g.sum += v
	g.max = max(g.max, v)
	g.count++
}

const ticketsOut = "tickets exhausted" // the gauge of it: 1 or 0

func (m *memberReadings) add(s record.Sample) {
	if m.count == 0 {
		m.first = s
		m.gauges = map[string]*gauge{readCacheBytes: {}, readDirtyBytes: {}, readLag: {}, ticketsOut: {}}
	}
	m.last = s
	m.count++
	if s.Phase != "during" { // there is no load then
		return
	}
	for _, name := range [...]string{readCacheBytes, readDirtyBytes, readLag} {
		if v, ok := s.Values[name]; ok {
			m.gauges[name].add(v)
		}
	}
	read, hasRead := s.Values["tickets.read_available"]
	write, hasWrite := s.Values["tickets.write_available"]
	if hasRead && hasWrite {
		m.gauges[ticketsOut].add(boolShare(read <= 0 || write <= 0))
	}
}

func boolShare(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// delta is by how much a counter grew; ok is false when it is not known or
// was set back.
func (m *memberReadings) delta(name string) (float64, bool) {
	from, had := m.first.Values[name]
	to, has := m.last.Values[name]
	return to - from, had && has && to >= from
}

// sumOfDeltas adds counters up; at least one must be known.
func (m *memberReadings) sumOfDeltas(names ...string) (sum float64, ok bool) {
	for _, name := range names {
		if d, known := m.delta(name); known {
			sum, ok = sum+d, true
		}
	}
	return sum, ok
}

// cellReadings are the readings of a cell's members in the measured time.
type cellReadings struct {
	names []string // in the order of their first reading
	of    map[string]*memberReadings
	cpu   cpuRounds
}

// readings walks the readings of a cell.
func (b *builder) readings(in *CellInput) *cellReadings {
	out := &cellReadings{of: map[string]*memberReadings{}}
	if in.Samples == nil {
		return out
	}
	settings := b.settings(in)
	for s := range sound(&b.damage, in.Samples, "the reading is left out of what the members did") {
		if settings.WarmsUp() && s.At.Before(in.Cell.Started) {
			continue
		}
		out.cpu.add(&s, in.Cell.Started)
		if len(s.Values) == 0 {
			continue // silent, or an arbiter
		}
		m := out.of[s.Member]
		if m == nil {
			if len(out.names) == maxMembers {
				continue
			}
			m = &memberReadings{}
			out.of[s.Member] = m
			out.names = append(out.names, s.Member)
		}
		m.add(s)
	}
	out.cpu.end()
	return out
}

// members are what the members did while a cell was measured.
func (b *builder) members(in *CellInput) []MemberMetrics {
	var readings *cellReadings
	if r := b.read[in]; r != nil {
		readings = r.members
	} else {
		readings = b.readings(in)
	}
	settings := b.settings(in)
	var facts []record.MemberFacts
	if t := b.c.target(in.ID.Target); t >= 0 {
		facts = b.c.Targets[t].Members
	}
	var out []MemberMetrics
	for _, name := range readings.names {
		m := readings.of[name]
		span := m.last.At.Sub(m.first.At).Seconds()
		if m.count < 2 || span <= 0 {
			continue
		}
		cpus := 0
		if i := slices.IndexFunc(facts, func(f record.MemberFacts) bool { return f.Name == name }); i >= 0 {
			cpus = facts[i].Machine.CPUs
		}
		out = append(out, MemberMetrics{
			Member: name, State: m.last.State, Readings: m.count, SpanS: span,
			Values: m.figures(span, cpus, max(settings.Workers, 1), m.commands(in, span, settings.WarmsUp())),
		})
	}
	return out
}

// maxMembers bounds what is kept of one target, whatever a record claims; a
// replica set has at most 50.
const maxMembers = 64

// commands are those that succeeded between the first and the last reading,
// span seconds apart: all of the cell's when both were taken without load, so
// that the members' CPU adds up to the cell's. Else it is what the cell's
// throughput comes to in that time.
func (m *memberReadings) commands(in *CellInput, span float64, warmup bool) float64 {
	if !warmup && m.first.Phase == "before" && m.last.Phase == "after" {
		return float64(in.Cell.Commands)
	}
	return in.Cell.ThroughputPerS * span
}

// figures computes what the readings tell, over span seconds and so many
// commands, on a machine with so many CPUs, 0 when that is not known.
func (m *memberReadings) figures(span float64, cpus, workers int, commands float64) map[string]float64 {
	out := map[string]float64{}
	set := func(name string, v float64, ok bool) {
		if ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[name] = v
		}
	}
	share := func(name string, v float64, ok bool) { set(name, min(max(v, 0), 1), ok) }
	perS := func(name, counter string, factor float64) {
		d, ok := m.delta(counter)
		set(name, d*factor/span, ok)
	}
	perCommand := func(name string, d float64, ok bool) { set(name, d/commands, ok && commands > 0) }
	// ofWorkers: time that threads spent, as a share of the workers' time.
	workersUS := span * 1e6 * float64(workers)
	ofWorkers := func(name string, us float64, ok bool) { set(name, us/workersUS, ok) }

	user, hasUser := m.delta("cpu.user_us")
	system, hasSystem := m.delta("cpu.system_us")
	perCommand(CPUUSPerCommand, user+system, hasUser && hasSystem)
	share(ProcessCPUShare, (user+system)/(span*1e6*float64(cpus)), hasUser && hasSystem && cpus > 0)
	idle, hasIdle := m.delta("system.cpu.idle_ms")
	iowait, _ := m.delta("system.cpu.iowait_ms")
	steal, _ := m.delta("system.cpu.steal_ms")
	busy, hasBusy := m.sumOfDeltas("system.cpu.user_ms", "system.cpu.nice_ms", "system.cpu.system_ms",
		"system.cpu.irq_ms", "system.cpu.softirq_ms", "system.cpu.steal_ms")
	all := busy + idle + iowait
	known := hasIdle && hasBusy && all > 0
	share(MachineCPUShare, busy/all, known)
	share(IOWaitShare, iowait/all, known)
	share(StealShare, steal/all, known)

	m.diskFigures(set, perCommand, span)

	requested, hasRequested := m.delta("cache.pages_requested")
	read, hasRead := m.delta("cache.pages_read")
	share(CacheHitRatio, 1-read/requested, hasRequested && hasRead && requested > 0)
	perCommand(CachePagesReadPerCommand, read, hasRead)
	size, hasSize := m.last.Values["cache.max_bytes"]
	ofSize := func(name, reading string) {
		g := m.gauges[reading]
		share(name, g.sum/float64(g.count)/size, hasSize && size > 0 && g.count > 0)
	}
	ofSize(CacheFillShare, readCacheBytes)
	ofSize(CacheDirtyShare, readDirtyBytes)
	us, ok := m.delta("cache.application_read_us")
	ofWorkers(CacheWaitShare, us, ok)
	reads, hasReads := m.delta("cache.application_reads")
	set(CacheReadMS, us/1000/reads, ok && hasReads && reads > 0)
	// The wait includes evicting; not every version tells of both.
	evicting, ok := m.delta("cache.application_eviction_us")
	waiting, waited := m.delta("cache.application_wait_us")
	switch {
	case ok && waited:
		ofWorkers(EvictionWaitShare, max(evicting, waiting), true)
	case waited:
		ofWorkers(EvictionWaitShare, waiting, true)
	default:
		ofWorkers(EvictionWaitShare, evicting, ok)
	}
	perS(EvictionsPerS, "cache.application_evictions", 1)
	perS(NetworkInBytesPerS, "network.bytes_in", 1)
	perS(NetworkOutBytesPerS, "network.bytes_out", 1)

	if g := m.gauges[ticketsOut]; g.count > 0 {
		out[TicketsExhaustedShare] = g.sum / float64(g.count)
	}
	us, ok = m.sumOfDeltas("tickets.read_queued_us", "tickets.write_queued_us")
	ofWorkers(TicketWaitShare, us, ok)
	us, ok = m.delta("flowcontrol.waited_us")
	ofWorkers(FlowControlWaitShare, us, ok)
	us, ok = m.delta("flowcontrol.lagged_us")
	share(FlowControlLaggedShare, us/(span*1e6), ok)
	ms, ok := m.delta("writeconcern.wait_ms")
	ofWorkers(WriteConcernWaitShare, ms*1000, ok)
	if g := m.gauges[readLag]; g.count > 0 {
		out[LagMaxS], out[LagMeanS] = g.max, g.sum/float64(g.count)
	}
	count, ok := m.delta("checkpoint.count")
	set(CheckpointCount, count, ok)
	ms, hasMS := m.delta("checkpoint.total_ms")
	set(CheckpointMeanS, ms/1000/count, ok && hasMS && count > 0)
	share(CheckpointShare, ms/1000/span, hasMS)
	term, ok := m.delta("repl.election_term")
	set(ElectionCount, term, ok)
	return out
}

// diskFigures are those of the machine's disks: operations and bytes of all
// of them together, how busy the busiest one was.
func (m *memberReadings) diskFigures(set, perCommand func(string, float64, bool), span float64) {
	totals := map[string]float64{}
	var busiest string
	busy := -1.0
	for key := range m.last.Values {
		rest, ok := strings.CutPrefix(key, diskPrefix)
		if !ok {
			continue
		}
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 {
			continue
		}
		device, what := rest[:dot], rest[dot+1:]
		d, ok := m.delta(key)
		if !ok {
			continue
		}
		totals[what] += d
		if what == "busy_ms" && (d > busy || d == busy && device < busiest) {
			busy, busiest = d, device
		}
	}
	if busy < 0 {
		return
	}
	set(DiskBusyShare, min(busy/1000/span, 1), true)
	queued, ok := m.delta(diskPrefix + busiest + ".queued_ms")
	set(DiskInFlight, queued/1000/span, ok)
	for _, v := range [...]struct{ what, perS, perCommand string }{
		{"reads", DiskReadsPerS, DiskReadsPerCommand}, {"read_bytes", DiskReadBytesPerS, DiskReadBytesPerCommand},
		{"writes", DiskWritesPerS, ""}, {"write_bytes", DiskWriteBytesPerS, ""},
	} {
		total, ok := totals[v.what]
		set(v.perS, total/span, ok)
		if v.perCommand != "" {
			perCommand(v.perCommand, total, ok)
		}
	}
	readMS, ok := totals["read_ms"]
	set(DiskReadMS, readMS/totals["reads"], ok && totals["reads"] > 0)
	writeMS, ok := totals["write_ms"]
	set(DiskWriteMS, writeMS/totals["writes"], ok && totals["writes"] > 0)
}

// why finds for every counted cell what its members did, what limited it and
// whether it was steady, and joins the limits of a target's cells.
func (b *builder) why() {
	var tasks errgroup.Group
	tasks.SetLimit(4)
	for i := range b.c.Cells {
		cell := &b.c.Cells[i]
		in := b.countedInput(cell)
		if in == nil {
			continue
		}
		tasks.Go(func() error {
			cell.Members = b.members(in)
			if x := b.read[in]; x != nil {
				cell.CPUInterval = x.cpu
			}
			limit := bottleneckOf(b.bottleneckInput(in, cell.Members))
			cell.Bottleneck = &limit
			return nil
		})
	}
	_ = tasks.Wait() // they have no errors
	b.steady()
	b.limits()
}

// countedInput is what a counted cell was made of; nil when it does not
// count, or was refused for its commands.
func (b *builder) countedInput(cell *Cell) *CellInput {
	if cell.State != StateCounted {
		return nil
	}
	g, t := b.c.groupOf(cell.Size, cell.Variant), b.c.target(cell.Target)
	if g < 0 || t < 0 {
		return nil
	}
	for _, in := range b.counted[g][t] {
		if in.ID == cell.CellID && in.Attempt == cell.Attempt {
			return in
		}
	}
	return nil
}
