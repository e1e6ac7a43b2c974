package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Command is what to run on a machine.
type Command struct {
	// Name is what messages call it. Empty means the first of Args, or
	// "script".
	Name string
	// Args are the words of the command. With a Script, they are its
	// parameters $1, $2, …
	Args []string
	// Script, if set, is what sh is to run. It is seen by other users of the
	// machine, as arguments are: no secrets.
	Script string
	// Sudo runs it as root, through sudo without a password.
	Sudo bool
	// Stdin, Stdout and Stderr are connected to the command; nil means empty
	// or discarded. The two writers are not called at the same time. A Read
	// of Stdin that never returns outlives Run.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

func (cmd Command) name() string {
	switch {
	case cmd.Name != "":
		return cmd.Name
	case cmd.Script != "":
		return "script"
	}
	return cmd.Args[0]
}

func (cmd Command) line() (string, error) {
	var words []string
	if cmd.Sudo {
		words = append(words, "sudo", "-n", "--")
	}
	if cmd.Script != "" {
		words = append(words, "sh", "-c", cmd.Script, "sh")
	} else if len(cmd.Args) == 0 {
		return "", errors.New("no command given")
	}
	return Quote(append(words, cmd.Args...)...)
}

const (
	// stopGrace is how long a command whose context ended may take to end.
	stopGrace = 2 * time.Second
	// tailBytes is how much of a command's stderr its error keeps.
	tailBytes = 2048
)

// Run runs a command and waits for its end. A command that ran and failed is
// an *ExitError; a connection that ended before it is a *LostError, and the
// command may go on. When ctx ends, Run ends the command as far as SSH can:
// its streams are closed, and it gets SIGTERM unless it is root's (OpenSSH
// passes on no signal then). It returns ctx's cause within a few seconds, even
// if the command goes on. What must surely be stopped is a job.
func (c *Conn) Run(ctx context.Context, cmd Command) error {
	return wrap(c.machine, c.run(ctx, cmd))
}

// Output runs a command as Run does and returns what it wrote to stdout,
// without white space at the end.
func (c *Conn) Output(ctx context.Context, cmd Command) (string, error) {
	out, err := c.output(ctx, cmd)
	return out, wrap(c.machine, err)
}

func (c *Conn) output(ctx context.Context, cmd Command) (string, error) {
	var out bytes.Buffer
	cmd.Stdout = &out
	err := c.run(ctx, cmd)
	return strings.TrimRight(out.String(), " \t\r\n"), err
}

func (c *Conn) run(ctx context.Context, cmd Command) error {
	line, err := cmd.line()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{fail: cancel}
	tail := &tailWriter{}
	session, err := c.start(ctx, func(s *ssh.Session) error {
		s.Stdin = cmd.Stdin
		s.Stdout = out.to(cmd.Stdout)
		s.Stderr = out.to(tail, cmd.Stderr)
		return s.Start(line)
	})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		c.interrupt(session, ended, out)
		return fmt.Errorf("%s: %w", cmd.name(), context.Cause(ctx))
	}
	_ = session.Close()
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", cmd.name(), context.Cause(ctx))
	}

	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &exit):
		return &ExitError{Command: cmd.name(), Status: exit.ExitStatus(), Signal: exit.Signal(), Stderr: tail.String()}
	case errors.As(err, &missing):
		c.settle()
		return c.failure(&LostError{Err: fmt.Errorf("%s ended without an exit status", cmd.name())})
	case errors.Is(err, io.EOF):
		return nil // it succeeded without reading all of its input
	case err != nil:
		return fmt.Errorf("%s: %w", cmd.name(), c.failure(err))
	}
	return nil
}

// start opens a session and starts something in it, or returns when ctx
// ends; a session that opens too late is closed again.
func (c *Conn) start(ctx context.Context, begin func(*ssh.Session) error) (*ssh.Session, error) {
	type result struct {
		session *ssh.Session
		err     error
	}
	opened := make(chan result, 1)
	go func() {
		s, err := c.client.NewSession()
		if err == nil {
			if err = begin(s); err != nil {
				_ = s.Close()
			}
		}
		opened <- result{s, err}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			c.settle()
			return nil, c.failure(r.err)
		}
		return r.session, nil
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				_ = r.session.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// interrupt ends a running command, or leaves it when it does not end. The
// server itself closes the channel only when the command has ended.
func (c *Conn) interrupt(session *ssh.Session, ended <-chan error, out *output) {
	go func() { _, _ = session.Signal(ssh.SIGTERM), session.Close() }()
	within(stopGrace, ended)
	out.detach()
}

func within[T any](d time.Duration, ch <-chan T) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
		return false
	}
}

// settle gives a connection that is just ending the moment it takes to know
// why. Channels are closed before the connection's cause is set.
func (c *Conn) settle() {
	within(100*time.Millisecond, c.done)
}

// output is where a command's streams go, one write at a time. A writer that
// fails ends the command, which would else wait for ever to be read; what it
// still says is dropped.
type output struct {
	fail func(error)

	mu     sync.Mutex
	closed bool
}

// detach makes sure that no writer is called any more.
func (o *output) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

func (o *output) to(writers ...io.Writer) io.Writer { return &stream{output: o, to: writers} }

type stream struct {
	*output
	to []io.Writer // some may be nil
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.to {
		if w == nil || s.closed {
			continue
		}
		if _, err := w.Write(p); err != nil {
			s.fail(fmt.Errorf("pass its output on: %w", err))
			s.closed = true
		}
	}
	return len(p), nil
}

// tailWriter keeps the last bytes written to it.
type tailWriter struct{ kept []byte }

func (w *tailWriter) Write(p []byte) (int, error) {
	w.kept = append(w.kept, p...)
	if excess := len(w.kept) - tailBytes; excess > 0 {
		w.kept = append(w.kept[:0], w.kept[excess:]...)
	}
	return len(p), nil
}

func (w *tailWriter) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(w.kept), ""))
}
