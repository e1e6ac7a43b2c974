package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

func TestRun(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	ctx := testContext(t)

	t.Run("words and streams", func(t *testing.T) {
		var out, errs bytes.Buffer
		err := c.Run(ctx, Command{
			Script: `cat; for w; do printf '<%s>' "$w"; done; echo oops >&2`,
			Args:   []string{"", "a b", "it's", "$HOME", "*", "x\ny"},
			Stdin:  strings.NewReader("in:"), Stdout: &out, Stderr: &errs,
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := "in:<><a b><it's><$HOME><*><x\ny>"; out.String() != want {
			t.Errorf("stdout %q, want %q", out.String(), want)
		}
		if errs.String() != "oops\n" {
			t.Errorf("stderr %q", errs.String())
		}
	})
	t.Run("output comes while the command runs", func(t *testing.T) {
		in, feed := io.Pipe()
		out, sink := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := c.Run(ctx, Command{Args: []string{"cat"}, Stdin: in, Stdout: sink})
			_ = sink.Close()
			done <- err
		}()
		for _, word := range []string{"one", "two"} {
			if _, err := io.WriteString(feed, word); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(word))
			if _, err := io.ReadFull(out, got); err != nil || string(got) != word {
				t.Fatalf("echo of %s: %s, %v", word, got, err)
			}
		}
		_ = feed.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		exit := as[*ExitError](t, c.Run(ctx, Command{Name: "install", Script: "echo why >&2; exit 7"}))
		if exit.Status != 7 || exit.Signal != "" || exit.Error() != "install: exit status 7: why" {
			t.Errorf("%+v", exit)
		}
		exit = as[*ExitError](t, c.Run(ctx, Command{Script: "kill -KILL $$"}))
		if exit.Status != 137 {
			t.Errorf("%+v", exit)
		}
	})
	t.Run("input that is not read is no failure", func(t *testing.T) {
		err := c.Run(ctx, Command{Args: []string{"true"}, Stdin: bytes.NewReader(make([]byte, 16<<20))})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("much output", func(t *testing.T) {
		out, err := c.Output(ctx, Command{Args: []string{"head", "-c", "4000000", "/dev/zero"}})
		if err != nil || len(out) != 4_000_000 {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
	t.Run("cancelling ends the command", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "got")
		ctx, cancel := context.WithCancelCause(ctx)
		asked := errors.New("asked to")
		err := c.Run(ctx, Command{
			Script: `trap '' PIPE; trap 'echo ended >"$1"' EXIT; while echo tick; do sleep 0.02; done 2>&-`,
			Args:   []string{file}, Stdout: writerFunc(func([]byte) error { cancel(asked); return nil }),
		})
		if !errors.Is(err, asked) {
			t.Errorf("%v", err)
		}
		eventually(t, "the command ended", func() bool {
			data, err := os.ReadFile(file)
			return err == nil && string(data) == "ended\n"
		})
	})
	t.Run("a cancelled command that goes on is left", func(t *testing.T) {
		stop := filepath.Join(t.TempDir(), "stop")
		ctx, cancel := context.WithCancel(ctx)
		err := c.Run(ctx, Command{
			Script: `trap '' TERM; echo ready; while [ -d "${1%/*}" ] && [ ! -e "$1" ]; do sleep 0.02; done`,
			Args:   []string{stop}, Stdout: writerFunc(func([]byte) error { cancel(); return nil }),
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := c.Run(testContext(t), Command{Args: []string{"touch", stop}}); err != nil {
			t.Errorf("the connection is of no more use: %v", err)
		}
	})
	t.Run("a writer that fails ends the command", func(t *testing.T) {
		full := errors.New("disk full")
		err := c.Run(ctx, Command{
			Args: []string{"cat", "/dev/zero"}, Stdout: writerFunc(func([]byte) error { return full }),
		})
		if !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
	})
	t.Run("refused before anything is sent", func(t *testing.T) {
		if err := c.Run(ctx, Command{}); err == nil {
			t.Error("no command")
		}
		if err := c.Run(ctx, Command{Args: []string{"a\x00"}}); err == nil {
			t.Error("NUL")
		}
	})
}

type writerFunc func([]byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

func TestSudo(t *testing.T) {
	opts := newOptions(t)
	s := newServer(t, opts.Key)
	bin := t.TempDir()
	write(t, filepath.Join(bin, "sudo"), "#!/bin/sh\nprintf '[%s]' \"$1\" \"$2\"; shift 2; exec \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "sudo"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Env = "PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
	s.Start()
	out, err := site{s, opts}.dial().Output(testContext(t), Command{Script: `printf %s "$1"`, Args: []string{"a b"}, Sudo: true})
	if err != nil || out != "[-n][--]a b" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestLostUnderACommand(t *testing.T) {
	s := newSite(t)
	w := sshdtest.NewWire(t, s.Port, 0)
	m := s.machine()
	m.Port = w.Port()
	c := s.dialTo(m)
	err := c.Run(testContext(t), Command{
		Script: "echo ready; cat", Stdin: blocked(t),
		Stdout: writerFunc(func([]byte) error { w.Cut(); return nil }),
	})
	_ = as[*LostError](t, err)
	<-c.Done()
	_ = as[*LostError](t, c.Run(testContext(t), Command{Args: []string{"true"}}))
}

// blocked is an input that has nothing until the test is over.
func blocked(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

// A peer that goes silent without closing anything is noticed.
func TestKeepAliveNoticesADeadPeer(t *testing.T) {
	f := newFake(t, func(sc *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
		first := <-requests // answered: alive
		if first != nil {
			_ = first.Reply(false, nil)
		}
		for nc := range channels { // and not one more
			if ch, reqs, err := nc.Accept(); err == nil {
				defer func() { _ = ch.Close() }()
				for r := range reqs {
					_ = r.Reply(true, nil)
					if r.Type == "exec" {
						break
					}
				}
				break
			}
		}
		_ = sc.Wait()
	})
	opts := newOptions(t)
	opts.KeepAlive, opts.DeadAfter = 1e8, 2e8 // 100 and 200 ms
	c, err := Dial(testContext(t), f.machine(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	err = c.Run(testContext(t), Command{Args: []string{"anything"}})
	_ = as[*LostError](t, err)
	if want := "ssh to fake: connection lost: no answer to keepalive for 200ms"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// A peer that answers nothing does not keep a cancelled command waiting.
func TestCancelledAtASilentPeer(t *testing.T) {
	f := newFake(t, func(sc *ssh.ServerConn, _ <-chan ssh.NewChannel, _ <-chan *ssh.Request) { _ = sc.Wait() })
	c, err := Dial(testContext(t), f.machine(), newOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 5e7)
	defer cancel()
	if err := c.Run(ctx, Command{Args: []string{"anything"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A command that is cancelled is sent SIGTERM.
func TestCancelSendsASignal(t *testing.T) {
	signals := make(chan string, 1)
	f := newFake(t, func(sc *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
		go ssh.DiscardRequests(requests)
		for nc := range channels {
			ch, reqs, err := nc.Accept()
			if err != nil {
				continue
			}
			for r := range reqs {
				switch r.Type {
				case "exec":
					_ = r.Reply(true, nil)
					_, _ = io.WriteString(ch, "ready")
				case "signal":
					signals <- string(r.Payload[4:])
					_ = ch.Close()
				}
			}
		}
		_ = sc.Wait()
	})
	c, err := Dial(testContext(t), f.machine(), newOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithCancel(context.Background())
	err = c.Run(ctx, Command{
		Args: []string{"x"}, Stdout: writerFunc(func([]byte) error { cancel(); return nil }),
	})
	if got := <-signals; got != "TERM" || !errors.Is(err, context.Canceled) {
		t.Errorf("signal %q, %v", got, err)
	}
}
