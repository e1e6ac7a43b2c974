//go:build e2e

package gcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	gcpconfig "github.com/mongo-sandbox/sandbox/terraform/gcp"
	"github.com/mongo-sandbox/sandbox/test/gcp/computeapi"
)

// providerVersion is what the provider that tools/provider pins calls itself.
const providerVersion = "8.0.0"

const (
	projectID = "test-project"
	publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE test"
)

// workspace is a copy of terraform/gcp with a cloud of its own.
type workspace struct {
	t         *testing.T
	cloud     *computeapi.Server
	tofu      string
	folder    string
	environ   []string
	generated map[string]any // what sandbox would compute
	varFiles  []string
}

// newCloud starts a stand-in. Whatever the test does, at its end nothing but
// the stand-in has been asked for anything, and it knew all that it was asked.
func newCloud(t *testing.T) *computeapi.Server {
	t.Helper()
	cloud := computeapi.New(computeapi.Options{Project: projectID, Token: "token", Delay: 50 * time.Millisecond})
	t.Cleanup(func() {
		cloud.Close()
		for _, host := range cloud.Refused() {
			// The provider asks who it is, on every start; it can do without
			// an answer.
			if host != "openidconnect.googleapis.com:443" {
				t.Errorf("%s was asked for", host)
			}
		}
		for _, request := range cloud.Unexpected() {
			t.Errorf("the stand-in does not know %s", request)
		}
	})
	return cloud
}

// environ is what Terraform needs around it to find the stand-in and, without
// a network, the provider.
func environ(t *testing.T, cloud *computeapi.Server) []string {
	t.Helper()
	folder := t.TempDir()
	mirror := filepath.Join(folder, "mirror")
	// The mirror is laid out by the provider's full address, whose first part
	// depends on who asks.
	for _, registry := range []string{"registry.opentofu.org", "registry.terraform.io"} {
		home := filepath.Join(mirror, registry, "hashicorp", "google", providerVersion, runtime.GOOS+"_"+runtime.GOARCH)
		must(t, os.MkdirAll(home, 0o755))
		must(t, os.Symlink(tool(t, "E2E_PROVIDER"), filepath.Join(home, "terraform-provider-google_v"+providerVersion)))
	}
	rc := filepath.Join(folder, "tofu.rc")
	must(t, os.WriteFile(rc, fmt.Appendf(nil, "provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror), 0o600))
	return []string{
		"HOME=" + folder,
		"PATH=" + filepath.Dir(tool(t, "E2E_TOFU")) + ":" + os.Getenv("PATH"),
		"TF_CLI_CONFIG_FILE=" + rc,
		"CHECKPOINT_DISABLE=1",
		"GOOGLE_PROJECT=" + projectID,
		"GOOGLE_OAUTH_ACCESS_TOKEN=token",
		"GOOGLE_COMPUTE_CUSTOM_ENDPOINT=" + cloud.Endpoint(),
		"HTTPS_PROXY=" + cloud.URL(),
		"NO_PROXY=127.0.0.1,localhost",
	}
}

// quickPolls is for operations of the stand-in, which take moments.
const quickPolls = "provider \"google\" {\n  poll_interval = \"100ms\"\n}\n"

// newWorkspace prepares an environment and initializes the folder.
func newWorkspace(t *testing.T, name string, varFiles ...string) *workspace {
	t.Helper()
	w := &workspace{
		t: t, folder: filepath.Join(t.TempDir(), "work"), tofu: tool(t, "E2E_TOFU"), cloud: newCloud(t),
		generated: map[string]any{
			"environment": name, "owner": "tester", "created": "20261130-120000", "ttl": "4h",
			"ssh_public_key": publicKey, "caller_range": "192.0.2.10/32",
		},
	}
	w.varFiles = slices.Clone(varFiles)
	must(t, absolute(w.varFiles))
	must(t, os.CopyFS(w.folder, gcpconfig.Files))
	w.write("test_override.tf", quickPolls)
	w.environ = append(environ(t, w.cloud), "TF_IN_AUTOMATION=1", "TF_INPUT=0")
	w.run("init", "-no-color")
	return w
}

// tool is the program that an environment variable names.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is unset: use make e2e-terraform", variable)
	}
	return path
}

func (w *workspace) write(name, text string) {
	w.t.Helper()
	must(w.t, os.WriteFile(filepath.Join(w.folder, name), []byte(text), 0o600))
}

// vars are the arguments for the user's files and, behind them, ours.
func (w *workspace) vars() []string {
	w.t.Helper()
	text, err := json.Marshal(w.generated)
	must(w.t, err)
	w.write("generated.tfvars.json", string(text))
	var args []string
	for _, file := range append(slices.Clone(w.varFiles), "generated.tfvars.json") {
		args = append(args, "-var-file="+file)
	}
	return args
}

// try runs a command and returns what it printed and its exit code.
func (w *workspace) try(args ...string) (output string, code int) {
	w.t.Helper()
	started := time.Now()
	command := exec.CommandContext(w.t.Context(), w.tofu, args...)
	command.Dir, command.Env = w.folder, w.environ
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatalf("%s: %v", args[0], err)
	}
	w.t.Logf("%s: exit code %d after %.1f s", args[0], command.ProcessState.ExitCode(), time.Since(started).Seconds())
	return out.String(), command.ProcessState.ExitCode()
}

// run runs a command that must succeed.
func (w *workspace) run(args ...string) string {
	w.t.Helper()
	output, code := w.try(args...)
	if code != 0 {
		w.t.Fatalf("%s failed:\n%s", strings.Join(args, " "), output)
	}
	return output
}

// change runs plan, apply or destroy with the variables.
func (w *workspace) change(command string, args ...string) (output string, code int) {
	w.t.Helper()
	return w.try(slices.Concat([]string{command, "-no-color"}, args, w.vars())...)
}

func (w *workspace) apply() {
	w.t.Helper()
	if output, code := w.change("apply", "-auto-approve", "-parallelism=30"); code != 0 {
		w.t.Fatalf("apply failed:\n%s", output)
	}
}

// planIsEmpty checks that an apply would change nothing.
func (w *workspace) planIsEmpty() {
	w.t.Helper()
	if output, code := w.change("plan", "-detailed-exitcode"); code != 0 {
		w.t.Errorf("the plan is not empty (exit code %d):\n%s", code, output)
	}
}

// destroy checks that nothing is left.
func (w *workspace) destroy() {
	w.t.Helper()
	if output, code := w.change("destroy", "-auto-approve", "-parallelism=30"); code != 0 {
		w.t.Errorf("destroy failed:\n%s", output)
	}
	if left := w.cloud.Resources(); len(left) > 0 {
		w.t.Errorf("left: %s", strings.Join(left, ", "))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
