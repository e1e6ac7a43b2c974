package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// The files of a run record that a mirror treats by name.
const (
	runFile     = "run.json"
	journalFile = "journal.ndjson"
	cellsDir    = "cells"
	idFile      = "id.json"
	cellFile    = "cell.json"
	partialFile = "partial.json"
)

// mirror keeps a run record here like the one on the load host. It only ever
// adds: a cell that is finished here stays as it is.
type mirror struct {
	dir     string // the record here
	journal *os.File
}

// openMirror opens the record in dir for mirroring, and keeps others from
// writing it, as record does: the error is record.ErrLocked then.
func openMirror(dir string) (*mirror, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = record.ErrLocked
		}
		return nil, err
	}
	return &mirror{dir: dir, journal: f}, nil
}

func (m *mirror) close() error { return m.journal.Close() }

// attemptFolder is a folder that record makes.
var attemptFolder = regexp.MustCompile(`^[a-z0-9=_-][a-z0-9=._-]*$`)

// fileName is a file in it.
var fileName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// listAttempts prints the attempts in a record's folder of cells, the
// finished ones as "finished NAME", and with $2 = all the others too.
const listAttempts = `set -u
cd -- "$1" 2>/dev/null || exit 0
for d in *; do
	if [ -e "$d/cell.json" ]; then echo "finished $d"
	elif [ "$2" = all ] && [ -d "$d" ]; then echo "partial $d"; fi
done`

const listFiles = `set -u
cd -- "$1" || exit 1
for f in *; do
	case $f in *.new) continue ;; esac # a write that was cut off
	if [ -f "$f" ]; then echo "$f"; fi
done`

// pull brings what is new in the record in remote: finished cells, the
// journal, the head; once the run there has ended also what was not
// finished. It returns how many finished cells came.
func (m *mirror) pull(ctx context.Context, host Host, remote, scratch string, ended bool) error {
	which := "finished"
	if ended {
		which = "all"
	}
	list, err := host.Output(ctx, listAttempts, remote+"/"+cellsDir, which)
	if err != nil {
		return fmt.Errorf("list cells: %w", err)
	}
	for line := range strings.Lines(list) {
		kind, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !attemptFolder.MatchString(name) {
			return fmt.Errorf("list cells: unexpected name %q", name)
		}
		last := cellFile
		if kind == "partial" {
			last = partialFile
		}
		if exists(filepath.Join(m.dir, cellsDir, name, last)) {
			continue
		}
		if err := m.pullCell(ctx, host, remote+"/"+cellsDir+"/"+name, name, last); err != nil {
			return fmt.Errorf("fetch cell %s: %w", name, err)
		}
	}
	if err := m.pullJournal(ctx, host, remote, scratch); err != nil {
		return fmt.Errorf("fetch journal: %w", err)
	}
	if err := m.pullHead(ctx, host, remote, scratch, ended); err != nil {
		return fmt.Errorf("fetch %s: %w", runFile, err)
	}
	return nil
}

// pullCell brings an attempt's files, the one that makes it what it is last.
func (m *mirror) pullCell(ctx context.Context, host Host, remote, name, last string) error {
	list, err := host.Output(ctx, listFiles, remote)
	if err != nil {
		return err
	}
	dir := filepath.Join(m.dir, cellsDir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	files := strings.Fields(list)
	found := false
	for _, file := range files {
		switch {
		case file == last:
			found = true
			continue
		case !fileName.MatchString(file):
			return fmt.Errorf("unexpected file %q", file)
		}
		if err := host.Get(ctx, remote+"/"+file, filepath.Join(dir, file)); err != nil {
			return err
		}
	}
	if found {
		if err := syncDir(dir); err != nil {
			return err
		}
		if err := host.Get(ctx, remote+"/"+last, filepath.Join(dir, last)); err != nil {
			return err
		}
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(dir)))
}

// removeLeftovers removes what a copy that was cut off left behind.
func removeLeftovers(dir string) error {
	leftovers, err := filepath.Glob(filepath.Join(dir, ".*-*"))
	for _, path := range leftovers {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// getCopy fetches a file that may change meanwhile.
func getCopy(ctx context.Context, host Host, remote, scratch, local string) error {
	if _, err := host.Output(ctx, `cp -- "$1" "$2"`, remote, scratch); err != nil {
		return err
	}
	return host.Get(ctx, scratch, local)
}

// pullJournal appends what is new. The journal there only grows, so what is
// here is its beginning.
func (m *mirror) pullJournal(ctx context.Context, host Host, remote, scratch string) error {
	tmp := filepath.Join(m.dir, ".journal-new")
	defer func() { _ = os.Remove(tmp) }()
	if err := getCopy(ctx, host, remote+"/"+journalFile, scratch, tmp); err != nil {
		return err
	}
	there, err := os.ReadFile(tmp)
	if err != nil {
		return err
	}
	there = there[:bytes.LastIndexByte(there, '\n')+1]
	here, err := m.readJournal()
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(there, here) {
		if bytes.HasPrefix(here, there) {
			return nil // fetched out of order
		}
		return errors.New("the journal on the load host is another run's")
	}
	if _, err := m.journal.Write(there[len(here):]); err != nil {
		return err
	}
	return m.journal.Sync()
}

func (m *mirror) readJournal() ([]byte, error) {
	if _, err := m.journal.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(m.journal)
}

// pullHead brings run.json. A run counts as finished here only when all of
// it is here.
func (m *mirror) pullHead(ctx context.Context, host Host, remote, scratch string, ended bool) error {
	tmp := filepath.Join(m.dir, ".run-new")
	defer func() { _ = os.Remove(tmp) }()
	if err := getCopy(ctx, host, remote+"/"+runFile, scratch, tmp); err != nil {
		return err
	}
	data, err := os.ReadFile(tmp)
	if err != nil {
		return err
	}
	var run record.Run
	if err := json.Unmarshal(data, &run); err != nil {
		return err
	}
	if run.Finished != nil && !ended {
		return nil
	}
	return errors.Join(os.Rename(tmp, filepath.Join(m.dir, runFile)), syncDir(m.dir))
}

// makeRecord makes the folder of a record that is to be pushed.
const makeRecord = `set -eu
umask 022
cd -- "$1"
shift
mkdir -p -- cells
for d in "$@"; do mkdir -p -- "cells/$d"; done`

// push gives a load host that knows nothing of the run what it must know to
// go on: the journal, what each finished cell was, and the head last.
func (m *mirror) push(ctx context.Context, host Host, remote string) error {
	paths, err := filepath.Glob(filepath.Join(m.dir, cellsDir, "*", cellFile))
	if err != nil {
		return err
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	if _, err := host.Output(ctx, `mkdir -p -- "$1"`, remote); err != nil {
		return err
	}
	if _, err := host.Output(ctx, makeRecord, append([]string{remote}, names...)...); err != nil {
		return err
	}
	send := func(elements ...string) error {
		data, err := os.ReadFile(filepath.Join(append([]string{m.dir}, elements...)...))
		if err != nil {
			return err
		}
		return host.Write(ctx, remote+"/"+strings.Join(elements, "/"), data)
	}
	for _, name := range names {
		if err := errors.Join(send(cellsDir, name, idFile), send(cellsDir, name, cellFile)); err != nil {
			return err
		}
	}
	journal, err := m.readJournal()
	if err != nil {
		return err
	}
	if err := host.Write(ctx, remote+"/"+journalFile, journal); err != nil {
		return err
	}
	return send(runFile)
}

// began reports whether the record here has anything that was measured.
func (m *mirror) began() (bool, error) {
	journal, err := m.readJournal()
	return len(journal) > 0, err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
