//go:build linux && e2e

// Package lab installs on the machines of a lab: real systemd, sshd, apt and
// dnf, with packages from the vendors' stand-in mirror.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/install"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/secret"
	"github.com/mongo-sandbox/sandbox/test/lab/machines"
	"github.com/mongo-sandbox/sandbox/test/lab/mirror"
)

func TestMain(m *testing.M) {
	os.Exit(machines.Main(m.Run, func(ctx context.Context) error {
		r, err := mirror.Open(ctx, mirror.Options{Progress: func(text string) { fmt.Fprintln(os.Stderr, text) }})
		if err != nil {
			return err
		}
		return r.Close()
	}))
}

const user = "sandbox"

// site is a lab with the machines of an environment.
type site struct {
	*testing.T
	lab    *machines.Lab
	server *mirror.Server
	opts   install.Options

	mu      sync.Mutex
	run     time.Time            // when it began
	began   map[string]time.Time // the first that was heard of each machine
	slowest time.Duration        // of a machine
}

func newSite(t *testing.T, image string, deployments ...environment.Deployment) *site {
	t.Helper()
	dir := t.TempDir() // removed after the lab
	repositories, err := mirror.Open(t.Context(), mirror.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repositories.Close() })
	lab, err := machines.New(machines.Options{CA: repositories.CA(), Hosts: repositories.Hosts(), Files: func(i machines.Image) []machines.File {
		family := mirror.Debian
		if i == machines.CentOSStream9 {
			family = mirror.EL9
		}
		var files []machines.File
		for _, f := range repositories.RootFiles(family) {
			files = append(files, machines.File{Path: f.Path, Data: f.Data, Mode: f.Mode})
		}
		return files
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, lab: lab}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range lab.Names() {
				t.Logf("log of %s:\n%s", name, s.root(name, "tail -n 60 /var/log/sandbox-provision.log || true"))
			}
			for _, r := range s.server.Unknown() {
				t.Log("unknown:", r)
			}
			t.Log("names not resolved:", lab.Lookups())
		}
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.server, err = repositories.Serve(machines.Gateway); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.server.Close() })

	key, err := remote.LoadOrCreateKey(filepath.Join(dir, "id"), "test")
	if err != nil {
		t.Fatal(err)
	}
	pmm := &environment.PMMServer{Machine: "pmm", Image: "percona/pmm-server:3", Port: 8443}
	spec := &environment.Spec{Name: "demo", Platform: environment.GCP, Cloud: &environment.Cloud{PMM: pmm}}
	inv := &environment.Inventory{SSH: &environment.SSH{User: user, KeyFile: "id", KnownHosts: "known_hosts"}}
	var start sync.WaitGroup
	add := func(name, role, deployment string) {
		n := len(inv.Machines) + 10
		m := machines.Machine{
			Name: name, Image: image, InternalIP: fmt.Sprintf("10.128.0.%d", n), ExternalIP: fmt.Sprintf("198.18.0.%d", n),
			SSHKeys: []string{user + ":" + key.AuthorizedKey()},
			Disks:   []machines.Disk{{Boot: true, DeviceName: "boot", Name: name}},
		}
		disk := role == "data" || role == environment.Monitoring
		if disk {
			m.Disks = append(m.Disks, machines.Disk{DeviceName: "data", Name: name + "-data", GB: 1})
		}
		inv.Machines = append(inv.Machines, environment.MachineState{
			Name: name, Role: role, Deployment: deployment, ID: name, Disk: disk, InternalIP: m.InternalIP, ExternalIP: m.ExternalIP})
		start.Go(func() {
			if err := lab.Start(t.Context(), m); err != nil {
				t.Error(err)
			}
		})
	}
	for _, d := range deployments {
		for _, m := range d.Members {
			add(m.Name, string(m.Role), d.Name)
		}
	}
	spec.Deployments = deployments
	add("load", environment.LoadHost, "")
	add("pmm", environment.Monitoring, "")
	start.Wait()
	s.opts = install.Options{Dir: dir, Spec: spec, Inventory: inv, Progress: s.progress}
	return s
}

// deployment is a replica set with members of these roles.
func deployment(name string, d environment.Deployment, roles ...environment.Role) environment.Deployment {
	d.Name, d.ReplicaSet, d.EnvTag = name, name, "test"
	for i, role := range roles {
		d.Members = append(d.Members, environment.Member{Name: fmt.Sprintf("%s-%d", name, i), Role: role})
	}
	return d
}

func (s *site) install() (*environment.Inventory, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	s.mu.Lock()
	s.run, s.began, s.slowest = time.Now(), map[string]time.Time{}, 0
	s.mu.Unlock()
	inv, err := install.Run(ctx, s.opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.run)
	s.Logf("took %.1fs, the slowest machine %.1fs", took.Seconds(), s.slowest.Seconds())
	// Machines are installed side by side, and nothing waits for long after
	// the last one.
	if err == nil && took > 2*s.slowest {
		s.Errorf("all machines together took %s, the slowest of them %s", took, s.slowest)
	}
	return inv, err
}

func (s *site) progress(e install.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("%6.1fs %s %s %s %s %v", time.Since(s.run).Seconds(), e.Deployment, e.Machine, e.Stage, e.Detail, e.Err)
	if e.Machine == "" {
		return
	}
	if s.began[e.Machine].IsZero() {
		s.began[e.Machine] = time.Now()
	}
	if e.Stage == install.Installed {
		s.slowest = max(s.slowest, time.Since(s.began[e.Machine]))
	}
}

// root runs a script as root on a machine and returns what it prints.
func (s *site) root(machine, script string) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Minute)
	defer cancel()
	conn, err := install.Dial(ctx, s.opts.Inventory, s.opts.Dir, machine)
	if err != nil {
		s.Errorf("%s: %v", machine, err)
		return ""
	}
	defer func() { _ = conn.Close() }()
	out, err := conn.Output(ctx, remote.Command{Script: "exec 2>&1\nset -e\n" + script, Sudo: true})
	if err != nil {
		s.Errorf("%s: %s\n%s\n%v", machine, script, out, err)
	}
	return out
}

func (s *site) expect(machine, script, want string) {
	s.Helper()
	if got := s.root(machine, script); got != want {
		s.Errorf("%s: %s\nprints %q, not %q", machine, script, got, want)
	}
}

var (
	mongo9  = environment.Deployment{Distribution: "community", Release: "9.0", Series: "9.0", Version: "9.0.4"}
	psmdb80 = environment.Deployment{Distribution: "psmdb", Release: "psmdb-80", Series: "8.0", Version: "8.0.34", Monitored: true}
	mongo7  = environment.Deployment{Distribution: "community", Release: "7.0", Series: "7.0", Version: "7.0.31"}
)

const (
	data    = environment.Data
	arbiter = environment.Arbiter
)

func TestInstall(t *testing.T) {
	for _, c := range []struct{ image, hold, build string }{
		{"centos-stream-9-v20260801", "grep ^excludepkgs= /etc/dnf/dnf.conf | grep -o 'percona-server-mongodb-server percona-mongodb-mongosh pmm-client'", "percona-server-mongodb-server percona-mongodb-mongosh pmm-client"},
		{"debian-12-bookworm-v20260801", "apt-mark showhold | tr '\\n' ' '", "percona-mongodb-mongosh percona-server-mongodb-server pmm-client"},
	} {
		t.Run(c.image, func(t *testing.T) {
			s := newSite(t, c.image, deployment("new", mongo9, data), deployment("old", psmdb80, data, data, arbiter), deployment("seven", mongo7, data))
			inv, err := s.install()
			if err != nil {
				t.Fatal(err)
			}
			for i, version := range []string{"9.0.4", "8.0.34", "7.0.31"} {
				if d := inv.Deployments[i]; !strings.HasPrefix(d.ActualVersion, version) || d.Engine != "embedded" {
					t.Errorf("deployment %+v", d)
				}
			}
			for _, r := range s.server.Unknown() {
				t.Errorf("asked for in vain: %v", r)
			}

			s.expect("old-0", c.hold, c.build)
			s.expect("old-0", "systemctl is-enabled mongod percona-telemetry-agent || true", "enabled\nmasked")
			s.expect("old-0", "ls /usr/local/percona/telemetry_uuid 2>/dev/null || echo none", "none")
			s.expect("old-0", "stat -c '%a %U' /etc/mongod.keyfile /etc/sandbox/machine.env", "400 mongod\n600 root")
			s.expect("old-0", "findmnt -no SOURCE,FSTYPE,OPTIONS $(awk '/dbPath/ {print $2}' /etc/mongod.conf) | grep -c 'xfs.*noatime'", "1")
			s.expect("old-2", "findmnt $(awk '/dbPath/ {print $2}' /etc/mongod.conf) || echo none", "none")
			s.expect("old-0", "sysctl -n vm.swappiness vm.overcommit_memory net.core.somaxconn", "1\n1\n4096")
			s.expect("old-0", "cd /sys/kernel/mm/transparent_hugepage; cat enabled defrag khugepaged/max_ptes_none | grep -o '\\[.*\\]\\|^[0-9]*$'", "[always]\n[defer+madvise]\n0")
			s.expect("seven-0", "cd /sys/kernel/mm/transparent_hugepage; cat enabled defrag | grep -o '\\[.*\\]'", "[never]\n[never]")
			s.expect("old-0", "pid=$(systemctl show -p MainPID --value mongod); grep -z ^GLIBC /proc/$pid/environ | tr '\\0' ' '; systemctl show -p LimitNOFILE --value mongod", "GLIBC_TUNABLES=glibc.pthread.rseq=0 64000")
			s.expect("seven-0", "pid=$(systemctl show -p MainPID --value mongod); grep -cz ^GLIBC /proc/$pid/environ || true", "0")
			s.expect("old-0", "blockdev --getra /dev/disk/by-id/google-data", "32")
			s.expect("load", "getent hosts old-1 | awk '{print $1}'", inv.Machines[2].InternalIP)
			s.checkMonitoring()
			s.checkSecrets()

			status, err := install.Status(t.Context(), install.StatusOptions{Dir: s.opts.Dir, Inventory: inv})
			if err != nil || !status.Healthy {
				t.Errorf("status %+v: %v", status, err)
			}

			// Again: nothing is done that is done already.
			pids := "systemctl show -p MainPID --value mongod"
			before := s.root("old-0", pids)
			asked := len(s.server.Requests())
			if _, err := s.install(); err != nil {
				t.Fatal(err)
			}
			s.expect("old-0", pids, before)
			if again := s.server.Requests()[asked:]; len(again) > 0 {
				t.Errorf("a second run asks for %v", again)
			}

			// A reboot: everything is back by itself.
			for _, name := range []string{"old-0", "pmm"} {
				if err := s.lab.Reboot(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.install(); err != nil {
				t.Fatal(err)
			}
			s.expect("old-0", "findmnt -no FSTYPE $(awk '/dbPath/ {print $2}' /etc/mongod.conf); systemctl is-active mongod sandbox-boot", "xfs\nactive\nactive")
			s.expect("old-0", "sysctl -n vm.swappiness; grep -o '\\[.*\\]' /sys/kernel/mm/transparent_hugepage/enabled; blockdev --getra /dev/disk/by-id/google-data", "1\n[always]\n32")
		})
	}
}

// checkMonitoring: the members of the monitored deployment are known to the
// server, the arbiter as a machine.
func (s *site) checkMonitoring() {
	s.Helper()
	password, err := secret.Read(filepath.Join(s.opts.Dir, install.PMMPasswordFile))
	if err != nil {
		s.Fatal(err)
	}
	s.write("load", "/root/curl", "insecure\nuser = admin:"+password.Reveal()+"\n")
	get := func(what string) string {
		return s.root("load", "curl -fsS -K /root/curl https://pmm:8443/v1/inventory/"+what)
	}
	nodes, services := get("nodes"), get("services")
	for _, name := range []string{"old-0", "old-1", "old-2"} {
		if !strings.Contains(nodes, `"`+name+`"`) || strings.Contains(services, `"`+name+`"`) == (name == "old-2") {
			s.Errorf("%s is not as it should be in nodes\n%s\nand services\n%s", name, nodes, services)
		}
	}
	if strings.Contains(nodes, "new-0") || strings.Contains(services, "profiler") {
		s.Errorf("nodes %s services %s", nodes, services)
	}
}

// checkSecrets: no secret is where others can read it.
func (s *site) checkSecrets() {
	s.Helper()
	var patterns strings.Builder
	for _, name := range []string{install.AdminPasswordFile, install.BenchmarkPasswordFile, install.MonitoringPasswordFile, install.PMMPasswordFile, "keyfile"} {
		text, err := secret.Read(filepath.Join(s.opts.Dir, name))
		if err != nil {
			s.Fatal(err)
		}
		patterns.WriteString(text.Reveal() + "\n")
	}
	for _, m := range s.opts.Inventory.Machines {
		s.write(m.Name, "/root/secrets", patterns.String())
		s.expect(m.Name, "grep -rlF -f /root/secrets /var/log /tmp /var/tmp /run/log || true\n"+
			"find /etc /usr/local /var/lib -xdev -type f -perm /007 -exec grep -lF -f /root/secrets {} + || true", "")
	}
}

// write puts a file of root's on a machine.
func (s *site) write(machine, path, text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	conn, err := install.Dial(ctx, s.opts.Inventory, s.opts.Dir, machine)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.WriteFile(ctx, path, []byte(text), remote.CopyOptions{Sudo: true}); err != nil {
		s.Fatal(err)
	}
}

func TestUnknownVersion(t *testing.T) {
	for _, image := range []string{"centos-stream-9-v20260801", "debian-12-bookworm-v20260801"} {
		t.Run(image, func(t *testing.T) {
			d, e := psmdb80, mongo9
			d.Version, d.Monitored, e.Version = "8.0.99", false, "9.0.9"
			s := newSite(t, image, deployment("good", mongo9, data), deployment("old", d, data), deployment("new", e, data))
			inv, err := s.install()
			var machine *install.MachineError
			var version *install.VersionError
			if !errors.As(err, &machine) || !errors.As(err, &version) {
				t.Fatalf("error %v", err)
			}
			t.Log(err)
			for _, want := range []string{"machine old-0: there is no version 8.0.99 of percona-server-mongodb-server; there are ", "8.0.34-15",
				"machine new-0: there is no version 9.0.9 of mongodb-org-server; there are ", "9.0.4"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %v has no %q", err, want)
				}
			}
			if inv.Deployments[0].ActualVersion != "9.0.4" {
				t.Errorf("the other deployment: %+v", inv.Deployments[0])
			}
			// Corrected, it goes on.
			s.opts.Spec.Deployments[1].Version, s.opts.Spec.Deployments[2].Version = "8.0.34-14", "9.0.3"
			if inv, err = s.install(); err != nil || inv.Deployments[2].ActualVersion != "9.0.3" {
				t.Errorf("%+v: %v", inv.Deployments, err)
			}
		})
	}
}

// TestBadDays: an unreachable mirror, a bad signature, and a program that
// goes away in the middle.
func TestBadDays(t *testing.T) {
	for _, image := range []string{"centos-stream-9-v20260801", "debian-12-bookworm-v20260801"} {
		t.Run(image, func(t *testing.T) {
			s := newSite(t, image, deployment("new", mongo9, data))
			back := s.server.Unreachable("repo.mongodb.org")
			_, err := s.install()
			if err == nil || !strings.Contains(err.Error(), "repo.mongodb.org") || !strings.Contains(err.Error(), "machine new-0: ") {
				t.Errorf("error %v", err)
			}
			t.Log(err)
			back()
			back = s.server.Inject(mirror.Fault{Kind: mirror.Unsigned, Host: "repo.mongodb.org"})
			if _, err := s.install(); err == nil {
				t.Error("installed without a signature")
			} else {
				t.Log(err)
			}
			s.expect("new-0", "command -v mongod || echo none", "none")
			back()

			// The program ends while packages are being installed.
			ctx, cancel := context.WithCancel(t.Context())
			options := s.opts
			options.Progress = func(e install.Event) {
				if strings.HasPrefix(e.Detail, "installing mongodb-org-server") {
					cancel()
				}
			}
			if _, err := install.Run(ctx, options); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			if inv, err := s.install(); err != nil || inv.Deployments[0].ActualVersion != "9.0.4" {
				t.Errorf("%+v: %v", inv.Deployments, err)
			}
		})
	}
}
