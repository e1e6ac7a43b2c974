package remote

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

func TestHostKeyIsLearntAndPinned(t *testing.T) {
	s := newSite(t)
	_ = s.dial().Close()
	first := read(t, s.opts.KnownHosts)
	_ = s.dial().Close()
	if again := read(t, s.opts.KnownHosts); again != first || strings.Count(first, "\n") != 1 {
		t.Fatalf("pinned %q, then %q", first, again)
	}
	if info, err := os.Stat(s.opts.KnownHosts); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	s.Stop()
	s.NewHostKey()
	s.Start()
	_, err := Dial(testContext(t), s.machine(), s.opts)
	changed := as[*HostKeyError](t, err)
	if changed.Line != 1 || changed.File != s.opts.KnownHosts || len(changed.Pinned) != 1 || changed.Pinned[0] == changed.Got {
		t.Errorf("%+v", changed)
	}
	if !strings.Contains(err.Error(), "ssh-keygen -f "+s.opts.KnownHosts+" -R '[127.0.0.1]:") {
		t.Errorf("it does not say what to do: %v", err)
	}
	// Waiting does not wear the refusal down.
	_, err = WaitReachable(testContext(t), s.machine(), s.opts, WaitOptions{Every: time.Millisecond})
	_ = as[*HostKeyError](t, err)

	// What the message says to do works.
	command := err.Error()[strings.LastIndex(err.Error(), "ssh-keygen"):]
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	_ = s.dial().Close()
}

func TestForgetHost(t *testing.T) {
	s := newSite(t)
	if err := ForgetHost(s.opts.KnownHosts, s.machine()); err != nil {
		t.Fatalf("no file yet: %v", err)
	}
	_ = s.dial().Close()
	pinned := read(t, s.opts.KnownHosts)
	other := "other.example " + strings.SplitN(pinned, " ", 2)[1]
	write(t, s.opts.KnownHosts, other+pinned+"# kept\n")
	if err := ForgetHost(s.opts.KnownHosts, s.machine()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s.opts.KnownHosts); got != other+"# kept\n" {
		t.Errorf("left: %q", got)
	}
	_ = s.dial().Close()
}

// A server that has keys of several kinds is held to the one that was pinned,
// and not refused for showing another kind first.
func TestPinnedKindIsAskedFor(t *testing.T) {
	s := newSite(t)
	s.Stop()
	path := filepath.Join(s.Dir, "host_ecdsa")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first := s.HostKeys[0]
	s.HostKeys = []string{path}
	s.Start()
	_ = s.dial().Close()
	if pinned := read(t, s.opts.KnownHosts); !strings.Contains(pinned, "ecdsa-sha2-nistp256") {
		t.Fatalf("pinned %q", pinned)
	}
	s.Stop()
	s.HostKeys = []string{first, path}
	s.Start()
	_ = s.dial().Close()
}

func TestManyFirstContactsPinOneKey(t *testing.T) {
	s := newSite(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			c, err := Dial(testContext(t), s.machine(), s.opts)
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close()
		})
	}
	group.Wait()
	if pinned := read(t, s.opts.KnownHosts); strings.Count(pinned, "\n") != 1 {
		t.Errorf("pinned %q", pinned)
	}
}

func TestRefusedKey(t *testing.T) {
	s := newSite(t)
	stranger, err := LoadOrCreateKey(filepath.Join(t.TempDir(), "other"), "")
	if err != nil {
		t.Fatal(err)
	}
	opts := s.opts
	opts.Key = stranger
	_, err = Dial(testContext(t), s.machine(), opts)
	refused := as[*AuthError](t, err)
	if refused.User != s.User || !strings.Contains(err.Error(), stranger.Fingerprint()) || !strings.Contains(err.Error(), "authorized_keys") {
		t.Error(err)
	}
	// With patience it is tried until the account is set up.
	c, err := WaitReachable(testContext(t), s.machine(), opts, WaitOptions{
		Every: time.Millisecond, AuthPatience: time.Minute,
		Report: func(n int, err error) {
			if _ = as[*AuthError](t, err); n == 2 {
				s.Authorize(stranger.AuthorizedKey())
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

func TestUnreachable(t *testing.T) {
	opts := newOptions(t)
	nobody := Machine{Name: "box", Address: "127.0.0.1", Port: sshdtest.FreePort(t), User: "someone"}
	_, err := Dial(testContext(t), nobody, opts)
	_ = as[*UnreachableError](t, err)

	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = WaitReachable(ctx, nobody, opts, WaitOptions{Every: time.Millisecond})
	_ = as[*UnreachableError](t, err)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "attempts") {
		t.Errorf("the last cause is not shown: %v", err)
	}

	silent := newFake(t, nil)
	opts.ConnectTimeout = 50 * time.Millisecond
	_, err = Dial(testContext(t), silent.machine(), opts)
	_ = as[*UnreachableError](t, err)
	if !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Error(err)
	}
}

func TestWaitReachable(t *testing.T) {
	opts := newOptions(t)
	s := newServer(t, opts.Key)
	c, err := WaitReachable(testContext(t), s.machine(), opts, WaitOptions{
		Every: time.Millisecond,
		Report: func(n int, err error) {
			if _ = as[*UnreachableError](t, err); n == 3 {
				s.Start()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Machine().Name != "box" {
		t.Error(c.Machine())
	}
	_ = c.Close()
}

func TestJumpHost(t *testing.T) {
	s := newSite(t)
	inner := newServer(t, s.opts.Key)
	inner.Env = "INNER=yes"
	inner.Start()
	m := inner.machine()
	jump := s.machine()
	jump.Name, m.Name, m.Jump = "gate", "inner", &jump
	c := s.dialTo(m)
	if out, err := c.Output(testContext(t), Command{Script: "echo $INNER"}); err != nil || out != "yes" {
		t.Errorf("%q, %v", out, err)
	}
	if n := strings.Count(read(t, s.opts.KnownHosts), "\n"); n != 2 {
		t.Errorf("%d host keys pinned, want both", n)
	}
	_ = c.Close()

	inner.Stop()
	_, err := Dial(testContext(t), m, s.opts)
	if _ = as[*UnreachableError](t, err); !strings.HasPrefix(err.Error(), "ssh to inner: cannot reach 127.0.0.1:") {
		t.Error(err)
	}
	s.Stop()
	_, err = Dial(testContext(t), m, s.opts)
	if _ = as[*UnreachableError](t, err); !strings.HasPrefix(err.Error(), "ssh to inner: through gate: cannot reach") {
		t.Error(err)
	}
}

func TestKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	path := filepath.Join(dir, "id")
	var group sync.WaitGroup
	for range 4 { // of which one creates it
		group.Go(func() {
			if _, err := LoadOrCreateKey(path, "a comment"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	key, err := LoadKey(path, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "id id.pub" {
		t.Errorf("files: %s", got)
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	if got := read(t, path+".pub"); got != key.AuthorizedKey()+" a comment\n" || !strings.HasPrefix(got, "ssh-ed25519 ") {
		t.Errorf("public half %q", got)
	}
	if key.String() != key.Fingerprint() || key.Path() != path {
		t.Error(key)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreateKey(path, ""); err == nil || !strings.Contains(err.Error(), "mode 0644") {
		t.Errorf("a key that others may read: %v", err)
	}
	write(t, path, "garbage")
	if _, err := LoadOrCreateKey(path, ""); err == nil {
		t.Error("garbage is a key")
	}
}

// A key with a passphrase is used through an agent.
func TestKeyInAgent(t *testing.T) {
	s := newSite(t)
	plain, err := ssh.ParseRawPrivateKey([]byte(read(t, s.opts.Key.Path())))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "id")
	write(t, path, read(t, s.opts.Key.Path()))
	if out, err := exec.Command("ssh-keygen", "-q", "-p", "-N", "a passphrase", "-f", path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := LoadKey(path, ""); err == nil || !strings.Contains(err.Error(), "ssh-add "+path) {
		t.Errorf("without an agent: %v", err)
	}
	keys := agent.NewKeyring()
	socket := serveAgent(t, keys)
	if _, err := LoadKey(path, socket); err == nil || !strings.Contains(err.Error(), "does not hold it") {
		t.Errorf("an empty agent: %v", err)
	}
	if err := keys.Add(agent.AddedKey{PrivateKey: plain}); err != nil {
		t.Fatal(err)
	}
	if s.opts.Key, err = LoadKey(path, socket); err != nil {
		t.Fatal(err)
	}
	_ = s.dial().Close()
}
