//go:build e2e

package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/test/gcp/computeapi"
	"github.com/mongo-sandbox/sandbox/test/lab/machines"
	"github.com/mongo-sandbox/sandbox/test/lab/mirror"
)

func TestMain(m *testing.M) { os.Exit(machines.Main(m.Run, mirror.Prepare)) }

const (
	projectID = "test-project"
	// providerVersion is what the provider that tools/provider pins calls
	// itself.
	providerVersion = "8.0.0"
)

// world is a cloud and the vendors' repositories.
type world struct {
	lab    *machines.Lab
	cloud  *computeapi.Server
	mirror *mirror.Server
	args   *argumentWatch
}

// user has an environment in the world, and a folder where commands run. One
// user's cloud project is another's, too.
type user struct {
	*world
	t *testing.T
	// environment is its name; file describes it, in dir.
	environment, file, dir string
	environ                []string
	// said is all that commands have printed.
	said bytes.Buffer
}

// newWorld starts everything. At the test's end nothing may be left, and
// nobody may have asked for what the stand-ins do not know.
func newWorld(t *testing.T) *world {
	t.Helper()
	ctx := t.Context()
	repositories, err := mirror.Open(ctx, mirror.Options{Progress: func(line string) { t.Log(line) }})
	must(t, err)
	t.Cleanup(func() { _ = repositories.Close() })
	lab, err := machines.New(machines.Options{
		CA: repositories.CA(), Hosts: repositories.Hosts(), Files: func(i machines.Image) []machines.File { return rootFiles(repositories, i) },
	})
	must(t, err)
	t.Cleanup(func() { must(t, lab.Close()) })
	server, err := repositories.Serve(machines.Gateway)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	w := &world{lab: lab, mirror: server, args: watchArguments()}
	t.Cleanup(w.args.stop)
	w.cloud = computeapi.New(computeapi.Options{Project: projectID, Token: "token", Delay: 50 * time.Millisecond, Machines: &labMachines{lab}, DeleteDisk: lab.DeleteDisk})
	t.Cleanup(func() {
		if left := w.cloud.Resources(); len(left) > 0 {
			t.Errorf("left in the cloud: %s", strings.Join(left, ", "))
		}
		w.cloud.Close()
		for _, host := range w.cloud.Refused() {
			// The provider asks who it is, on every start; it can do without
			// an answer.
			if host != "openidconnect.googleapis.com:443" {
				t.Errorf("%s was asked for", host)
			}
		}
		for _, request := range w.cloud.Unexpected() {
			t.Errorf("the stand-in of the API does not know %s", request)
		}
		for _, request := range w.mirror.Unknown() {
			t.Errorf("the mirror does not have %s", request)
		}
		for _, name := range w.lab.Lookups() {
			t.Errorf("machines asked for %s", name)
		}
	})
	return w
}

// newUser is one with an environment as file, a sample, describes it.
func newUser(t *testing.T, w *world, file string) *user {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	name := filepath.Base(file)
	u := &user{world: w, t: t, environment: strings.TrimSuffix(name, ".tfvars"), file: name, dir: t.TempDir()}
	must(t, os.WriteFile(filepath.Join(u.dir, name), text, 0o600))
	u.setUp()
	u.hurry()
	return u
}

func rootFiles(r *mirror.Repositories, image machines.Image) []machines.File {
	family := mirror.Debian
	if image == machines.CentOSStream9 {
		family = mirror.EL9
	}
	var files []machines.File
	for _, f := range r.RootFiles(family) {
		files = append(files, machines.File{Path: f.Path, Data: f.Data, Mode: f.Mode})
	}
	return files
}

// labMachines makes machines of instances.
type labMachines struct{ lab *machines.Lab }

func (l *labMachines) Start(ctx context.Context, m computeapi.Machine) error {
	machine := machines.Machine{Name: m.Name, InternalIP: m.InternalIP, ExternalIP: m.ExternalIP, Image: m.Image, SSHKeys: m.SSHKeys}
	for _, d := range m.Disks {
		machine.Disks = append(machine.Disks, machines.Disk{DeviceName: d.DeviceName, Name: d.Name, GB: d.GB, Boot: d.Boot, Outlives: !d.Boot})
	}
	return l.lab.Start(ctx, machine)
}

func (l *labMachines) Stop(name string) error   { return l.lab.Stop(name) }
func (l *labMachines) Delete(name string) error { return l.lab.Delete(name) }

// tool is the program that an environment variable names.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is unset: use make e2e", variable)
	}
	return path
}

// setUp gives the user a home, credentials, and the provider from a folder
// where others get it from the registry.
func (u *user) setUp() {
	u.t.Helper()
	home := u.t.TempDir()
	u.environ = []string{
		"HOME=" + home, "PATH=" + filepath.Dir(tool(u.t, "E2E_TOFU")) + ":" + os.Getenv("PATH"), "LANG=C.UTF-8", "USER=tester",
		"TF_CLI_CONFIG_FILE=" + filepath.Join(home, "tofu.rc"), "CHECKPOINT_DISABLE=1",
		"GOOGLE_PROJECT=" + projectID, "GOOGLE_OAUTH_ACCESS_TOKEN=token",
		"GOOGLE_COMPUTE_CUSTOM_ENDPOINT=" + u.cloud.Endpoint(),
		"HTTPS_PROXY=" + u.cloud.URL(), "NO_PROXY=127.0.0.1,localhost",
	}
	registry := filepath.Join(home, "providers")
	provider := filepath.Join(registry, "registry.opentofu.org", "hashicorp", "google", providerVersion, runtime.GOOS+"_"+runtime.GOARCH)
	must(u.t, os.MkdirAll(provider, 0o755))
	must(u.t, os.Symlink(tool(u.t, "E2E_PROVIDER"), filepath.Join(provider, "terraform-provider-google_v"+providerVersion)))
	must(u.t, os.WriteFile(filepath.Join(home, "tofu.rc"), fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", registry), 0o600))
}

// hurry lets the provider look more often than every ten seconds whether an
// operation is done.
func (u *user) hurry() {
	u.t.Helper()
	folder := filepath.Join(u.state(), "terraform")
	must(u.t, os.MkdirAll(folder, 0o700))
	must(u.t, os.WriteFile(filepath.Join(folder, "test_override.tf"), []byte("provider \"google\" {\n  poll_interval = \"100ms\"\n}\n"), 0o600))
}

func (u *user) state() string { return filepath.Join(u.dir, ".sandbox", u.environment) }

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
	took           time.Duration
}

// start runs the command in the background; wait of the result ends it.
func (u *user) start(args ...string) *running {
	u.t.Helper()
	r := &running{u: u, args: args, started: time.Now(), ended: make(chan error, 1)}
	r.cmd = exec.Command(tool(u.t, "E2E_SANDBOX"), args...)
	r.cmd.Dir, r.cmd.Env = u.dir, u.environ
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	must(u.t, r.cmd.Start())
	go func() { r.ended <- r.cmd.Wait() }()
	return r
}

type running struct {
	u              *user
	args           []string
	started        time.Time
	cmd            *exec.Cmd
	ended          chan error // how, once
	stdout, stderr lockedBuffer
}

// lockedBuffer can be read while a command writes to it.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wait waits for the command's end.
func (r *running) wait() result {
	r.u.t.Helper()
	err := <-r.ended
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.u.t.Fatalf("sandbox %s: %v", r.args[0], err)
	}
	out := result{r.cmd.ProcessState.ExitCode(), r.stdout.String(), r.stderr.String(), time.Since(r.started)}
	r.u.said.WriteString(out.stdout + out.stderr)
	r.u.t.Logf("sandbox %s: exit code %d after %.1f s", strings.Join(r.args, " "), out.code, out.took.Seconds())
	return out
}

// until waits until the command has printed something that matches.
func (r *running) until(pattern string) {
	r.u.t.Helper()
	wanted := regexp.MustCompile(pattern)
	deadline := time.After(3 * time.Minute)
	for ended := false; !wanted.MatchString(r.stdout.String() + r.stderr.String()); {
		if ended {
			r.u.t.Fatalf("sandbox %s has not printed %s:\n%s", r.args[0], pattern, r.stderr.String())
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case err := <-r.ended:
			r.ended <- err
			ended = true
		case <-deadline:
			ended = true
		}
	}
}

// kill ends the command as nothing can refuse.
func (r *running) kill() {
	r.u.t.Helper()
	must(r.u.t, r.cmd.Process.Kill())
	r.wait()
}

// try runs a command to its end.
func (u *user) try(args ...string) result {
	u.t.Helper()
	return u.start(args...).wait()
}

// run runs a command that must succeed.
func (u *user) run(args ...string) result {
	u.t.Helper()
	r := u.try(args...)
	if r.code != 0 {
		u.explain()
		u.t.Fatalf("sandbox %s: exit code %d\n%s\n%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r
}

// explain logs what the machines and the mirror have to say.
func (u *user) explain() {
	u.t.Helper()
	for _, name := range u.lab.Names() {
		if !u.lab.Running(name) {
			u.t.Logf("%s is off; its console:\n%s", name, u.lab.Console(name))
		}
	}
	for _, request := range u.mirror.Unknown() {
		u.t.Logf("the mirror does not have %s", request)
	}
}

// runJSON runs a command and reads what it prints.
func runJSON[T any](u *user, args ...string) T {
	u.t.Helper()
	var value T
	r := u.run(append(args, "--json")...)
	if err := json.Unmarshal([]byte(r.stdout), &value); err != nil {
		u.t.Fatalf("sandbox %s: %v\n%s", args[0], err, r.stdout)
	}
	return value
}

// secrets are all that the environment has, by the name of their file.
func (u *user) secrets() map[string]string {
	u.t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(u.state(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := entry.Name()
		if !strings.HasSuffix(name, ".password") && name != "keyfile" && !strings.HasSuffix(name, ".keyfile") && name != "id_ed25519" {
			return nil
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			u.t.Errorf("%s has mode %v", path, info.Mode().Perm())
		}
		text, err := os.ReadFile(path)
		found[path] = strings.TrimSpace(string(text))
		return err
	})
	must(u.t, err)
	if len(found) < 3 {
		u.t.Errorf("only these secrets were found: %v", found)
	}
	return found
}

// noSecrets looks for secrets where none may be: in what commands have
// printed, in arguments of processes, in run records.
func (u *user) noSecrets(secrets map[string]string) {
	u.t.Helper()
	places := map[string]string{"what was printed": u.said.String(), "the arguments of a process": u.args.all()}
	err := filepath.WalkDir(filepath.Join(u.dir, "runs"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		places[path] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.t.Fatal(err)
	}
	for file, secret := range secrets {
		for place, text := range places {
			if strings.Contains(text, secret) {
				u.t.Errorf("the secret of %s is in %s", filepath.Base(file), place)
			}
		}
	}
}

// nothingLeft checks that the cloud has nothing of the environment, and that
// the user's state is gone.
func (u *user) nothingLeft() {
	u.t.Helper()
	disks, err := u.lab.Disks()
	must(u.t, err)
	for _, left := range slices.Concat(u.cloud.Resources(), u.lab.Names(), disks) {
		if strings.Contains(left, u.environment) {
			u.t.Errorf("%s is left", left)
		}
	}
	if _, err := os.Stat(u.state()); !errors.Is(err, fs.ErrNotExist) {
		u.t.Errorf("the state is left: %v", err)
	}
}

// argumentWatch collects the arguments of all processes.
type argumentWatch struct {
	mu   sync.Mutex
	seen map[string]bool
	end  chan struct{}
	done sync.WaitGroup
}

func watchArguments() *argumentWatch {
	a := &argumentWatch{seen: map[string]bool{}, end: make(chan struct{})}
	a.done.Go(func() {
		for {
			a.look()
			select {
			case <-a.end:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return a
}

func (a *argumentWatch) look() {
	proc, err := os.Open("/proc")
	if err != nil {
		return
	}
	defer func() { _ = proc.Close() }()
	processes, err := proc.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, process := range processes {
		if process[0] > '9' {
			continue
		}
		if text, err := os.ReadFile(filepath.Join("/proc", process, "cmdline")); err == nil {
			a.mu.Lock()
			a.seen[string(text)] = true
			a.mu.Unlock()
		}
	}
}

func (a *argumentWatch) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var lines []string
	for line := range a.seen {
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (a *argumentWatch) stop() {
	close(a.end)
	a.done.Wait()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readJSON[T any](u *user, name string) T {
	u.t.Helper()
	var value T
	text, err := os.ReadFile(filepath.Join(u.dir, name))
	must(u.t, err)
	must(u.t, json.Unmarshal(text, &value))
	return value
}
