package gcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/secret"
	gcpconfig "github.com/mongo-sandbox/sandbox/terraform/gcp"
)

const (
	// drain is how long Terraform may take to stop in good order: a machine
	// that is being made takes a minute or two.
	drain = 10 * time.Minute
	// parallelism is enough for every machine of an environment at once.
	parallelism = 30

	generatedFile = "generated.tfvars.json" // what generated.tf declares
	appliedFile   = "applied.tfvars.json"   // the variables as they were in the last plan
	adoptFile     = "adopt.tf"              // what exists and is not in the state
	backendFile   = "backend.tf"
	planFile      = "sandbox.tfplan"
)

// program finds Terraform.
func (p *Platform) program() (string, error) {
	if p.o.TerraformBin != "" {
		path, err := exec.LookPath(p.o.TerraformBin)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", &Problem{Summary: fmt.Sprintf("%s cannot be run (%v)", p.o.TerraformBin, err), Fix: "Name the program tofu or terraform, or install OpenTofu: https://opentofu.org/docs/intro/install/."}
		}
		return path, nil
	}
	for _, name := range []string{"tofu", "terraform"} {
		for _, dir := range filepath.SplitList(p.env["PATH"]) {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return filepath.Abs(path)
			}
		}
	}
	return "", &Problem{Summary: "neither tofu nor terraform is in PATH", Fix: "Install OpenTofu (https://opentofu.org/docs/intro/install/) or name the program with --terraform-bin."}
}

// terraform is the program in the work directory.
type terraform struct {
	p       *Platform
	path    string
	tf      *tfexec.Terraform
	environ map[string]string
}

func (p *Platform) terraform(project, region string) (*terraform, error) {
	path, err := p.program()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(p.workDir(), 0o700); err != nil {
		return nil, fmt.Errorf("make the work directory: %w", err)
	}
	tf, err := tfexec.NewTerraform(p.workDir(), path)
	if err != nil {
		return nil, fmt.Errorf("prepare terraform: %w", err)
	}
	t := &terraform{p: p, path: path, tf: tf, environ: maps.Clone(p.env)}
	// For variables that name neither.
	t.environ["GOOGLE_PROJECT"], t.environ["GOOGLE_REGION"] = project, region
	t.environ["CHECKPOINT_DISABLE"] = "1"
	if err := errors.Join(tf.SetEnv(t.environ), tf.SetWaitDelay(drain)); err != nil {
		return nil, fmt.Errorf("prepare terraform: %w", err)
	}
	return t, nil
}

// prepare puts the configuration into the work directory, beside whatever else
// is there, and initializes it.
func (t *terraform) prepare(ctx context.Context, s *settings, stateBucket string) error {
	version, _, err := t.tf.Version(ctx, true)
	if err != nil {
		if canceled(ctx, err) {
			return &InterruptedError{Stage: StageInit}
		}
		return &Problem{Summary: fmt.Sprintf("%s does not work: %v", t.path, err), Fix: "Install OpenTofu 1.6 or later, or Terraform 1.5 or later."}
	}
	if v := version.Segments(); v[0] < 1 || v[0] == 1 && v[1] < 5 {
		return &Problem{Summary: fmt.Sprintf("%s is version %s", t.path, version), Fix: "Install OpenTofu 1.6 or later, or Terraform 1.5 or later."}
	}
	names, err := fs.Glob(gcpconfig.Files, "*.tf")
	if err != nil {
		return err
	}
	for _, name := range append(slices.Clone(s.Files), adoptFile, backendFile) {
		if !slices.Contains(names, name) {
			_ = os.Remove(filepath.Join(t.p.workDir(), filepath.Base(name)))
		}
	}
	for _, name := range names {
		text, err := fs.ReadFile(gcpconfig.Files, name)
		if err != nil {
			return err
		}
		if err := t.write(name, text); err != nil {
			return err
		}
	}
	s.Files = names
	if stateBucket != "" {
		text := fmt.Sprintf("terraform {\n  backend \"gcs\" {\n    bucket = %q\n    prefix = %q\n  }\n}\n", stateBucket, "sandbox/"+s.Project+"/"+t.p.o.Environment)
		if err := t.write(backendFile, []byte(text)); err != nil {
			return err
		}
	}
	t.p.report(Event{Stage: StageInit, Phase: Started})
	var stderr bytes.Buffer
	t.tf.SetStderr(&stderr)
	defer t.tf.SetStderr(io.Discard)
	// As long as nothing exists, the state may go elsewhere than the plan before
	// would have put it.
	if err := t.tf.Init(ctx, tfexec.Upgrade(false), tfexec.Reconfigure(s.Created == "")); err != nil {
		if canceled(ctx, err) {
			return &InterruptedError{Stage: StageInit}
		}
		return &TerraformError{Command: "init", Diagnostics: textDiagnostics(stderr.String()), Err: err, Fix: initFix(stderr.String())}
	}
	t.p.report(Event{Stage: StageInit, Phase: Done})
	return nil
}

func initFix(text string) string {
	switch {
	case strings.Contains(text, "registry"):
		return "The google provider comes from the registry at the first run: check the connection or the proxy, or set up a mirror (provider_installation)."
	case strings.Contains(text, "Backend initialization required"), strings.Contains(text, "Backend configuration changed"):
		return "state_bucket cannot be changed while the environment exists: set it back, or run down first."
	}
	return ""
}

// textDiagnostics are the errors in what Terraform prints for people.
func textDiagnostics(text string) []Diagnostic {
	var found []Diagnostic
	for _, block := range strings.Split(text, "Error: ")[1:] {
		summary, rest, _ := strings.Cut(block, "\n")
		var detail []string
		for line := range strings.SplitSeq(rest, "\n") {
			if line = strings.Trim(line, " \t│╷╵"); line != "" {
				detail = append(detail, line)
			}
		}
		found = append(found, Diagnostic{Summary: strings.TrimSpace(summary), Detail: strings.Join(detail, " ")})
	}
	return found
}

// write puts a file into the work directory, unless it is there.
func (t *terraform) write(name string, text []byte) error {
	path := filepath.Join(t.p.workDir(), name)
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, text) {
		return nil
	}
	if err := secret.WriteFile(path, text); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// variableArgs are the user's sources of variables as they stand, then ours.
// terraform-exec would put all files before all variables, and Terraform takes
// the last.
func variableArgs(v environment.Variables) []string {
	var args []string
	for _, file := range v.Files {
		args = append(args, "-var-file="+file)
	}
	for _, arg := range v.Args {
		if arg.Kind == environment.VarFile {
			args = append(args, "-var-file="+arg.Value)
		} else {
			args = append(args, "-var", arg.Value)
		}
	}
	return append(args, "-var-file="+generatedFile)
}

// plan runs terraform plan and saves the plan. It reports whether anything is
// to be done.
func (t *terraform) plan(ctx context.Context, v environment.Variables) (changes bool, err error) {
	args := append([]string{"plan", "-json", "-input=false", "-detailed-exitcode", "-out=" + planFile, fmt.Sprintf("-parallelism=%d", parallelism)}, variableArgs(v)...)
	command := exec.CommandContext(ctx, t.path, args...)
	command.Dir = t.p.workDir()
	command.Env = append([]string{"TF_IN_AUTOMATION=1"}, v.Environ...)
	for name, value := range t.environ {
		command.Env = append(command.Env, name+"="+value)
	}
	// A process group of its own: the terminal's interrupt is for us, and we
	// pass it on once.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = drain
	log := &jsonLog{report: func(Event) {}}
	var stderr bytes.Buffer
	command.Stdout, command.Stderr = log, &stderr
	t.p.report(Event{Stage: StagePlan, Phase: Started})
	err = command.Run()
	switch {
	case err == nil:
		t.p.report(Event{Stage: StagePlan, Phase: Done})
		return false, nil
	case command.ProcessState != nil && command.ProcessState.ExitCode() == 2:
		t.p.report(Event{Stage: StagePlan, Phase: Done})
		return true, nil
	case canceled(ctx, err):
		return false, &InterruptedError{Stage: StagePlan}
	}
	return false, log.failure("plan", err, stderr.String())
}

// jsonLog reads what Terraform writes with -json: events and errors.
type jsonLog struct {
	report func(Event)
	stage  Stage
	total  int
	// nameOf gives a resource its name by its address.
	nameOf func(address string) string

	mu          sync.Mutex // stdout is written from a goroutine of terraform-exec
	rest        []byte
	done        int
	running     map[string]string // names by address
	failed      []string
	diagnostics []Diagnostic
}

type logLine struct {
	Type string `json:"type"`
	Hook struct {
		Resource struct {
			Address string `json:"addr"`
			Type    string `json:"resource_type"`
		} `json:"resource"`
		Action  string  `json:"action"`
		Elapsed float64 `json:"elapsed_seconds"`
	} `json:"hook"`
	Diagnostic struct {
		Severity string `json:"severity"`
		Summary  string `json:"summary"`
		Detail   string `json:"detail"`
		Address  string `json:"address"`
	} `json:"diagnostic"`
}

// Write implements io.Writer. It accepts everything.
func (l *jsonLog) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, data...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(data), nil
		}
		l.line(line)
		l.rest = rest
	}
}

func (l *jsonLog) line(text []byte) {
	line := logLine{}
	if json.Unmarshal(text, &line) != nil {
		return // not of the log
	}
	if line.Type == "diagnostic" && line.Diagnostic.Severity == "error" {
		l.diagnostics = append(l.diagnostics, Diagnostic{Summary: line.Diagnostic.Summary, Detail: line.Diagnostic.Detail, Address: line.Diagnostic.Address})
		return
	}
	phase, ok := map[string]Phase{"apply_start": Started, "apply_progress": Progress, "apply_complete": Done, "apply_errored": Failed}[line.Type]
	if !ok {
		return
	}
	r := line.Hook.Resource
	name := r.Address
	if l.nameOf != nil {
		name = l.nameOf(r.Address)
	}
	if l.running == nil {
		l.running = map[string]string{}
	}
	switch phase {
	case Started:
		l.running[r.Address] = name
	case Done:
		delete(l.running, r.Address)
		l.done++
	case Failed:
		delete(l.running, r.Address)
		l.failed = append(l.failed, name)
	}
	l.report(Event{
		Stage: l.stage, Kind: kindOf(r.Type), Name: name, Action: Action(line.Hook.Action), Phase: phase,
		Elapsed: time.Duration(line.Hook.Elapsed * float64(time.Second)), Done: l.done, Total: l.total,
	})
}

// unfinished are the names of resources that were begun and not done.
func (l *jsonLog) unfinished() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Values(l.running)), l.failed...)))
}

// failure makes the error of a command of what it said.
func (l *jsonLog) failure(command string, err error, stderr string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &TerraformError{Command: command, Diagnostics: l.diagnostics, Err: err}
	if len(e.Diagnostics) == 0 && strings.TrimSpace(stderr) != "" {
		e.Diagnostics = textDiagnostics(stderr)
		if len(e.Diagnostics) == 0 {
			e.Diagnostics = []Diagnostic{{Summary: strings.TrimSpace(stderr)}}
		}
	}
	e.Fix = fixFor(e.Diagnostics)
	return e
}

// Causes that the API names and that have a remedy.
const (
	codeStockout = "ZONE_RESOURCE_POOL_EXHAUSTED"
	codeQuota    = "QUOTA_EXCEEDED"
)

// isStockout reports whether a zone had no machine to give.
func isStockout(text string) bool {
	return strings.Contains(text, codeStockout) || strings.Contains(text, "does not have enough resources available")
}

// fixFor is what to do about errors, as far as they are known.
func fixFor(diagnostics []Diagnostic) string {
	var text strings.Builder
	for _, d := range diagnostics {
		text.WriteString(d.Summary + "\n" + d.Detail + "\n")
	}
	all := text.String()
	switch {
	case isStockout(all):
		return "The zone has no machine of this type to give at the moment. Run up again: what exists stays, and what is missing is tried again. If that does not help, run down and then up, which tries another zone first."
	case strings.Contains(all, codeQuota), strings.Contains(all, "quotaExceeded"), strings.Contains(all, "Quota '"):
		return "The project's quota is used up. Ask for more (https://console.cloud.google.com/iam-admin/quotas) or use smaller machines, and run up again: what exists stays."
	case strings.Contains(all, "already exists"), strings.Contains(all, "alreadyExists"):
		return "Something of that name was made in the meantime, perhaps by a run that was killed. Run up again: it is taken over if it is of this environment."
	case strings.Contains(all, "oauth2"), strings.Contains(all, "could not find default credentials"), strings.Contains(all, "invalid_grant"):
		return credentialsFix
	}
	return ""
}

// kindOf is what people call a type of resource.
func kindOf(resourceType string) string {
	kind, ok := map[string]string{
		"google_compute_instance": kindMachine, "google_compute_disk": kindDisk, "google_compute_firewall": kindFirewall,
		"google_compute_resource_policy": kindPolicy, "google_compute_subnetwork": kindSubnet, "google_compute_network": kindNetwork,
	}[resourceType]
	if !ok {
		return resourceType
	}
	return kind
}
