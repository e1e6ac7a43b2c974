package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// TunnelOptions says where a tunnel begins.
type TunnelOptions struct {
	// Listen is the local end, on a loopback address: others must not get in
	// this way. Empty means any free port of 127.0.0.1.
	Listen string
	// Report, if set, is told of connections that could not be made at the
	// far end.
	Report func(error)
}

// Tunnel passes connections to a local port on to an address that the machine
// can reach.
type Tunnel struct {
	conn     *Conn
	listener net.Listener
	target   string
	report   func(error)
	cancel   context.CancelFunc
	workers  sync.WaitGroup
}

// Tunnel opens a tunnel to target ("host:port", as seen from the machine). It
// ends with ctx, with the connection, or by Close.
func (c *Conn) Tunnel(ctx context.Context, target string, o TunnelOptions) (*Tunnel, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	addr, err := net.ResolveTCPAddr("tcp", o.Listen)
	if err != nil {
		return nil, wrap(c.machine, fmt.Errorf("tunnel to %s: %w", target, err))
	}
	if !addr.IP.IsLoopback() {
		return nil, wrap(c.machine, fmt.Errorf("tunnel to %s: %s is not a loopback address", target, o.Listen))
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, wrap(c.machine, fmt.Errorf("tunnel to %s: %w", target, err))
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &Tunnel{conn: c, listener: listener, target: target, report: o.Report, cancel: cancel}
	t.workers.Add(2)
	go func() {
		defer t.workers.Done()
		select {
		case <-ctx.Done():
		case <-c.done:
		}
		cancel()
		_ = listener.Close()
	}()
	go func() {
		defer t.workers.Done()
		t.serve(ctx)
	}()
	return t, nil
}

// Addr returns the local end, "127.0.0.1:port".
func (t *Tunnel) Addr() string { return t.listener.Addr().String() }

// Close ends the tunnel and the connections through it.
func (t *Tunnel) Close() error {
	t.cancel()
	t.workers.Wait()
	return nil
}

func (t *Tunnel) serve(ctx context.Context) {
	for {
		local, err := t.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			// Out of file descriptors, say: that may pass.
			t.tell(err)
			pause(ctx, 50*time.Millisecond)
			continue
		}
		t.workers.Add(1)
		go func() {
			defer t.workers.Done()
			t.pass(ctx, local)
		}()
	}
}

func (t *Tunnel) tell(err error) {
	if t.report != nil {
		t.report(wrap(t.conn.machine, fmt.Errorf("tunnel to %s: %w", t.target, err)))
	}
}

// pass connects local with the target until both have said all they had to.
func (t *Tunnel) pass(ctx context.Context, local net.Conn) {
	defer func() { _ = local.Close() }()
	far, err := t.conn.client.DialContext(ctx, "tcp", t.target)
	if err != nil {
		if ctx.Err() == nil {
			t.tell(t.conn.failure(err))
		}
		return
	}
	stop := context.AfterFunc(ctx, func() { _, _ = local.Close(), far.Close() })
	defer stop()
	defer func() { _ = far.Close() }()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(local, far)
		closeWrite(local)
	}()
	_, _ = io.Copy(far, local)
	closeWrite(far)
	<-back
}

// closeWrite says that no more is to come, and leaves the other way open.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
