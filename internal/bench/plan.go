package bench

import (
	"math/rand/v2"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// plan lists all cells in the order in which they are run. It depends on its
// arguments alone, so that a resumed run goes on in the same order.
func plan(order string, seed uint64, sizes []record.Size, targets []Target) []record.CellID {
	var cells []record.CellID
	add := func(target string, size record.Size, iteration int) {
		cells = append(cells, record.CellID{
			Target: target, Size: size.Documents, Variant: record.DefaultVariant, Iteration: iteration,
		})
	}
	if order == Sequential {
		for _, target := range targets {
			for _, size := range sizes {
				for iteration := 1; iteration <= size.Iterations; iteration++ {
					add(target.Name, size, iteration)
				}
			}
		}
		return cells
	}
	names := make([]string, len(targets))
	last := 0
	for _, size := range sizes {
		last = max(last, size.Iterations)
	}
	const stream = 0x62656e6368 // "bench": apart from the workload's own use of the seed
	source := rand.NewPCG(seed, stream)
	for iteration := 1; iteration <= last; iteration++ {
		for _, size := range sizes {
			if iteration > size.Iterations {
				continue
			}
			for i, target := range targets {
				names[i] = target.Name
			}
			if order == Random {
				// Fisher and Yates' shuffle, spelled out: the order must be
				// the same with every version of Go.
				for i := len(names) - 1; i > 0; i-- {
					j := source.Uint64() % uint64(i+1)
					names[i], names[j] = names[j], names[i]
				}
			}
			for _, name := range names {
				add(name, size, iteration)
			}
		}
	}
	return cells
}
