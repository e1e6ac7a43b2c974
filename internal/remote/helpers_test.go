package remote

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// server is an sshd as a machine.
type server struct {
	*sshdtest.Server
	t *testing.T
}

// newServer prepares an sshd that lets key in. It is not running yet.
func newServer(t *testing.T, key *Key) *server {
	t.Helper()
	return &server{sshdtest.New(t, key.AuthorizedKey()), t}
}

func (s *server) machine() Machine {
	return Machine{Name: "box", Address: "127.0.0.1", Port: s.Port, User: s.User}
}

// site is a running sshd and what is needed to get in.
type site struct {
	*server
	opts Options
}

func newSite(t *testing.T) site {
	t.Helper()
	opts := newOptions(t)
	s := newServer(t, opts.Key)
	s.Start()
	return site{s, opts}
}

func newOptions(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	key, err := LoadOrCreateKey(filepath.Join(dir, "id"), "test")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Key: key, KnownHosts: filepath.Join(dir, "known_hosts")}
}

func (s site) dial() *Conn {
	s.t.Helper()
	return s.dialTo(s.machine())
}

func (s site) dialTo(m Machine) *Conn {
	s.t.Helper()
	c, err := Dial(testContext(s.t), m, s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// fake is an SSH server in this process that authenticates everybody.
type fake struct {
	listener net.Listener
	workers  sync.WaitGroup
	mu       sync.Mutex
	open     []net.Conn
}

// newFake serves connections with handle, which must return when the
// connection ends. Without handle it accepts and says nothing at all.
func newFake(t *testing.T, handle func(*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request)) *fake {
	t.Helper()
	key, err := LoadOrCreateKey(filepath.Join(t.TempDir(), "host"), "")
	if err != nil {
		t.Fatal(err)
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
		return &ssh.Permissions{}, nil
	}}
	config.AddHostKey(key.signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{listener: l}
	f.workers.Add(1)
	go func() {
		defer f.workers.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.open = append(f.open, c)
			f.mu.Unlock()
			if handle == nil {
				continue
			}
			f.workers.Add(1)
			go func() {
				defer f.workers.Done()
				if sc, channels, requests, err := ssh.NewServerConn(c, config); err == nil {
					handle(sc, channels, requests)
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		f.mu.Lock()
		for _, c := range f.open {
			_ = c.Close()
		}
		f.mu.Unlock()
		f.workers.Wait()
	})
	return f
}

func (f *fake) machine() Machine {
	return Machine{Name: "fake", Address: "127.0.0.1", Port: f.listener.Addr().(*net.TCPAddr).Port, User: "someone"}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// as asserts that err is from a machine and has a cause of type T.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var outer *Error
	var cause T
	if !errors.As(err, &outer) || !errors.As(err, &cause) {
		t.Fatalf("error %v (%T) is not a %T", err, err, cause)
	}
	if n := strings.Count(err.Error(), "ssh to "); n != 1 {
		t.Fatalf("the machine is named %d times in %q", n, err)
	}
	return cause
}

// serveAgent is an SSH agent with the keys of a keyring.
func serveAgent(t *testing.T, keys agent.Agent) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent") // short: sockets' paths are bounded
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
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
			workers.Go(func() { _, _ = agent.ServeAgent(keys, c), c.Close() })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		workers.Wait()
		_ = os.RemoveAll(dir)
	})
	return socket
}
