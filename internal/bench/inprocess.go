package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// InProcess is the Runner that makes the load in this process.
type InProcess struct {
	// AppName is what the servers see as the client's name.
	AppName string
	// SampleEvery is the pause between two readings of the members while
	// the load runs; 0 is 10 s.
	SampleEvery time.Duration
	// HealthWait bounds the wait for a target to be healthy before its cell
	// and after seeding, 0 is 30 s; CatchUpWait the wait for secondaries after seeding, 0 is
	// 30 min.
	HealthWait, CatchUpWait time.Duration
}

const (
	inspectTimeout = 15 * time.Second // for one target to answer
	sampleTimeout  = 10 * time.Second // for one reading of one member
	explainTimeout = time.Minute      // for the plans of all query shapes
	// definitionsTimeout is for all members to tell collections and indexes.
	definitionsTimeout = 15 * time.Second
	closeTimeout       = 5 * time.Second
)

// LoadHost describes this machine. What it does not tell stays empty.
func (r *InProcess) LoadHost(ctx context.Context) (record.MachineFacts, error) {
	var facts record.MachineFacts
	if info, err := host.InfoWithContext(ctx); err == nil {
		facts.OS = info.Platform + " " + info.PlatformVersion
		facts.Kernel = info.KernelVersion
	}
	if cpus, err := cpu.InfoWithContext(ctx); err == nil && len(cpus) > 0 {
		facts.CPUModel = cpus[0].ModelName
	}
	if n, err := cpu.CountsWithContext(ctx, true); err == nil {
		facts.CPUs = n
	}
	if memory, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		facts.MemoryMB = int64(memory.Total >> 20)
	}
	return facts, ctx.Err()
}

// Inspect asks every member for its facts.
func (r *InProcess) Inspect(ctx context.Context, t Target) (out record.Target, warnings []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	members, err := connectMembers(ctx, t, r.AppName)
	if err != nil {
		return record.Target{}, nil, err
	}
	defer members.close(ctx)
	out = t.described()
	for _, m := range members {
		facts, err := m.client.Facts(ctx)
		if err != nil {
			return record.Target{}, nil, fmt.Errorf("inspect member %s: %w", m.Name, err)
		}
		out.Members = append(out.Members, record.MemberFacts{
			Name: m.Name, Address: m.Address, Role: facts.State, Version: facts.Version, FCV: facts.FCV,
			Machine: record.MachineFacts(facts.Machine), MachineID: m.MachineID, Cloud: m.Cloud, Settings: facts.Settings,
		})
		if !m.Arbiter { // one holds no users and no data: it tells next to nothing
			for _, missing := range facts.Missing {
				warnings = append(warnings, fmt.Sprintf("member %s does not tell everything that is compared: %s", m.Name, missing))
			}
		}
		if facts.Embedded {
			out.Engine = record.EngineEmbedded
		}
		if !m.Arbiter && out.ActualVersion == "" {
			out.ActualVersion, out.GitVersion = facts.Version, facts.GitVersion
		}
	}
	return out, warnings, nil
}

// RunCell implements Runner.
func (r *InProcess) RunCell(ctx context.Context, job Job, cell *record.CellWriter) (record.Cell, error) {
	out := record.Cell{Started: time.Now().UTC()}
	w, err := newWorkload(job.Settings, job.ID.Size)
	if err != nil {
		return out, err
	}
	s, err := r.connect(ctx, job.Target, job.Settings)
	if err != nil {
		return out, err
	}
	defer s.close(ctx)

	job.Progress(Event{Phase: Checking})
	healthWait := cmp.Or(r.HealthWait, 30*time.Second)
	if err := s.waitHealthy(ctx, healthWait); err != nil {
		return out, fmt.Errorf("%w: %w", loadgen.ErrTargetDown, err)
	}
	job.Progress(Event{Phase: Seeding, Documents: job.ID.Size})
	seeding, err := loadgen.Seed(ctx, loadgen.SeedOptions{Workload: w, Client: s.admin, Progress: func(p loadgen.SeedProgress) {
		job.Progress(Event{Phase: Seeding, Seeded: p.Documents, Documents: p.Total})
	}})
	out.Seeding = seeding
	if err != nil {
		return out, err
	}
	job.Progress(Event{Phase: Waiting})
	err = s.waitCaughtUp(ctx, cmp.Or(r.CatchUpWait, 30*time.Minute), healthWait)
	if errors.Is(err, mongodb.ErrSilent) {
		err = fmt.Errorf("%w: %w", loadgen.ErrTargetDown, err)
	}
	if err != nil {
		return out, err
	}
	definitions, warnings := s.members.definitions(ctx, w.Collections())

	job.Progress(Event{Phase: Running})
	options := loadgen.Options{
		Workload: w, Iteration: job.ID.Iteration, Client: s.load,
		Duration: job.Settings.Duration, Warmup: job.Settings.Warmup, WarmupOps: warmupOps(&job.Settings), Rate: job.Settings.Rate, Sink: cell,
	}
	if job.Settings.RecordOutcomes {
		if options.Outcomes, err = cell.Outcomes(); err != nil {
			return out, err
		}
	}
	result, watch, err := r.measure(ctx, s, job, options, cell)
	if result != nil {
		out = result.Cell
		out.Seeding, out.Definitions = seeding, definitions
		out.Warnings = append(out.Warnings, warnings...)
		err = errors.Join(err, cell.Checkpoints(result.Checkpoints))
	}
	if err != nil || out.Interrupted {
		return out, err
	}
	out.CPUUSPerCommand = watch.cpuPerCommand(out.Commands)
	if len(watch.reasons) > 0 {
		out.Valid = false
		out.InvalidReasons = append(out.InvalidReasons, watch.reasons...)
	}
	if job.Settings.Explain && out.Valid { // else the cell is run again anyway
		job.Progress(Event{Phase: Explaining})
		explains, warnings := explainShapes(ctx, s.load, w, job.ID.Iteration)
		out.Warnings = append(out.Warnings, warnings...)
		err = cell.Explains(explains)
	}
	return out, err
}

// measure runs the load between two readings of all members, with more of
// them meanwhile.
func (r *InProcess) measure(ctx context.Context, s *session, job Job, o loadgen.Options, cell *record.CellWriter) (*loadgen.Result, *watch, error) {
	sampler := &sampler{members: s.members, sink: cell, now: time.Now}
	before, err := sampler.take(ctx, "before")
	if err != nil {
		return nil, nil, err
	}
	watch := newWatch(before)
	if err := watch.ready(); err != nil {
		return nil, nil, err
	}
	every := cmp.Or(r.SampleEvery, 10*time.Second)
	during := sampler.start(ctx, watch, every, min(every, o.Duration/2))
	o.Progress = func(snapshot loadgen.Snapshot) {
		if job.Settings.WarmsUp() && !snapshot.WarmingUp {
			during.warmedUp(snapshot.Commands)
		}
		job.Progress(Event{Phase: Running, Load: &snapshot})
	}
	result, err := loadgen.Run(ctx, o)
	err = errors.Join(err, during.stop())
	if err != nil || result.Cell.Interrupted {
		return result, watch, err
	}
	// The measurement is complete: an interrupt does not take it back.
	after, err := sampler.take(context.WithoutCancel(ctx), "after")
	if err != nil {
		return result, watch, err
	}
	watch.see(after)
	watch.last = after
	return result, watch, nil
}

// session is the connections to one target.
type session struct {
	target  Target
	admin   *mongodb.Client // without a time limit on operations
	load    *mongodb.Client
	members members
}

func (r *InProcess) connect(ctx context.Context, t Target, settings record.Settings) (*session, error) {
	s := &session{target: t}
	options := mongodb.Options{URI: t.URI, Username: t.Username, Password: t.Password, AppName: r.AppName}
	var err error
	if s.admin, err = mongodb.Connect(ctx, options); err != nil {
		return nil, err
	}
	options.ReadPreference, options.WriteConcern = settings.ReadPreference, settings.WriteConcern
	options.OpTimeout = settings.OpTimeout
	options.Digest = settings.RecordOutcomes
	// Connected while the data is being seeded, so that no measured command
	// waits for a handshake.
	options.MinPoolSize, options.MaxPoolSize = settings.Workers, settings.Workers
	options.Monitor = loadgen.NewMonitor()
	if s.load, err = mongodb.Connect(ctx, options); err == nil {
		s.members, err = connectMembers(ctx, t, r.AppName)
	}
	if err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

// close ends the connections, also when ctx has ended.
func (s *session) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	s.members.close(ctx)
	for _, client := range []*mongodb.Client{s.load, s.admin} {
		if client != nil {
			_ = client.Close(ctx) // nothing depends on a good end
		}
	}
}

func (s *session) waitHealthy(ctx context.Context, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if s.target.ReplicaSet == "" {
		return s.admin.Ping(ctx)
	}
	return s.admin.WaitHealthy(ctx, s.members.names())
}

func (s *session) waitCaughtUp(ctx context.Context, bound, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return s.admin.WaitCaughtUp(ctx, patience, s.members.names())
}

// warmupOps is each worker's share of the warm-up's commands.
func warmupOps(s *record.Settings) int64 {
	workers := int64(max(s.Workers, 1))
	return (s.WarmupCommands + workers - 1) / workers
}
