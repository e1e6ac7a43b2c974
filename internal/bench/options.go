package bench

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// The orders of cells.
const (
	// Sequential runs all cells of a target before those of the next.
	Sequential = "sequential"
	// Interleaved runs the targets one after another within each iteration
	// of each size, all first iterations before the second ones, so that
	// what drifts with time reaches every target alike.
	Interleaved = "interleaved"
	// Random is interleaved with the order of the targets drawn anew for
	// every iteration of every size, from the workload's seed.
	Random = "random"
)

// defaultReruns is how often a cell is tried again.
const defaultReruns = 2

// Options say what to run.
type Options struct {
	Environment string
	Platform    string
	Tool        record.Tool
	CommandLine []string // redacted on its way into the record
	Files       []record.InputFile
	Variables   []record.Variable

	Settings record.Settings
	Sizes    []record.Size
	Order    string // Sequential, Interleaved or Random
	Baseline string // name of a target; empty is the first one
	Targets  []Target
	// Interval is the pause between two cells.
	Interval time.Duration
	// Reruns is how often a cell that was invalid or failed is tried again;
	// 0 is the default of 2, a negative number is never.
	Reruns int

	// RunsDir is where a new run gets its folder, ID is the folder's name;
	// an empty one is made of the time and the environment.
	RunsDir, ID string
	// Resume is the folder of the run to go on with; empty starts a new one.
	Resume string

	Runner Runner
	// Gone, if set, reports whether the environment has been taken down.
	// Then servers that refuse connections are not waited for.
	Gone func() bool
	// Progress, if set, is called with every event, one at a time. It must
	// return soon: the load generator may be waiting for it.
	Progress func(Event)
	// Now is the clock for the record; nil is the system's.
	Now func() time.Time
}

// Target is a deployment to be measured.
type Target struct {
	Name             string
	ReplicaSet       string // empty: no replica set
	Distribution     string
	Release          string
	RequestedVersion string
	// Engine is record.EngineMongod or record.EngineEmbedded as far as it
	// is known; what the servers say counts as well.
	Engine string
	// URI is a connection string without user name and password.
	URI      string
	Username string
	Password secret.Text `json:"-"`
	Members  []Member
	// AAOf names the target that this one measures a second time; Again
	// makes it.
	AAOf string
}

// Member is one server of a target.
type Member struct {
	Name    string
	Address string // host:port
	Arbiter bool
	// MachineID and Cloud are those of record.MemberFacts.
	MachineID string
	Cloud     record.CloudFacts
}

// TargetsOf makes a target of every deployment in the inventory that names
// keeps, in the inventory's order; nil keeps all. An unknown name is an
// error.
func TargetsOf(inventory *environment.Inventory, password secret.Text, names []string) ([]Target, error) {
	var targets []Target
	machines := map[string]environment.MachineState{}
	for _, m := range inventory.Machines {
		machines[m.Name] = m
	}
	for _, d := range inventory.Deployments {
		if names != nil && !slices.Contains(names, d.Name) {
			continue
		}
		t := Target{
			Name: d.Name, ReplicaSet: d.ReplicaSet, Distribution: d.Distribution, Release: d.Release,
			RequestedVersion: d.Version, Engine: d.Engine, URI: d.URI(""), Username: inventory.Username, Password: password,
		}
		for _, e := range d.Endpoints {
			m := machines[e.Name]
			t.Members = append(t.Members, Member{
				Name: e.Name, Address: e.Address(), Arbiter: e.Role == environment.Arbiter, MachineID: m.ID,
				Cloud: record.CloudFacts{MachineType: m.Type, CPUPlatform: m.CPUPlatform, Zone: m.Zone, DiskType: m.DiskType, DiskGB: m.DiskGB},
			})
		}
		targets = append(targets, t)
	}
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t Target) bool { return t.Name == name }) {
			return nil, fmt.Errorf("unknown target %q: the environment has %s", name, deploymentNames(inventory))
		}
	}
	return targets, nil
}

func deploymentNames(inventory *environment.Inventory) string {
	var names []string
	for _, d := range inventory.Deployments {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// ParseSizes reads data sizes with an optional number of iterations each:
// "1M:3,4M,8M". Sizes without one get iterations.
func ParseSizes(text string, iterations int) ([]record.Size, error) {
	if iterations < 1 || iterations > maxIterations {
		return nil, fmt.Errorf("%d iterations: want 1 to %d", iterations, maxIterations)
	}
	var sizes []record.Size
	for part := range strings.SplitSeq(text, ",") {
		label, repeats, explicit := strings.Cut(strings.TrimSpace(part), ":")
		size := record.Size{Label: label, Iterations: iterations}
		var err error
		if size.Documents, err = workload.ParseSize(label); err != nil {
			return nil, fmt.Errorf("sizes %q: %w", text, err)
		}
		if explicit {
			size.Iterations, err = strconv.Atoi(repeats)
			if err != nil || size.Iterations < 1 || size.Iterations > maxIterations {
				return nil, fmt.Errorf("sizes %q: iterations %q: want 1 to %d", text, repeats, maxIterations)
			}
		}
		if slices.ContainsFunc(sizes, func(s record.Size) bool { return s.Documents == size.Documents }) {
			return nil, fmt.Errorf("sizes %q: %s documents are listed twice", text, label)
		}
		sizes = append(sizes, size)
	}
	return sizes, nil
}

const (
	maxIterations = 1000
	maxCells      = 20_000
)

// Check refuses options that cannot work, before anything is touched. Run
// checks them too.
func (o *Options) Check() error {
	switch {
	case len(o.Targets) == 0:
		return errors.New("no target to measure")
	case len(o.Sizes) == 0:
		return errors.New("no data size to measure")
	case o.Settings.Duration <= 0:
		return fmt.Errorf("duration %s: want more than 0", o.Settings.Duration)
	case o.Interval < 0:
		return fmt.Errorf("interval %s: must not be negative", o.Interval)
	case o.Order != Sequential && o.Order != Interleaved && o.Order != Random:
		return fmt.Errorf("order %q: want %s, %s or %s", o.Order, Sequential, Interleaved, Random)
	}
	seen := map[string]bool{}
	for _, t := range o.Targets {
		if t.AAOf != "" && !seen[t.AAOf] {
			return fmt.Errorf("target %s measures %q again, which is not before it", t.Name, t.AAOf)
		}
		if t.Name == "" || seen[t.Name] {
			return fmt.Errorf("target name %q is empty or there twice", t.Name)
		}
		seen[t.Name] = true
		if err := t.serves(o.Settings); err != nil {
			return err
		}
	}
	if o.Baseline != "" && !seen[o.Baseline] {
		return fmt.Errorf("baseline %q is not among the targets", o.Baseline)
	}
	cells := 0
	for _, size := range o.Sizes {
		if size.Documents < 1 || size.Iterations < 1 || size.Iterations > maxIterations {
			return fmt.Errorf("size %s: %d documents, %d iterations", size.Label, size.Documents, size.Iterations)
		}
		cells += size.Iterations * len(o.Targets)
		if _, err := newWorkload(o.Settings, size.Documents); err != nil {
			return fmt.Errorf("size %s: %w", size.Label, err)
		}
	}
	if cells > maxCells {
		return fmt.Errorf("%d cells, more than %d", cells, maxCells)
	}
	return nil
}

// serves refuses settings that need more members than the target has.
func (t Target) serves(s record.Settings) error {
	data := 0
	for _, m := range t.Members {
		if !m.Arbiter {
			data++
		}
	}
	if t.ReplicaSet == "" || data == 0 {
		return nil // its topology is not known
	}
	if strings.EqualFold(s.ReadPreference, "secondary") && data < 2 {
		return fmt.Errorf("read preference %s: target %s has no secondary", s.ReadPreference, t.Name)
	}
	if n, err := strconv.Atoi(s.WriteConcern); err == nil && n > data {
		return fmt.Errorf("write concern %d: target %s has %d data-bearing members", n, t.Name, data)
	}
	return nil
}

// newWorkload makes the workload of one data size.
func newWorkload(s record.Settings, documents int64) (*workload.Workload, error) {
	mix, err := workload.MixOf(s.Mix)
	if err != nil {
		return nil, err
	}
	return workload.New(workload.Settings{
		Workload: s.Workload, Seed: s.Seed, Size: documents, Workers: s.Workers, OpsPerWorker: s.OpsPerWorker,
		Mix: mix, InsertBatch: s.InsertBatch, FindBatch: s.FindBatch, FindLimit: s.FindLimit,
	})
}

// checkSame refuses to go on with a run that was started with other
// settings, and names the first one that differs.
func checkSame(before, now record.Run) error {
	type pair struct {
		name        string
		before, now any
	}
	pairs := []pair{
		{"environment", before.Environment, now.Environment},
		{"platform", before.Platform, now.Platform},
		{"engine", before.Engine, now.Engine},
	}
	b, n := reflect.ValueOf(before.Settings), reflect.ValueOf(now.Settings)
	for i := range b.NumField() {
		pairs = append(pairs, pair{settingName(b.Type().Field(i)), b.Field(i).Interface(), n.Field(i).Interface()})
	}
	pairs = append(pairs,
		pair{"sizes", sizesText(before.Sizes), sizesText(now.Sizes)},
		pair{"order", before.Order, now.Order},
		pair{"baseline", before.Baseline, now.Baseline},
		pair{"interval", before.Interval, now.Interval},
		pair{"targets", targetNames(before.Targets), targetNames(now.Targets)},
	)
	for _, p := range pairs {
		if !reflect.DeepEqual(p.before, p.now) {
			return fmt.Errorf("%s is %v now and was %v when the run began", p.name, p.now, p.before)
		}
	}
	for i, t := range now.Targets {
		was := before.Targets[i]
		// A target that was down at the time said nothing of its version.
		if t.ActualVersion != was.ActualVersion && t.ActualVersion != "" && was.ActualVersion != "" {
			return fmt.Errorf("version of target %s is %s now and was %s when the run began", t.Name, t.ActualVersion, was.ActualVersion)
		}
	}
	return nil
}

// settingName is the setting as it is called on the command line.
func settingName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_ns"), "_per_s")
	return strings.ReplaceAll(cmp.Or(name, f.Name), "_", "-")
}

func sizesText(sizes []record.Size) string {
	var parts []string
	for _, s := range sizes {
		parts = append(parts, fmt.Sprintf("%s:%d", workload.FormatSize(s.Documents), s.Iterations))
	}
	return strings.Join(parts, ",")
}

func targetNames(targets []record.Target) string {
	var names []string
	for _, t := range targets {
		names = append(names, t.Name)
	}
	return strings.Join(names, ",")
}
