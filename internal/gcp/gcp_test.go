package gcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestVariableArgsKeepTheirOrder(t *testing.T) {
	got := variableArgs(environment.Variables{
		Files: []string{"/w/a.auto.tfvars"},
		Args:  []environment.Arg{{Kind: environment.Var, Value: "x=1"}, {Kind: environment.VarFile, Value: "/w/b.tfvars"}, {Kind: environment.Var, Value: `y={ "a" = 1 }`}},
	})
	want := []string{"-var-file=/w/a.auto.tfvars", "-var", "x=1", "-var-file=/w/b.tfvars", "-var", `y={ "a" = 1 }`, "-var-file=generated.tfvars.json"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestEnvironWithoutTraps(t *testing.T) {
	got := environMap([]string{"PATH=/bin", "TF_VAR_region=x", "TF_CLI_ARGS_plan=-destroy", "TF_LOG=trace", "TF_WORKSPACE=w", "TF_DATA_DIR=d", "TF_CLI_CONFIG_FILE=c", "A=b=c"})
	if want := map[string]string{"PATH": "/bin", "TF_CLI_CONFIG_FILE": "c", "A": "b=c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

// Terraform's output knows whether a machine has a disk, the spec which one.
func TestDisks(t *testing.T) {
	machines := []environment.MachineState{{Name: "a-0", Disk: true}, {Name: "arbiter"}, {Name: "unknown", Disk: true}}
	addDisks(machines, []environment.Machine{{Name: "arbiter", DiskType: "pd-ssd", DiskGB: 10}, {Name: "a-0", DiskType: "pd-balanced", DiskGB: 200}})
	want := []environment.MachineState{{Name: "a-0", Disk: true, DiskType: "pd-balanced", DiskGB: 200}, {Name: "arbiter"}, {Name: "unknown", Disk: true}}
	if !slices.Equal(machines, want) {
		t.Errorf("%+v, want %+v", machines, want)
	}
}

func TestLabels(t *testing.T) {
	for in, want := range map[string]string{"Ann O'Neil": "ann-o-neil", "x@example.com": "x-example-com", "": "", "Ünal": "nal", strings.Repeat("a", 70): strings.Repeat("a", 63)} {
		if got := labelText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	for in, want := range map[time.Duration]string{0: "", 4 * time.Hour: "4h", 90 * time.Minute: "90m", 30 * time.Second: "1m"} {
		if got := ttlText(in); got != want {
			t.Errorf("%v becomes %q, want %q", in, got, want)
		}
	}
	created, expires, ok := expiry(map[string]string{"created": "20261130-120000", "ttl": "90m"})
	if !ok || !created.Equal(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)) || expires.Sub(created) != 90*time.Minute {
		t.Errorf("from %v to %v, %v", created, expires, ok)
	}
	for _, labels := range []map[string]string{nil, {"created": "yesterday", "ttl": "1h"}, {"created": "20261130-120000", "ttl": ""}, {"created": "20261130-120000", "ttl": "soon"}} {
		if _, _, ok := expiry(labels); ok {
			t.Errorf("%v has an end", labels)
		}
	}
	// Another tool's labels, and text that only looks like ours.
	if labelled(map[string]string{"environment": "prod"}) != "" || labelled(map[string]string{"environment": "x", "managed-by": "sandbox"}) != "x" {
		t.Error("labels of others are taken for ours, or ours are not")
	}
	if described("Environment prod of sandbox-like things") != "" || described(descriptionOf("x-1")) != "x-1" {
		t.Error("descriptions of others are taken for ours, or ours are not")
	}
}

func TestLogOfTerraform(t *testing.T) {
	var events []Event
	log := &jsonLog{stage: StageApply, total: 2, report: func(e Event) { events = append(events, e) }, nameOf: nameIn(map[string]string{`google_compute_instance.machine["a"]`: "a"})}
	text := `{"@level":"info","type":"version"}
not json
{"type":"apply_start","hook":{"resource":{"addr":"google_compute_instance.machine[\"a\"]","resource_type":"google_compute_instance"},"action":"create"}}
{"type":"apply_start","hook":{"resource":{"addr":"x.y","resource_type":"x"},"action":"create"}}
{"type":"apply_progress","hook":{"resource":{"addr":"x.y","resource_type":"x"},"action":"create","elapsed_seconds":10}}
{"type":"apply_complete","hook":{"resource":{"addr":"google_compute_instance.machine[\"a\"]","resource_type":"google_compute_instance"},"action":"create","elapsed_seconds":12}}
{"type":"apply_errored","hook":{"resource":{"addr":"x.y","resource_type":"x"},"action":"create","elapsed_seconds":13}}
{"type":"diagnostic","diagnostic":{"severity":"warning","summary":"Old"}}
{"type":"diagnostic","diagnostic":{"severity":"error","summary":"Error waiting for instance to create: The zone 'z' does not have enough resources available to fulfill the request. (ZONE_RESOURCE_POOL_EXHAUSTED)","detail":"","address":"x.y"}}
`
	// In pieces, as a pipe gives them.
	for piece := range slices.Chunk([]byte(text), 7) {
		if _, err := log.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	want := []Event{
		{Stage: StageApply, Kind: "machine", Name: "a", Action: Create, Phase: Started, Total: 2},
		{Stage: StageApply, Kind: "x", Name: "x.y", Action: Create, Phase: Started, Total: 2},
		{Stage: StageApply, Kind: "x", Name: "x.y", Action: Create, Phase: Progress, Elapsed: 10 * time.Second, Total: 2},
		{Stage: StageApply, Kind: "machine", Name: "a", Action: Create, Phase: Done, Elapsed: 12 * time.Second, Done: 1, Total: 2},
		{Stage: StageApply, Kind: "x", Name: "x.y", Action: Create, Phase: Failed, Elapsed: 13 * time.Second, Done: 1, Total: 2},
	}
	if !reflect.DeepEqual(events, want) {
		t.Errorf("got %+v", events)
	}
	if got := log.unfinished(); !slices.Equal(got, []string{"x.y"}) {
		t.Errorf("unfinished: %v", got)
	}
	err := log.failure("apply", errors.New("exit status 1"), "")
	failure := &TerraformError{}
	if !errors.As(err, &failure) || len(failure.Diagnostics) != 1 || !strings.Contains(failure.Fix, "Run up again") {
		t.Errorf("failure %v", err)
	}
}

func TestErrorsForPeople(t *testing.T) {
	text := "\n╷\n│ Error: Failed to query available provider packages\n│ \n│ Could not retrieve the list of available versions for provider\n│ hashicorp/google: could not connect to registry.opentofu.org\n╵\n"
	got := textDiagnostics(text)
	if len(got) != 1 || got[0].Summary != "Failed to query available provider packages" || !strings.Contains(got[0].Detail, "registry.opentofu.org") {
		t.Errorf("got %+v", got)
	}
	if len(textDiagnostics("all is well")) != 0 {
		t.Error("an error was seen where there is none")
	}
	if initFix(text) == "" {
		t.Error("there is no fix")
	}
}

func TestNoProgram(t *testing.T) {
	dir := t.TempDir()
	problem := &Problem{}
	_, err := New(Options{Dir: dir, Environ: []string{"PATH=" + dir}}).program()
	if !errors.As(err, &problem) || problem.Fix == "" {
		t.Errorf("without a program: %v", err)
	}
	for _, name := range []string{"terraform", "tofu"} { // tofu is preferred
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if got, err := New(Options{Dir: dir, Environ: []string{"PATH=" + dir}}).program(); err != nil || got != file {
			t.Errorf("found %s, %v", got, err)
		}
	}
	if _, err := New(Options{Dir: dir, TerraformBin: filepath.Join(dir, "none")}).program(); !errors.As(err, &problem) {
		t.Errorf("with a program that is not there: %v", err)
	}
}

// refusing answers every request with an error of the API.
func refusing(t *testing.T, code int, message string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"message":%q,"reason":"x"}]}}`, code, message, message)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return []string{"GOOGLE_OAUTH_ACCESS_TOKEN=t", "GOOGLE_COMPUTE_CUSTOM_ENDPOINT=" + server.URL + "/compute/v1/", "GOOGLE_PROJECT=p"}
}

func TestAnswersOfTheAPIBecomeProblems(t *testing.T) {
	for _, c := range []struct {
		code          int
		message, want string
		fix           string
	}{
		{401, "Request had invalid authentication credentials.", "does not accept the credentials", "gcloud auth application-default login"},
		{403, "Compute Engine API has not been used in project 1 before or it is disabled.", "API is off in the project p", "gcloud services enable compute.googleapis.com --project=p"},
		{403, "Required 'compute.regions.get' permission for 'projects/p/regions/r'", "may not do that", "roles/compute.admin"},
		{404, "The resource 'projects/p' was not found", "the project p is not there", "project_id"},
	} {
		p := New(Options{Dir: t.TempDir(), Environment: "x", Environ: refusing(t, c.code, c.message), CallerAddress: func(context.Context) (string, error) { return "192.0.2.1", nil }})
		result, err := p.Preflight(t.Context(), published(t))
		if err != nil {
			t.Errorf("%d: %v", c.code, err)
			continue
		}
		last := result.Problems[len(result.Problems)-1]
		if !strings.Contains(last.Summary, c.want) || !strings.Contains(last.Fix, c.fix) {
			t.Errorf("%d: %+v", c.code, last)
		}
		if _, err := p.Plan(t.Context(), published(t), result); err == nil {
			t.Error("a plan was made in spite of problems")
		}
	}
}

func TestCallerAddress(t *testing.T) {
	answers := map[string]string{"/good": "203.0.113.7\n", "/six": "2001:db8::1", "/bad": "<html>"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(answers[r.URL.Path]))
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	got, err := callerAddress(t.Context(), server.Client(), server.URL+"/bad", server.URL+"/six", server.URL+"/good")
	if err != nil || got != "203.0.113.7" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err = callerAddress(t.Context(), server.Client(), server.URL+"/bad"); err == nil || !strings.Contains(err.Error(), "html") {
		t.Errorf("got %v", err)
	}
}

func TestImages(t *testing.T) {
	c := &cloud{project: "mine"}
	for reference, want := range map[string][3]string{
		"projects/centos-cloud/global/images/family/centos-stream-9":                                 {"centos-cloud", "centos-stream-9", "family"},
		"projects/debian-cloud/global/images/debian-12-v1":                                           {"debian-cloud", "debian-12-v1", ""},
		"https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/family/debian-12": {"debian-cloud", "debian-12", "family"},
		"debian-cloud/debian-12": {"debian-cloud", "debian-12", ""},
		"my-image":               {"mine", "my-image", ""},
		"family/my-image":        {"mine", "my-image", "family"},
		"global/images/my-image": {"mine", "my-image", ""},
	} {
		project, name, family := c.imageOf(reference)
		if project != want[0] || name != want[1] || family != (want[2] != "") {
			t.Errorf("%s is %s %s %v", reference, project, name, family)
		}
	}
}

func TestKeyOfTheUser(t *testing.T) {
	p := New(Options{Dir: t.TempDir(), Environment: "x", Environ: []string{"HOME=" + t.TempDir()}})
	problem := &Problem{}
	if _, err := p.login(environment.SSHLogin{User: "ann"}); !errors.As(err, &problem) || !strings.Contains(problem.Fix, "ssh_private_key_path") {
		t.Errorf("without a key: %v", err)
	}
	first, err := p.login(environment.SSHLogin{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.login(environment.SSHLogin{})
	if err != nil || first != second || first.user != "sandbox" || !strings.HasPrefix(first.publicKey, "ssh-ed25519 ") {
		t.Errorf("first %+v, then %+v (%v)", first, second, err)
	}
	home := p.env["HOME"]
	if err := os.CopyFS(filepath.Join(home, ".ssh"), os.DirFS(p.o.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(home, ".ssh", "id_ed25519"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"", "~/.ssh/id_ed25519"} {
		got, err := p.login(environment.SSHLogin{User: "ann", KeyFile: file})
		if err != nil || got.user != "ann" || got.keyFile != filepath.Join(home, ".ssh", "id_ed25519") || got.publicKey != first.publicKey {
			t.Errorf("%q: %+v, %v", file, got, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.json")
	user := `{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c","quota_project_id":"quota"}`
	if err := os.WriteFile(file, []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	for variable, value := range map[string]string{"GOOGLE_CREDENTIALS": user, "GCLOUD_KEYFILE_JSON": file, "GOOGLE_APPLICATION_CREDENTIALS": file} {
		a, err := newAccess(map[string]string{variable: value})
		if err != nil {
			t.Errorf("%s: %v", variable, err)
			continue
		}
		if project, err := a.projectOf(t.Context()); err != nil || project != "quota" {
			t.Errorf("%s: project %q, %v", variable, project, err)
		}
		if project, err := a.projectOf(t.Context(), "", "wanted"); err != nil || project != "wanted" {
			t.Errorf("%s: project %q, %v", variable, project, err)
		}
	}
	for _, value := range []string{file + ".none", `{"type":"authorized_user"`, `{"type":"magic"}`} {
		problem := &Problem{}
		if _, err := newAccess(map[string]string{"GOOGLE_CREDENTIALS": value}); !errors.As(err, &problem) || problem.Fix == "" {
			t.Errorf("%s: %v", value, err)
		}
	}
}
