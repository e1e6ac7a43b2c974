// Package gcp makes environments on Google Cloud and removes them.
//
// In goes an environment.Spec; out come machines that exist and accept SSH, as
// an environment.Inventory. Terraform or OpenTofu does the work, from the
// configuration in terraform/gcp with the user's own variable files and its
// state below the environment's folder; before and after, the package asks the
// Compute Engine API itself: whether what is wanted can be had, what a killed
// run left, what is still there. It installs nothing on the machines, asks no
// question, and changes nothing before Apply, Destroy or Remove.
package gcp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// Options say which environment it is and where its files are.
type Options struct {
	// Dir is the environment's folder, .sandbox/NAME. Terraform's work
	// directory and state are in its folder terraform.
	Dir string
	// Environment is its name.
	Environment string
	// TerraformBin is the program to run. When empty, tofu or else terraform
	// is searched for in PATH.
	TerraformBin string
	// Owner is who the environment belongs to: it is put on everything as a
	// label, made to fit, and what bears another is left alone. When empty, it
	// is who it belonged to before, or else User.
	Owner string
	// User is who runs this.
	User string
	// TTL is how long the environment is meant to live from when it was made,
	// for Sweep. Zero is as long as was said before, and for a new one for
	// ever; a negative one is for ever.
	TTL time.Duration
	// Project is used when the variables name none, and for an environment
	// whose folder is gone.
	Project string
	// Environ has the form of os.Environ: credentials, PATH, the API's
	// endpoint. Terraform gets it as well.
	Environ []string
	// Progress, if set, is told what happens. It is not called concurrently.
	Progress func(Event)
	// CallerAddress finds the address that this machine has on the internet.
	// When nil, CallerAddress of this package is used.
	CallerAddress func(context.Context) (string, error)
	// Now is the clock. When nil, time.Now is used.
	Now func() time.Time
}

// Platform is one environment on Google Cloud. Its methods are not to be
// called concurrently.
type Platform struct {
	o   Options
	env map[string]string // of Environ, without what would change Terraform's ways
}

// New returns the environment that the options name. It touches nothing.
func New(o Options) *Platform {
	if o.CallerAddress == nil {
		o.CallerAddress = CallerAddress
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if dir, err := filepath.Abs(o.Dir); err == nil {
		o.Dir = dir // Terraform runs in another folder
	}
	return &Platform{o: o, env: environMap(o.Environ)}
}

// Stage is what the platform is busy with.
type Stage string

// The stages.
const (
	StageInit    Stage = "init"    // Terraform gets ready
	StagePlan    Stage = "plan"    // it compares what is with what is wanted
	StageApply   Stage = "apply"   // it makes the changes
	StageDestroy Stage = "destroy" // it removes everything
	StageRemove  Stage = "remove"  // what Terraform does not know is removed
)

// Phase is how far a resource is.
type Phase string

// The phases.
const (
	Started  Phase = "started"
	Progress Phase = "progress" // still at it
	Done     Phase = "done"
	Failed   Phase = "failed"
)

// Event is one step of a stage.
type Event struct {
	Stage Stage
	// Kind and Name are the resource, such as "machine" and "first-look-plgm".
	// Empty, the event is about the stage as a whole.
	Kind, Name string
	Action     Action
	Phase      Phase
	// Elapsed is how long the resource has taken so far.
	Elapsed time.Duration
	// Done of Total resources are finished; Total is 0 when that is unknown.
	Done, Total int
}

func (p *Platform) report(e Event) {
	if p.o.Progress != nil {
		p.o.Progress(e)
	}
}

// Problem is something that stands in the way, and what to do about it. As an
// error it is both.
type Problem struct {
	Summary string // "the project x is not there", without a full stop
	Fix     string // a sentence
}

func (p *Problem) Error() string {
	if p.Fix == "" {
		return p.Summary
	}
	return p.Summary + ": " + strings.TrimSuffix(p.Fix, ".")
}

// Problems are several as one error.
type Problems []*Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// InterruptedError says that Terraform was interrupted and stopped in good
// order.
type InterruptedError struct {
	Stage Stage
	// Unfinished are the resources that were not done. They may exist all the
	// same, without Terraform knowing: the next Plan adopts them, and
	// Leftovers finds them.
	Unfinished []string
}

func (e *InterruptedError) Error() string {
	if len(e.Unfinished) == 0 {
		return fmt.Sprintf("%s: interrupted", e.Stage)
	}
	return fmt.Sprintf("%s: interrupted before these were done: %s", e.Stage, strings.Join(e.Unfinished, ", "))
}

// Unwrap makes errors.Is(err, context.Canceled) hold.
func (e *InterruptedError) Unwrap() error { return context.Canceled }

// TerraformError says that Terraform failed, in its own words.
type TerraformError struct {
	Command     string // "plan", "apply", "destroy", …
	Diagnostics []Diagnostic
	// Fix is what to do, when the cause is one of those that are known.
	Fix string
	// Lock is who holds the state, when that is the cause.
	Lock *Lock
	// Err is how the program ended.
	Err error
}

// Diagnostic is one error as Terraform reports it.
type Diagnostic struct {
	Summary, Detail string
	Address         string // of the resource, if it is about one
}

func (e *TerraformError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "terraform %s", e.Command)
	for i, d := range e.Diagnostics {
		if i == 0 {
			text.WriteString(": ")
		} else {
			text.WriteString("; ")
		}
		text.WriteString(strings.TrimSuffix(d.Summary, "."))
		if d.Address != "" {
			fmt.Fprintf(&text, " (%s)", d.Address)
		}
		if d.Detail != "" {
			text.WriteString(": " + strings.Join(strings.Fields(d.Detail), " "))
		}
	}
	if len(e.Diagnostics) == 0 && e.Err != nil {
		text.WriteString(": " + e.Err.Error())
	}
	if e.Fix != "" {
		text.WriteString("\n" + e.Fix)
	}
	return text.String()
}

// Unwrap returns how the program ended.
func (e *TerraformError) Unwrap() error { return e.Err }

// workDir is where Terraform runs.
func (p *Platform) workDir() string { return filepath.Join(p.o.Dir, "terraform") }

// Inventory returns what the last Apply found, or what has been made of it in
// the meantime: the environment's inventory.json. Without one,
// errors.Is(err, fs.ErrNotExist) holds.
func (p *Platform) Inventory() (*environment.Inventory, error) {
	return environment.ReadInventory(p.inventoryFile())
}

func (p *Platform) inventoryFile() string { return filepath.Join(p.o.Dir, "inventory.json") }

// canceled reports whether ctx is why something failed.
func canceled(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}
