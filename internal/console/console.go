// Package console is the user's side of the program: in, out and err,
// whether each is a terminal, progress on long work, questions.
//
// Out carries data, Err carries progress and diagnostics; a script that
// reads Out never meets anything else there. The package formats progress
// and asks questions; it knows nothing of what the work is.
package console

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// defaultWidth is the width assumed where there is no terminal to ask.
const defaultWidth = 100

// Console is where a command reads and writes.
type Console struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	InTerminal  bool // questions can be asked
	OutTerminal bool
	ErrTerminal bool // progress may redraw itself
	Color       bool // Out may carry colour
	Width       int  // columns of Out

	// PlainEvery is the shortest time between two lines about the same
	// piece of work where Err is no terminal.
	PlainEvery time.Duration

	out *checkedWriter
}

// checkedWriter remembers the first failure.
type checkedWriter struct {
	w   io.Writer
	err error
}

func (c *checkedWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

// OutErr is why data could not be written to this process's standard output,
// or nil. A command that has lost data has failed, whoever wrote it.
func (c *Console) OutErr() error {
	if c.out == nil {
		return nil
	}
	return c.out.err
}

// System returns the console of this process. NO_COLOR (any value) and
// TERM=dumb turn colour off, as is the custom.
func System() *Console {
	out := &checkedWriter{w: os.Stdout}
	c := &Console{
		In: os.Stdin, Out: out, Err: os.Stderr, out: out,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTerminal: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
		Width:       defaultWidth,
		PlainEvery:  5 * time.Second,
	}
	if os.Getenv("TERM") == "dumb" {
		c.ErrTerminal = false
	}
	c.Color = c.OutTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil && w > 0 {
		c.Width = w
	}
	return c
}

// Printf writes data to Out.
func (c *Console) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Out, format, args...)
}

// Notef writes one line to Err.
func (c *Console) Notef(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Err, format+"\n", args...)
}

// Confirm asks a yes-or-no question on Err and reads the answer from In.
// Anything but y or yes is no; without a terminal to ask on it is an error.
func (c *Console) Confirm(question string) (bool, error) {
	if !c.InTerminal {
		return false, fmt.Errorf("cannot ask %q: standard input is not a terminal", question)
	}
	_, _ = fmt.Fprintf(c.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(c.In).ReadString('\n')
	if err != nil && line == "" {
		return false, fmt.Errorf("read answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
