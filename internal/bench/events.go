package bench

import (
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Phase says what is going on.
type Phase string

// The phases of a run and of a cell.
const (
	Inspecting Phase = "inspecting" // the targets are asked for their facts
	Checking   Phase = "checking"   // the target must be healthy before its cell
	Seeding    Phase = "seeding"    // drop, indexes and documents
	Waiting    Phase = "waiting"    // for the secondaries
	Running    Phase = "running"    // the load runs
	Explaining Phase = "explaining"
	Pausing    Phase = "pausing" // between two cells

	CellDone    Phase = "cell_done"    // Outcome is set
	CellInvalid Phase = "cell_invalid" // Outcome and Reason are set
	CellFailed  Phase = "cell_failed"  // Reason is set
	TargetDown  Phase = "target_down"  // Target and Reason are set

	// Of the load host, with Reason where there is one.
	HostCopying Phase = "host_copying" // this program is copied there
	HostStarted Phase = "host_started" // the run has begun or goes on there
	HostFound   Phase = "host_found"   // it was running there already
	HostLost    Phase = "host_lost"    // no connection; it is tried again after Wait
	HostBack    Phase = "host_back"    // connected again
	HostDied    Phase = "host_died"    // the run ended there before its time
	HostStop    Phase = "host_stop"    // the run there has been asked to stop
	HostLeft    Phase = "host_left"    // something of the job could not be removed
)

// Event is one report of progress.
type Event struct {
	Phase  Phase
	Target string
	// Cell is set by everything that is about one cell; it is cell Number of
	// Total, counted from 1, and this is its Attempt.
	Cell    record.CellID
	Number  int
	Total   int
	Attempt int

	// Seeded of Documents are there (Seeding).
	Seeded, Documents int64
	// Load is the load generator's view (Running).
	Load *loadgen.Snapshot
	// Wait is how long a pause takes (Pausing).
	Wait    time.Duration
	Outcome *record.Cell
	Reason  string
	// Left is an estimate of the time until the end of the whole run, from
	// the cells seen so far; 0 when there is nothing to go by.
	Left time.Duration
}

// progress passes events on, one at a time, with what they have in common.
type progress struct {
	mu       sync.Mutex
	report   func(Event)
	estimate *estimate
	now      func() time.Time
	current  Event // Target, Cell, Number, Total, Attempt
}

// begin sets what the following events have in common.
func (p *progress) begin(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = e
}

func (p *progress) send(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.report == nil {
		return
	}
	if e.Target == "" {
		e.Target = p.current.Target
	}
	e.Cell, e.Number, e.Total, e.Attempt = p.current.Cell, p.current.Number, p.current.Total, p.current.Attempt
	e.Left = p.estimate.left(p.now())
	p.report(e)
}

// estimate foresees how long the rest of a run takes.
type estimate struct {
	mu       sync.Mutex
	load     time.Duration // duration and warm-up of a cell
	interval time.Duration
	todo     []record.CellID
	started  time.Time // of the current cell; zero between cells
	seen     map[int64]*average
}

// average is of the time that cells of one size took beside their load:
// drop, seeding, waiting, explain.
type average struct {
	sum   time.Duration
	cells int
}

func (e *estimate) begin(todo []record.CellID, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.todo, e.started = todo, now
}

// end notes that the first cell to do took until now. One that does not
// count is still to do.
func (e *estimate) end(now time.Time, counts bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if counts && len(e.todo) > 0 {
		size := e.todo[0].Size
		if e.seen[size] == nil {
			e.seen[size] = &average{}
		}
		e.seen[size].sum += max(0, now.Sub(e.started)-e.load)
		e.seen[size].cells++
		e.todo = e.todo[1:]
	}
	e.started = time.Time{}
}

// left is 0 before the first cell has ended.
func (e *estimate) left(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.seen) == 0 || len(e.todo) == 0 {
		return 0
	}
	total := e.interval * time.Duration(len(e.todo))
	if !e.started.IsZero() {
		total -= e.interval // there is none before the current cell
	}
	for i, id := range e.todo {
		cell := e.load + e.preparation(id.Size)
		if i == 0 && !e.started.IsZero() {
			cell = max(0, cell-now.Sub(e.started))
		}
		total += cell
	}
	return total
}

// preparation is the mean of the cells of that size, or, when none has been
// seen, that of the nearest size seen, in proportion to the documents.
func (e *estimate) preparation(size int64) time.Duration {
	var nearest int64
	for seen := range e.seen {
		if nearest == 0 || distance(seen, size) < distance(nearest, size) ||
			(distance(seen, size) == distance(nearest, size) && seen < nearest) {
			nearest = seen
		}
	}
	a := e.seen[nearest]
	mean := a.sum / time.Duration(a.cells)
	return time.Duration(float64(mean) * float64(size) / float64(nearest))
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
