package remote

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// echo is a server that answers a whole request with itself, once it has
// seen the request's end.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	workers.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			workers.Go(func() {
				defer func() { _ = c.Close() }()
				if data, err := io.ReadAll(c); err == nil {
					_, _ = c.Write(data)
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); workers.Wait() })
	return l.Addr().String()
}

func TestTunnel(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	reported := make(chan error, 1)
	tunnel, err := c.Tunnel(context.Background(), echo(t), TunnelOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			want := string(noise(1 << 18))
			conn, err := net.Dial("tcp", tunnel.Addr())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			go func() {
				_, _ = io.WriteString(conn, want)
				_ = conn.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(conn); err != nil || string(got) != want {
				t.Errorf("%d bytes came back, %v", len(got), err)
			}
		})
	}
	group.Wait()

	// Close ends what is open.
	open, err := net.Dial("tcp", tunnel.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	_ = tunnel.Close()
	if _, err := io.ReadAll(open); err == nil {
		if _, err := net.Dial("tcp", tunnel.Addr()); err == nil {
			t.Error("the tunnel is still open")
		}
	}

	if _, err := c.Tunnel(context.Background(), "x:1", TunnelOptions{Listen: "0.0.0.0:0"}); err == nil {
		t.Error("a tunnel that is open to others")
	}
	nowhere, err := c.Tunnel(context.Background(), net.JoinHostPort("127.0.0.1", "1"), TunnelOptions{
		Report: func(err error) { reported <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", nowhere.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v", n, err)
	}
	if err := <-reported; as[*Error](t, err).Host != "box" {
		t.Error(err)
	}
	// The connection's end is the tunnel's.
	_ = c.Close()
	nowhere.workers.Wait()
}
