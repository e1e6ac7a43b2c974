package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// rng is a source of its own for what the parts name: a change of one thing
// that is forged leaves the others as they are.
func (*forge) rng(parts ...any) *rand.Rand {
	sum := sha256.Sum256([]byte(fmt.Sprint(parts...)))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])))
}

// drift is noise whose neighbours are alike: of standard deviation 1 and with
// a correlation of rho from step to step (autoregressive, of order one).
type drift struct {
	rng    *rand.Rand
	rho, x float64
}

func newDrift(rng *rand.Rand, rho float64) *drift { return &drift{rng, rho, rng.NormFloat64()} }

func (d *drift) next() float64 {
	x := d.x
	d.x = d.rho*d.x + math.Sqrt(1-d.rho*d.rho)*d.rng.NormFloat64()
	return x
}

// normal is the quantile of the normal distribution.
func normal(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// latencies fills a histogram with n lognormal values of a mean in µs; most is
// the largest of them. Half of the distinct values are of the slowest 5 %.
func (f *forge) latencies(n int64, mean, sigma float64, most int64) *hdrhistogram.Histogram {
	h := record.NewHistogram()
	edge := func(k int) float64 { // share of the values below the k-th distinct one
		half := float64(f.grid) / 2
		if float64(k) <= half {
			return 0.95 * float64(k) / half
		}
		return 1 - 0.05*math.Pow(20/float64(n+20), (float64(k)-half)/half)
	}
	type bar struct {
		us    float64
		count int64
	}
	var bars []bar
	sum, done := 0.0, int64(0)
	for k := range f.grid {
		upTo := int64(math.Round(edge(k+1) * float64(n-1)))
		if k == f.grid-1 {
			upTo = n - 1
		}
		if count := upTo - done; count > 0 {
			us := math.Exp(sigma * normal((edge(k)+edge(k+1))/2))
			bars = append(bars, bar{us, count})
			sum, done = sum+us*float64(count), upTo
		}
	}
	scale := (mean*float64(n) - float64(most)) / max(sum, 1e-9)
	record1 := func(us float64, count int64) {
		if err := h.RecordValues(int64(math.Round(min(max(us, float64(record.MinLatencyUS)), float64(most)))), count); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, x := range bars {
		record1(x.us*scale, x.count)
	}
	record1(float64(most), 1)
	return h
}

// forgedOperation is what an operation type does on one target in one cell.
type forgedOperation struct {
	name          string
	share, factor float64
	sigma         float64 // of the logarithm of its latency
	noise         *drift
	carried       float64 // part of a command
	count, sumUS  int64   // of the window
	mostUS        int64
	merged        *hdrhistogram.Histogram
}

// cell forges one counted cell: seconds whose noise is correlated, minutes
// with a slower one on top, dips while checkpoints are written, and windows
// and totals that add them up.
func (f *forge) cell(target string, size int64, iteration int) CellInput {
	s := f.run.Settings
	id := record.CellID{Target: target, Size: size, Variant: record.DefaultVariant, Iteration: iteration}
	rng, own := f.rng("cell", id), f.rng("target", target, size)
	level := f.throughput[size][target] * math.Exp(f.between*rng.NormFloat64())
	duration := s.Duration.Seconds()
	cell := &record.Cell{
		CellID: id, Attempt: 1, Valid: true, Started: f.run.Started.Add(time.Duration(iteration) * time.Hour),
		DurationS: duration, SequenceID: digest(s.Seed, size, iteration),
		Seeding: record.Seeding{Documents: size, Bytes: size*2487 + size/3, DurationS: float64(size) / 17000 * math.Exp(0.02*rng.NormFloat64())},
		Definitions: []record.Definitions{{
			Members: []string{memberName(target, 0), memberName(target, 1), memberName(target, 2)},
			Facts: map[string]string{
				"collection flights": "{}", "index flights._id_": `{"v": {"$numberInt":"2"},"key": {"_id": {"$numberInt":"1"}}}`,
				"index flights.status_1": `{"v": {"$numberInt":"2"},"key": {"status": {"$numberInt":"1"}}}`,
			},
		}},
		Operations: map[string]record.Operation{}, Client: record.ClientUsage{CPUPercent: 21.5, CPUS: duration * 1.7},
	}
	var responses *hdrhistogram.Histogram
	calm := record.Trouble{Retries: new(int64), Timeouts: new(int64)}
	if f.older {
		calm = record.Trouble{}
	}
	cell.Timeouts = calm.Timeouts
	operations := make([]*forgedOperation, len(mixShares))
	total := 0.0 // of the mean of all
	differ := 1.0
	if f.alike {
		differ = 0
	}
	for i, o := range mixShares {
		x := &forgedOperation{name: o.name, share: o.share, merged: record.NewHistogram()}
		x.factor = o.factor * math.Exp(differ*(0.012*own.NormFloat64()+0.004*rng.NormFloat64()))
		if more := f.operations[target][o.name]; more > 0 {
			x.factor *= more
		}
		x.sigma = 0.6 * math.Exp(differ*(0.015*own.NormFloat64()+0.005*rng.NormFloat64()))
		x.noise = newDrift(rng, 0.3)
		total += x.share * x.factor
		operations[i] = x
	}
	minutes, fast := newDrift(rng, 0.4), newDrift(rng, 0.6)
	var windows []record.Window
	var intervals []record.Interval
	slow, until := 0.0, 0.0
	for at := 0.0; at < duration-f.window/2; at += f.window {
		w := record.Window{StartS: at, EndS: at + f.window, Operations: map[string]record.WindowOperation{}, Trouble: calm}
		for second := at; second < at+f.window-1e-9; second++ {
			if second >= until {
				slow, until = minutes.next(), second+min(f.window, 60)
			}
			rate := level * math.Exp(f.noise*(slow+fast.next()))
			if duration >= 600 && math.Mod(second, 60) >= 51 {
				rate *= 0.96 // a checkpoint is being written
			}
			v := record.Interval{StartS: second, EndS: second + 1, Operations: map[string]record.IntervalOperation{}, Trouble: calm}
			for _, o := range operations {
				wanted := rate*o.share + o.carried
				n := max(int64(wanted+0.3*math.Sqrt(rate*o.share)*rng.NormFloat64()), 1)
				o.carried = wanted - float64(n)
				// Of the workers' time 1.5 % is the load generator's own.
				mean := 0.985 * float64(s.Workers) / rate * 1e6 * o.factor / total * math.Exp(f.noise*o.noise.next())
				// Of few commands none takes longer than all.
				slowest := mean * math.Exp(o.sigma*normal(1-rng.ExpFloat64()/(float64(n)+20))-o.sigma*o.sigma/2)
				iv := record.IntervalOperation{Count: n, SumUS: int64(mean * float64(n)), MaxUS: int64(min(max(slowest, mean), mean*(1+0.5*float64(n-1))))}
				v.Operations[o.name] = iv
				o.count, o.sumUS, o.mostUS = o.count+iv.Count, o.sumUS+iv.SumUS, max(o.mostUS, iv.MaxUS)
			}
			intervals = append(intervals, v)
		}
		for _, o := range operations {
			h := f.latencies(o.count, float64(o.sumUS)/float64(o.count), o.sigma, o.mostUS)
			operation := record.WindowOperation{Count: o.count, SumUS: o.sumUS, Histogram: f.encode(h)}
			if factor := f.response[target]; factor > 0 {
				if responses == nil {
					responses = record.NewHistogram()
				}
				late := f.latencies(o.count, factor*float64(o.sumUS)/float64(o.count), o.sigma, int64(factor*float64(o.mostUS)))
				responses.Merge(late)
				operation.ResponseSumUS, operation.ResponseHistogram = int64(factor*float64(o.sumUS)), f.encode(late)
			}
			w.Operations[o.name] = operation
			o.merged.Merge(h)
			cell.Commands += o.count
			o.count, o.sumUS, o.mostUS = 0, 0, 0
		}
		windows = append(windows, w)
	}
	cell.ThroughputPerS = float64(cell.Commands) / duration
	all := record.NewHistogram()
	for _, o := range operations {
		all.Merge(o.merged)
		cell.Operations[o.name] = record.Operation{Count: o.merged.TotalCount(), LatencyMS: record.LatencyOf(o.merged), Histogram: f.encode(o.merged)}
	}
	cell.LatencyMS = record.LatencyOf(all)
	if responses != nil {
		summary := record.LatencyOf(responses)
		cell.ResponseMS = &summary
	}
	if cpu := f.cpu[target]; cpu > 0 {
		cell.CPUUSPerCommand = &record.CPUPerCommand{
			Primary: cpu * math.Exp(0.01*rng.NormFloat64()), Secondary: 1.6 * cpu * math.Exp(0.01*rng.NormFloat64()),
		}
	}
	chains := f.chains(cell, rng)
	if f.change != nil {
		f.change(cell)
	}
	return CellInput{
		ID: id, Attempt: 1, Status: record.Counted, Cell: cell,
		Checkpoints: func() (record.Checkpoints, error) { return chains, nil },
		Windows:     values(windows), Intervals: values(intervals),
	}
}

// chains forges the fingerprint chains of as many commands as the cell says
// were sent, and sets what the cell says of them. Workers send nearly as many
// each; what comes after the pass is in no chain.
func (f *forge) chains(cell *record.Cell, rng *rand.Rand) record.Checkpoints {
	pass := f.run.Settings.OpsPerWorker
	state := func(worker int, commands int64) string { return digest(cell.SequenceID, worker, commands) }
	v := record.Checkpoints{Every: 1000, EarlyEvery: 10}
	left, least := cell.Commands+cell.Errors, pass
	for w := range f.run.Settings.Workers {
		workers := int64(f.run.Settings.Workers - w)
		n := left / workers
		if workers > 1 {
			n += int64(0.005 * float64(n) * rng.NormFloat64())
		}
		left -= n
		n = min(n, pass)
		least = min(least, n)
		var chain, early []string
		for i := v.Every; i <= n; i += v.Every {
			chain = append(chain, state(w, i))
		}
		for i := v.EarlyEvery; i <= min(n, v.Every-1); i += v.EarlyEvery {
			early = append(early, state(w, i))
		}
		v.Workers, v.Early = append(v.Workers, chain), append(v.Early, early)
		v.Last = append(v.Last, record.ChainEnd{Commands: n, State: state(w, n)})
	}
	cell.Complete = least == pass
	switch {
	case cell.Complete:
		cell.FingerprintCommands = pass
	case least >= v.Every:
		cell.FingerprintCommands = least / v.Every * v.Every
	default:
		cell.FingerprintCommands = least / v.EarlyEvery * v.EarlyEvery
	}
	cell.Fingerprint, _ = v.Fingerprint(cell.SequenceID, cell.FingerprintCommands)
	return v
}

// What is forged adds up: commands, fingerprint and latency of a cell agree
// with its chains, its windows and its seconds.
func TestForgedCellsAddUp(t *testing.T) {
	for _, in := range []Input{published(t), standIn(t)} {
		workers := float64(in.Run.Settings.Workers)
		for i := range in.Cells {
			in, cell := &in.Cells[i], in.Cells[i].Cell
			var ofWindows, ofSeconds int64
			for w, err := range in.Windows {
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range w.Operations {
					ofWindows += o.Count
				}
			}
			for v, err := range in.Intervals {
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range v.Operations {
					ofSeconds += o.Count
				}
			}
			if ofWindows != cell.Commands || ofSeconds != cell.Commands {
				t.Errorf("%s: %d commands, %d in windows, %d in seconds", in.ID, cell.Commands, ofWindows, ofSeconds)
			}
			v, err := in.Checkpoints()
			if err != nil {
				t.Fatal(err)
			}
			longest := slices.MaxFunc(v.Last, func(x, y record.ChainEnd) int { return cmp.Compare(x.Commands, y.Commands) })
			if sent := float64(cell.Commands) / workers; float64(longest.Commands) > 1.02*sent {
				t.Errorf("%s: a chain covers %d commands, and a worker sent %.0f", in.ID, longest.Commands, sent)
			}
			if text, ok := v.Fingerprint(cell.SequenceID, cell.FingerprintCommands); !ok || text != cell.Fingerprint {
				t.Errorf("%s: fingerprint %s over %d commands, that of the chains is %s", in.ID, cell.Fingerprint, cell.FingerprintCommands, text)
			}
			// A closed loop: the workers wait for a reply nearly all of the time.
			if busy := cell.LatencyMS.Mean / 1000 * cell.ThroughputPerS / workers; busy < 0.97 || busy > 1 {
				t.Errorf("%s: workers wait %.3f of the time", in.ID, busy)
			}
		}
	}
}
