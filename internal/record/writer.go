package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The files of a run and of a cell.
const (
	runFile         = "run.json"
	journalFile     = "journal.ndjson"
	cellsDir        = "cells"
	idFile          = "id.json"
	cellFile        = "cell.json"
	partialFile     = "partial.json"
	intervalsFile   = "intervals.ndjson"
	windowsFile     = "windows.ndjson"
	latencyFile     = "latency.hlog"
	checkpointsFile = "checkpoints.json"
	membersFile     = "members.ndjson"
	explainFile     = "explain.json"
	outcomesFile    = "outcomes.csv.zst"
)

// NewID names a run: sortable by its start in UTC, to the second, and safe
// as a folder's name.
func NewID(started time.Time, environment string) string {
	id := started.UTC().Format("20060102-150405")
	if environment != "" {
		id += "-" + safeName(environment)
	}
	return id
}

// safeName keeps lower-case letters, digits, '-', '_' and '.' (not in
// front), and writes every other byte as =XX, so that different names stay
// different on every file system.
func safeName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	const longest = 120
	if b.Len() <= longest {
		return b.String()
	}
	sum := sha256.Sum256([]byte(name))
	return b.String()[:longest-17] + "=" + hex.EncodeToString(sum[:8])
}

// dirName is the folder of an attempt. The variant's underscores are escaped:
// with them the parts could be told apart in two ways.
func dirName(id CellID, attempt int) string {
	variant := strings.ReplaceAll(safeName(id.Variant), "_", "=5F")
	return fmt.Sprintf("%s_%d_%s_%d_%d", safeName(id.Target), id.Size, variant, id.Iteration, attempt)
}

// attemptID is the content of id.json.
type attemptID struct {
	CellID
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
}

// Writer appends to one run record. Its methods may be called from several
// goroutines.
type Writer struct {
	dir     string
	journal *journal

	mu       sync.Mutex
	run      Run
	attempts map[CellID]int // highest attempt so far
}

// Create starts a run record in dir, which must not hold one. It fails with
// ErrLocked when another process is creating it, and with an error that is
// fs.ErrExist when there is a record already. SchemaVersion is set; what may
// hold a password in run is redacted. When it fails it leaves nothing of its
// own behind.
func Create(dir string, run Run) (*Writer, error) {
	cells := filepath.Join(dir, cellsDir)
	undo := func() {
		_ = os.Remove(cells) // unless there is something in it
		_ = os.Remove(dir)
	}
	if taken(cells) {
		undo = func() {} // by another, or by a record
	}
	if err := os.MkdirAll(cells, dirMode); err != nil {
		undo()
		return nil, fmt.Errorf("create run record: %w", err)
	}
	w, err := lockRun(dir)
	if err != nil {
		if !errors.Is(err, ErrLocked) {
			undo()
		}
		return nil, fmt.Errorf("create run record %s: %w", dir, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, runFile)); !errors.Is(err, fs.ErrNotExist) {
		_ = w.Close()
		return nil, fmt.Errorf("create run record %s: %w", dir, errors.Join(err, fs.ErrExist))
	}
	if err := errors.Join(w.SetRun(run), syncDir(filepath.Dir(dir))); err != nil {
		// Removed while locked: nobody else has begun to use it.
		_ = os.Remove(filepath.Join(dir, runFile))
		_ = os.Remove(filepath.Join(dir, journalFile))
		undo()
		_ = w.Close()
		return nil, fmt.Errorf("create run record %s: %w", dir, err)
	}
	return w, nil
}

// Resume opens the run record in dir to go on with it, and logs that. It
// fails with ErrLocked when another process is writing it. Cells that were
// finished without the journal hearing of it are added to the journal.
func Resume(dir string, at time.Time) (*Writer, error) {
	w, err := lockRun(dir)
	if err != nil {
		return nil, fmt.Errorf("resume run record %s: %w", dir, err)
	}
	if err := w.recover(at); err != nil {
		_ = w.Close()
		return nil, fmt.Errorf("resume run record %s: %w", dir, err)
	}
	return w, nil
}

func lockRun(dir string) (*Writer, error) {
	j, err := openJournal(filepath.Join(dir, journalFile))
	if err != nil {
		return nil, err
	}
	return &Writer{dir: dir, journal: j, attempts: map[CellID]int{}}, nil
}

// recover takes stock of what an earlier process left.
func (w *Writer) recover(at time.Time) error {
	leftovers, err := filepath.Glob(filepath.Join(w.dir, cellsDir, ".new-*"))
	if err != nil {
		return err
	}
	for _, path := range leftovers {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	r, err := Open(w.dir)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	w.run = r.Run()

	logged := map[string]bool{}
	for e, err := range r.Journal() {
		if err != nil {
			continue // at worst an event is logged twice
		}
		if e.Event == CellFinished || e.Event == CellInvalid {
			logged[fmt.Sprint(e.Cell, "#", e.Attempt)] = true
		}
	}
	cells, err := r.Cells()
	if err != nil {
		return err
	}
	for _, c := range cells {
		w.attempts[c.ID] = max(w.attempts[c.ID], c.Attempt)
		if c.Finished() && !logged[fmt.Sprint(c.ID, "#", c.Attempt)] {
			e := finishedEvent(at, c.Cell)
			if err := w.journal.append(e); err != nil {
				return err
			}
		}
	}
	return w.journal.append(Event{At: at, Event: Resumed})
}

// Dir is the record's folder.
func (w *Writer) Dir() string { return w.dir }

// Run returns the head of the record.
func (w *Writer) Run() Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.run
}

// SetRun replaces the head of the record in one step.
func (w *Writer) SetRun(run Run) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	run.SchemaVersion = SchemaVersion
	run.CommandLine = redactArgs(run.CommandLine)
	run.Warnings = redactAll(run.Warnings)
	files := make([]InputFile, len(run.Files))
	for i, f := range run.Files {
		f.Text = Redact(f.Text)
		files[i] = f
	}
	run.Files = files
	run.Variables = redactVariables(run.Variables)
	if err := writeJSON(filepath.Join(w.dir, runFile), run); err != nil {
		return err
	}
	w.run = run
	return nil
}

// Log appends an event to the journal and waits until it is on the disk.
func (w *Writer) Log(e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.journal.append(e)
}

// Close ends writing and gives up the lock.
func (w *Writer) Close() error { return w.journal.close() }

// Begin starts the next attempt at a cell and logs it. The caller ends it
// with exactly one of Finish and Abandon.
func (w *Writer) Begin(id CellID, at time.Time) (*CellWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	attempt := w.attempts[id] + 1
	cells := filepath.Join(w.dir, cellsDir)
	dir := filepath.Join(cells, dirName(id, attempt))
	for taken(dir) { // by an attempt that cannot tell any more what it is
		attempt++
		dir = filepath.Join(cells, dirName(id, attempt))
	}
	// The folder appears together with its identity, in one step.
	fresh, err := os.MkdirTemp(cells, ".new-")
	if err != nil {
		return nil, fmt.Errorf("begin cell %s: %w", id, err)
	}
	err = errors.Join(
		os.Chmod(fresh, dirMode),
		writeJSON(filepath.Join(fresh, idFile), attemptID{CellID: id, Attempt: attempt, Started: at.UTC()}),
	)
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if err != nil {
		_ = os.RemoveAll(fresh)
		return nil, fmt.Errorf("begin cell %s: %w", id, err)
	}
	w.attempts[id] = attempt
	err = errors.Join(syncDir(cells),
		w.journal.append(Event{At: at, Event: CellStarted, Cell: id.String(), Attempt: attempt}))
	if err != nil {
		return nil, fmt.Errorf("begin cell %s: %w", id, err)
	}
	file := func(name string) *lineFile { return &lineFile{path: filepath.Join(dir, name)} }
	return &CellWriter{
		run: w, id: id, attempt: attempt, dir: dir,
		intervals: file(intervalsFile), windows: file(windowsFile),
		latency: file(latencyFile), samples: file(membersFile), outcomes: file(outcomesFile),
	}, nil
}

func taken(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// CellWriter appends to one attempt at a cell. Its methods may be called
// from several goroutines, Finish and Abandon after all others.
type CellWriter struct {
	run     *Writer
	id      CellID
	attempt int
	dir     string

	mu                                             sync.Mutex
	intervals, windows, latency, samples, outcomes *lineFile
}

// ID names the cell.
func (c *CellWriter) ID() CellID { return c.id }

// Attempt counts the tries at this cell, from 1.
func (c *CellWriter) Attempt() int { return c.attempt }

// Interval appends a line to intervals.ndjson.
func (c *CellWriter) Interval(v Interval) error { return c.append(c.intervals, v) }

// Window appends a line to windows.ndjson.
func (c *CellWriter) Window(v Window) error { return c.append(c.windows, v) }

// Sample appends a line to members.ndjson.
func (c *CellWriter) Sample(v Sample) error {
	v.At = v.At.UTC()
	v.Error = Redact(v.Error)
	return c.append(c.samples, v)
}

func (c *CellWriter) append(f *lineFile, v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return f.append(v)
}

// Latency is the writer of latency.hlog. Write whole lines.
func (c *CellWriter) Latency() io.Writer { return latencyWriter{c} }

type latencyWriter struct{ cell *CellWriter }

func (l latencyWriter) Write(data []byte) (int, error) {
	l.cell.mu.Lock()
	defer l.cell.mu.Unlock()
	return l.cell.latency.Write(data)
}

// Outcomes is the writer of outcomes.csv.zst. Every write of whole lines
// becomes a zstd frame of its own, so that a sudden end loses no frame that
// was written; zstdcat reads them as one file.
func (c *CellWriter) Outcomes() (io.Writer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("record outcomes: %w", err)
	}
	return &outcomesWriter{c, encoder}, nil
}

type outcomesWriter struct {
	cell    *CellWriter
	encoder *zstd.Encoder
}

func (o *outcomesWriter) Write(lines []byte) (int, error) {
	o.cell.mu.Lock()
	defer o.cell.mu.Unlock()
	if _, err := o.cell.outcomes.Write(o.encoder.EncodeAll(lines, nil)); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// Checkpoints writes checkpoints.json.
func (c *CellWriter) Checkpoints(v Checkpoints) error {
	return writeJSON(filepath.Join(c.dir, checkpointsFile), v)
}

// Explains writes explain.json.
func (c *CellWriter) Explains(v []Explain) error {
	return writeJSON(filepath.Join(c.dir, explainFile), v)
}

// Finish ends the attempt: everything written is made durable, then
// cell.json appears, then the journal hears of it, as cell_finished or, when
// cell is not valid, cell_invalid. The cell's identity and attempt are set.
func (c *CellWriter) Finish(cell Cell, at time.Time) error {
	cell = c.identify(cell)
	if err := c.sync(); err != nil {
		return fmt.Errorf("finish cell %s: %w", c.id, err)
	}
	if err := writeJSON(filepath.Join(c.dir, cellFile), cell); err != nil {
		return fmt.Errorf("finish cell %s: %w", c.id, err)
	}
	return c.run.Log(finishedEvent(at, &cell))
}

func finishedEvent(at time.Time, cell *Cell) Event {
	e := Event{At: at, Event: CellFinished, Cell: cell.String(), Attempt: cell.Attempt}
	if !cell.Valid {
		e.Event = CellInvalid
		e.Reason = strings.Join(cell.InvalidReasons, "; ")
	}
	return e
}

// Abandon ends an attempt that is not finished. What was measured is kept;
// cell, when not nil, is kept as partial.json. The event is Interrupted or
// CellFailed.
func (c *CellWriter) Abandon(cell *Cell, event, reason string, at time.Time) error {
	err := c.sync()
	if cell != nil {
		partial := c.identify(*cell)
		err = errors.Join(err, writeJSON(filepath.Join(c.dir, partialFile), partial))
	}
	err = errors.Join(err, c.run.Log(Event{At: at, Event: event, Cell: c.id.String(), Attempt: c.attempt, Reason: reason}))
	if err != nil {
		return fmt.Errorf("abandon cell %s: %w", c.id, err)
	}
	return nil
}

func (c *CellWriter) identify(cell Cell) Cell {
	cell.CellID, cell.Attempt = c.id, c.attempt
	cell.Started = cell.Started.UTC()
	cell.InvalidReasons = redactAll(cell.InvalidReasons)
	cell.Warnings = redactAll(cell.Warnings)
	return cell
}

func (c *CellWriter) sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.intervals.close(), c.windows.close(), c.latency.close(), c.samples.close(), c.outcomes.close())
}

func redactAll(texts []string) []string {
	if texts == nil {
		return nil
	}
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = Redact(text)
	}
	return out
}
