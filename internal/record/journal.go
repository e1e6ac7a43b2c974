package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The events of a journal.
const (
	CellStarted  = "cell_started"
	CellFinished = "cell_finished"
	CellInvalid  = "cell_invalid" // finished, and worthless for the reason given
	CellFailed   = "cell_failed"  // given up for the reason given
	TargetDown   = "target_down"  // the target's remaining cells are skipped
	Interrupted  = "interrupted"  // by the user; the cell is run again on resume
	Resumed      = "resumed"
	RunFinished  = "run_finished"
)

// Event is one line of the journal.
type Event struct {
	At    time.Time `json:"at"`
	Event string    `json:"event"`
	// Target is set by events about a whole target.
	Target string `json:"target,omitempty"`
	// Cell is CellID.String, set with Attempt by events about a cell.
	Cell    string `json:"cell,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// ErrLocked is the refusal to write a run that another process is writing.
var ErrLocked = errors.New("another process is writing this run")

// journal is the log of a run and, by the lock on it, the right to write to
// the run.
type journal struct{ file *os.File }

// openJournal opens or creates the journal, takes the lock, and cuts off a
// torn last line. The lock ends with the process, however it ends.
func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	if err := prepareJournal(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open journal: %w", err)
	}
	return &journal{f}, nil
}

func prepareJournal(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	mine, err1 := f.Stat()
	there, err2 := os.Stat(f.Name())
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		return ErrLocked // by one that could not create the run and has removed the file
	}
	data, err := io.ReadAll(io.LimitReader(f, maxJournal+1))
	if err != nil {
		return err
	}
	if len(data) > maxJournal {
		return fmt.Errorf("larger than %d bytes", maxJournal)
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	if whole == len(data) {
		return nil
	}
	return errors.Join(f.Truncate(int64(whole)), f.Sync())
}

// append adds an event and waits until it is on the disk.
func (j *journal) append(e Event) error {
	e.At = e.At.UTC()
	e.Reason = Redact(e.Reason)
	line, err := marshal(e, "")
	if err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	if _, err := j.file.Write(line); err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	if err := j.file.Sync(); err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	return nil
}

func (j *journal) close() error { return j.file.Close() }
