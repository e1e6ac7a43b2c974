package sshdtest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Wire passes connections on to a port of 127.0.0.1 until it is cut.
type Wire struct {
	listener net.Listener
	workers  sync.WaitGroup

	mu   sync.Mutex
	open []net.Conn
}

// NewWire makes a wire to a port. A connection ends after limit bytes in one
// direction, unless limit is 0.
func NewWire(t *testing.T, port int, limit int64) *Wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &Wire{listener: l}
	w.workers.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				_ = in.Close()
				continue
			}
			w.mu.Lock()
			w.open = append(w.open, in, out)
			w.mu.Unlock()
			pass := func(to, from net.Conn) {
				if limit > 0 {
					_, _ = io.CopyN(to, from, limit)
				} else {
					_, _ = io.Copy(to, from)
				}
				_, _ = in.Close(), out.Close()
			}
			w.workers.Go(func() { pass(out, in) })
			w.workers.Go(func() { pass(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.Cut()
		w.workers.Wait()
	})
	return w
}

// Port is its own port on 127.0.0.1.
func (w *Wire) Port() int { return w.listener.Addr().(*net.TCPAddr).Port }

// Cut ends all connections that are open.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.open {
		_ = c.Close()
	}
	w.open = nil
}
