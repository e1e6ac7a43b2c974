package remote

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Error is what every function and method that talks to a machine returns:
// "ssh to HOST: cause". The cause is often one of the other types here.
type Error struct {
	Host string
	Err  error
}

func (e *Error) Error() string { return "ssh to " + e.Host + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wrap adds the machine's name, once.
func wrap(m Machine, err error) error {
	var already *Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &Error{Host: m.name(), Err: err}
}

// AuthError says that the machine answers and does not accept the key.
type AuthError struct {
	User string
	Key  string // fingerprint and file
	Err  error
}

func (e *AuthError) Error() string {
	return fmt.Sprintf("the machine refuses key %s for user %s: check that the key is in this user's authorized_keys", e.Key, e.User)
}

// Unwrap returns what the SSH library said.
func (e *AuthError) Unwrap() error { return e.Err }

// HostKeyError says that the machine's host key is not the pinned one.
type HostKeyError struct {
	Host   string   // as known_hosts writes it
	File   string   // the known_hosts file
	Line   int      // of the pinned key, the first if there are several
	Pinned []string // fingerprints
	Got    string   // fingerprint
}

func (e *HostKeyError) Error() string {
	return fmt.Sprintf("host key of %s has changed: %s is pinned (%s:%d), %s was offered; "+
		"another machine may be answering in its place; if it was rebuilt, remove the old key with: ssh-keygen -f %s -R %s",
		e.Host, strings.Join(e.Pinned, ", "), e.File, e.Line, e.Got, quoteWord(e.File), quoteWord(e.Host))
}

// UnreachableError says that no SSH server answered as one should.
type UnreachableError struct {
	Address string
	Err     error
}

func (e *UnreachableError) Error() string { return "cannot reach " + e.Address + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// LostError says that the connection ended under a running operation.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "connection lost: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

// ExitError says that a command ran and failed.
type ExitError struct {
	Command string // what Command.Name or its first word says
	Status  int    // exit status; 128 + signal number when a signal ended it
	Signal  string // without SIG; empty if it exited
	Stderr  string // the last lines
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("%s: exit status %d", e.Command, e.Status)
	if e.Signal != "" {
		s = fmt.Sprintf("%s: ended by signal %s", e.Command, e.Signal)
	}
	if e.Stderr != "" {
		s += ": " + e.Stderr
	}
	return s
}

// ChecksumError says that what arrived is not what was sent. The file at the
// destination is as it was before.
type ChecksumError struct {
	Path      string
	Want, Got string // SHA-256 in hex
}

func (e *ChecksumError) Error() string {
	return fmt.Sprintf("%s arrived with SHA-256 %.12s…, was sent with %.12s…", e.Path, e.Got, e.Want)
}

// JobExistsError says that a job's directory is already there.
type JobExistsError struct{ Dir string }

func (e *JobExistsError) Error() string {
	return "a job in " + e.Dir + " was started before: attach to it, or remove it first"
}

// NoJobError says that there is no job in a directory.
type NoJobError struct{ Dir string }

func (e *NoJobError) Error() string { return "no job in " + e.Dir }

// waitError is the end of WaitReachable's patience.
type waitError struct {
	waited   time.Duration
	attempts int
	last     error
	cause    error
}

func (e *waitError) Error() string {
	return fmt.Sprintf("%v after %s and %d attempts; the last said: %v",
		e.cause, e.waited.Round(100*time.Millisecond), e.attempts, e.last)
}

// Unwrap returns the last attempt's error and why the wait ended.
func (e *waitError) Unwrap() []error { return []error{e.last, e.cause} }
