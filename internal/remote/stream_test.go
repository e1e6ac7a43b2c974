package remote

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// serve accepts one connection at a time and hands it to handle.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			handle(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestDialContext(t *testing.T) {
	address := serve(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
	conn := newSite(t).dial()
	c, err := conn.DialContext(testContext(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	sent := strings.Repeat("there and back ", 20_000)
	go func() { _, _ = io.WriteString(c, sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != sent {
		t.Fatalf("got %d bytes that differ: %v", len(got), err)
	}
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a read past its deadline: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// The server accepts the next one only if it saw the end of this one.
	again, err := conn.DialContext(testContext(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := io.WriteString(again, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(again, got[:1]); err != nil {
		t.Fatal(err)
	}
}

func TestDialContextEndsWithTheConnection(t *testing.T) {
	address := serve(t, func(c net.Conn) {
		// More than anybody reads.
		_, _ = c.Write(make([]byte, 1<<20))
		_, _ = io.Copy(io.Discard, c)
	})
	conn := newSite(t).dial()
	c, err := conn.DialContext(testContext(t), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Fatalf("a connection that ended reads: %v", err)
	}
	_, err = conn.DialContext(testContext(t), "tcp", address)
	_ = as[*LostError](t, err)
}

func TestDialContextRefused(t *testing.T) {
	conn := newSite(t).dial()
	_, err := conn.DialContext(testContext(t), "tcp", net.JoinHostPort("127.0.0.1", "1"))
	if err == nil || !strings.Contains(err.Error(), "ssh to box: connect to 127.0.0.1:1: ") {
		t.Fatalf("error %v", err)
	}
}
