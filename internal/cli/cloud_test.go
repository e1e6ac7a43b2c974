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
)

// fakeCloud is the part of the Compute Engine API that lists and deletes. It
// has disks, with labels, and networks, with descriptions.
type fakeCloud struct {
	url string

	mu       sync.Mutex
	disks    map[string]map[string]string
	networks map[string]string
	deletes  bool // whether deleting does anything
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
