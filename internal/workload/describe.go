package workload

import (
	"encoding/json"
	"slices"
)

// Shape is a query shape of the workload with an example.
type Shape struct {
	Operation string `json:"operation"`
	Shape     string `json:"shape"`
	// Example is the first command of this shape that worker 0 sends in
	// iteration 1, in canonical extended JSON.
	Example json.RawMessage `json:"example"`
}

// OperationShare is an operation type's part of the mix, which is exact in
// every block of commands of every worker.
type OperationShare struct {
	Operation string  `json:"operation"`
	Percent   float64 `json:"percent"`
	PerBlock  int64   `json:"per_block"` // commands in a block
	// PerPass is the commands of all workers in a pass; exact when a pass is
	// a whole number of blocks, else to the nearest command.
	PerPass int64 `json:"per_pass"`
	// Documents is the most documents that one command can insert, delete,
	// update or return.
	Documents int64 `json:"documents"`
}

// Distribution sums up sizes in bytes.
type Distribution struct {
	Sample int64 `json:"sample"` // documents looked at
	Min    int64 `json:"min"`
	Mean   int64 `json:"mean"`
	P50    int64 `json:"p50"`
	P95    int64 `json:"p95"`
	Max    int64 `json:"max"`
}

// Description is what a workload consists of, for people and programs.
type Description struct {
	Workload     string `json:"workload"`
	Seed         uint64 `json:"seed"`
	Size         int64  `json:"size"`
	Workers      int    `json:"workers"`
	OpsPerWorker int64  `json:"ops_per_worker"`
	Mix          string `json:"mix"`
	SequenceID   string `json:"sequence_id"` // of iteration 1

	// Block is the number of commands over which the mix is exact.
	Block      int64            `json:"block"`
	Operations []OperationShare `json:"operations"`
	Shapes     []Shape          `json:"shapes"`

	// DocumentBytes is of seeded documents, evenly spaced over the size;
	// SeededBytes is what seeding writes if all are of mean size.
	DocumentBytes Distribution `json:"document_bytes"`
	SeededBytes   int64        `json:"seeded_bytes"`

	// Documents inserted and, as long as there are any, deleted in 1,000
	// commands, and the difference.
	InsertedPer1000 float64 `json:"inserted_per_1000"`
	DeletedPer1000  float64 `json:"deleted_per_1000"`
	GrowthPer1000   float64 `json:"growth_per_1000"`
	// EmptyAfter is about how many commands of each worker it takes, with a
	// mix that deletes more than it inserts, until the documents have run
	// out and most deletes find nothing; 0: never.
	EmptyAfter int64 `json:"empty_after,omitempty"`
}

// sampleSize bounds the documents that Describe makes.
const sampleSize = 10_000

// Describe says what the workload consists of.
func (w *Workload) Describe() (*Description, error) {
	shapes, err := w.queryShapes()
	if err != nil {
		return nil, err
	}
	s := w.settings
	block := int64(len(w.block))
	d := &Description{
		Workload:        s.Workload,
		Seed:            s.Seed,
		Size:            s.Size,
		Workers:         s.Workers,
		OpsPerWorker:    s.OpsPerWorker,
		Mix:             s.Mix.String(),
		SequenceID:      w.SequenceID(1),
		Block:           block,
		Shapes:          shapes,
		DocumentBytes:   w.documentBytes(),
		InsertedPer1000: float64(1000*w.births) / float64(block),
		DeletedPer1000:  float64(1000*w.deaths) / float64(block),
		GrowthPer1000:   float64(1000*(w.births-w.deaths)) / float64(block),
	}
	if shrink := w.deaths - w.births; shrink > 0 {
		d.EmptyAfter = w.share(0) / shrink * block
	}
	d.SeededBytes = d.DocumentBytes.Mean * s.Size
	for t, n := range w.perBlock() {
		if n == 0 {
			continue
		}
		// Whole blocks and the rest apart, so that nothing overflows.
		blocks, rest := s.OpsPerWorker/block, s.OpsPerWorker%block
		d.Operations = append(d.Operations, OperationShare{
			Operation: OpType(t).String(),
			Percent:   float64(100*n) / float64(block),
			PerBlock:  n,
			PerPass:   int64(s.Workers) * (blocks*n + (rest*n+block/2)/block),
			Documents: w.documentsOf(OpType(t)),
		})
	}
	return d, nil
}

// perBlock counts the commands of a block.
func (w *Workload) perBlock() (counts [NumOpTypes]int64) {
	for _, t := range w.block {
		counts[t]++
	}
	return counts
}

func (w *Workload) documentsOf(t OpType) int64 {
	batch := int64(w.settings.FindBatch)
	switch t {
	case InsertMany:
		return int64(w.settings.InsertBatch)
	case UpdateMany, DeleteMany:
		return batch
	case Find:
		if limit := int64(w.settings.FindLimit); limit != 0 && limit < batch {
			return limit
		}
		return batch
	case Aggregate:
		return min(batch, int64(len(statuses)))
	}
	return 1
}

// queryShapes are the query shapes that the mix contains, in the order of the
// operation types.
func (w *Workload) queryShapes() ([]Shape, error) {
	var list []Shape
	g := w.Generator(1, 0)
	g.arrange(0)
	for t, n := range w.perBlock() {
		if n == 0 {
			continue
		}
		c := g.Command(int64(slices.Index(g.ops, OpType(t))))
		example, err := c.ExtJSON()
		if err != nil {
			return nil, err
		}
		list = append(list, Shape{Operation: c.Type.String(), Shape: c.Shape, Example: example})
	}
	return list, nil
}

func (w *Workload) documentBytes() Distribution {
	n := min(w.settings.Size, sampleSize)
	sizes := make([]int64, n)
	var buffer []byte
	var sum int64
	for i := range n {
		// i*Size/n without overflow: Size is at most 10^12, n 10^4.
		buffer = w.AppendDocument(buffer[:0], i*w.settings.Size/n)
		sizes[i] = int64(len(buffer))
		sum += sizes[i]
	}
	slices.Sort(sizes)
	return Distribution{
		Sample: n,
		Min:    sizes[0],
		Mean:   (sum + n/2) / n,
		P50:    sizes[(n-1)*50/100],
		P95:    sizes[(n-1)*95/100],
		Max:    sizes[n-1],
	}
}
