package console

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// buffers returns a console that keeps what is written.
func buffers(in string) (c *Console, out, errOut *bytes.Buffer) {
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	return &Console{
		In: strings.NewReader(in), Out: out, Err: &lockedWriter{w: errOut},
		Width: defaultWidth, PlainEvery: 5 * time.Second,
	}, out, errOut
}

// lockedWriter serialises writers of different goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func TestConfirm(t *testing.T) {
	for _, tt := range []struct {
		in   string
		tty  bool
		want bool
		fail bool
	}{
		{"y\n", true, true, false},
		{"YES\n", true, true, false},
		{"yes", true, true, false}, // no newline before the end of input
		{"\n", true, false, false},
		{"no\n", true, false, false},
		{"", true, false, true},
		{"y\n", false, false, true},
	} {
		c, out, _ := buffers(tt.in)
		c.InTerminal = tt.tty
		got, err := c.Confirm("go on?")
		if got != tt.want || (err != nil) != tt.fail {
			t.Errorf("Confirm with %q (terminal %v) = %v, %v", tt.in, tt.tty, got, err)
		}
		if out.Len() > 0 {
			t.Errorf("a question was written to standard output: %q", out)
		}
	}
}

// Elsewhere than on a terminal a task prints at most one line every
// PlainEvery, whatever the rate of its updates, and always its end.
func TestPlainProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, errOut := buffers("")
		p := c.NewProgress()
		task := p.Task("seed")
		for i := range int64(100) {
			time.Sleep(200 * time.Millisecond)
			task.Update(State{Done: i + 1, Total: 100, Detail: "documents"})
		}
		task.Done("100 documents")
		task.Fail("too late") // after the end nothing changes
		p.Close()
		lines := strings.Split(strings.TrimSpace(errOut.String()), "\n")
		if len(lines) != 5 { // at 0.2, 5.2, 10.2, 15.2 s, and the end
			t.Fatalf("%d lines, want 5:\n%s", len(lines), errOut)
		}
		if want := "seed: 26% documents, 14 s left"; lines[1] != want {
			t.Errorf("second line %q, want %q", lines[1], want)
		}
		if want := "seed: ✓ 100 documents"; lines[4] != want {
			t.Errorf("last line %q, want %q", lines[4], want)
		}
	})
}

func TestTerminalProgress(t *testing.T) {
	var buf bytes.Buffer
	c, _, _ := buffers("")
	c.Err, c.ErrTerminal = &lockedWriter{w: &buf}, true
	p := c.NewProgress()
	ok, bad := p.Task("one"), p.Task("two")
	ok.Update(State{Done: 5, Total: 10, Detail: "half", Lines: []string{"find 3/s"}})
	bad.Update(State{Detail: "unknown end"})
	p.Notef("a note")
	ok.Done("all there")
	bad.Fail("broken\nsecond line")
	p.Close()
	for _, want := range []string{"a note", "✓ all there", "✗ broken"} {
		if !strings.Contains(buf.String(), want) {
			t.Errorf("no %q in %q", want, buf.String())
		}
	}
	if strings.Contains(buf.String(), "second line") {
		t.Error("a failure shows more than its first line")
	}
}

func TestFormats(t *testing.T) {
	for got, want := range map[string]string{
		Duration(400 * time.Millisecond):      "0 s",
		Duration(72 * time.Second):            "1 min 12 s",
		Duration(2*time.Hour + 5*time.Minute): "2 h 05 min",
		Count(0):                              "0",
		Count(999):                            "999",
		Count(-1234567):                       "-1,234,567",
		Bytes(812):                            "812 B",
		Bytes(2400):                           "2.4 kB",
		Bytes(1_300_000_000):                  "1.3 GB",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
