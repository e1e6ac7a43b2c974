//go:build e2e

package flow

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// status is what these tests read of `sandbox status --json`.
type status struct {
	Healthy  bool `json:"healthy"`
	Machines []struct {
		Name    string `json:"name"`
		Role    string `json:"role"`
		Healthy bool   `json:"healthy"`
	} `json:"machines"`
	Deployments []struct {
		Name          string `json:"name"`
		ActualVersion string `json:"actual_version"`
		Members       []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		} `json:"members"`
	} `json:"deployments"`
	ConnectionStrings map[string]string `json:"connection_strings"`
}

// comparison is what these tests read of `sandbox report --format json`.
type comparison struct {
	Fair  bool `json:"fair"`
	Cells []struct {
		Target      string  `json:"target"`
		Size        int64   `json:"size"`
		Valid       bool    `json:"valid"`
		Complete    bool    `json:"complete"`
		Fingerprint string  `json:"fingerprint"`
		Commands    int64   `json:"commands"`
		Errors      int64   `json:"errors"`
		Throughput  float64 `json:"throughput_per_s"`
	} `json:"cells"`
}

// environmentFile copies a sample into the user's folder, unchanged.
func (w *world) environmentFile(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(path)
	must(w.t, err)
	name := filepath.Base(path)
	must(w.t, os.WriteFile(filepath.Join(w.dir, name), text, 0o600))
	return name
}

// planIsEmpty asks Terraform itself whether anything would change.
func (w *world) planIsEmpty(environment, file string, more ...string) {
	w.t.Helper()
	args := append([]string{"plan", "-no-color", "-detailed-exitcode", "-input=false", "-lock=false", "-var-file=" + filepath.Join(w.dir, file)}, more...)
	cmd := exec.CommandContext(w.t.Context(), tool(w.t, "E2E_TOFU"), append(args, "-var-file=generated.tfvars.json")...)
	cmd.Dir, cmd.Env = filepath.Join(w.state(environment), "terraform"), w.environ
	if output, err := cmd.CombinedOutput(); err != nil {
		w.t.Errorf("the plan after up is not empty: %v\n%s", err, output)
	}
}

const published = "../../../environments/mongodb-9-first-look.tfvars"

func TestPublishedEnvironment(t *testing.T) {
	w := newWorld(t)
	file := w.environmentFile(published)
	const name = "mongodb-9-first-look"
	description := []string{"-var-file", file, "-var", "source_ranges=100.64.0.0/24"}
	w.run(append([]string{"plan"}, description...)...)
	w.hurry(name)
	up := w.run(append([]string{"up", "--auto-approve", "--ttl", "4h"}, description...)...)
	t.Logf("up:\n%s\n%s", up.stderr, up.stdout)

	s := runJSON[status](w, "status")
	if !s.Healthy || len(s.Machines) != 11 || len(s.Deployments) != 3 {
		t.Errorf("status: %+v", s)
	}
	for deployment, version := range map[string]string{"mongo9": "9.0.4", "psmdb80": "8.0.34", "psmdb83": "8.3.13"} {
		found := false
		for _, d := range s.Deployments {
			found = found || d.Name == deployment && len(d.Members) == 3
		}
		if !found {
			t.Errorf("deployment %s of version %s is missing", deployment, version)
		}
	}
	w.planIsEmpty(name, file, "-var=source_ranges=100.64.0.0/24")
	again := w.run(append([]string{"up", "--auto-approve", "--ttl", "4h"}, description...)...)
	if strings.Contains(again.stderr, "to create") {
		t.Errorf("up again changes something:\n%s", again.stderr)
	}
	if host := strings.TrimSpace(w.run("ssh", "mongo9-0", "--", "hostname").stdout); host != name+"-mongo9-0" {
		t.Errorf("ssh reached %q", host)
	}

	w.run("bench", "--sizes", "1k,2k", "--duration", "3s", "--iterations", "1", "--interval", "0s", "--workers", "4", "--ops-per-worker", "1000")
	c := w.report()
	if !c.Fair || len(c.Cells) != 6 {
		t.Errorf("the report: %+v", c)
	}
	for _, cell := range c.Cells {
		if !cell.Valid || cell.Commands == 0 || cell.Errors != 0 || cell.Fingerprint == "" {
			t.Errorf("cell %+v", cell)
		}
	}

	secrets := w.secrets(name)
	w.run("down", "--auto-approve")
	w.nothingLeft(name)
	w.noSecrets(secrets)
	w.run("down")
}

func (w *world) report() comparison {
	w.t.Helper()
	w.run("report", "--format", "json", "--output", "report.json")
	return readJSON[comparison](w, "report.json")
}

// The second environment: Debian, an arbiter, spread over zones.
func TestSmallEnvironment(t *testing.T) {
	w := newWorld(t)
	file := w.environmentFile("../testdata/small.tfvars")
	w.hurry("small")
	w.run("up", "--auto-approve", "-var-file", file, "-var", "source_ranges=100.64.0.0/24")
	s := runJSON[status](w, "status")
	if !s.Healthy || len(s.Machines) != 4 {
		t.Errorf("status: %+v", s)
	}
	w.run("bench", "--sizes", "1k,2k", "--duration", "2s", "--iterations", "1", "--interval", "0s", "--workers", "2", "--ops-per-worker", "1000")
	if c := w.report(); len(c.Cells) != 2 {
		t.Errorf("the report: %+v", c)
	}
	secrets := w.secrets("small")
	w.run("down", "--auto-approve")
	w.nothingLeft("small")
	w.noSecrets(secrets)
}
