package gcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/mongo-sandbox/sandbox/internal/remote"
)

// Lock is somebody's hold on the state.
type Lock struct {
	ID  string // for force-unlock
	Who string // user@host
	// Stale says that it was left by a run on this machine that is gone.
	Stale bool
}

var (
	lockID  = regexp.MustCompile(`\bID:\s+(\S+)`)
	lockWho = regexp.MustCompile(`\bWho:\s+(\S+@\S+)`)
)

// lockOf finds the lock that errors of Terraform are about, nil if they are
// about something else.
func lockOf(diagnostics []Diagnostic) *Lock {
	for _, d := range diagnostics {
		if !strings.Contains(d.Summary, "state lock") {
			continue
		}
		lock := &Lock{}
		if match := lockID.FindStringSubmatch(d.Detail); match != nil {
			lock.ID = match[1]
		}
		if match := lockWho.FindStringSubmatch(d.Detail); match != nil {
			lock.Who = match[1]
		}
		return lock
	}
	return nil
}

// explainLock says in an error of Terraform what to do about the lock that it
// is about, if any.
func (p *Platform) explainLock(ctx context.Context, t *terraform, err error) error {
	failure := &TerraformError{}
	if !errors.As(err, &failure) {
		return err
	}
	lock := lockOf(failure.Diagnostics)
	if lock == nil {
		return err
	}
	failure.Lock = lock
	unlock := "force-unlock in " + p.workDir()
	if dir, err := remote.Quote(p.workDir()); err == nil {
		unlock = fmt.Sprintf("`cd %s && %s force-unlock -force %s`", dir, filepath.Base(t.path), lock.ID)
	}
	_, host, _ := strings.Cut(lock.Who, "@")
	if self, err := os.Hostname(); err == nil && host == self {
		lock.Stale = !p.stateInUse(ctx, filepath.Base(t.path))
	}
	switch {
	case lock.Stale:
		failure.Fix = "A run on this machine was killed and left the lock: nothing of it runs any more. Release it with " + unlock + " and run this again."
	case lock.ID == "":
		failure.Fix = "Another sandbox or Terraform works on this environment: wait for it."
	default:
		failure.Fix = fmt.Sprintf("Another sandbox or Terraform (%s) works on this environment: wait for it. If you know that it is gone, release the lock with %s.", lock.Who, unlock)
	}
	return failure
}

// stateInUse reports whether a Terraform on this machine works on the state
// that this environment has in a bucket, in whatever folder. A state that is a
// file cannot be locked by what is gone. In doubt it is in use.
func (p *Platform) stateInUse(ctx context.Context, program string) bool {
	backend, err := os.ReadFile(filepath.Join(p.workDir(), backendFile))
	if err != nil {
		return true
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(all, func(candidate *process.Process) bool {
		name, err := candidate.NameWithContext(ctx)
		if err != nil || !slices.Contains([]string{"tofu", "terraform", program}, name) {
			return false
		}
		dir, err := candidate.CwdWithContext(ctx)
		if err != nil {
			running, err := candidate.IsRunningWithContext(ctx)
			return running || err != nil // somebody else's
		}
		other, err := os.ReadFile(filepath.Join(dir, backendFile))
		return err == nil && bytes.Equal(other, backend)
	})
}
