package report

import (
	"fmt"
	"iter"
	"slices"
	"sync"
)

// damage gathers what could not be read, from several goroutines.
type damage struct {
	mu    sync.Mutex
	notes []string
}

// note adds what is wrong, with the file's name in it, and what that costs.
func (d *damage) note(problem, cost string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprintf("damaged: %s: %s", problem, cost))
}

// list returns every note once, in an order that does not depend on who came
// first.
func (d *damage) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.notes)
	return slices.Compact(slices.Clone(d.notes))
}

// sound yields the values of a sequence. Its errors become one note.
func sound[T any](d *damage, values iter.Seq2[T, error], cost string) iter.Seq[T] {
	return func(yield func(T) bool) {
		var first error
		count := 0
		for v, err := range values {
			if err != nil {
				if first == nil {
					first = err
				}
				count++
				continue
			}
			if !yield(v) {
				break
			}
		}
		switch {
		case count == 1:
			d.note(first.Error(), cost)
		case count > 1:
			d.note(fmt.Sprintf("%v (and %s more)", first, thousands(int64(count-1))), cost)
		}
	}
}
