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
		f, err := os.OpenFile(p.path(lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			continue // a Down has removed the folder in between
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", p.dir, err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			text := make([]byte, 32)
			n, _ := f.Read(text)
			_ = f.Close()
			holder, _ := strconv.Atoi(strings.TrimSpace(string(text[:n])))
			if time.Now().After(patience) || len(commandLine(holder)) > 0 {
				return nil, fmt.Errorf("another sandbox command (pid %d) is working on this environment: wait for it to end", holder)
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
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", p.dir, err)
		}
		mine, err1 := f.Stat()
		there, err2 := os.Stat(p.path(lockFile))
		if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
			_ = f.Close() // locked a file that a Down has removed meanwhile
			continue
		}
		_ = f.Truncate(0) // the pid is for messages only
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid())
		return func() { _ = f.Close() }, nil
	}
}
