package report

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// memberLoad is what a forged member does, steadily; shares are of its
// machine.
type memberLoad struct {
	processCPU, machineCPU, iowait float64
	diskBusy, inFlight             float64
	readsPerS, readMS, writesPerS  float64
	pagesPerS, hits                float64 // requested from the cache, and found there
	pageWait                       float64 // of the workers' time
	fill, dirty                    float64
	lag                            float64
	flowWait, flowLagged           float64
	ackWait, ticketWait            float64
	without                        []string // readings that the member does not have, by prefix
}

// vary makes a member a little different from others of the same load.
func (l *memberLoad) vary(rng *rand.Rand) {
	for _, v := range []*float64{
		&l.inFlight, &l.readsPerS, &l.readMS, &l.writesPerS, &l.pagesPerS, &l.pageWait, &l.fill, &l.dirty, &l.ackWait, &l.iowait,
	} {
		*v *= math.Exp(0.02 * rng.NormFloat64())
	}
	for _, v := range []*float64{&l.diskBusy, &l.hits} { // shares that may come near 1
		*v = 1 - (1-*v)*math.Exp(0.04*rng.NormFloat64())
	}
}

// readings forges what members tell before a cell, every so many seconds of
// it and after it: the first is the primary. Counters start where those of a server that has been up would.
func (f *forge) readings(in *CellInput, every float64, loads []memberLoad) iter.Seq2[record.Sample, error] {
	const cpus, cache = 4.0, 7.75e9
	cell := in.Cell
	workers := float64(f.run.Settings.Workers)
	return func(yield func(record.Sample, error) bool) {
		rng := f.rng("members", in.ID)
		loads := slices.Clone(loads)
		phases := make([]float64, len(loads))
		for i := range loads {
			loads[i].vary(rng)
			phases[i] = rng.Float64()
		}
		take := func(phase string, at float64) bool {
			for i, l := range loads {
				state := "SECONDARY"
				if i == 0 {
					state = "PRIMARY"
				}
				// Counters grow while there is load, now faster, now slower, and
				// over the whole cell as the load says.
				uneven := math.Sin(2*math.Pi*(at/cell.DurationS*7+phases[i])) - math.Sin(2*math.Pi*phases[i])
				loaded := min(max(at, 0), cell.DurationS)
				up := 5000 + loaded
				if loaded > 0 && loaded < cell.DurationS {
					up += 0.0015 * cell.DurationS * uneven
				}
				busy, idle := l.machineCPU*cpus*1000, (1-l.machineCPU-l.iowait)*cpus*1000
				wobble := 1 + 0.03*math.Sin(at/97+6*phases[i])
				values := map[string]float64{
					"cpu.user_us": 0.8e6 * l.processCPU * cpus * up, "cpu.system_us": 0.2e6 * l.processCPU * cpus * up,
					"system.cpu.user_ms": 0.75 * busy * up, "system.cpu.nice_ms": 0, "system.cpu.system_ms": 0.2 * busy * up,
					"system.cpu.softirq_ms": 0.05 * busy * up, "system.cpu.irq_ms": 0, "system.cpu.steal_ms": 0,
					"system.cpu.idle_ms": idle * up, "system.cpu.iowait_ms": l.iowait * cpus * 1000 * up,
					"system.disk.sda.reads": 2 * up, "system.disk.sda.busy_ms": 3 * up, "system.disk.sda.queued_ms": 4 * up,
					"system.disk.sdb.reads": l.readsPerS * up, "system.disk.sdb.read_bytes": l.readsPerS * 20480 * up,
					"system.disk.sdb.read_ms": l.readsPerS * l.readMS * up, "system.disk.sdb.writes": l.writesPerS * up,
					"system.disk.sdb.write_bytes": l.writesPerS * 32768 * up, "system.disk.sdb.write_ms": l.writesPerS * 2 * up,
					"system.disk.sdb.busy_ms": 1000 * l.diskBusy * up, "system.disk.sdb.queued_ms": 1000 * l.inFlight * up,
					"cache.pages_requested": l.pagesPerS * up, "cache.pages_read": l.pagesPerS * (1 - l.hits) * up,
					"cache.bytes": l.fill * cache * wobble, "cache.dirty_bytes": l.dirty * cache * wobble, "cache.max_bytes": cache,
					"cache.application_reads": l.pagesPerS * (1 - l.hits) * up, "cache.application_read_us": l.pageWait * workers * 1e6 * up, "cache.application_evictions": 0, "cache.application_eviction_us": l.pageWait / 8 * workers * 1e6 * up,
					"network.bytes_in": 4e6 * up, "network.bytes_out": 9e6 * up,
					"tickets.read_available": 12, "tickets.write_available": 11, "tickets.read_queued_us": l.ticketWait * workers * 1e6 * up, "tickets.write_queued_us": 0,
					"flowcontrol.waited_us": l.flowWait * workers * 1e6 * up, "flowcontrol.lagged_us": l.flowLagged * 1e6 * up,
					"writeconcern.wait_ms": l.ackWait * workers * 1e3 * up,
					"checkpoint.count":     math.Floor(up / 60), "checkpoint.total_ms": math.Floor(up/60) * 9500,
					"repl.election_term": 3,
				}
				if i > 0 {
					values["repl.lag_s"] = math.Round(l.lag * (0.8 + 0.4*rng.Float64() + 0.2*math.Sin(at/61+6*phases[i])))
				}
				for name := range values {
					for _, prefix := range l.without {
						if len(name) >= len(prefix) && name[:len(prefix)] == prefix {
							delete(values, name)
						}
					}
				}
				s := record.Sample{
					At: cell.Started.Add(time.Duration(at * float64(time.Second))), Phase: phase, State: state,
					Member: memberName(in.ID.Target, i), Values: values,
				}
				if !yield(s, nil) {
					return false
				}
			}
			return true
		}
		if !take("before", -0.2) {
			return
		}
		for at := every; at < cell.DurationS; at += every {
			if !take("during", at) {
				return
			}
		}
		take("after", cell.DurationS+0.1)
	}
}

// publishedLoads are what members of the published setup (4 CPUs, 7.75 GB of
// cache) would tell: at 1M and 4M the primary has no CPU left; at 8M the
// secondaries, which answer the reads, wait for their disks.
func (f *forge) publishedLoads(in *CellInput) []memberLoad {
	cell := in.Cell
	share := func(us float64) float64 { return us * cell.ThroughputPerS / 4e6 }
	primary, secondary := share(cell.CPUUSPerCommand.Primary), share(cell.CPUUSPerCommand.Secondary/2)
	load := func(process float64, l memberLoad) memberLoad {
		l.processCPU, l.machineCPU = process, process+0.025
		return l
	}
	var p, s memberLoad
	switch cell.Size {
	case 1_000_000:
		p = memberLoad{iowait: 0.01, diskBusy: 0.31, inFlight: 0.5, readsPerS: 4, readMS: 0.8, writesPerS: 610, pagesPerS: 160e3, hits: 0.9999, pageWait: 0.002, fill: 0.55, dirty: 0.04, ackWait: 0.16}
		s = memberLoad{iowait: 0.01, diskBusy: 0.30, inFlight: 0.5, readsPerS: 3, readMS: 0.8, writesPerS: 590, pagesPerS: 120e3, hits: 0.9999, pageWait: 0.002, fill: 0.55, dirty: 0.04, lag: 1}
	case 4_000_000:
		p = memberLoad{iowait: 0.03, diskBusy: 0.55, inFlight: 1.3, readsPerS: 420, readMS: 1.1, writesPerS: 700, pagesPerS: 118e3, hits: 0.988, pageWait: 0.05, fill: 0.80, dirty: 0.05, ackWait: 0.17}
		s = memberLoad{iowait: 0.04, diskBusy: 0.58, inFlight: 1.5, readsPerS: 510, readMS: 1.1, writesPerS: 680, pagesPerS: 90e3, hits: 0.986, pageWait: 0.05, fill: 0.80, dirty: 0.05, lag: 1}
	default:
		p = memberLoad{iowait: 0.29, diskBusy: 0.96, inFlight: 4.8, readsPerS: 2350, readMS: 1.9, writesPerS: 560, pagesPerS: 66e3, hits: 0.963, pageWait: 0.19, fill: 0.80, dirty: 0.06, ackWait: 0.21}
		s = memberLoad{iowait: 0.41, diskBusy: 0.99, inFlight: 7.1, readsPerS: 2880, readMS: 2.4, writesPerS: 540, pagesPerS: 51e3, hits: 0.951, pageWait: 0.23, fill: 0.80, dirty: 0.06, lag: 2}
	}
	// The second secondary gets somewhat fewer of the reads; both together
	// use what the cell says.
	other := s
	other.readsPerS, other.inFlight, other.pageWait = 0.95*s.readsPerS, 0.92*s.inFlight, 0.94*s.pageWait
	return []memberLoad{load(primary, p), load(secondary*1.01, s), load(secondary*0.99, other)}
}
