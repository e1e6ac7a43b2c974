package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/local"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

type benchOptions struct {
	environment environmentOptions
	load        loadFlags
	sizes       string
	iterations  int
	interval    time.Duration
	order       string
	targets     []string
	baseline    string
	aa          bool
	resume      bool
	planRepeats bool
	json        bool
	// given are the flags on the command line.
	given map[string]bool
	// dial connects to the machines of an environment that has some; nil is
	// the environment's own way.
	dial dialer
}

func newBench(a *app) *cobra.Command { return benchCommand(a, &benchOptions{}) }

func benchCommand(a *app, o *benchOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench --sizes 1M,4M,8M",
		Short: "Run the same commands against every deployment and keep the results",
		Long: `bench runs a cell for every deployment, size and iteration: drop, create
indexes, seed, wait for the secondaries, run. The targets take turns, so that
each has the load generator to itself. Results are written as they arrive to
runs/<run id>/; after an interrupt or a crash, --resume goes on.

Where the environment has a load host, the run is made there and goes on
whatever happens to this machine: lose the connection, close the lid, kill
this program. --resume finds it and brings home what it measured. The first
interrupt asks the run to stop, the second leaves it alone.

--aa measures the baseline a second time, as a target of its own that comes
last: what it differs from itself by is the noise floor, and the report puts
it beside every difference. It costs as much time as any other target.

--plan-repeats runs nothing. It takes the newest run, or RUN, and estimates
how many iterations of each target would find a difference of 1, 2 and 5 %.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if o.planRepeats {
				return cobra.MaximumNArgs(1)(cmd, args)
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = map[string]bool{}
			cmd.Flags().Visit(func(f *pflag.Flag) { o.given[f.Name] = true })
			if o.planRepeats {
				return planRepeats(a, o, args)
			}
			return runBench(cmd.Context(), a, o)
		},
	}
	o.environment.addName(cmd)
	o.load.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.sizes, "sizes", "", "data sizes in documents, with iterations if they differ: 1M:3,4M,8M")
	flags.IntVar(&o.iterations, "iterations", 3, "how often each size is repeated")
	flags.DurationVar(&o.interval, "interval", 5*time.Minute, "pause between cells; 0s by default on the local platform")
	flags.StringVar(&o.order, "order", bench.Interleaved, "sequential, interleaved or random")
	flags.StringSliceVar(&o.targets, "targets", nil, "deployments to compare (default: all)")
	flags.StringVar(&o.baseline, "baseline", "", "the target the others are compared with (default: the first)")
	flags.BoolVar(&o.aa, "aa", false, "measure the baseline a second time, for the noise floor")
	flags.BoolVar(&o.planRepeats, "plan-repeats", false, "run nothing: estimate from the newest run, or the one named, how many iterations a difference takes")
	flags.BoolVar(&o.resume, "resume", false, "go on with the newest unfinished run of the environment")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON when done, or the plan of --plan-repeats")
	cmd.AddCommand(newBenchJob(a))
	return cmd
}

func runBench(ctx context.Context, a *app, o *benchOptions) error {
	if o.sizes == "" && !o.resume {
		return fail(exitUsage, errors.New("--sizes is missing"), "for example --sizes 1k,4k,8k")
	}
	name, err := o.environment.existingName(ctx, a)
	if err != nil {
		return err
	}
	platform := a.platform(name, "", nil)
	var inventory *environment.Inventory
	if a.platformOf(name) == environment.GCP {
		inventory, err = a.cloudInventory(name)
	} else {
		inventory, err = platform.Inventory()
	}
	if err != nil {
		return notUp(name, err)
	}
	if inventory.PasswordFile == "" {
		return fail(exitTarget, fmt.Errorf("environment %s is not complete", name), "`sandbox up` again goes on from where it stopped")
	}
	password, err := secret.Read(filepath.Join(a.stateDir(name), inventory.PasswordFile))
	if err != nil {
		return err
	}
	release, err := platform.HoldForBench(ctx)
	if errors.Is(err, local.ErrBusy) {
		return fail(exitUsage, err, "wait for its end: two at a time would measure each other")
	}
	if errors.Is(err, local.ErrWorking) {
		return fail(exitUsage, err, "wait for its end")
	}
	if err != nil {
		return notUp(name, err)
	}
	defer release()
	options := bench.Options{
		Environment: inventory.Environment,
		Platform:    string(inventory.Platform),
		Tool:        a.tool(),
		CommandLine: append([]string{"sandbox"}, a.args...),
		Files:       inputFiles(inventory.Files),
		Variables:   variables(inventory.Given),
		RunsDir:     a.runsDir(),
		Runner:      newRunner(),
		Gone: func() bool {
			_, err := os.Stat(filepath.Join(a.stateDir(name), inventoryName))
			return errors.Is(err, fs.ErrNotExist)
		},
		Now: a.now,
	}
	if o.resume {
		err = o.resumeNewest(a, &options)
	} else {
		err = o.describe(&options, inventory.Platform)
	}
	if err != nil {
		return err
	}
	if options.Targets, err = bench.TargetsOf(inventory, password, o.targets); err != nil {
		return fail(exitUsage, err, "`sandbox status` lists the deployments")
	}
	if !slices.ContainsFunc(options.Targets, func(t bench.Target) bool { return options.Baseline == "" || t.Name == options.Baseline }) {
		return usagef("--baseline %s is not among the targets", options.Baseline)
	}
	if o.aa {
		options.Targets = bench.Again(options.Targets, options.Baseline)
	}
	if inventory.Platform == environment.Local {
		return a.runBench(ctx, options, o.json)
	}
	dial := o.dial
	if dial == nil {
		dial = a.dial(inventory)
	}
	host, err := a.remoteBench(inventory, dial)
	if err != nil {
		return err
	}
	return a.runBenchOn(ctx, &host, options, o.json)
}

// describe fills in from the flags what is to be run.
func (o *benchOptions) describe(options *bench.Options, platform environment.Platform) error {
	sizes, err := bench.ParseSizes(o.sizes, o.iterations)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--sizes: %w", err), "for example --sizes 1M:3,4M,8M")
	}
	if !slices.Contains([]string{bench.Sequential, bench.Interleaved, bench.Random}, o.order) {
		return usagef("--order %s: want %s, %s or %s", o.order, bench.Sequential, bench.Interleaved, bench.Random)
	}
	if options.Settings, err = o.load.record(sizes); err != nil {
		return err
	}
	options.Sizes, options.Order, options.Baseline, options.Interval = sizes, o.order, o.baseline, o.interval
	if platform == environment.Local && !o.given["interval"] {
		options.Interval = 0 // no machine has to settle
	}
	return nil
}

// resumeNewest takes all that is to be run from the newest unfinished run of
// the environment.
func (o *benchOptions) resumeNewest(a *app, options *bench.Options) error {
	for flag := range o.given {
		if !slices.Contains([]string{"resume", "env", "var-file", "json"}, flag) {
			return fail(exitUsage, fmt.Errorf("--%s cannot be given with --resume", flag), "the run goes on with the settings it began with")
		}
	}
	dir, err := record.Newest(a.runsDir(), func(run record.Run) bool {
		return run.Environment == options.Environment && run.Finished == nil
	})
	if errors.Is(err, record.ErrNoRun) {
		return fail(exitUsage, fmt.Errorf("environment %s has no unfinished run", options.Environment), "start one with --sizes")
	}
	if err != nil {
		return err
	}
	reader, err := record.Open(dir)
	if err != nil {
		return err
	}
	run := reader.Run()
	if err := reader.Close(); err != nil {
		return err
	}
	options.Resume, options.Settings, options.Sizes = dir, run.Settings, run.Sizes
	options.Order, options.Baseline, options.Interval = run.Order, run.Baseline, run.Interval
	for _, t := range run.Targets {
		if t.AAOf != "" {
			o.aa = true
			continue
		}
		o.targets = append(o.targets, t.Name)
	}
	return nil
}

// variables is nil when it is not known what was given.
func variables(given []environment.Given) []record.Variable {
	if given == nil {
		return nil
	}
	list := []record.Variable{}
	for _, v := range given {
		list = append(list, record.Variable(v))
	}
	return list
}

func inputFiles(files []environment.File) []record.InputFile {
	var inputs []record.InputFile
	for _, f := range files {
		inputs = append(inputs, record.InputFile(f))
	}
	return inputs
}
