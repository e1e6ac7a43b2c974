package cli

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// workloadFlags are the flags that define a command sequence, apart from
// the size.
type workloadFlags struct {
	settings workload.Settings
	mix      string
}

func (f *workloadFlags) add(cmd *cobra.Command) {
	f.settings = workload.DefaultSettings()
	s, flags := &f.settings, cmd.Flags()
	flags.StringVar(&s.Workload, "workload", s.Workload, "workload `name`: flights")
	flags.Uint64Var(&s.Seed, "seed", s.Seed, "seed of all documents and commands")
	flags.IntVar(&s.Workers, "workers", s.Workers, "parallel workers")
	flags.Int64Var(&s.OpsPerWorker, "ops-per-worker", s.OpsPerWorker, "commands of a worker in a pass, which the fingerprint covers")
	flags.StringVar(&f.mix, "mix", s.Mix.String(), "weights of the operations; aggregate may be added")
	flags.IntVar(&s.InsertBatch, "insert-batch", s.InsertBatch, "documents in an insertMany")
	flags.IntVar(&s.FindBatch, "find-batch", s.FindBatch, "keys in an $in list, and the cursor's batch size")
	flags.IntVar(&s.FindLimit, "find-limit", s.FindLimit, "limit of a find; 0 is none")
}

// workload makes the workload for a size.
func (f *workloadFlags) workload(size int64) (*workload.Workload, error) {
	mix, err := workload.ParseMix(f.mix)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("--mix: %w", err), "")
	}
	settings := f.settings
	settings.Mix, settings.Size = mix, size
	w, err := workload.New(settings)
	if err != nil {
		return nil, fail(exitUsage, err, "")
	}
	return w, nil
}

// loadFlags are the flags that say how a workload is put on a target.
type loadFlags struct {
	workloadFlags
	duration, opTimeout          time.Duration
	warmup                       warmup
	rate                         float64
	readPreference, writeConcern string
	recordOutcomes, explain      bool
}

// warmup is the value of --warmup.
type warmup struct {
	time     time.Duration
	commands int64
}

// Set reads a time or a number of commands.
func (w *warmup) Set(text string) error {
	var read warmup
	var err error
	if read.commands, err = strconv.ParseInt(text, 10, 64); err != nil {
		read.commands = 0
		if read.time, err = time.ParseDuration(text); err != nil {
			return errors.New("want a time such as 2m, or a number of commands")
		}
	}
	if read.time < 0 || read.commands < 0 {
		return errors.New("must not be negative")
	}
	*w = read
	return nil
}

func (w *warmup) String() string {
	if w.commands > 0 {
		return strconv.FormatInt(w.commands, 10)
	}
	return w.time.String()
}

// Type is what the help calls the value.
func (w *warmup) Type() string { return "time or number" }

func (f *loadFlags) add(cmd *cobra.Command) {
	f.workloadFlags.add(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", 30*time.Minute, "measured time of a cell")
	flags.Var(&f.warmup, "warmup", "reads before the measured time: for a `TIME` such as 2m, or a number of commands of all workers together")
	flags.DurationVar(&f.opTimeout, "op-timeout", 0, "give a command up after this time; 0 is never")
	flags.Float64Var(&f.rate, "rate", 0, "commands per second of all workers, started whatever the answers (open loop); 0 sends the next when the last has ended")
	flags.StringVar(&f.readPreference, "read-preference", "primary", "primary, primaryPreferred, secondary, secondaryPreferred or nearest")
	flags.StringVar(&f.writeConcern, "write-concern", "", "majority or a number (default: the server's)")
	flags.BoolVar(&f.recordOutcomes, "record-outcomes", false, "keep what the server answered to every command")
	flags.BoolVar(&f.explain, "explain", true, "explain a sample of every query shape after the measured time")
}

// record gives the settings as the run record keeps them, once the sizes'
// workloads are known to be possible.
func (f *loadFlags) record(sizes []record.Size) (record.Settings, error) {
	if f.duration <= 0 {
		return record.Settings{}, usagef("--duration %s: want more than 0", f.duration)
	}
	if !(f.rate >= 0 && f.rate <= math.MaxInt32) { // NaN is neither
		return record.Settings{}, usagef("--rate %v: want 0 to %d", f.rate, math.MaxInt32)
	}
	if f.opTimeout != 0 && f.opTimeout < time.Millisecond {
		return record.Settings{}, usagef("--op-timeout %s: want at least 1ms, or 0 for none", f.opTimeout)
	}
	if err := (mongodb.Options{ReadPreference: f.readPreference, WriteConcern: f.writeConcern}).Check(); err != nil {
		return record.Settings{}, fail(exitUsage, err, "")
	}
	var mix workload.Mix
	for _, size := range sizes {
		w, err := f.workload(size.Documents)
		if err != nil {
			return record.Settings{}, err
		}
		mix = w.Settings().Mix
	}
	s := f.settings
	return record.Settings{
		Workload: s.Workload, Seed: s.Seed, Workers: s.Workers, OpsPerWorker: s.OpsPerWorker,
		Mix: mix.Weights(), InsertBatch: s.InsertBatch, FindBatch: s.FindBatch, FindLimit: s.FindLimit,
		Duration: f.duration, Warmup: f.warmup.time, WarmupCommands: f.warmup.commands, Rate: f.rate, OpTimeout: f.opTimeout,
		ReadPreference: f.readPreference, WriteConcern: f.writeConcern,
		RecordOutcomes: f.recordOutcomes, Explain: f.explain,
	}, nil
}

// tool identifies this program in run records.
func (a *app) tool() record.Tool {
	tool := record.Tool{Version: a.version, GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				tool.Commit = setting.Value
			}
		}
	}
	return tool
}
