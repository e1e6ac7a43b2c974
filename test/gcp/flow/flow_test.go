//go:build e2e

package flow

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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

// planIsEmpty asks Terraform itself whether anything would change.
func (u *user) planIsEmpty(variables []string) {
	u.t.Helper()
	args := append([]string{"plan", "-no-color", "-detailed-exitcode", "-input=false", "-lock=false", "-var-file=" + filepath.Join(u.dir, u.file)}, variables...)
	cmd := exec.CommandContext(u.t.Context(), tool(u.t, "E2E_TOFU"), append(args, "-var-file=generated.tfvars.json")...)
	cmd.Dir, cmd.Env = filepath.Join(u.state(), "terraform"), u.environ
	if output, err := cmd.CombinedOutput(); err != nil {
		u.t.Errorf("the plan after up is not empty: %v\n%s", err, output)
	}
}

// changesNothing waits for an up that has every machine already.
func (u *user) changesNothing(up *running) {
	u.t.Helper()
	r := up.wait()
	if regexp.MustCompile(`\d+ to (create|adopt|update|replace|delete)`).MatchString(r.stderr) || r.code != 0 {
		u.t.Errorf("up again ends with exit code %d, and changes something:\n%s", r.code, r.stderr)
	}
}

// Two environments in one cloud project at the same time: the published one
// on a good day, and a small one on bad days. What the bad days do to all of
// the cloud comes first. So does the small one's installation: later it mostly
// waits, and leaves the processors to the eleven machines.
func TestFlow(t *testing.T) {
	w := newWorld(t)
	installed := make(chan struct{})
	t.Run("published", func(t *testing.T) {
		t.Parallel()
		<-installed
		testPublished(t, w)
	})
	t.Run("small", func(t *testing.T) {
		t.Parallel()
		over := sync.OnceFunc(func() {
			w.cloud.FailInsert(0, "") // should it not have come to that
			close(installed)
		})
		defer over()
		testBadDays(t, w, over)
	})
}

// testPublished follows the published file, unchanged, from plan to down.
func testPublished(t *testing.T, w *world) {
	u := newUser(t, w, "../../../environments/mongodb-9-first-look.tfvars")
	variables := []string{"-var", "source_ranges=100.64.0.0/24"}
	description := append([]string{"-var-file", u.file}, variables...)
	u.run(append([]string{"plan"}, description...)...)
	up := u.run(append([]string{"up", "--auto-approve", "--ttl", "4h"}, description...)...)
	t.Logf("up:\n%s\n%s", up.stderr, up.stdout)

	s := runJSON[status](u, "status")
	if !s.Healthy || len(s.Machines) != 11 || len(s.Deployments) != 3 {
		t.Errorf("status: %+v", s)
	}
	for deployment, version := range map[string]string{"mongo9": "9.0.4", "psmdb80": "8.0.34", "psmdb83": "8.3.13"} {
		found := false
		for _, d := range s.Deployments {
			found = found || d.Name == deployment && len(d.Members) == 3 && strings.HasPrefix(d.ActualVersion, version)
		}
		if !found {
			t.Errorf("deployment %s of version %s is missing: %+v", deployment, version, s.Deployments)
		}
	}
	u.planIsEmpty(variables)
	u.changesNothing(u.start(append([]string{"up", "--auto-approve", "--ttl", "4h"}, description...)...))
	if host := strings.TrimSpace(u.run("ssh", "mongo9-0", "--", "hostname").stdout); host != u.environment+"-mongo9-0" {
		t.Errorf("ssh reached %q", host)
	}

	u.run("bench", "--sizes", "1k,2k", "--duration", "3s", "--iterations", "1", "--interval", "0s", "--workers", "4", "--ops-per-worker", "1000")
	c := u.report()
	if !c.Fair || len(c.Cells) != 6 {
		t.Errorf("the report: %+v", c)
	}
	for _, cell := range c.Cells {
		if !cell.Valid || cell.Commands == 0 || cell.Errors != 0 || cell.Fingerprint == "" {
			t.Errorf("cell %+v", cell)
		}
	}

	secrets := u.secrets()
	u.run("down", "--auto-approve")
	u.nothingLeft()
	u.noSecrets(secrets)
	u.run("down")
}

func (u *user) report() comparison {
	u.t.Helper()
	u.run("report", "--format", "json", "--output", "report.json")
	return readJSON[comparison](u, "report.json")
}
