package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
var attemptFolder = regexp.MustCompile(`^[A-Za-z0-9=_-][A-Za-z0-9=._-]*$`)

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

// bundle writes the files named $4…, below $1, and of directories the files in
// them, into the file $3 of the folder $2, which is emptied first: of each a line with its path and size, and then
// its bytes. What grows meanwhile is cut off where it was, and what a write
// that was cut off left is passed over.
const bundle = `set -eu
cd -- "$1"
rm -rf -- "$2"
mkdir -p -- "$2"
out=$2/$3
shift 3
: >"$out"
add() {
	size=$(wc -c <"$1")
	printf '%s %s\n' "$1" "$((size))" >>"$out"
	head -c "$size" -- "$1" >>"$out"
}
for path in "$@"; do
	if [ -f "$path" ]; then add "$path"; continue; fi
	for f in "$path"/*; do
		case $f in *.new) continue ;; esac
		if [ -f "$f" ]; then add "$f"; fi
	done
done`

// pull brings what is new in the record in remote: finished cells, the
// journal, the head; once the run there has ended also what was not
// finished. Scratch is the path of a folder there to bundle files in.
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
		if err := m.pullCell(ctx, host, remote, scratch, name, last); err != nil {
			return fmt.Errorf("fetch cell %s: %w", name, err)
		}
	}
	var journal, head []byte
	err = m.fetch(ctx, host, remote, scratch, []string{journalFile, runFile}, func(path string, content io.Reader) (err error) {
		if path == journalFile {
			journal, err = io.ReadAll(content)
		} else {
			head, err = io.ReadAll(content)
		}
		return err
	})
	if err == nil {
		err = m.addJournal(journal)
	}
	if err == nil {
		err = m.setHead(head, ended)
	}
	if err != nil {
		return fmt.Errorf("fetch journal and %s: %w", runFile, err)
	}
	return nil
}

// fetch brings files in one piece and hands them to take, one by one.
func (m *mirror) fetch(ctx context.Context, host Host, remote, scratch string, paths []string, take func(path string, content io.Reader) error) error {
	// A bundle that was given up may still be growing there: no two have the
	// same name.
	name := rand.Text()
	if _, err := host.Output(ctx, bundle, append([]string{remote, scratch, name}, paths...)...); err != nil {
		return err
	}
	local := filepath.Join(m.dir, ".fetched")
	defer func() { _ = os.Remove(local) }()
	if err := host.Get(ctx, scratch+"/"+name, local); err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	for {
		head, err := r.ReadString('\n')
		if errors.Is(err, io.EOF) && head == "" {
			return nil
		}
		path, text, _ := strings.Cut(strings.TrimSuffix(head, "\n"), " ")
		size, numberErr := strconv.ParseInt(text, 10, 64)
		if err != nil || numberErr != nil || size < 0 {
			return fmt.Errorf("unexpected content %q", head)
		}
		content := &io.LimitedReader{R: r, N: size}
		if err := take(path, content); err != nil {
			return err
		}
		if content.N != 0 {
			return fmt.Errorf("%s is %d bytes too short", path, content.N)
		}
	}
}

// pullCell brings an attempt's files; the one that makes it what it is
// appears last.
func (m *mirror) pullCell(ctx context.Context, host Host, remote, scratch, name, last string) error {
	dir := filepath.Join(m.dir, cellsDir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	prefix := cellsDir + "/" + name + "/"
	held := filepath.Join(dir, "."+last)
	found := false
	err := m.fetch(ctx, host, remote, scratch, []string{cellsDir + "/" + name}, func(path string, content io.Reader) error {
		file, ok := strings.CutPrefix(path, prefix)
		switch {
		case !ok || !fileName.MatchString(file):
			return fmt.Errorf("unexpected file %q", path)
		case file == last:
			found = true
			return writeSynced(held, content)
		}
		return writeSynced(filepath.Join(dir, file), content)
	})
	if err == nil && found {
		err = errors.Join(syncDir(dir), os.Rename(held, filepath.Join(dir, last)))
	}
	return errors.Join(err, syncDir(dir), syncDir(filepath.Dir(dir)))
}

func writeSynced(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}

// addJournal appends what is new. The journal there only grows, so what is
// here is its beginning.
func (m *mirror) addJournal(there []byte) error {
	there = there[:bytes.LastIndexByte(there, '\n')+1]
	here, err := m.readJournal()
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(there, here) {
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

// setHead replaces run.json. A run counts as finished here only when all of
// it is here.
func (m *mirror) setHead(there []byte, ended bool) error {
	var run record.Run
	if err := json.Unmarshal(there, &run); err != nil {
		return err
	}
	if run.Finished != nil && !ended {
		return nil
	}
	tmp := filepath.Join(m.dir, "."+runFile)
	return errors.Join(writeSynced(tmp, bytes.NewReader(there)), os.Rename(tmp, filepath.Join(m.dir, runFile)), syncDir(m.dir))
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
