package workload

import (
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Limits of the settings. They keep every number of documents below 2^48,
// which is what an _id has room for.
const (
	maxWorkers      = 1024
	maxOpsPerWorker = 10_000_000_000
	maxBatch        = 1000
	maxLimit        = 1_000_000
)

// flights is the name of the one workload there is, so far.
const flights = "flights"

// DefaultSettings are the settings of the published comparisons, with a
// million documents.
func DefaultSettings() Settings {
	return Settings{
		Workload:     flights,
		Seed:         178477,
		Size:         1_000_000,
		Workers:      16,
		OpsPerWorker: 250_000,
		Mix:          DefaultMix(),
		InsertBatch:  10,
		FindBatch:    10,
		FindLimit:    5,
	}
}

// validate returns all that is wrong, named as New says.
func (s Settings) validate() error {
	var problems []error
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf(format, args...))
	}
	inRange := func(flag string, value, low, high int64) {
		if value < low || value > high {
			wrong("%s %d: must be %d to %d", flag, value, low, high)
		}
	}
	if s.Workload != flights {
		wrong("--workload %q: the only workload is %q", s.Workload, flights)
	}
	inRange("--workers", int64(s.Workers), 1, maxWorkers)
	inRange("--ops-per-worker", s.OpsPerWorker, 1, maxOpsPerWorker)
	inRange("--insert-batch", int64(s.InsertBatch), 1, maxBatch)
	inRange("--find-batch", int64(s.FindBatch), 1, maxBatch)
	inRange("--find-limit", int64(s.FindLimit), 0, maxLimit)
	if err := s.Mix.validate(); err != nil {
		wrong("--mix %s: %w", s.Mix, err)
	}
	if s.Size < 1 || s.Size > MaxSize {
		wrong("size %d: must be 1 to %s documents", s.Size, FormatSize(MaxSize))
	} else if need := int64(s.Workers) * int64(s.FindBatch); len(problems) == 0 && s.Size < need {
		wrong("size %d: must be at least --workers x --find-batch = %d documents, so that the keys of a command are distinct and of its worker's share", s.Size, need)
	}
	return errors.Join(problems...)
}

// blockAtLeast is the least number of commands in a block. Long blocks mix
// better; short ones keep the number of documents closer to its mean.
const blockAtLeast = 100

// Workload makes the documents and commands that its settings define. It is
// immutable and safe for concurrent use.
type Workload struct {
	settings  Settings
	flightIDs permutation // number of a document -> flight_id - 1
	// block holds the operation types of one block of commands, sorted; its
	// births and deaths are the documents they insert and delete.
	block          []OpType
	births, deaths int64
	projection     bson.Raw // of finds
}

// New checks the settings and returns their workload. The error names every
// wrong setting by its flag (--workers, --mix, …), the size, for which
// commands have different flags, as "size", and says what is allowed.
func New(settings Settings) (*Workload, error) {
	if err := settings.validate(); err != nil {
		return nil, err
	}
	w := &Workload{
		settings:   settings,
		flightIDs:  newPermutation(1<<48, newStream(settings.Seed, domainFlightID, 0, 0, 0)),
		projection: newProjection(),
	}
	for t, n := range settings.Mix.counts() {
		w.block = append(w.block, slices.Repeat([]OpType{OpType(t)}, n)...)
	}
	if short := len(w.block); short < blockAtLeast {
		w.block = slices.Repeat(w.block, (blockAtLeast+short-1)/short)
		slices.Sort(w.block)
	}
	for _, t := range w.block {
		w.births += int64(w.born(t))
		w.deaths += int64(w.died(t))
	}
	return w, nil
}

// born is how many documents a command inserts.
func (w *Workload) born(t OpType) int32 {
	switch t {
	case InsertOne:
		return 1
	case InsertMany:
		return int32(w.settings.InsertBatch)
	}
	return 0
}

// died is how many documents a command is to delete.
func (w *Workload) died(t OpType) int32 {
	switch t {
	case DeleteOne:
		return 1
	case DeleteMany:
		return int32(w.settings.FindBatch)
	}
	return 0
}

// Settings returns the settings that the workload was made of.
func (w *Workload) Settings() Settings { return w.settings }

// share is the number of seeded documents with number mod workers = worker.
func (w *Workload) share(worker int) int64 {
	workers := int64(w.settings.Workers)
	return (w.settings.Size - int64(worker) + workers - 1) / workers
}
