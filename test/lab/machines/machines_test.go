//go:build linux && e2e

package machines

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/remote"
)

func TestMain(m *testing.M) { os.Exit(Main(m.Run)) }

const user = "tester"

// bench is a lab and what it takes to log in to its machines.
type bench struct {
	*Lab
	t    *testing.T
	key  *remote.Key
	dir  string
	name string // that resolves and answers with HTTPS
}

// newBench makes a lab, which is closed at the end of the test; of what was
// there, nothing must then be left.
func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), name: "example.com"} // whose certificate httptest has
	var err error
	if b.key, err = remote.LoadOrCreateKey(filepath.Join(b.dir, "key"), "test"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s of %s", r.URL.Path, r.Host)
	}))
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := server.TLS
	t.Cleanup(server.Close)

	b.Lab, err = New(Options{CA: ca, Hosts: []string{b.name}, Files: func(image Image) []File {
		return []File{{Path: "/etc/lab/image", Data: []byte(image), Mode: 0o600}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range b.Names() {
				t.Logf("console of %s:\n%s", name, b.Console(name))
			}
		}
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, left := range leftovers(t, os.Getenv(labVariable)) {
			t.Errorf("left: %s", left)
		}
	})
	listener, err := tls.Listen("tcp", net.JoinHostPort(Gateway, "443"), config)
	if err != nil {
		t.Fatal(err)
	}
	https := &http.Server{Handler: server.Config.Handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = https.Serve(listener) }()
	t.Cleanup(func() { _ = https.Close() })
	return b
}

// spec describes machine number n.
func (b *bench) spec(n int, image string) Machine {
	return Machine{
		Name: fmt.Sprintf("machine-%d", n), Image: image,
		InternalIP: fmt.Sprintf("10.128.0.%d", 10+n), ExternalIP: fmt.Sprintf("198.18.0.%d", n),
		SSHKeys: []string{user + ":" + b.key.AuthorizedKey()},
		Disks: []Disk{
			{Boot: true, DeviceName: "boot", Name: fmt.Sprintf("machine-%d", n)},
			{DeviceName: "data", Name: fmt.Sprintf("machine-%d-data", n), GB: 1},
		},
	}
}

func (b *bench) start(m Machine) Machine {
	b.t.Helper()
	if err := b.Start(b.t.Context(), m); err != nil {
		b.t.Fatal(err)
	}
	return m
}

func (b *bench) options() remote.Options {
	return remote.Options{
		Key: b.key, KnownHosts: filepath.Join(b.dir, "known_hosts"),
		ConnectTimeout: 5 * time.Second, KeepAlive: time.Second, DeadAfter: 3 * time.Second,
	}
}

func address(m Machine) remote.Machine {
	return remote.Machine{Name: m.Name, Address: m.ExternalIP, User: user}
}

// login waits until a machine lets the user in.
func (b *bench) login(m remote.Machine) *remote.Conn {
	b.t.Helper()
	conn, err := b.dial(m)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (b *bench) dial(m remote.Machine) (*remote.Conn, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	return remote.WaitReachable(ctx, m, b.options(), remote.WaitOptions{Every: 200 * time.Millisecond})
}

// sudo runs a script as root and returns what it prints.
func (b *bench) sudo(conn *remote.Conn, script string) string {
	b.t.Helper()
	out, err := b.try(conn, script)
	if err != nil {
		b.t.Fatalf("%s\n%s: %v", script, out, err)
	}
	return out
}

func (b *bench) try(conn *remote.Conn, script string) (string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	return conn.Output(ctx, remote.Command{Script: "exec 2>&1\nset -e\n" + script, Sudo: true})
}

// expect runs a script as root and compares what it prints.
func (b *bench) expect(conn *remote.Conn, script, want string) {
	b.t.Helper()
	if got := b.sudo(conn, script); got != want {
		b.t.Errorf("%s\nprints %q, not %q", script, got, want)
	}
}

// TestImages: each image is a machine as the provisioning expects one.
func TestImages(t *testing.T) {
	for _, c := range []struct{ image, release, has, lacks, install string }{
		{"debian-12-bookworm-v20260801", "debian 12 bookworm", "apt-get dpkg-query apt-mark", "dnf yum rpm", "apt-get check"},
		{"projects/ubuntu-os-cloud/global/images/ubuntu-2404-noble-amd64-v20260801", "ubuntu 24.04 noble", "apt-get", "dnf rpm", "apt-get check"},
		{"centos-stream-9-v20260801", "centos 9", "dnf yum rpm", "apt-get dpkg apt lsb_release", "dnf -C list installed glibc"},
	} {
		t.Run(c.release, func(t *testing.T) {
			b := newBench(t)
			began := time.Now()
			m := b.start(b.spec(1, c.image))
			conn := b.login(address(m))
			t.Logf("ssh answers after %v", time.Since(began))

			if state, err := b.try(conn, "systemctl is-system-running --wait"); err != nil || state != "running" {
				t.Errorf("the system is %s: %s", state, b.sudo(conn, "systemctl --failed; journalctl -b -p warning --no-pager | tail -30"))
			}
			t.Logf("the system is up after %v", time.Since(began))
			b.expect(conn, "whoami", "root")
			b.expect(conn, "hostname; getent hosts $(hostname) | awk '{print $1}'", m.Name+"\n"+m.InternalIP)
			b.expect(conn, `. /etc/os-release; echo $ID $VERSION_ID $VERSION_CODENAME`, c.release)
			b.expect(conn, "for p in "+c.has+"; do command -v $p >/dev/null || echo $p; done", "")
			b.expect(conn, "for p in "+c.lacks+"; do command -v $p || true; done", "")
			b.sudo(conn, c.install)
			b.expect(conn, "cat /etc/lab/image; stat -c ' %a' /etc/lab/image", fmt.Sprintf("%s 600", must(ImageOf(c.image))))
			b.expect(conn, "systemctl is-active sshd ssh | sort -u", "active")

			b.checkNetwork(conn, m)
			b.checkServices(conn)
			b.checkKnobs(conn)
			b.checkDisk(conn, m)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// checkNetwork: the gateway is reached by name, over a certificate that is
// trusted; nothing else is.
func (b *bench) checkNetwork(conn *remote.Conn, m Machine) {
	b.t.Helper()
	b.expect(conn, "curl -sS https://"+b.name+"/path", "/path of "+b.name)
	b.expect(conn, "getent hosts nowhere.test || echo none", "none")
	if asked := b.Lookups(); !slices.Contains(asked, "nowhere.test") || slices.Contains(asked, b.name) {
		b.t.Errorf("asked for in vain: %q", asked)
	}
	b.expect(conn, "ping -c 1 -W 1 192.0.2.1 >/dev/null || echo silent", "silent")
	if c, err := net.DialTimeout("tcp", m.InternalIP+":22", 2*time.Second); err == nil {
		_ = c.Close()
		b.t.Error("the test reaches the internal address")
	}
}

// checkServices: units are written, started, enabled, limited and looked at.
func (b *bench) checkServices(conn *remote.Conn) {
	b.t.Helper()
	b.sudo(conn, `cat >/etc/systemd/system/probe.service <<'UNIT'
[Service]
ExecStart=/bin/sh -c 'echo started; exec sleep infinity'
LimitNOFILE=64000
User=nobody
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now probe.service`)
	b.expect(conn, "systemctl is-enabled probe; systemctl is-active probe", "enabled\nactive")
	b.expect(conn, "until journalctl -u probe -o cat | grep -x started; do sleep 0.1; done", "started")
	var most unix.Rlimit // that this machine grants anybody
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		b.t.Fatal(err)
	}
	b.expect(conn, "pid=$(systemctl show -p MainPID --value probe); awk '/open files/ {print $4}' /proc/$pid/limits", fmt.Sprint(min(64000, most.Max)))
	b.expect(conn, "systemd-run --quiet --wait --pipe echo from a unit", "from a unit")
}

// checkKnobs: they are set as on any machine, and are the machine's own.
func (b *bench) checkKnobs(conn *remote.Conn) {
	b.t.Helper()
	const enabled, swappiness = "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/sys/vm/swappiness"
	before := [2]string{read(b.t, enabled), read(b.t, swappiness)}
	b.expect(conn, "cat "+enabled, before[0])
	b.expect(conn, "sysctl -w vm.swappiness=1 net.core.somaxconn=4096 net.ipv4.tcp_keepalive_time=120 >/dev/null; sysctl -n vm.swappiness net.core.somaxconn net.ipv4.tcp_keepalive_time", "1\n4096\n120")
	b.expect(conn, "echo never >"+enabled+"; until grep -F [ "+enabled+"; do sleep 0.05; done", "always madvise [never]")
	b.expect(conn, "echo nonsense >"+enabled+"; until grep -F [ "+enabled+"; do sleep 0.05; done", "always madvise [never]")
	b.expect(conn, "echo 0 >/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none; cat /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none", "0")
	b.expect(conn, "(echo 1 >/proc/sys/vm/no_such_knob) 2>/dev/null || echo refused", "refused")
	if after := [2]string{read(b.t, enabled), read(b.t, swappiness)}; after != before {
		b.t.Errorf("the knobs of the real machine were %q and are %q", before, after)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// checkDisk: it is where the cloud says, and what is on it, in fstab and in
// sysctl.d outlives a reboot that the machine itself begins, as well as the
// loss of power.
func (b *bench) checkDisk(conn *remote.Conn, m Machine) {
	t := b.t
	t.Helper()
	b.sudo(conn, `disk=/dev/disk/by-id/google-data
test -b $disk
mkfs.xfs -q $disk
mkdir /data
echo "$disk /data xfs noatime,nofail 0 0" >>/etc/fstab
mount /data
blockdev --setra 32 $disk
echo precious >/data/file
echo vm.max_map_count=262144 >/etc/sysctl.d/90-test.conf`)
	b.expect(conn, "blockdev --getsize64 /dev/disk/by-id/google-data", fmt.Sprint(1<<30))

	boots := []string{b.sudo(conn, "cat /proc/sys/kernel/random/boot_id")}
	back := func(how string) {
		t.Helper()
		began := time.Now()
		conn = b.login(address(m))
		t.Logf("%s: ssh answers again after %v", how, time.Since(began))
		boot := b.sudo(conn, "cat /proc/sys/kernel/random/boot_id")
		if slices.Contains(boots, boot) {
			t.Errorf("%s: it has not booted", how)
		}
		boots = append(boots, boot)
		b.expect(conn, "cat /data/file; findmnt -no FSTYPE /data", "precious\nxfs")
		b.expect(conn, "sysctl -n vm.max_map_count", "262144")
		if got := b.sudo(conn, "cat /proc/sys/vm/swappiness"); got == "1" {
			t.Errorf("%s: what was set by hand is still set", how)
		}
		b.expect(conn, "systemctl is-active probe", "active")
	}
	_, _ = b.try(conn, "reboot") // ends the connection, sooner or later
	<-conn.Done()
	back("reboot from inside")

	if err := b.Reboot(t.Context(), m.Name); err != nil {
		t.Fatal(err)
	}
	back("reboot from outside")

	b.sudo(conn, "sync")
	if err := b.Kill(m.Name); err != nil {
		t.Fatal(err)
	}
	if b.Running(m.Name) {
		t.Error("it is on after its power was cut")
	}
	if err := b.PowerOn(t.Context(), m.Name); err != nil {
		t.Fatal(err)
	}
	back("loss of power")

	_, _ = b.try(conn, "poweroff")
	for deadline := time.Now().Add(shutdownTime); b.Running(m.Name); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has not turned itself off")
		}
	}
	m.ExternalIP = "198.18.0.200" // as clouds do
	b.start(m)
	back("start with another address")
}

// TestPartition: a machine that is cut off is silent, and then there again
// with the same connections. One without an external address is reached
// through another.
func TestPartition(t *testing.T) {
	b := newBench(t)
	gate := b.start(b.spec(1, "debian-12"))
	inner := b.spec(2, "centos-stream-9")
	inner.ExternalIP = ""
	b.start(inner)
	conn := b.login(address(gate))
	jump := address(gate)
	through := b.login(remote.Machine{Name: inner.Name, Address: inner.InternalIP, User: user, Jump: &jump})
	b.expect(through, "hostname", inner.Name)

	if err := b.Partition(inner.Name, true); err != nil {
		t.Fatal(err)
	}
	b.expect(conn, "ping -c 1 -W 1 "+inner.InternalIP+" >/dev/null || echo silent", "silent")
	select {
	case <-through.Done():
	case <-time.After(20 * time.Second):
		t.Error("the connection to a machine that is cut off lives on")
	}
	if err := b.Partition(inner.Name, false); err != nil {
		t.Fatal(err)
	}
	b.expect(conn, "ping -c 1 -W 10 "+inner.InternalIP+" >/dev/null && echo there", "there")

	// From outside, a dial is not refused but not answered either.
	if err := b.Partition(gate.Name, true); err != nil {
		t.Fatal(err)
	}
	_, err := net.DialTimeout("tcp", gate.ExternalIP+":22", time.Second)
	if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
		t.Errorf("dialling a machine that is cut off: %v", err)
	}
	if err := b.Partition(gate.Name, false); err != nil {
		t.Fatal(err)
	}
	b.expect(b.login(address(gate)), "hostname", gate.Name)
}

// TestDisks: a disk outlives its machine if it should, and only then.
func TestDisks(t *testing.T) {
	b := newBench(t)
	m := b.spec(1, "debian-12")
	disk := m.Disks[1].Name
	for _, c := range []struct {
		outlives bool
		after    string
	}{{true, "xfs"}, {false, "empty"}} {
		m.Disks[1].Outlives = c.outlives
		b.start(m)
		b.sudo(b.login(address(m)), "mkfs.xfs -q -f /dev/disk/by-id/google-data; sync")
		if err := b.Delete(m.Name); err != nil {
			t.Fatal(err)
		}
		if err := remote.ForgetHost(filepath.Join(b.dir, "known_hosts"), address(m)); err != nil {
			t.Fatal(err)
		}
		b.start(m)
		b.expect(b.login(address(m)), "blkid -p -o value -s TYPE /dev/disk/by-id/google-data || echo empty", c.after)
		if err := b.Stop(m.Name); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(m.Name); err != nil {
			t.Fatal(err)
		}
		if err := remote.ForgetHost(filepath.Join(b.dir, "known_hosts"), address(m)); err != nil {
			t.Fatal(err)
		}
		want := []string{}
		if c.outlives {
			want = []string{disk}
		}
		if there, err := b.Disks(); err != nil || !slices.Equal(there, want) {
			t.Errorf("the disks are %q, %v, want %q", there, err, want)
		}
		if err := b.DeleteDisk(disk); err != nil {
			t.Error(err)
		}
		if there, err := b.Disks(); err != nil || len(there) > 0 {
			t.Errorf("%q are left, %v", there, err)
		}
	}
}

// TestRefusals: what cannot be is refused before anything is made.
func TestRefusals(t *testing.T) {
	b := newBench(t)
	for name, change := range map[string]func(*Machine){
		"name":        func(m *Machine) { m.Name = "../up" },
		"address":     func(m *Machine) { m.InternalIP = "10.128.0.0/20" },
		"image":       func(m *Machine) { m.Image = "windows-2025" },
		"key":         func(m *Machine) { m.SSHKeys = []string{"ssh-ed25519 AAAA"} },
		"device name": func(m *Machine) { m.Disks[1].DeviceName = "a b" },
	} {
		m := b.spec(1, "debian-12")
		change(&m)
		if err := b.Start(t.Context(), m); err == nil {
			t.Errorf("%s: a machine was made", name)
		}
	}
	if err := b.Delete("machine-1"); err == nil {
		t.Error("a machine was deleted that is not there")
	}
	if _, err := New(Options{}); err == nil {
		t.Error("there are two labs")
	}
}

// TestThirteen: an environment's worth of machines is there in seconds and
// takes little memory.
func TestThirteen(t *testing.T) {
	b := newBench(t)
	began := time.Now()
	var wg sync.WaitGroup
	errs := make([]error, 13)
	var running, reached time.Duration
	for i := range errs {
		m := b.spec(i+1, []string{"centos-stream-9", "debian-12"}[i%2])
		wg.Go(func() { errs[i] = b.Start(t.Context(), m) })
	}
	wg.Wait()
	running = time.Since(began)
	for i := range errs {
		wg.Go(func() {
			conn, err := b.dial(address(b.spec(i+1, "")))
			if err == nil {
				_ = conn.Close()
			}
			errs[i] = errors.Join(errs[i], err)
		})
	}
	wg.Wait()
	reached = time.Since(began)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	perMachine := memory(t, cgroupOf(os.Getenv(labVariable))) / 13
	t.Logf("13 machines: on after %v, let users in after %v, take %d MB each", running, reached, perMachine)
	if perMachine > 120 {
		t.Errorf("a machine takes %d MB", perMachine)
	}
	if reached > time.Minute {
		t.Errorf("it took %v to reach all", reached)
	}
}

// memory is what the processes in a cgroup and below take, in MB; what several
// share is counted once.
func memory(t *testing.T, cgroup string) int {
	t.Helper()
	total := 0
	err := filepath.WalkDir(cgroup, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return err
		}
		for _, pid := range strings.Fields(read(t, path)) {
			usage, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup") // it may have ended
			for line := range strings.Lines(string(usage)) {
				var kB int
				if _, err := fmt.Sscanf(line, "Pss: %d kB", &kB); err == nil {
					total += kB
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if total == 0 {
		t.Fatal("nothing was measured")
	}
	return total / 1024
}

// TestKilled: of a lab whose process is killed, nothing is left but files,
// which the next one removes.
func TestKilled(t *testing.T) {
	if os.Getenv("SANDBOX_LAB_VICTIM") != "" {
		b := newBench(t)
		m := b.start(b.spec(1, "centos-stream-9"))
		b.sudo(b.login(address(m)), "mkfs.xfs -q /dev/disk/by-id/google-data; mkdir /data; mount /dev/disk/by-id/google-data /data")
		fmt.Println("victim:", os.Getenv(labVariable))
		select {} // until killed
	}
	victim := exec.Command(must(os.Executable()), "-test.run=^TestKilled$")
	victim.Env = slices.DeleteFunc(append(os.Environ(), "SANDBOX_LAB_VICTIM=1"), func(v string) bool {
		return strings.HasPrefix(v, labVariable+"=") || strings.HasPrefix(v, imageVariable+"=")
	})
	stdout := must(victim.StdoutPipe())
	victim.Stderr = os.Stderr
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	var lab string
	lines := bufio.NewScanner(stdout)
	for lab == "" && lines.Scan() {
		lab, _ = strings.CutPrefix(lines.Text(), "victim: ")
		if lab == lines.Text() {
			t.Log(lab)
			lab = ""
		}
	}
	if lab == "" {
		t.Fatal("the victim did not get as far")
	}
	if processes(t, lab) == nil {
		t.Fatal("there are no processes of a machine to kill")
	}
	_ = victim.Process.Kill()
	_ = victim.Wait()

	// The kernel takes a moment.
	wait := func(what string, left func() []string) {
		t.Helper()
		var found []string
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			if found = left(); len(found) == 0 {
				return
			}
		}
		t.Errorf("%s: %q", what, found)
	}
	wait("processes", func() []string { return processes(t, lab) })
	wait("loop devices", func() []string { return loops(t, lab) })
	if _, err := os.Stat(lab); err != nil {
		t.Fatalf("files, before the sweep: %v", err)
	}
	if err := sweep(filepath.Dir(lab)); err != nil {
		t.Fatal(err)
	}
	for _, left := range leftovers(t, lab) {
		t.Errorf("left: %s", left)
	}
	if _, err := os.Stat(lab); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files, after the sweep: %v", err)
	}
	// A lab that is alive is not swept.
	if _, err := os.Stat(os.Getenv(labVariable)); err != nil {
		t.Error(err)
	}
}

// leftovers is all that can be left of a lab's machines.
func leftovers(t *testing.T, lab string) []string {
	t.Helper()
	left := slices.Concat(processes(t, lab), loops(t, lab))
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, lab) {
			left = append(left, line)
		}
	}
	for _, pattern := range []string{lab + "/machines/*", lab + "/disks/*", cgroupOf(lab) + "/*/", "/run/netns/*"} {
		left = append(left, must(filepath.Glob(pattern))...)
	}
	interfaces := must(net.Interfaces())
	for _, i := range interfaces {
		if lab == os.Getenv(labVariable) && i.Name != "lo" {
			left = append(left, "interface "+i.Name)
		}
	}
	return left
}

// processes is those that have a lab in their arguments.
func processes(t *testing.T, lab string) []string {
	t.Helper()
	var found []string
	for _, path := range must(filepath.Glob("/proc/[0-9]*/cmdline")) {
		if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(lab)) {
			found = append(found, string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// loops is the loop devices whose files are a lab's.
func loops(t *testing.T, lab string) []string {
	t.Helper()
	var found []string
	for _, path := range must(filepath.Glob("/sys/block/loop*/loop/backing_file")) {
		if text, err := os.ReadFile(path); err == nil && bytes.HasPrefix(text, []byte(lab)) {
			found = append(found, path+": "+strings.TrimSpace(string(text)))
		}
	}
	return found
}
