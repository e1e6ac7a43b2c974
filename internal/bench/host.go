package bench

import (
	"context"
	"io"
	"time"
)

// Host is an open connection to the load host. Its methods may be called
// from several goroutines.
type Host interface {
	Shell
	Files
	Jobs
	Follower
	Close() error
}

// Shell runs things there.
type Shell interface {
	// Output runs a script for a POSIX sh with the parameters $1, $2, … and
	// returns what it printed, without white space at the end. Scripts and
	// parameters are no secrets.
	Output(ctx context.Context, script string, args ...string) (string, error)
}

// Files copies files. Each arrives under its name whole, checked against a
// checksum and in one step; its directory must exist.
type Files interface {
	// Put copies a program there, unless the same is there already.
	Put(ctx context.Context, local, remote string) error
	// Write writes a small file of mode 0600 there.
	Write(ctx context.Context, remote string, data []byte) error
	// Get copies a file from there.
	Get(ctx context.Context, remote, local string) error
}

// Jobs runs commands that outlive the connection, each in a directory that
// names it and must not exist before.
type Jobs interface {
	Start(ctx context.Context, dir string, args []string) error
	// State is NoJob where there is none.
	State(ctx context.Context, dir string) (JobState, error)
	// Stop asks the job to end and makes it after a grace period. It returns
	// when it is over.
	Stop(ctx context.Context, dir string, grace time.Duration) error
}

// Follower reads along.
type Follower interface {
	// Follow writes the job's log to w, from a byte offset on and as it
	// grows, until the job ends; written counts with an error too.
	Follow(ctx context.Context, dir string, offset int64, w io.Writer) (state JobState, written int64, err error)
}

// JobPhase says how far a job is.
type JobPhase string

// The phases of a job.
const (
	NoJob      JobPhase = ""
	JobRunning JobPhase = "running"
	JobExited  JobPhase = "exited"  // by itself
	JobStopped JobPhase = "stopped" // because somebody asked
	JobLost    JobPhase = "lost"    // killed, or its machine went down
)

// JobState is what the load host says of a job.
type JobState struct {
	Phase   JobPhase
	LogSize int64 // bytes
}
