package install

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost is a machine on which scripts take their time and have results.
type fakeHost struct {
	lab  *fakeLab
	name string
}

// fakeLab is a set of such machines.
type fakeLab struct {
	took    map[string]time.Duration // by "machine script" or "script"
	results map[string]string        // stdout, likewise
	fail    map[string][]error       // one for each time that it is run, likewise

	mu     sync.Mutex
	ran    []string
	files  map[string]string // "machine path"
	dialed map[string]int
	open   int
}

func (l *fakeLab) dial(_ context.Context, name string) (host, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialed[name]++
	if err := l.failure(name + " dial"); err != nil {
		return nil, err
	}
	l.open++
	return &fakeHost{l, name}, nil
}

// failure is the next one that something has.
func (l *fakeLab) failure(what string) error {
	list := l.fail[what]
	if len(list) == 0 {
		return nil
	}
	l.fail[what] = list[1:]
	return list[0]
}

func (h *fakeHost) Run(ctx context.Context, cmd remote.Command) error {
	script := cmd.Name
	if len(cmd.Args) > 0 {
		script = path.Base(cmd.Args[0])
	}
	if cmd.Stdin != nil {
		_, _ = io.Copy(io.Discard, cmd.Stdin)
	}
	l, name := h.lab, h.name+" "+script
	l.mu.Lock()
	l.ran = append(l.ran, name)
	took, ok := l.took[name]
	if !ok {
		took = l.took[script]
	}
	text, ok := l.results[name]
	if !ok {
		text = l.results[script]
	}
	err := l.failure(name)
	l.mu.Unlock()
	if cmd.Stdout != nil {
		_, _ = io.WriteString(cmd.Stdout, text)
	}
	select {
	case <-time.After(took):
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *fakeHost) WriteFile(_ context.Context, path string, data []byte, o remote.CopyOptions) (bool, error) {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	if o.Mode != 0o600 || !o.Sudo {
		return false, fmt.Errorf("%s is written with %+v", path, o)
	}
	h.lab.files[h.name+" "+path] = string(data)
	return true, nil
}

func (h *fakeHost) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no servers here")
}

func (h *fakeHost) Close() error {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.lab.open--
	return nil
}

func newLab() *fakeLab {
	return &fakeLab{
		took: map[string]time.Duration{}, results: map[string]string{"mongod.sh": "STEP=installing\nBUILD=9.0.4\n"},
		fail: map[string][]error{}, files: map[string]string{}, dialed: map[string]int{},
	}
}

// example is two deployments, one of them monitored, with load host and PMM.
func example(t *testing.T) Options {
	t.Helper()
	pmm := &environment.PMMServer{Machine: "pmm", Image: "percona/pmm-server:3", Port: 8443}
	spec := &environment.Spec{Name: "demo", Platform: environment.GCP, Cloud: &environment.Cloud{PMM: pmm}}
	inv := &environment.Inventory{SSH: &environment.SSH{User: "sandbox", KeyFile: "id", KnownHosts: "known_hosts"}}
	add := func(name, role, deployment string) {
		n := len(inv.Machines) + 1
		inv.Machines = append(inv.Machines, environment.MachineState{
			Name: name, Role: role, Deployment: deployment, ID: fmt.Sprint(n), Disk: role == "data",
			InternalIP: fmt.Sprintf("10.0.0.%d", n), ExternalIP: fmt.Sprintf("192.0.2.%d", n),
		})
	}
	for _, d := range []environment.Deployment{
		{Name: "new", ReplicaSet: "new", Distribution: "community", Release: "9.0", Series: "9.0", Version: "9.0.4"},
		{Name: "old", ReplicaSet: "old", Distribution: "psmdb", Release: "psmdb-80", Series: "8.0", Version: "8.0.34", Monitored: true, EnvTag: "test"},
	} {
		for i, role := range []environment.Role{environment.Data, environment.Data, environment.Arbiter} {
			name := fmt.Sprintf("%s-%d", d.Name, i)
			d.Members = append(d.Members, environment.Member{Name: name, Role: role})
			add(name, string(role), d.Name)
		}
		spec.Deployments = append(spec.Deployments, d)
	}
	add("load", environment.LoadHost, "")
	add("pmm", environment.Monitoring, "")
	return Options{Dir: t.TempDir(), Spec: spec, Inventory: inv, bringUp: func(_ context.Context, set *replicaSet) error {
		set.state.Engine, set.state.ActualVersion = engineMongod, set.state.Version+"-1"
		return nil
	}}
}

func (l *fakeLab) run(t *testing.T, o Options) (*environment.Inventory, error) {
	t.Helper()
	o.dial = l.dial
	inv, err := Run(t.Context(), o)
	if l.open != 0 {
		t.Errorf("%d connections are still open", l.open)
	}
	return inv, err
}

func (l *fakeLab) count(ran string) int {
	n := 0
	for _, r := range l.ran {
		if r == ran {
			n++
		}
	}
	return n
}

func TestMachinesAreInstalledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := newLab(), example(t)
		l.took = map[string]time.Duration{
			"host.sh": 5 * time.Second, "mongod.sh": 60 * time.Second, "old-1 mongod.sh": 100 * time.Second,
			"pmm-server.sh": 90 * time.Second, "pmm-client.sh": 10 * time.Second,
		}
		begin := time.Now()
		inv, err := l.run(t, o)
		if err != nil {
			t.Fatal(err)
		}
		// The slowest machine, and the registration that follows it.
		if took := time.Since(begin); took != 115*time.Second {
			t.Errorf("took %s", took)
		}
		slices.Sort(l.ran)
		var want []string
		for _, m := range o.Inventory.Machines {
			ran := []string{"host.sh", "copy scripts"}
			switch m.Role {
			case "data", "arbiter":
				ran = append(ran, "disk.sh", "tune.sh", "mongod.sh")
			case environment.Monitoring:
				ran = append(ran, "disk.sh", "pmm-server.sh")
			}
			if m.Deployment == "old" {
				ran = append(ran, "pmm-client.sh")
			}
			for _, script := range ran {
				want = append(want, m.Name+" "+script)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, l.ran); diff != "" {
			t.Error(diff)
		}
		if inv.Username != BenchmarkUser || inv.PasswordFile != BenchmarkPasswordFile || inv.PMM == nil || inv.Environment != "demo" {
			t.Errorf("inventory %+v", inv)
		}
		for _, d := range inv.Deployments {
			if d.Engine != engineMongod || d.ActualVersion != d.Version+"-1" || len(d.Endpoints) != 3 || d.Endpoints[2].Address() != d.Name+"-2:27017" {
				t.Errorf("deployment %+v", d)
			}
		}
		if o.Inventory.Deployments != nil {
			t.Error("the inventory given was changed")
		}
	})
}

func TestOneFailureLeavesTheOthersFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := newLab(), example(t)
		l.results["new-1 mongod.sh"] = "STEP=adding the repository\nSTEP=installing mongodb-org-server 9.0.4\n"
		l.took["mongod.sh"] = time.Minute
		l.took["new-1 mongod.sh"] = time.Second
		l.fail["new-1 mongod.sh"] = []error{&remote.Error{Host: "new-1", Err: &remote.ExitError{Command: "mongod.sh", Status: 100, Stderr: "E: no space left\nE: really"}}}
		var events []Event
		o.Progress = func(e Event) { events = append(events, e) }
		inv, err := l.run(t, o)
		want := "machine new-1: installing mongodb-org-server 9.0.4: E: no space left\nE: really (the full log is in " + scriptLog + " there)"
		if err == nil || err.Error() != want {
			t.Errorf("error:\n%v\nwant:\n%v", err, want)
		}
		var machine *MachineError
		if !errors.As(err, &machine) || machine.Machine != "new-1" {
			t.Errorf("error %#v", err)
		}
		if inv.Deployments[0].Engine != "" || inv.Deployments[1].Engine != engineMongod {
			t.Errorf("deployments %+v", inv.Deployments)
		}
		for _, m := range []string{"new-0", "new-2", "old-0"} {
			if l.count(m+" mongod.sh") != 1 {
				t.Errorf("%s was not finished", m)
			}
		}
		if !slices.ContainsFunc(events, func(e Event) bool {
			return e.Machine == "new-1" && e.Deployment == "new" && e.Stage == Failed && e.Err != nil
		}) || !slices.ContainsFunc(events, func(e Event) bool { return e.Machine == "" && e.Deployment == "old" && e.Stage == Healthy }) {
			t.Errorf("events %+v", events)
		}

		// The next run goes on: with the same secrets, and this time it works.
		before := l.files["new-1 "+parameterFile]
		if _, err := l.run(t, o); err != nil {
			t.Fatal(err)
		}
		if after := l.files["new-1 "+parameterFile]; after != before || after == "" {
			t.Errorf("the parameters changed from\n%s\nto\n%s", before, after)
		}
	})
}

func TestUnknownVersion(t *testing.T) {
	l, o := newLab(), example(t)
	l.results["old-0 mongod.sh"] = "STEP=x\nPACKAGE=percona-server-mongodb-server\nUNKNOWN_VERSION=8.0.99\nAVAILABLE=8.0.33-14 8.0.34-15 \n"
	l.fail["old-0 mongod.sh"] = []error{&remote.ExitError{Status: 1, Stderr: "there is no version 8.0.99"}}
	_, err := l.run(t, o)
	var version *VersionError
	if !errors.As(err, &version) || !slices.Equal(version.Available, []string{"8.0.33-14", "8.0.34-15"}) {
		t.Fatalf("error %v", err)
	}
	want := "machine old-0: there is no version 8.0.99 of percona-server-mongodb-server; there are 8.0.33-14, 8.0.34-15"
	if err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestLostConnectionIsMadeAgain(t *testing.T) {
	l, o := newLab(), example(t)
	lost := &remote.Error{Host: "new-0", Err: &remote.LostError{Err: errors.New("no answer to keepalive")}}
	l.fail["new-0 mongod.sh"] = []error{lost, lost}
	if _, err := l.run(t, o); err != nil {
		t.Fatal(err)
	}
	if l.dialed["new-0"] != 3 || l.count("new-0 mongod.sh") != 3 || l.dialed["new-1"] != 1 {
		t.Errorf("dialed %v", l.dialed)
	}
	l.fail["new-0 tune.sh"] = slices.Repeat([]error{lost}, 20)
	_, err := l.run(t, o)
	var machine *MachineError
	if !errors.As(err, &machine) || !strings.Contains(err.Error(), "connection lost: no answer to keepalive") {
		t.Errorf("error %v", err)
	}
}

func TestUnreachableMachine(t *testing.T) {
	l, o := newLab(), example(t)
	l.fail["pmm dial"] = []error{errors.New("the key is refused")}
	inv, err := l.run(t, o)
	// A deployment that is not to be monitored does not care.
	want := "machine pmm: the key is refused\ndeployment old: is not monitored, because the PMM server could not be installed"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	if inv.Deployments[0].Engine == "" {
		t.Errorf("deployment %+v", inv.Deployments[0])
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, o := newLab(), example(t)
		l.took["new-2 mongod.sh"] = time.Hour
		o.MachineTimeout = 10 * time.Minute
		_, err := l.run(t, o)
		if err == nil || !strings.Contains(err.Error(), "machine new-2: installing: not finished after 10m0s") {
			t.Errorf("error %v", err)
		}
	})
}

func TestMissingMachine(t *testing.T) {
	o := example(t)
	o.Inventory.Machines = o.Inventory.Machines[1:]
	if _, err := newLab().run(t, o); err == nil || err.Error() != "install: there is no machine for member new-0 of deployment new" {
		t.Errorf("error %v", err)
	}
}

// TestParameters reads the files as the scripts do.
func TestParameters(t *testing.T) {
	l, o := newLab(), example(t)
	o.Spec.Deployments[1].EnvTag = "it's $HOME"
	if _, err := l.run(t, o); err != nil {
		t.Fatal(err)
	}
	secrets, err := loadSecrets(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	values := func(machine string, names ...string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "machine.env")
		if err := os.WriteFile(file, []byte(l.files[machine+" "+parameterFile]), 0o600); err != nil {
			t.Fatal(err)
		}
		script := ". " + file + "\n"
		for _, name := range names {
			script += `echo "${` + name + `-unset}"` + "\n"
		}
		out, err := exec.Command("bash", "-euc", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	hosts := "10.0.0.1 new-0\n10.0.0.2 new-1\n10.0.0.3 new-2\n10.0.0.4 old-0\n10.0.0.5 old-1\n10.0.0.6 old-2\n10.0.0.7 load\n10.0.0.8 pmm\n"
	for _, test := range []struct {
		machine string
		names   []string
		want    string
	}{
		{"new-0", []string{"NAME", "ROLE", "INTERNAL_IP", "HOSTS", "DISK"}, "new-0\ndata\n10.0.0.1\n" + hosts + "1\n"},
		{"new-0", []string{"DISTRIBUTION", "RELEASE", "SERIES", "VERSION", "REPOSITORY", "REPLICA_SET", "PMM_PASSWORD"}, "community\n9.0\n9.0\n9.0.4\n\nnew\nunset\n"},
		{"new-0", []string{"KEYFILE", "MONITORING_PASSWORD"}, secrets.key.Reveal() + "\nunset\n"},
		{"old-2", []string{"ROLE", "DISK", "PMM_HOST", "PMM_PORT", "PMM_PASSWORD", "MONITORING_PASSWORD", "ENV_TAG"},
			"arbiter\n0\npmm\n8443\n" + secrets.pmm.Reveal() + "\n" + secrets.monitoring.Reveal() + "\nit's $HOME\n"},
		{"load", []string{"ROLE", "DISK", "PMM_PASSWORD", "KEYFILE"}, "load host\n0\nunset\nunset\n"},
		{"pmm", []string{"ROLE", "PMM_IMAGE", "PMM_PORT", "PMM_PASSWORD", "KEYFILE"}, "monitoring\npercona/pmm-server:3\n8443\n" + secrets.pmm.Reveal() + "\nunset\n"},
	} {
		if diff := cmp.Diff(test.want, values(test.machine, test.names...)); diff != "" {
			t.Errorf("%s %v: %s", test.machine, test.names, diff)
		}
	}
	for where, text := range l.files {
		if strings.Contains(text, secrets.admin.Reveal()) || strings.Contains(text, secrets.benchmark.Reveal()) {
			t.Errorf("%s has a password that it has no use for", where)
		}
	}
}

func TestBundle(t *testing.T) {
	bundle, err := bundle()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tar := exec.Command("tar", "-x", "-f", "-", "-C", dir)
	tar.Stdin = strings.NewReader(string(bundle))
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"lib.sh", "packages.sh", "host.sh", "disk.sh", "tune.sh", "boot.sh", "mongod.sh", "pmm-server.sh", "pmm-client.sh"} {
		want, err := scripts.Provision.ReadFile("provision/" + name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s differs: %v", name, err)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

func TestResults(t *testing.T) {
	var steps []string
	r := &results{values: map[string]string{}, step: func(s string) { steps = append(steps, s) }}
	for _, part := range []string{"STEP=one\nnoise\nBU", "ILD=1.2=3\nST", "EP=two\nunfinished=1"} {
		if n, err := io.WriteString(r, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if diff := cmp.Diff([]string{"one", "two"}, steps); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"STEP": "two", "BUILD": "1.2=3"}, r.values); diff != "" {
		t.Error(diff)
	}
}
