package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on what is read. A document's limit on nesting characters bounds
// what its bytes can grow to in memory.
const (
	maxRunBytes        = 16 << 20
	maxCellBytes       = 8 << 20
	maxExplainBytes    = 16 << 20
	maxCheckpointBytes = 64 << 20
	maxJournal         = 64 << 20
	maxLatencyLog      = 1 << 30
	maxLineBytes       = 4 << 20
	maxAttempts        = 20_000
	maxCellsBytes      = 256 << 20 // all cell.json together
	maxDocumentNodes   = 200_000
	maxLineNodes       = 2_000
	maxWorkers         = 1024
)

// ErrNoRun is the answer when there is no run record to be found.
var ErrNoRun = errors.New("no run record")

// Newest returns the folder of the newest run under runsDir, by its name,
// for which keep says yes; a nil keep takes any. Folders without run.json are
// no run records. The error is ErrNoRun when there is none.
func Newest(runsDir string, keep func(Run) bool) (string, error) {
	entries, err := os.ReadDir(runsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look for runs: %w", err)
	}
	for _, entry := range slices.Backward(entries) {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(runsDir, entry.Name())
		run, err := readHead(os.DirFS(dir))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return "", fmt.Errorf("run record %s: %w", dir, err)
		case keep == nil || keep(run):
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w in %s", ErrNoRun, runsDir)
}

// Reader reads one run record.
type Reader struct {
	files fs.FS
	close func() error
	run   Run
}

// Open reads the head of the run record in dir. A record of a newer schema
// version is refused.
func Open(dir string) (*Reader, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open run record: %w", err)
	}
	r, err := openFS(root.FS())
	if err != nil {
		_ = root.Close()
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w (%w)", ErrNoRun, err)
		}
		return nil, fmt.Errorf("open run record %s: %w", dir, err)
	}
	r.close = root.Close
	return r, nil
}

func openFS(files fs.FS) (*Reader, error) {
	run, err := readHead(files)
	if err != nil {
		return nil, err
	}
	return &Reader{files: files, run: run, close: func() error { return nil }}, nil
}

func readHead(files fs.FS) (Run, error) {
	var run Run
	data, err := readFile(files, runFile, maxRunBytes)
	if err != nil {
		return run, err
	}
	// The version comes first: the rest of a newer form may not even parse.
	var head struct {
		SchemaVersion int `json:"schema_version"`
	}
	if err := decode(data, &head, maxDocumentNodes); err != nil {
		return run, fmt.Errorf("%s: %w", runFile, err)
	}
	if head.SchemaVersion < 1 {
		return run, fmt.Errorf("%s: schema version %d: not a run record", runFile, head.SchemaVersion)
	}
	if head.SchemaVersion > SchemaVersion {
		return run, fmt.Errorf("%s: schema version %d is newer than the %d that this program reads: use a newer program",
			runFile, head.SchemaVersion, SchemaVersion)
	}
	if err := decode(data, &run, maxDocumentNodes); err != nil {
		return run, fmt.Errorf("%s: %w", runFile, err)
	}
	return run, nil
}

// Close ends reading; the record's values stay good.
func (r *Reader) Close() error { return r.close() }

// Run is the head of the record.
func (r *Reader) Run() Run { return r.run }

// Journal yields the events in their order, and an error in the place of a
// line that cannot be used.
func (r *Reader) Journal() iter.Seq2[Event, error] {
	return lines[Event](r.files, journalFile)
}

// Status says what an attempt is worth.
type Status string

// The statuses of an attempt.
const (
	// Counted: finished and valid, the latest such attempt at its cell.
	Counted Status = "counted"
	// Superseded: finished and valid, and there is a later such attempt.
	Superseded Status = "superseded"
	// Invalid: finished, and something happened that makes it worthless.
	Invalid Status = "invalid"
	// Partial: not finished; interrupted, failed, killed or still running.
	Partial Status = "partial"
	// Damaged: finished, and its cell.json cannot be used.
	Damaged Status = "damaged"
	// Unknown: its id.json cannot be used, and nothing else says which cell
	// it is; ID and Attempt are zero.
	Unknown Status = "unknown"
)

// CellRecord is one attempt at a cell.
type CellRecord struct {
	ID      CellID
	Attempt int
	Status  Status
	// Cell is the outcome; nil when Damaged or Unknown, or when a Partial
	// attempt left none.
	Cell *Cell
	// Problem names the file that cannot be used and says why; empty when
	// there is none. Files read later, such as intervals.ndjson, have errors
	// of their own.
	Problem string

	files fs.FS
	dir   string
}

// Finished reports whether the attempt came to its end, valid or not.
func (c *CellRecord) Finished() bool {
	return c.Status == Counted || c.Status == Superseded || c.Status == Invalid
}

// Cells returns all attempts at all cells, sorted by size, variant,
// iteration, target and attempt; those that are Unknown come first. At most
// one attempt of a cell is Counted.
func (r *Reader) Cells() ([]CellRecord, error) {
	entries, err := fs.ReadDir(r.files, cellsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read cells: %w", err)
	}
	if len(entries) > maxAttempts {
		return nil, fmt.Errorf("read cells: %d folders, more than %d", len(entries), maxAttempts)
	}
	var cells []CellRecord
	budget := int64(maxCellsBytes)
	for _, entry := range entries {
		if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		dir := path.Join(cellsDir, entry.Name())
		c, size, err := readCell(r.files, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no id.json: nothing that a writer of records left
		}
		if err != nil {
			return nil, fmt.Errorf("read cells: %s: %w", dir, err)
		}
		if budget -= size; budget < 0 {
			return nil, fmt.Errorf("read cells: more than %d bytes", maxCellsBytes)
		}
		cells = append(cells, c)
	}
	slices.SortFunc(cells, compareCells)
	latest := map[CellID]int{}
	for i := range cells {
		if cells[i].Status != Counted {
			continue
		}
		if earlier, found := latest[cells[i].ID]; found {
			cells[earlier].Status = Superseded
		}
		latest[cells[i].ID] = i
	}
	return cells, nil
}

func readCell(files fs.FS, dir string) (CellRecord, int64, error) {
	c := CellRecord{files: files, dir: dir, Status: Counted}
	cell, size, err := readOutcome(files, dir, cellFile)
	if errors.Is(err, fs.ErrNotExist) {
		c.Status = Partial
		if cell, size, err = readOutcome(files, dir, partialFile); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	id, idErr := readIdentity(files, dir)
	switch {
	case idErr == nil:
		if cell != nil && (cell.CellID != id.CellID || cell.Attempt != id.Attempt) {
			name := cellFile
			if c.Status == Partial {
				name = partialFile
			}
			cell, err = nil, fmt.Errorf("%s/%s: it says it is attempt %d at %s", dir, name, cell.Attempt, cell.CellID)
		}
	case cell != nil && path.Base(dir) == dirName(cell.CellID, cell.Attempt):
		// The outcome and the folder's name agree on what id.json said.
		id, err = attemptID{CellID: cell.CellID, Attempt: cell.Attempt}, idErr
	case errors.Is(idErr, fs.ErrNotExist):
		return c, 0, idErr
	default:
		c.Status, c.Problem = Unknown, idErr.Error()
		return c, 0, nil
	}
	c.ID, c.Attempt, c.Cell = id.CellID, id.Attempt, cell
	if err != nil {
		c.Problem = err.Error()
	}
	switch {
	case c.Status == Partial:
	case cell == nil:
		c.Status = Damaged
	case !cell.Valid:
		c.Status = Invalid
	}
	return c, size, nil
}

// readOutcome reads cell.json or partial.json; the size is that of the file.
func readOutcome(files fs.FS, dir, name string) (*Cell, int64, error) {
	data, err := readFile(files, path.Join(dir, name), maxCellBytes)
	if err != nil {
		return nil, 0, err
	}
	cell := &Cell{}
	if err := decode(data, cell, maxDocumentNodes); err != nil {
		return nil, int64(len(data)), fmt.Errorf("%s/%s: %w", dir, name, err)
	}
	return cell, int64(len(data)), nil
}

func readIdentity(files fs.FS, dir string) (id attemptID, err error) {
	data, err := readFile(files, path.Join(dir, idFile), maxLineBytes)
	if err != nil {
		return id, err
	}
	if err := decode(data, &id, maxLineNodes); err != nil {
		return id, fmt.Errorf("%s/%s: %w", dir, idFile, err)
	}
	return id, nil
}

func compareCells(a, b CellRecord) int {
	return cmp.Or(
		cmp.Compare(a.ID.Size, b.ID.Size),
		cmp.Compare(a.ID.Variant, b.ID.Variant),
		cmp.Compare(a.ID.Iteration, b.ID.Iteration),
		cmp.Compare(a.ID.Target, b.ID.Target),
		cmp.Compare(a.Attempt, b.Attempt),
		cmp.Compare(a.dir, b.dir),
	)
}

// Intervals yields the seconds of the cell in their order, reading as it
// goes, and an error in the place of a line that cannot be used.
func (c *CellRecord) Intervals() iter.Seq2[Interval, error] {
	return lines[Interval](c.files, path.Join(c.dir, intervalsFile))
}

// Windows yields the windows of the cell in their order, reading as it goes,
// and an error in the place of a line that cannot be used.
func (c *CellRecord) Windows() iter.Seq2[Window, error] {
	return lines[Window](c.files, path.Join(c.dir, windowsFile))
}

// Samples yields the readings of the members in their order, reading as it
// goes, and an error in the place of a line that cannot be used.
func (c *CellRecord) Samples() iter.Seq2[Sample, error] {
	return lines[Sample](c.files, path.Join(c.dir, membersFile))
}

// LatencyLog opens latency.hlog, cut off after 1 GiB. The error is
// fs.ErrNotExist when the attempt has none.
func (c *CellRecord) LatencyLog() (io.ReadCloser, error) {
	f, err := openFile(c.files, path.Join(c.dir, latencyFile))
	if err != nil {
		return nil, fmt.Errorf("open latency log: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.LimitReader(f, maxLatencyLog), f}, nil
}

// Explains returns the sampled plans; none when the attempt has none.
func (c *CellRecord) Explains() ([]Explain, error) {
	data, err := readFile(c.files, path.Join(c.dir, explainFile), maxExplainBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var explains []Explain
	if err == nil {
		err = decode(data, &explains, maxDocumentNodes)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", c.dir, explainFile, err)
	}
	return explains, nil
}

// openFile opens a regular file. Anything else, such as a pipe that would
// block for ever, is refused.
func openFile(files fs.FS, name string) (fs.File, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return files.Open(name)
}

func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	f, err := openFile(files, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, nil
}

// decode parses one JSON document. Braces and brackets are counted first: a
// short text of many small objects would take much memory.
func decode(data []byte, v any, maxNodes int) error {
	if n := bytes.Count(data, []byte("{")) + bytes.Count(data, []byte("[")); n > maxNodes {
		return fmt.Errorf("%d objects and arrays, more than %d", n, maxNodes)
	}
	return json.Unmarshal(data, v)
}

// lines yields the lines of an .ndjson file. A file that is not there has
// none; a last line without a newline is torn and passed over. An error
// stands in the place of a line that cannot be decoded; one that comes from
// reading is the last.
func lines[T any](files fs.FS, name string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		f, err := openFile(files, name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		var none T
		if err != nil {
			yield(none, fmt.Errorf("read %s: %w", name, err))
			return
		}
		defer func() { _ = f.Close() }()
		scanner := bufio.NewReaderSize(f, 64<<10)
		var line []byte
		for number := 1; ; number++ {
			line, err = readLine(scanner, line[:0])
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(none, fmt.Errorf("read %s: line %d: %w", name, number, err))
				return
			}
			var v T
			if err = decode(line, &v, maxLineNodes); err != nil {
				v, err = none, fmt.Errorf("read %s: line %d: %w", name, number, err)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// readLine appends the next line to buf. A line that ends without a newline
// is io.EOF.
func readLine(r *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(buf)+len(part) > maxLineBytes {
			return buf, fmt.Errorf("longer than %d bytes", maxLineBytes)
		}
		buf = append(buf, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}
