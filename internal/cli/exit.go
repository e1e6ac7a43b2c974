package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/loadgen"
)

// The exit codes. This table is the only place that gives them meaning;
// --help prints it.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitThreshold   = 3
	exitRemote      = 4
	exitCloud       = 5
	exitTarget      = 6
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes:
    0  ok
    1  failure
    2  bad usage or input
    3  a threshold asked for was not met
    4  remote or SSH failure
    5  cloud or Terraform failure
    6  target database failure
  130  interrupted`

// failure is an error with its exit code and, where there is one, the next
// step for the user.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail gives err an exit code and a hint ("" for none). nil stays nil.
func fail(code int, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{code, err, hint}
}

// usagef is a mistake in how the command was called.
func usagef(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// exitCode finds the code of an error.
func exitCode(err error) int {
	var f *failure
	var problems *environment.Problems
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &problems):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, loadgen.ErrTargetDown):
		return exitTarget
	}
	return exitFailure
}

// remoteCode is the exit code for a command on a machine that ended with code:
// the same, unless that means something else here.
func remoteCode(code int) int {
	switch code {
	case exitUsage, exitThreshold, exitRemote, exitCloud, exitTarget, exitInterrupted:
		return exitFailure
	}
	if code <= exitOK {
		return exitFailure // it was ended by a signal
	}
	return code
}

// Rules for messages. An error is one line, lower case, "operation subject:
// cause", without a full stop; the hint is one imperative sentence with the
// command or flag to use. Problems of a file show the file's lines instead.
func printError(c *console.Console, err error) {
	var problems *environment.Problems
	if errors.As(err, &problems) {
		_ = problems.WriteText(c.Err, c.Width, c.ErrTerminal && c.Color)
		return
	}
	c.Notef("error: %s", strings.TrimSpace(err.Error()))
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		c.Notef("hint: %s", f.hint)
	}
}
