package local

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// DeploymentPlan says what will serve a deployment.
type DeploymentPlan struct {
	Name             string `json:"name"`
	RequestedVersion string `json:"requested_version"`
	// Engine is "mongod" or "embedded".
	Engine string `json:"engine"`
	// ActualVersion is what the executable says of itself; empty if it
	// cannot be asked before it runs.
	ActualVersion string   `json:"actual_version,omitempty"`
	Command       []string `json:"command"` // to be followed by --config FILE
	// Reason says why this executable was chosen.
	Reason string `json:"reason"`
	// CacheGB is the WiredTiger cache of each member; 0 for the embedded
	// engine, which has none.
	CacheGB float64 `json:"cache_gb,omitempty"`
}

// Plan finds the executable for every deployment and changes nothing.
func (p *Platform) Plan(ctx context.Context, spec *environment.Spec) ([]DeploymentPlan, error) {
	onPath := p.mongodOnPath(ctx)
	var embedded *build
	plans := make([]DeploymentPlan, 0, len(spec.Deployments))
	for _, d := range spec.Deployments {
		plan := DeploymentPlan{Name: d.Name, RequestedVersion: d.Version}
		b, reason, err := p.findMongod(ctx, d, onPath)
		if err != nil {
			return nil, fmt.Errorf("deployment %s: %w", d.Name, err)
		}
		if b == nil {
			if len(p.opts.EmbeddedCommand) == 0 {
				return nil, fmt.Errorf("deployment %s: %s, and no embedded engine is configured", d.Name, reason)
			}
			if embedded == nil {
				if embedded, err = askVersion(ctx, p.opts.EmbeddedCommand); err != nil {
					return nil, fmt.Errorf("embedded engine: %w", err)
				}
				embedded.embedded = true
			}
			b = embedded
		}
		plan.Command, plan.Reason, plan.ActualVersion, plan.Engine = b.command, reason, b.version, engineMongod
		if b.embedded {
			plan.Engine = engineEmbedded
		}
		plan.CacheGB = cacheOf(plan.Engine, d)
		plans = append(plans, plan)
	}
	return plans, nil
}

// cacheOf is the WiredTiger cache in GB of a deployment's members.
func cacheOf(engine string, d environment.Deployment) float64 {
	if engine == engineEmbedded {
		return 0
	}
	return cmp.Or(d.CacheGB, cacheGB)
}

// build is an executable and what it says of itself.
type build struct {
	command  []string
	version  string
	modules  string
	embedded bool
}

// findMongod returns nil and the reason if there is no real mongod of the
// deployment's version.
func (p *Platform) findMongod(ctx context.Context, d environment.Deployment, onPath *build) (*build, string, error) {
	if p.opts.MongodDir != "" {
		path, err := filepath.Abs(filepath.Join(p.opts.MongodDir, d.Version, "bin", "mongod"))
		if err != nil {
			return nil, "", err
		}
		if exists(path) {
			b, err := askVersion(ctx, []string{path})
			if err != nil {
				return nil, "", err
			}
			if !b.embedded && !sameVersion(b.version, d) {
				return nil, "", fmt.Errorf("%s says that it is version %s, not %s", path, b.version, d.Version)
			}
			return b, "found " + path, nil
		}
	}
	if onPath != nil && sameVersion(onPath.version, d) && sameDistribution(onPath, d) {
		return onPath, "found " + onPath.command[0] + " on PATH", nil
	}
	missing := "no mongod " + d.Version + " on PATH"
	if p.opts.MongodDir != "" {
		missing = fmt.Sprintf("no mongod %s in %s or on PATH", d.Version, p.opts.MongodDir)
	}
	return nil, missing, nil
}

// mongodOnPath is nil if there is none, or none that can be asked.
func (p *Platform) mongodOnPath(ctx context.Context) *build {
	path, err := exec.LookPath("mongod")
	if err != nil {
		return nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil
	}
	b, err := askVersion(ctx, []string{path})
	if err != nil {
		return nil
	}
	return b
}

var (
	versionLine = regexp.MustCompile(`(?m)^db version v?(\S+)`)
	moduleList  = regexp.MustCompile(`(?s)"modules":\s*\[([^\]]*)\]`)
)

// askVersion runs "command --version".
func askVersion(ctx context.Context, command []string) (*build, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], "--version")...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s --version: %w%s", strings.Join(command, " "), errors.Join(err, ctx.Err()), indent(lastLines(out.String(), 5)))
	}
	m := versionLine.FindStringSubmatch(out.String())
	if m == nil {
		return nil, fmt.Errorf("%s --version: names no version%s", strings.Join(command, " "), indent(lastLines(out.String(), 5)))
	}
	b := &build{command: command, version: m[1], embedded: strings.Contains(out.String(), "sandboxEmbedded")}
	if m := moduleList.FindStringSubmatch(out.String()); m != nil {
		b.modules = m[1]
	}
	return b, nil
}

// sameVersion compares a version as an executable says it with the one asked
// for. PSMDB adds its build to the upstream version, and files may leave it
// out: 8.0.34-15 serves 8.0.34.
func sameVersion(says string, d environment.Deployment) bool {
	if says == d.Version {
		return true
	}
	upstream, _, hasBuild := strings.Cut(says, "-")
	return d.Distribution == "psmdb" && hasBuild && upstream == d.Version
}

// sameDistribution tells the distributions apart by what their builds say:
// PSMDB numbers its builds, MongoDB Enterprise lists a module.
func sameDistribution(b *build, d environment.Deployment) bool {
	is := "community"
	switch {
	case strings.Contains(b.version, "-") && !strings.Contains(b.version, "-rc") && !strings.Contains(b.version, "-alpha"):
		is = "psmdb"
	case strings.Contains(b.modules, "enterprise"):
		is = "enterprise"
	}
	return is == d.Distribution
}

// lastLines is the end of a text, each line cut to a readable length.
func lastLines(text string, n int) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		if r := []rune(line); len(r) > 300 {
			lines[i] = string(r[:300]) + "…"
		}
	}
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines
}

func indent(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "\n    " + strings.Join(lines, "\n    ")
}

// logTail is the end of what a member has said, for messages.
func (p *Platform) logTail(name string) string {
	files := p.member(name)
	var out string
	for _, path := range []string{files.output, files.log} {
		if lines := lastLines(tail(path, 16<<10), 8); len(lines) > 0 {
			out += "\n  " + path + ":" + indent(lines)
		}
	}
	return out
}

// tail reads at most n bytes from the end of a file; "" if it cannot.
func tail(path string, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(n, info.Size()))
	read, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	return string(buf[:read])
}
