package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lock keeps a second Up or Down out of the state folder. It is gone with
// the process that holds it, however that ends.
func (p *Platform) lock(ctx context.Context) (unlock func(), err error) {
	patience := time.Now().Add(5 * time.Second)
	for {
		if err := os.MkdirAll(p.dir, 0o700); err != nil {
			return nil, fmt.Errorf("lock %s: %w", p.dir, err)
		}
		f, holder, err := tryLock(p.path(lockFile))
		if errors.Is(err, os.ErrNotExist) {
			continue // a Down has removed the folder in between
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			if time.Now().After(patience) || len(commandLine(holder)) > 0 {
				return nil, fmt.Errorf("another sandbox command (pid %d) %w", holder, ErrWorking)
			}
			// The holder is gone, or has the lock so freshly that it has not
			// said so. A member that a killed Up was about to start keeps the
			// lock until it is executed, and has its command line then.
			select {
			case <-ctx.Done():
				return nil, fmt.Errorf("lock %s: %w", p.dir, ctx.Err())
			case <-time.After(pollEvery):
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", p.dir, err)
		}
		mine, err1 := f.Stat()
		there, err2 := os.Stat(p.path(lockFile))
		if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
			_ = f.Close() // locked a file that a Down has removed meanwhile
			continue
		}
		return func() { _ = f.Close() }, nil
	}
}

// ErrWorking means that an up or a down is under way.
var ErrWorking = errors.New("is working on this environment")

// ErrBusy means that a bench is measuring the environment.
var ErrBusy = errors.New("is measuring this environment")

// HoldForBench keeps a second bench away from the environment, since each
// would drop what the other has seeded and measure the other's load, and Up,
// which would be measured with it. Down and Status are not kept out. A second
// bench's error is ErrBusy, in the midst of an Up or Down it is ErrWorking, and
// without an inventory ErrNoEnvironment. Like the lock it is gone with the
// process.
func (p *Platform) HoldForBench(ctx context.Context) (release func(), err error) {
	unlock, err := p.lock(ctx) // not in the midst of an Up
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(p.path(inventoryFile)); errors.Is(err, os.ErrNotExist) {
		// A Down was quicker, and the lock has made the folder anew.
		_ = os.Remove(p.path(lockFile))
		_ = os.Remove(p.dir)
		return nil, fmt.Errorf("%w (no %s)", ErrNoEnvironment, p.path(inventoryFile))
	}
	return p.holdForBench()
}

// holdForBench is HoldForBench for who has the lock.
func (p *Platform) holdForBench() (release func(), err error) {
	f, holder, err := tryLock(p.path(benchFile))
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("another sandbox bench (pid %d) %w", holder, ErrBusy)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", p.dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// tryLock locks a file, which is made if need be, and writes our pid into it.
// When another has locked it, the error is EWOULDBLOCK and holder its pid, 0
// if it has not said it yet.
func tryLock(path string) (f *os.File, holder int, err error) {
	f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		text := make([]byte, 32)
		n, _ := f.Read(text)
		_ = f.Close()
		holder, _ = strconv.Atoi(strings.TrimSpace(string(text[:n])))
		return nil, holder, err
	}
	_ = f.Truncate(0) // the pid is for messages only
	_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
	return f, 0, nil
}
