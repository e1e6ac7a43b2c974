package local

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// trapping is a process that names a configuration file and ends only when
// it is killed. It has set its trap once "ready" is there, and starts no other
// process from then on: a child bears its command line until it is executed.
const trapping = `mkfifo pipe; trap "" TERM; : > ready; read x <> pipe`

// startShell starts a shell that runs script and whose command line names
// conf, and ends it when the test does.
func startShell(t *testing.T, script, conf string) environment.Process {
	t.Helper()
	dir := t.TempDir()
	p, err := start([]string{"/bin/sh", "-c", script, "sh", "--config", conf}, dir, filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
		var status syscall.WaitStatus
		_, _ = syscall.Wait4(p.PID, &status, 0, nil)
	})
	if strings.Contains(script, "ready") {
		eventually(t, "the shell is ready", func() bool { return exists(filepath.Join(dir, "ready")) })
	}
	return p
}

// eventually waits for a condition, ten seconds at most.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited ten seconds until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func newPlatform(t *testing.T, opts Options) *Platform {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), ".sandbox", "test")
	}
	return New(opts)
}

func TestAProcessIsOursByPidStartAndConfiguration(t *testing.T) {
	p := startShell(t, trapping, "/x/mongod.conf")
	if !isOurs(&p, "/x/mongod.conf") {
		t.Fatal("not recognised")
	}
	later := p
	later.CreatedMS += (startTolerance + time.Second).Milliseconds()
	for name, wrong := range map[string]*environment.Process{"none": nil, "no pid": {}, "another start": &later} {
		if isOurs(wrong, "/x/mongod.conf") {
			t.Errorf("%s: taken for ours", name)
		}
	}
	if isOurs(&p, "/y/mongod.conf") {
		t.Error("another configuration: taken for ours")
	}
	if pgid, err := syscall.Getpgid(p.PID); err != nil || pgid != p.PID {
		t.Errorf("process group %d, want its own (%v)", pgid, err)
	}
}

func TestEndAsksThenKills(t *testing.T) {
	polite := startShell(t, `mkfifo pipe; : > ready; read x <> pipe`, "/x/polite.conf")
	if forced, err := end(t.Context(), polite, "/x/polite.conf", 10*time.Second); forced || err != nil {
		t.Errorf("forced %v, error %v", forced, err)
	}
	stubborn := startShell(t, trapping, "/x/stubborn.conf")
	if forced, err := end(t.Context(), stubborn, "/x/stubborn.conf", 50*time.Millisecond); !forced || err != nil {
		t.Errorf("forced %v, error %v", forced, err)
	}
	for _, p := range []environment.Process{polite, stubborn} {
		if len(commandLine(p.PID)) > 0 {
			t.Errorf("process %d still runs", p.PID)
		}
	}
	other := startShell(t, trapping, "/x/other.conf")
	if _, err := end(t.Context(), other, "/x/stubborn.conf", time.Millisecond); err != nil || !isOurs(&other, "/x/other.conf") {
		t.Errorf("a process of somebody else was touched (%v)", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := end(ctx, other, "/x/other.conf", time.Minute); !errors.Is(err, context.Canceled) || !isOurs(&other, "/x/other.conf") {
		t.Errorf("an interrupted end went on to kill: %v", err)
	}
}

func TestRunningFindsMembersByTheirConfiguration(t *testing.T) {
	p := newPlatform(t, Options{})
	conf := p.member("rs0-0").conf
	ours := startShell(t, trapping, conf)
	startShell(t, trapping, newPlatform(t, Options{}).member("rs0-0").conf) // of another environment
	editor := exec.Command("/bin/sh", "-c", "read x", "sh", conf)           // names the file, but does not run with it
	stdin, err := editor.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := editor.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close(); _ = editor.Wait() }()
	found, err := p.running(t.Context())
	if err != nil || len(found) != 1 || len(found[conf]) != 1 || found[conf][0].PID != ours.PID {
		t.Errorf("found %v (%v), want process %d only", found, err, ours.PID)
	}
}

func TestDownTouchesNoReusedPid(t *testing.T) {
	p := newPlatform(t, Options{})
	innocent := startShell(t, trapping, "/elsewhere/mongod.conf")
	inv := &environment.Inventory{Environment: "test", Platform: environment.Local, Deployments: []environment.DeploymentState{{
		Deployment: environment.Deployment{Name: "rs0", Members: []environment.Member{{Name: "rs0-0"}}},
		Endpoints:  []environment.MemberState{{Name: "rs0-0", Host: loopback, Port: 1, Process: &innocent}},
	}}}
	if err := inv.Write(p.path(inventoryFile)); err != nil {
		t.Fatal(err)
	}
	removed, err := p.Down(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !isOurs(&innocent, "/elsewhere/mongod.conf") {
		t.Fatal("the innocent process was ended")
	}
	if len(removed.Ended) != 0 || len(removed.LeftAlone) == 0 || !strings.Contains(removed.LeftAlone[0], "process "+strconv.Itoa(innocent.PID)) {
		t.Errorf("%+v does not say that the process was left alone", removed)
	}
	if exists(p.dir) || exists(filepath.Dir(p.dir)) {
		t.Error("the state is still there")
	}
}

func TestDownRemovesOnlyState(t *testing.T) {
	p := newPlatform(t, Options{Dir: t.TempDir()})
	if err := os.WriteFile(p.path("thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Down(t.Context()); err == nil || !exists(p.path("thesis.tex")) {
		t.Errorf("a folder of the user was removed (%v)", err)
	}
	other := newPlatform(t, Options{})
	inv := &environment.Inventory{Environment: "test", Platform: environment.GCP}
	if err := inv.Write(other.path(inventoryFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Down(t.Context()); !errors.Is(err, errOtherPlatform) || !exists(other.path(inventoryFile)) {
		t.Errorf("the state of another platform was removed (%v)", err)
	}
	never := newPlatform(t, Options{})
	if removed, err := never.Down(t.Context()); err != nil || removed.Folder != "" || exists(never.dir) {
		t.Errorf("Down of nothing: %+v, %v", removed, err)
	}
	if _, err := never.Status(t.Context()); !errors.Is(err, ErrNoEnvironment) {
		t.Errorf("Status of nothing: %v", err)
	}
}

func TestLockKeepsOthersOut(t *testing.T) {
	p := newPlatform(t, Options{})
	unlock, err := p.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newPlatform(t, Options{Dir: p.dir}).lock(t.Context()); err == nil || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("the second lock: %v", err)
	}
	if _, err := p.Down(t.Context()); err == nil {
		t.Error("Down works on a locked folder")
	}
	unlock()
	again, err := p.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
}

func TestOneBenchAtATime(t *testing.T) {
	p := newPlatform(t, Options{})
	if _, err := p.HoldForBench(t.Context()); !errors.Is(err, ErrNoEnvironment) || exists(p.dir) {
		t.Errorf("a bench after a down: %v", err)
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	made := &environment.Inventory{Environment: "test", Platform: environment.Local}
	if err := made.Write(p.path(inventoryFile)); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(p.path(inventoryFile))
	if err != nil {
		t.Fatal(err)
	}
	release, err := p.HoldForBench(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newPlatform(t, Options{Dir: p.dir}).HoldForBench(t.Context()); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Errorf("the second bench: %v", err)
	}
	if _, err := p.Up(t.Context(), &environment.Spec{Name: "test", Platform: environment.Local}); !errors.Is(err, ErrBusy) {
		t.Errorf("up while a bench runs: %v", err)
	}
	if after, err := os.ReadFile(p.path(inventoryFile)); err != nil || string(after) != string(written) {
		t.Errorf("up while a bench runs has written %s (%v)", after, err)
	}
	release()
	unlock, err := p.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.HoldForBench(t.Context()); !errors.Is(err, ErrWorking) {
		t.Errorf("a bench in the midst of an up: %v", err)
	}
	unlock()
	if release, err = p.HoldForBench(t.Context()); err != nil {
		t.Fatal(err)
	}
	release()
}

func TestRefuseChanges(t *testing.T) {
	deployment := func(name, version string, members ...environment.Member) environment.Deployment {
		return environment.Deployment{Name: name, ReplicaSet: name, Distribution: "psmdb", Version: version, Members: members}
	}
	a, b, arbiter := environment.Member{Name: "m-0", Role: environment.Data}, environment.Member{Name: "m-1", Role: environment.Data}, environment.Member{Name: "m-1", Role: environment.Arbiter}
	inv := &environment.Inventory{Environment: "first", Deployments: []environment.DeploymentState{{Deployment: deployment("rs0", "8.0.1", a, b)}}}
	tests := []struct {
		name string
		spec environment.Spec
		want string
	}{
		{"the same", environment.Spec{Name: "first", Deployments: []environment.Deployment{deployment("rs0", "8.0.1", a, b)}}, ""},
		{"one more", environment.Spec{Name: "first", Deployments: []environment.Deployment{deployment("rs0", "8.0.1", a, b), deployment("rs1", "9.0.0", a)}}, ""},
		{"removed", environment.Spec{Name: "first"}, "rs0 exists but is no longer in the file"},
		{"version", environment.Spec{Name: "first", Deployments: []environment.Deployment{deployment("rs0", "8.0.2", a, b)}}, "version is 8.0.1, the file asks for 8.0.2"},
		{"fewer members", environment.Spec{Name: "first", Deployments: []environment.Deployment{deployment("rs0", "8.0.1", a)}}, "m-0, m-1, the file asks for m-0"},
		{"role", environment.Spec{Name: "first", Deployments: []environment.Deployment{deployment("rs0", "8.0.1", a, arbiter)}}, "m-1 (arbiter)"},
		{"name", environment.Spec{Name: "second"}, `belongs to environment "first"`},
	}
	for _, tt := range tests {
		err := refuseChanges(inv, &tt.spec)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err != nil && tt.name != "name" && !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v is not ErrChanged", tt.name, err)
		}
	}
}

func TestConf(t *testing.T) {
	p := newPlatform(t, Options{})
	for cache, wantCache := range map[float64]any{0.25: 0.25, 0: nil} {
		text, err := p.conf("rs0-0", "rs0", 20001, cache)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := yaml.Unmarshal(text, &got); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		storage := map[string]any{"dbPath": p.member("rs0-0").data}
		if wantCache != nil {
			storage["wiredTiger"] = map[string]any{"engineConfig": map[string]any{"cacheSizeGB": wantCache}}
		}
		want := map[string]any{
			"net":         map[string]any{"port": uint64(20001), "bindIp": "127.0.0.1", "unixDomainSocket": map[string]any{"enabled": false}},
			"storage":     storage,
			"systemLog":   map[string]any{"destination": "file", "path": p.member("rs0-0").log, "logAppend": true},
			"replication": map[string]any{"replSetName": "rs0"},
			"security":    map[string]any{"keyFile": p.path(keyFile)},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if err := os.MkdirAll(p.member("rs0-0").dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := secret.WriteFile(p.member("rs0-0").conf, text); err != nil {
			t.Fatal(err)
		}
		if port := p.configuredPort("rs0-0"); port != 20001 {
			t.Errorf("port %d was read back", port)
		}
	}
	if port := p.configuredPort("rs0-1"); port != 0 {
		t.Errorf("port %d out of nothing", port)
	}
}

func TestSecretsAreKeptAndPrivate(t *testing.T) {
	p := newPlatform(t, Options{})
	first, err := p.secrets()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(p.path(keyFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(key) < 6 || len(key) > 1024 || strings.Trim(string(key), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") != "" {
		t.Error("MongoDB takes 6 to 1024 characters of the base64 set as a keyfile")
	}
	second, err := p.secrets()
	if err != nil || first.Reveal() != second.Reveal() || first.IsEmpty() {
		t.Errorf("the password has changed or is empty (%v)", err)
	}
	if again, _ := os.ReadFile(p.path(keyFile)); string(again) != string(key) {
		t.Error("the keyfile has changed")
	}
	for _, name := range []string{passwordFile, keyFile} {
		if info, err := os.Stat(p.path(name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestChoosePortAvoidsWhatIsTaken(t *testing.T) {
	p := newPlatform(t, Options{})
	taken := map[int]bool{}
	first, err := p.choosePort(taken)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	listened, err := p.choosePort(map[int]bool{})
	if err != nil || listened == first {
		t.Errorf("port %d was chosen though somebody listens on it (%v)", listened, err)
	}
	second, err := p.choosePort(taken)
	if err != nil || second == first || second < firstPort || second >= lastPort {
		t.Errorf("ports %d, then %d (%v)", first, second, err)
	}
}

func TestVersions(t *testing.T) {
	tests := []struct {
		says, modules, distribution, version string
		want                                 bool
	}{
		{"8.0.34", "", "community", "8.0.34", true},
		{"8.0.34", "", "community", "8.0.3", false},
		{"8.0.34-15", "", "psmdb", "8.0.34", true},
		{"8.0.34-15", "", "psmdb", "8.0.34-15", true},
		{"8.0.34-15", "", "psmdb", "8.0.34-14", false},
		{"8.0.34-15", "", "community", "8.0.34", false},
		{"8.0.34", "", "psmdb", "8.0.34", false},
		{"8.0.34", `"enterprise"`, "enterprise", "8.0.34", true},
		{"8.0.34", `"enterprise"`, "community", "8.0.34", false},
		{"9.0.0-rc1", "", "community", "9.0.0-rc1", true},
	}
	for _, tt := range tests {
		b := &build{version: tt.says, modules: tt.modules}
		d := environment.Deployment{Distribution: tt.distribution, Version: tt.version}
		if got := sameVersion(b.version, d) && sameDistribution(b, d); got != tt.want {
			t.Errorf("%s %s for %s %s: %v", tt.says, tt.modules, tt.distribution, tt.version, got)
		}
	}
}

// script writes an executable that answers --version.
func script(t *testing.T, path, body string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil { //nolint:gosec // it must be executable
		t.Fatal(err)
	}
}

func TestPlanPrefersTheRealServer(t *testing.T) {
	dir := t.TempDir()
	mongods := filepath.Join(dir, "mongods")
	embedded := filepath.Join(dir, "embedded")
	script(t, embedded, `echo 'db version v0.1.0'; echo '{ "sandboxEmbedded": true }'`)
	script(t, filepath.Join(mongods, "8.0.34", "bin", "mongod"), `echo 'db version v8.0.34-15'`)
	script(t, filepath.Join(mongods, "7.0.1", "bin", "mongod"), `printf 'db version v7.0.1\nBuild Info: {\n "modules": [],\n "sandboxEmbedded": true }\n'`)
	script(t, filepath.Join(dir, "path", "mongod"), `echo 'db version v9.0.4'`)
	t.Setenv("PATH", filepath.Join(dir, "path")+":/usr/bin:/bin")
	p := newPlatform(t, Options{MongodDir: mongods, EmbeddedCommand: []string{embedded}})
	spec := &environment.Spec{Name: "x", Platform: environment.Local, Deployments: []environment.Deployment{
		{Name: "a", Distribution: "psmdb", Version: "8.0.34", CacheGB: 2},
		{Name: "b", Distribution: "community", Version: "9.0.4"},
		{Name: "c", Distribution: "community", Version: "9.0.5"},
		{Name: "d", Distribution: "community", Version: "7.0.1"},
	}}
	plans, err := p.Plan(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, plan := range plans {
		got = append(got, strings.Join([]string{plan.Name, plan.Engine, plan.ActualVersion, strconv.FormatFloat(plan.CacheGB, 'g', -1, 64)}, " "))
	}
	want := []string{"a mongod 8.0.34-15 2", "b mongod 9.0.4 0.25", "c embedded 0.1.0 0", "d embedded 7.0.1 0"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(plans[2].Reason, "no mongod 9.0.5 in "+mongods) {
		t.Errorf("reason %q", plans[2].Reason)
	}
	if exists(p.dir) {
		t.Error("Plan has written something")
	}

	script(t, filepath.Join(mongods, "9.0.5", "bin", "mongod"), `echo 'db version v9.0.4'`)
	if _, err := p.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "says that it is version 9.0.4") {
		t.Errorf("a mongod in the wrong folder: %v", err)
	}
	script(t, filepath.Join(mongods, "9.0.5", "bin", "mongod"), `echo 'libssl.so.3: cannot open' >&2; exit 127`)
	if _, err := p.Plan(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "libssl.so.3") {
		t.Errorf("a mongod that does not run: %v", err)
	}
	none := newPlatform(t, Options{})
	if _, err := none.Plan(t.Context(), spec); err == nil {
		t.Error("a deployment without any executable was planned")
	}
}

func TestInventoryOfNothing(t *testing.T) {
	p := newPlatform(t, Options{})
	if _, err := p.Inventory(); !errors.Is(err, ErrNoEnvironment) {
		t.Error(err)
	}
	if _, err := p.Password(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestCanonicalResolvesLinks(t *testing.T) {
	folder := canonical(t.TempDir())
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	if got, want := canonical(filepath.Join(link, ".sandbox", "x")), filepath.Join(folder, ".sandbox", "x"); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestForeignConfiguration(t *testing.T) {
	d := environment.DeploymentState{Endpoints: []environment.MemberState{
		{Name: "a-0", Host: "127.0.0.1", Port: 20001}, {Name: "a-arb0", Host: "127.0.0.1", Port: 20002, Role: environment.Arbiter},
	}}
	own := mongodb.Hello{SetName: "a", Hosts: []string{"127.0.0.1:20001"}, Arbiters: []string{"127.0.0.1:20002"}}
	other := mongodb.Hello{SetName: "a", Hosts: []string{"127.0.0.1:20003"}, Arbiters: []string{"127.0.0.1:20004"}}
	for name, test := range map[string]struct {
		hellos  []mongodb.Hello
		foreign bool
	}{
		"not initiated":        {[]mongodb.Hello{{}, {}}, false},
		"half initiated":       {[]mongodb.Hello{own, {}}, false},
		"initiated":            {[]mongodb.Hello{own, own}, false},
		"starting up":          {[]mongodb.Hello{{SetName: "a"}, own}, false},
		"one of another set":   {[]mongodb.Hello{own, other}, true},
		"both of another set":  {[]mongodb.Hello{other, other}, true},
		"first of another set": {[]mongodb.Hello{other, {}}, true},
	} {
		if err := foreignConfiguration(d, test.hellos); (err != nil) != test.foreign {
			t.Errorf("%s: %v", name, err)
		}
	}
}
