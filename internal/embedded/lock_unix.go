//go:build unix

package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile is dbPath/mongod.lock, held by one process at a time.
type lockFile struct{ file *os.File }

// errLocked is a dbPath that another process uses.
var errLocked = errors.New("another mongod instance is already running on the dbPath")

// acquireLock takes the lock of the folder, which the operating system gives
// back when the process ends, however it ends.
func acquireLock(dir *os.Root) (*lockFile, error) {
	path := filepath.Join(dir.Name(), "mongod.lock")
	file, err := dir.OpenFile("mongod.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock dbPath: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("DBPathInUse: unable to lock the lock file %s: %w", path, errLocked)
		}
		return nil, fmt.Errorf("lock dbPath %s: %w", dir.Name(), err)
	}
	if err = file.Truncate(0); err == nil {
		_, err = fmt.Fprintf(file, "%d\n", os.Getpid())
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock dbPath %s: %w", dir.Name(), err)
	}
	return &lockFile{file}, nil
}

// release empties the file, the sign of a clean end, and lets go of it.
func (l *lockFile) release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

// processUsage returns the CPU time of this process in microseconds, and its
// page faults that needed the disk.
func processUsage() (userUS, systemUS, majorFaults int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0, 0
	}
	return u.Utime.Nano() / 1000, u.Stime.Nano() / 1000, u.Majflt
}
