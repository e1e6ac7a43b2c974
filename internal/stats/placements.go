package stats

import "math/rand/v2"

// EstimatePlacements is Estimate with one level more: iterations are grouped
// by the set of machines that they ran on. Spread.Placements says how many
// had data. With fewer than two, nothing is known of what lies between
// placements, and the spread is that of Estimate.
func EstimatePlacements(placements [][][]Window, metrics []Metric, seed uint64) ([]float64, []Spread, error) {
	return estimate(placements, metrics, seed, spreadOfPlacements)
}

func spreadOfPlacements(series [][]*iteration, m Metric, rng *rand.Rand) Spread {
	var parts []placement
	for _, iterations := range series {
		if p := spreadOf(iterations, m, rng); p.Iterations > 0 {
			parts = append(parts, p)
		}
	}
	return acrossPlacements(parts)
}

// acrossPlacements joins what single placements tell: as iterations do for
// windows, their own estimates tell what lies between them, which is not
// taken to be less than what lies within.
func acrossPlacements(parts []placement) Spread {
	if len(parts) == 0 {
		return Spread{}
	}
	if len(parts) == 1 {
		s := parts[0].Spread
		s.Placements = 1
		return s
	}
	s := Spread{Placements: len(parts)}
	estimates := make([]float64, len(parts))
	var within, total, squares float64
	known := 0.0
	for i := range parts {
		p := &parts[i]
		estimates[i] = p.estimate
		s.Iterations += p.Iterations
		s.Windows += p.Windows
		s.Block = max(s.Block, p.Block)
		total += p.seconds
		squares += p.seconds * p.seconds
		if p.Known() {
			known++
			within += p.Variance
			s.Within += p.Within
			s.Autocorrelation += p.Autocorrelation
		}
	}
	if known > 0 {
		within /= known
		s.Within /= known
		s.Autocorrelation /= known
	}
	_, between := moments(estimates)
	// The whole's estimate weighs placements by their time: 1/k when all
	// took as long.
	s.Variance = max(between, within) * squares / (total * total)
	s.DF = float64(len(parts) - 1)
	return s
}
