package remote

import (
	"context"
	"fmt"
	"io"
	"net"
)

// DialContext connects to an address ("host:port") as seen from the machine,
// which also resolves its name. Network must be one of TCP's. The connection
// has deadlines, which SSH itself does not have, and ends with c at the
// latest.
func (c *Conn) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	far, err := c.client.DialContext(ctx, network, address)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else {
			err = c.failure(err)
		}
		return nil, wrap(c.machine, fmt.Errorf("connect to %s: %w", address, err))
	}
	near, inner := net.Pipe()
	shut := func() { _, _ = inner.Close(), far.Close() }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(inner, far)
		shut()
	}()
	go func() {
		_, _ = io.Copy(far, inner)
		shut()
	}()
	go func() {
		select {
		case <-c.done:
		case <-ended:
		}
		shut() // frees whoever waits for the other end of the pipe
	}()
	return near, nil
}
