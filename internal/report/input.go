package report

import (
	"fmt"
	"iter"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// Input is a run record in memory.
type Input struct {
	Run   record.Run
	Cells []CellInput
	// Down holds, by target, why its remaining cells were given up.
	Down map[string]string
	// Failed holds, by CellID.String and attempt, why an attempt ended.
	Failed map[AttemptKey]string
	// Damage says what of the record could not be read, file by file.
	Damage []string
	// Runs are the runs that Join has put together, else none; subjects says
	// of every target of Run where it comes from.
	Runs     []RunHead
	subjects []subject
	// pool is there when Runs were put together as repetitions of one;
	// notPooled says why not, when that was asked.
	pool      *pooling
	notPooled string
	// Options are what was asked for beside the record, labels how the runs
	// were to be called; none unless that was asked for.
	Options Options
	labels  []string
}

// Options change what a record is asked, not what is in it.
type Options struct {
	// Baseline is the target to compare all others with; empty is the one
	// that the run was made with.
	Baseline string
	// Thresholds are to be checked.
	Thresholds []Threshold
	// Pool says whether several runs are taken as repetitions of one; ""
	// is PoolAuto.
	Pool string
}

// RequestError is a mistake in what was asked of a record, as opposed to one
// in the record.
type RequestError struct {
	Problem string
	Hint    string // what to do; may be empty
}

func (e *RequestError) Error() string { return e.Problem }

// AttemptKey names an attempt at a cell.
type AttemptKey struct {
	Cell    string
	Attempt int
}

// CellInput is one attempt at a cell. The sequences may be nil; each is
// walked at most once, while Build runs. Their errors, and those of the
// functions, are damage: they cost what they stand for and no more.
type CellInput struct {
	ID      record.CellID
	Attempt int
	Status  record.Status
	Cell    *record.Cell // nil when the attempt left no numbers
	Problem string       // why it is damaged
	// Settings are those the cell's commands came from, when they are not
	// the run's.
	Settings    *record.Settings
	Checkpoints func() (record.Checkpoints, error)
	Explains    func() ([]record.Explain, error)
	Intervals   iter.Seq2[record.Interval, error]
	Windows     iter.Seq2[record.Window, error]
	Samples     iter.Seq2[record.Sample, error]
	// Outcomes opens what the server answered; it may be called repeatedly.
	// Its error is fs.ErrNotExist when that was not recorded.
	Outcomes func() (*record.OutcomeReader, error)
}

// Load reads the run record in dir and compares what is in it. What is
// damaged is left out, with a warning that names the file; only a head that
// cannot be read is an error, and a *RequestError what o asks for and the
// record has not.
func Load(dir string, o Options) (*Comparison, error) {
	reader, err := record.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	defer func() { _ = reader.Close() }()
	input, err := read(reader)
	if err != nil {
		return nil, fmt.Errorf("report on %s: %w", dir, err)
	}
	input.Options = o
	comparison, err := Build(input)
	if err != nil {
		return nil, fmt.Errorf("report on %s: %w", dir, err)
	}
	return comparison, nil
}

// read takes in what is read at once; the reader must stay open until Build
// has walked the rest.
func read(reader *record.Reader) (Input, error) {
	input := Input{Run: reader.Run(), Down: map[string]string{}, Failed: map[AttemptKey]string{}}
	d := &damage{}
	for event := range sound(d, reader.Journal(), "why cells and targets failed may be missing") {
		switch event.Event {
		case record.TargetDown:
			input.Down[event.Target] = event.Reason
		case record.Resumed:
			clear(input.Down) // they get another try
		case record.CellFailed, record.Interrupted:
			input.Failed[AttemptKey{event.Cell, event.Attempt}] = event.Reason
		}
	}
	cells, err := reader.Cells()
	if err != nil {
		return input, err
	}
	for i := range cells {
		c := &cells[i]
		switch {
		case c.Status == record.Unknown:
			d.note(c.Problem, "the attempt is left out, nothing else says of which cell it is")
			continue
		case c.Problem != "" && c.Cell != nil:
			d.note(c.Problem, "the outcome beside it says which cell it is")
		case c.Problem != "":
			d.note(c.Problem, "the attempt has no numbers")
		}
		input.Cells = append(input.Cells, CellInput{
			ID: c.ID, Attempt: c.Attempt, Status: c.Status, Cell: c.Cell, Problem: c.Problem,
			Checkpoints: c.Checkpoints, Explains: c.Explains, Intervals: c.Intervals(), Windows: c.Windows(),
			Samples: c.Samples(), Outcomes: c.Outcomes,
		})
	}
	input.Damage = d.list()
	return input, nil
}
