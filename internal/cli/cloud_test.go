package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
)

// fakeCloud is the part of the Compute Engine API that lists and deletes. It
// has disks, with labels, and networks, with descriptions.
type fakeCloud struct {
	url string

	mu       sync.Mutex
	disks    map[string]map[string]string
	networks map[string]string
	deletes  bool // whether deleting does anything
	deleting func(name string)
}

func newFakeCloud(t *testing.T) *fakeCloud {
	t.Helper()
	f := &fakeCloud{disks: map[string]map[string]string{}, networks: map[string]string{}, deletes: true}
	server := httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(server.Close)
	f.url = server.URL + "/compute/v1/"
	return f
}

// add puts a data disk of an environment x into the cloud.
func (f *fakeCloud) add(name, owner string) {
	f.disks[name] = map[string]string{"managed-by": "sandbox", "environment": "x", "owner": owner}
}

// names are what there is.
func (f *fakeCloud) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.disks {
		names = append(names, name)
	}
	for name := range f.networks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fakeCloud) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answer := map[string]any{}
	name := path.Base(r.URL.Path)
	switch {
	case r.Method == http.MethodDelete:
		if f.deleting != nil {
			f.deleting(name)
		}
		if f.deletes {
			delete(f.disks, name)
			delete(f.networks, name)
		}
		answer["name"], answer["status"] = "operation", "DONE"
	case name == "operation":
		answer["name"], answer["status"] = "operation", "DONE"
	case name == "networks":
		items := []any{}
		for name, description := range f.networks {
			items = append(items, map[string]any{"name": name, "description": description})
		}
		answer["items"] = items
	case name == "disks":
		items := []any{}
		for name, labels := range f.disks {
			items = append(items, map[string]any{"name": name, "labels": labels, "zone": "z/us-central1-a", "type": "t/pd-ssd", "sizeGb": "100"})
		}
		answer["items"] = map[string]any{"zones/us-central1-a": map[string]any{"disks": items}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// session is a user at a terminal, or a script without one.
type session struct {
	*app
	out, err bytes.Buffer
}

func newSession(t *testing.T, cloud *fakeCloud, answer string) *session {
	t.Helper()
	s := &session{}
	s.app = &app{
		console: &console.Console{In: strings.NewReader(answer), Out: &s.out, Err: &s.err, Width: 200, InTerminal: answer != ""},
		dir:     t.TempDir(), now: time.Now,
		environ: []string{"GOOGLE_OAUTH_ACCESS_TOKEN=t", "GOOGLE_PROJECT=p", "GOOGLE_COMPUTE_CUSTOM_ENDPOINT=" + cloud.url},
	}
	return s
}

// run runs a command and returns its exit code and what it said.
func (s *session) run(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	s.out.Reset()
	s.err.Reset()
	root := newRoot(s.app)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		printError(s.console, err)
	}
	return exitCode(err), s.err.String() + s.out.String()
}

// write puts a file into the folder of the environment x.
func (s *session) write(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(s.stateDir("x"), name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (s *session) exists(name string) bool {
	_, err := os.Stat(filepath.Join(s.stateRoot(), name))
	return err == nil
}

func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}

// What bears somebody else's label is removed when that was asked for by name
// or answered at a terminal, and never because of --auto-approve.
func TestDownLeavesWhatIsSomebodyElses(t *testing.T) {
	down := []string{"down", "--env", "x", "--project", "p", "--owner", "ann"}
	for name, c := range map[string]struct {
		answer string
		args   []string
		code   int
		left   []string
		says   []string
	}{
		"in a script":  {args: []string{"--auto-approve"}, code: exitUsage, left: []string{"b", "n"}, says: []string{"bob", "--owner bob", "left alone"}},
		"as the other": {args: []string{"--auto-approve", "--owner", "bob"}, code: exitUsage, left: []string{"a", "n"}, says: []string{"--owner ann"}},
		"not asked":    {code: exitUsage, left: []string{"a", "b", "n"}, says: []string{"--auto-approve"}},
		"no":           {answer: "y\nn\n", code: exitFailure, left: []string{"b", "n"}, says: []string{"belongs to bob"}},
		"yes":          {answer: "y\ny\n", code: exitOK, says: []string{"removed 3 resources"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newFakeCloud(t)
			cloud.add("a", "ann")
			cloud.add("b", "bob")
			cloud.networks["n"] = "Environment x of sandbox"
			s := newSession(t, cloud, c.answer)
			s.console.In = &lines{strings.SplitAfter(c.answer, "\n")}
			code, text := s.run(t, append(slices.Clone(down), c.args...)...)
			if code != c.code || !slices.Equal(cloud.names(), c.left) {
				t.Errorf("exit code %d, left %v\n%s", code, cloud.names(), text)
			}
			says(t, text, c.says...)
		})
	}
}

// lines gives one line for each Read, as a terminal does.
type lines struct{ rest []string }

func (l *lines) Read(p []byte) (int, error) {
	n := copy(p, l.rest[0])
	l.rest = l.rest[1:]
	return n, nil
}

func TestDownRemovesWhatIsOurs(t *testing.T) {
	cloud := newFakeCloud(t)
	cloud.add("a", "ann")
	cloud.networks["n"] = "Environment x of sandbox"
	cloud.networks["other"] = "Environment y of sandbox"
	s := newSession(t, cloud, "")
	s.write(t, "gcp.json", `{"project":"p","owner":"ann"}`)
	code, text := s.run(t, "down", "--auto-approve")
	if code != exitOK || !slices.Equal(cloud.names(), []string{"other"}) || s.exists("x") {
		t.Errorf("exit code %d, left %v\n%s", code, cloud.names(), text)
	}
}

// A sweep that is ended at once says which environments may be left: the one
// that is being removed, those to come, those that could not be removed.
func TestSweepSaysWhatMayBeLeft(t *testing.T) {
	cloud := newFakeCloud(t)
	for _, name := range []string{"x", "y", "z"} {
		cloud.disks[name+"-disk"] = map[string]string{"managed-by": "sandbox", "environment": name, "owner": "ann", "created": "20230101-000000", "ttl": "1h"}
	}
	cloud.disks["young"] = map[string]string{"managed-by": "sandbox", "environment": "w", "owner": "ann"}
	s := newSession(t, cloud, "")
	risks := map[string]string{}
	cloud.deleting = func(name string) { risks[name] = s.risk.text() }
	if code, text := s.run(t, "sweep", "--remove", "--all", "--auto-approve"); code != exitOK || !slices.Equal(cloud.names(), []string{"young"}) {
		t.Fatalf("exit code %d, left %v\n%s", code, cloud.names(), text)
	}
	for disk, want := range map[string]string{"x-disk": "of x, y, z runs on", "y-disk": "of y, z runs on", "z-disk": "of z runs on"} {
		says(t, risks[disk], want, "disk "+disk, "`sandbox sweep --remove --project p` goes on")
	}
	if text := s.risk.text(); strings.Contains(text, "sweep") {
		t.Errorf("after it: %s", text)
	}
}

// Without a Terraform that works, down still finds and removes what there is.
func TestDownGoesOnWithoutTerraform(t *testing.T) {
	for name, c := range map[string]struct {
		deletes bool
		code    int
		left    []string
	}{
		"all goes":   {deletes: true, code: exitOK},
		"some stays": {code: exitCloud, left: []string{"a", "n"}},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newFakeCloud(t)
			cloud.deletes = c.deletes
			cloud.add("a", "ann")
			cloud.networks["n"] = "Environment x of sandbox"
			s := newSession(t, cloud, "")
			s.write(t, "gcp.json", `{"project":"p","owner":"ann","created":"20261130-120000"}`)
			s.write(t, "terraform/applied.tfvars.json", `{}`)
			code, text := s.run(t, "down", "--auto-approve", "--terraform-bin", "/nowhere/tofu")
			if code != c.code || !slices.Equal(cloud.names(), c.left) || s.exists("x") != (c.code != exitOK) {
				t.Errorf("exit code %d, left %v\n%s", code, cloud.names(), text)
			}
			says(t, text, "warning: /nowhere/tofu cannot be run", "disk a")
		})
	}
}

// Nothing is removed while somebody works on it, or after an interrupt.
func TestWhatStopsDown(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&gcp.TerraformError{Lock: &gcp.Lock{Who: "a@b"}}, true},
		{&gcp.TerraformError{Lock: &gcp.Lock{Who: "a@b", Stale: true}}, false},
		{&gcp.TerraformError{}, false},
		{&gcp.Problem{Summary: "no tofu"}, false},
		{&gcp.InterruptedError{Stage: gcp.StageDestroy}, true},
	} {
		if got := stopsDown(c.err); got != c.want {
			t.Errorf("%v stops it: %v", c.err, got)
		}
	}
}

// The folder of an up that failed early, or was declined, is no obstacle.
func TestDownAfterAnEarlyEnd(t *testing.T) {
	s := newSession(t, newFakeCloud(t), "")
	s.write(t, "gcp.json", `{"project":"p","region":"us-central1"}`)
	s.write(t, "id_ed25519", "")
	s.write(t, "terraform/main.tf", "")
	if code, text := s.run(t, "down"); code != exitOK || s.exists("x") {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

func TestNotWanted(t *testing.T) {
	s := newSession(t, newFakeCloud(t), "")
	unknown := []gcp.Resource{{Kind: "machine", Name: "x-old-0", Location: "us-central1-a"}}
	showNotWanted(s.app, unknown)
	says(t, s.err.String(), "Not wanted any more", "`sandbox down` removes it", "x-old-0")
	text, err := json.Marshal(newUpOutput(&environment.Inventory{Environment: "x"}, unknown))
	if err != nil {
		t.Fatal(err)
	}
	says(t, string(text), `"environment":"x"`, `"not_wanted":[{"kind":"machine","name":"x-old-0","location":"us-central1-a"}]`)
	s.err.Reset()
	showNotWanted(s.app, nil)
	if s.err.Len() > 0 {
		t.Errorf("without any: %s", s.err.String())
	}
}

func TestTimeToLiveOnTheCommandLine(t *testing.T) {
	s := newSession(t, newFakeCloud(t), "")
	code, text := s.run(t, "up", "--var-file", "none.tfvars", "--ttl", "-1h")
	if code != exitUsage {
		t.Errorf("exit code %d\n%s", code, text)
	}
	says(t, text, "--ttl -1h0m0s")
}

// ssh takes the names of ssh_config and no others, and ends as the command
// there does where that can be told from this program's own ends.
func TestSSH(t *testing.T) {
	bin := t.TempDir()
	// The last argument is the exit code.
	script := "#!/bin/sh\nfor code; do :; done\nexit $code\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := newSession(t, newFakeCloud(t), "")
	s.write(t, "gcp.json", `{"project":"p"}`)
	s.write(t, "inventory.json", `{"schema_version":1,"environment":"x","platform":"gcp","machines":[{"name":"x-rs-0"},{"name":"x-pmm-server"}]}`)
	s.write(t, "ssh_config", "# Host comment\nHost x-rs-0 rs-0\n  HostName 192.0.2.1\nHost x-pmm-server pmm-server\n")
	for _, c := range []struct {
		host, remote string
		code         int
	}{
		{"x-rs-0", "0", exitOK}, {"rs-0", "0", exitOK}, {"pmm-server", "0", exitOK},
		{"0", "0", exitUsage}, {"server", "0", exitUsage}, {"comment", "0", exitUsage}, {"-0", "0", exitUsage},
		{"rs-0", "1", exitFailure}, {"rs-0", "7", 7}, {"rs-0", "127", 127},
		{"rs-0", "3", exitFailure}, {"rs-0", "130", exitFailure}, {"rs-0", "255", exitRemote},
	} {
		if code, text := s.run(t, "ssh", c.host, "--", c.remote); code != c.code {
			t.Errorf("%s %s: exit code %d, want %d\n%s", c.host, c.remote, code, c.code, text)
		}
	}
}
