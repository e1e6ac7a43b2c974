// Package sshdtest gives tests a real sshd of their own.
//
// In goes a key that is let in; out comes a server on a loopback port, which
// ends with its test, and a Wire that cuts connections to it. Where no sshd is
// installed the test is skipped; one that does not start fails the test with
// what it said. The package is for tests alone, knows nothing of package
// remote, which it is a test of, and starts no connection itself.
package sshdtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is an sshd. What its fields say counts from the next Start on.
type Server struct {
	Dir      string // holds its files
	Port     int    // on 127.0.0.1
	User     string // who may log in: the user of the test
	Home     string // home directory of sessions, so that no start-up file of the user's takes part
	Env      string // more variables of sessions: NAME=VALUE …
	HostKeys []string

	t    *testing.T
	stop func()
}

// New prepares an sshd that lets a key in, given as a line of authorized_keys.
// It is not running yet; Home is Dir.
func New(t *testing.T, authorizedKey string) *Server {
	t.Helper()
	if _, err := os.Stat(program()); err != nil {
		t.Skip("no sshd here: install openssh-server (the service need not run)")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // sshd insists on it, and only its service makes it
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	s := &Server{
		Dir: dir, Port: FreePort(t), User: me.Username, Home: dir, HostKeys: []string{filepath.Join(dir, "host_ed25519")},
		t: t, stop: func() {},
	}
	s.NewHostKey()
	s.Authorize(authorizedKey)
	return s
}

func program() string {
	if path, err := exec.LookPath("sshd"); err == nil && filepath.IsAbs(path) {
		return path
	}
	return "/usr/sbin/sshd"
}

// Authorize lets this key in, and no other.
func (s *Server) Authorize(authorizedKey string) {
	s.t.Helper()
	s.write("authorized_keys", authorizedKey+"\n")
}

// NewHostKey replaces the first host key.
func (s *Server) NewHostKey() {
	s.t.Helper()
	_ = os.Remove(s.HostKeys[0])
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.HostKeys[0]).CombinedOutput(); err != nil {
		s.t.Fatalf("make a host key: %v: %s", err, out)
	}
}

// Start starts it and returns once it listens.
func (s *Server) Start() {
	s.t.Helper()
	s.write("config", fmt.Sprintf(`
ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv HOME=%s %s
`, s.Port, strings.Join(s.HostKeys, "\nHostKey "), s.Dir, s.Home, s.Env))
	path := filepath.Join(s.Dir, "log")
	// A file, because sessions outlive it and would hold a pipe open.
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(program(), "-D", "-e", "-f", filepath.Join(s.Dir, "config"))
	cmd.Stderr = log
	err = cmd.Start()
	_ = log.Close()
	if err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says more
		close(ended)
	}()
	s.stop = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	said := func() string {
		text, _ := os.ReadFile(path)
		return string(text)
	}
	s.t.Cleanup(func() {
		s.stop()
		if s.t.Failed() {
			s.t.Logf("sshd: %s", said())
		}
	})
	late := time.After(20 * time.Second)
	for !strings.Contains(said(), "Server listening") {
		select {
		case <-ended:
			s.t.Fatalf("sshd ended: %s", said())
		case <-late:
			s.t.Fatalf("sshd does not listen: %s", said())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop ends the sshd that accepts connections; open ones stay.
func (s *Server) Stop() { s.stop() }

func (s *Server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// FreePort is a port of 127.0.0.1 that nobody listens on.
func FreePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
