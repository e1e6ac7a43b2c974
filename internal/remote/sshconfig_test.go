package remote

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

func TestConfigIsWhatSSHReads(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("no ssh here: install openssh-client")
	}
	dir := filepath.Join(t.TempDir(), "100% a place")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	gate := Machine{Name: "gate", Address: "gate.example", User: "ops"}
	config := Config{
		IdentityFile: filepath.Join(dir, "id"), KnownHosts: filepath.Join(dir, "known_hosts"),
		Hosts: []ConfigHost{
			{Names: []string{"gate"}, Machine: gate},
			{
				Names: []string{"mongo9-1", "m1"}, Comment: "first\nmember", Machine: Machine{Address: "10.128.0.3", Port: 2222, User: "ops", Jump: &gate},
				Forwards: []ConfigForward{{"127.0.0.1:23443", "10.128.0.9:8443"}, {"[::1]:23444", "[fd00::1]:80"}},
			},
		},
	}
	path := filepath.Join(dir, "ssh_config")
	if err := config.Write(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got := names(t, dir); got != "ssh_config" {
		t.Errorf("files: %s", got)
	}
	out, err := exec.Command("ssh", "-G", "-F", path, "m1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"hostname 10.128.0.3", "port 2222", "user ops", "proxyjump gate", "identitiesonly yes",
		"identityfile " + strings.ReplaceAll(dir, "%", "%%") + "/id", "stricthostkeychecking accept-new",
		"localforward [127.0.0.1]:23443 [10.128.0.9]:8443", "localforward [::1]:23444 [fd00::1]:80",
	} {
		if !strings.Contains("\n"+string(out), "\n"+want+"\n") {
			t.Errorf("ssh -G does not say %q:\n%s", want, out)
		}
	}
}

func TestConfigLogsIn(t *testing.T) {
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("no ssh here: install openssh-client")
	}
	s := newSite(t)
	inner := newServer(t, s.opts.Key)
	inner.Env = "INNER=yes"
	inner.Start()
	gate, member := s.machine(), inner.machine()
	gate.Name, member.Name, member.Jump = "gate", "m1", &gate
	local := net.JoinHostPort("127.0.0.1", strconv.Itoa(sshdtest.FreePort(t)))
	dir := filepath.Join(t.TempDir(), "100% a place")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	key, err := LoadOrCreateKey(filepath.Join(dir, "id"), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, srv := range []*server{s.server, inner} {
		srv.Authorize(key.AuthorizedKey())
	}
	s.opts = Options{Key: key, KnownHosts: filepath.Join(dir, "known_hosts")}
	_ = s.dialTo(member).Close() // pins both keys
	pinned := read(t, s.opts.KnownHosts)
	config := Config{
		IdentityFile: key.Path(), KnownHosts: s.opts.KnownHosts,
		Hosts: []ConfigHost{
			{Names: []string{"gate"}, Machine: gate},
			{Names: []string{"m1"}, Machine: member, Forwards: []ConfigForward{{local, echo(t)}}},
		},
	}
	if err := config.Write(filepath.Join(dir, "ssh_config")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), "ssh", "-F", "ssh_config", "-o", "BatchMode=yes", "m1", "echo $INNER; cat")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// It answers once it has logged in and opened its forwards.
	eventually(t, "ssh logs in", func() bool { return out.String() == "yes\n" })
	conn, err := net.Dial("tcp", local)
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	_, _ = io.WriteString(conn, "through")
	_ = conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(conn); err != nil || string(got) != "through" {
		t.Errorf("%q, %v", got, err)
	}
	_ = conn.Close()
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &errs)
	}
	if got := read(t, s.opts.KnownHosts); got != pinned {
		t.Errorf("ssh looked for other names than were pinned: %q, before %q", got, pinned)
	}
}

func TestConfigRefuses(t *testing.T) {
	good := Machine{Name: "x", Address: "10.0.0.1", User: "ops"}
	with := func(change func(*ConfigHost)) Config {
		h := ConfigHost{Names: []string{"x"}, Machine: good}
		change(&h)
		return Config{IdentityFile: "/id", KnownHosts: "/known", Hosts: []ConfigHost{h}}
	}
	for name, config := range map[string]Config{
		"no name":       with(func(h *ConfigHost) { h.Names = nil }),
		"pattern":       with(func(h *ConfigHost) { h.Names = []string{"*"} }),
		"two words":     with(func(h *ConfigHost) { h.Names = []string{"a b"} }),
		"twice":         with(func(h *ConfigHost) { h.Names = []string{"a", "a"} }),
		"address":       with(func(h *ConfigHost) { h.Machine.Address = "a\nProxyCommand x" }),
		"option":        with(func(h *ConfigHost) { h.Machine.Address = "-oProxyCommand=x" }),
		"user":          with(func(h *ConfigHost) { h.Machine.User = "a b" }),
		"unlisted jump": with(func(h *ConfigHost) { h.Machine.Jump = &Machine{Name: "gone"} }),
		"port":          with(func(h *ConfigHost) { h.Forwards = []ConfigForward{{"127.0.0.1:0", "a:1"}} }),
		"target":        with(func(h *ConfigHost) { h.Forwards = []ConfigForward{{"127.0.0.1:1", "a b:1"}} }),
		"identity":      {IdentityFile: "/a\"b", KnownHosts: "/known"},
		"variable":      {IdentityFile: "/id", KnownHosts: "/${HOME}/known"},
	} {
		if text, err := config.Text(); err == nil {
			t.Errorf("%s: written as\n%s", name, text)
		} else if !strings.HasPrefix(err.Error(), "ssh_config: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := with(func(*ConfigHost) {}).Text(); err != nil {
		t.Error(err)
	}
}

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
