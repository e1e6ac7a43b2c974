package bench

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// errGone is why servers do not answer that somebody took down.
var errGone = errors.New("the environment was taken down")

// goneEvery is the pause between two looks at whether it was.
const goneEvery = time.Second

// whilePresent returns a context that ends with errGone when gone says that
// the environment was taken down and no member takes connections any more.
// The caller calls stop.
func whilePresent(ctx context.Context, gone func() bool, targets []Target) (_ context.Context, stop func()) {
	if gone == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, goneEvery) {
			if gone() && refused(ctx, targets) {
				cancel(errGone)
				return
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// refused reports whether every member refuses connections.
func refused(ctx context.Context, targets []Target) bool {
	dialer := net.Dialer{Timeout: goneEvery}
	for _, t := range targets {
		for _, m := range t.Members {
			conn, err := dialer.DialContext(ctx, "tcp", m.Address)
			if err == nil {
				_ = conn.Close()
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return false
			}
		}
	}
	return true
}
