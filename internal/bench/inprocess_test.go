package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/embedded"
	"github.com/mongo-sandbox/sandbox/internal/loadgen"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/report"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

const (
	user     = "admin"
	password = "only-for-tests"
)

// deployment is a replica set of embedded servers in this process.
type deployment struct {
	target  Target
	servers []*embedded.Server
}

// deploy starts a replica set of n members.
func deploy(t *testing.T, name string, n int) *deployment {
	t.Helper()
	d := &deployment{target: Target{
		Name: name, ReplicaSet: name, RequestedVersion: "8.0.34", Username: user, Password: secret.New(password),
	}}
	keyFile := secret.Generate(64)
	set := mongodb.ReplicaSet{Name: name}
	for range n {
		config := embedded.Config{ReplicaSet: name, KeyFile: keyFile, Heartbeat: 50 * time.Millisecond}
		if n == 1 {
			config.Initiate, config.Username, config.Password = true, user, d.target.Password
		}
		server, err := embedded.Start(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		d.servers = append(d.servers, server)
		address := server.Addr()
		d.target.Members = append(d.target.Members, Member{Name: name + "-m" + string(rune('0'+len(d.servers)-1)), Address: address})
		set.Members = append(set.Members, mongodb.ReplicaSetMember{Host: address})
	}
	hosts := make([]string, n)
	for i, m := range d.target.Members {
		hosts[i] = m.Address
	}
	d.target.URI = "mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=" + name
	if n > 1 {
		d.initiate(t, set)
	}
	return d
}

// waitMissed waits until the first member of the set hears nothing from
// member i.
func (d *deployment) waitMissed(t *testing.T, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := mongodb.Connect(ctx, mongodb.Options{
		URI: "mongodb://" + d.target.Members[0].Address + "/", Direct: true, Username: user, Password: d.target.Password,
	})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	for {
		status, err := client.ReplicaSetStatus(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		for _, m := range status.Members {
			if m.Name == d.target.Members[i].Address && m.Health != 1 {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (d *deployment) initiate(t *testing.T, set mongodb.ReplicaSet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	client, err := mongodb.Connect(ctx, mongodb.Options{URI: "mongodb://" + d.target.Members[0].Address + "/", Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	if err := client.Initiate(ctx, set); err != nil {
		t.Fatal(err)
	}
	// Replica set status needs a user, and a user needs a primary.
	for {
		err := client.CreateAdmin(ctx, user, d.target.Password)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func serverOptions(t *testing.T, targets ...Target) Options {
	t.Helper()
	o := options(t, &InProcess{AppName: "sandbox bench", HealthWait: 10 * time.Second, SampleEvery: 100 * time.Millisecond})
	o.Targets = targets
	sizes, err := ParseSizes("200", 1)
	if err != nil {
		t.Fatal(err)
	}
	o.Sizes = sizes
	o.Settings.Mix = map[string]int{"find": 60, "update": 20, "delete": 10, "insert": 5, "bulk_insert": 5}
	o.Settings.Explain = true
	return o
}

func TestInProcess(t *testing.T) {
	t.Parallel()
	alone, three := deploy(t, "alone", 1), deploy(t, "three", 3)
	cloud := record.CloudFacts{MachineType: "n2-standard-4", Zone: "z-a", DiskType: "pd-ssd", DiskGB: 80}
	three.target.Members[1].Cloud = cloud
	o := serverOptions(t, alone.target, three.target)
	o.Settings.Warmup = 200 * time.Millisecond
	o.Settings.RecordOutcomes = true
	var mu sync.Mutex
	phases := map[Phase]int{}
	var seeded int64
	o.Progress = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		phases[e.Phase]++
		seeded = max(seeded, e.Seeded)
		if e.Phase == CellInvalid || e.Phase == CellFailed {
			t.Errorf("%s: %s", e.Phase, e.Reason)
		}
	}
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, phase := range []Phase{Inspecting, Checking, Seeding, Waiting, Running, Explaining, CellDone} {
		if phases[phase] == 0 {
			t.Errorf("no event of phase %s", phase)
		}
	}
	if seeded != 200 {
		t.Errorf("%d documents were reported as seeded, want 200", seeded)
	}
	if result.Run.Engine != record.EngineEmbedded {
		t.Errorf("engine = %s", result.Run.Engine)
	}
	for i, target := range result.Run.Targets {
		if len(target.Members) != len(o.Targets[i].Members) || target.ActualVersion == "" || target.Engine != record.EngineEmbedded {
			t.Errorf("target = %+v", target)
		}
	}
	if got := result.Run.Targets[1].Members; got[0].Role != "PRIMARY" || got[1].Role != "SECONDARY" || got[0].Machine.CPUs == 0 ||
		got[0].Cloud != (record.CloudFacts{}) || got[1].Cloud != cloud {
		t.Errorf("members = %+v", got)
	}
	cells := cellsOf(t, result.Dir)
	if len(cells) != 2 {
		t.Fatalf("%d cells", len(cells))
	}
	for _, c := range cells {
		checkCell(t, c)
	}
	if cells[0].Cell.SequenceID != cells[1].Cell.SequenceID {
		t.Error("targets got different sequences")
	}
	// The same engine answers the same commands alike, however its workers
	// interleave and whatever a warm-up read.
	comparison, err := report.Load(result.Dir, report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(comparison.Answers) != 1 {
		t.Fatalf("answers %+v", comparison.Answers)
	}
	if a := comparison.Answers[0]; a.Commands == 0 || a.Digested == 0 || a.Differ() != 0 || a.Problem != "" {
		t.Errorf("answers %+v", a)
	}
}

func checkCell(t *testing.T, c record.CellRecord) {
	t.Helper()
	cell := c.Cell
	if c.Status != record.Counted || cell.Commands == 0 || cell.Errors != 0 || cell.Seeding.Documents != 200 {
		t.Errorf("%s is %s: %+v", c.ID, c.Status, cell)
	}
	if cell.CPUUSPerCommand == nil || cell.CPUUSPerCommand.Primary <= 0 {
		t.Errorf("%s: CPU per command = %+v", c.ID, cell.CPUUSPerCommand)
	}
	intervals := 0
	for _, err := range c.Intervals() {
		if err != nil {
			t.Error(err)
		}
		intervals++
	}
	if intervals == 0 {
		t.Errorf("%s has no intervals", c.ID)
	}
	phases := map[string]int{}
	for s, err := range c.Samples() {
		if err != nil || s.Error != "" {
			t.Errorf("%s: sample %+v, %v", c.ID, s, err)
		}
		phases[s.Phase]++
	}
	if phases["before"] == 0 || phases["during"] == 0 || phases["after"] != phases["before"] {
		t.Errorf("%s: samples by phase: %v", c.ID, phases)
	}
	explains, err := c.Explains()
	if err != nil {
		t.Error(err)
	}
	operations := map[string]bool{}
	for _, e := range explains {
		operations[e.Operation] = true
		if len(e.Stages) == 0 || len(e.Command) == 0 || strings.Contains(strings.Join(e.Stages, " "), "COLLSCAN") {
			t.Errorf("%s: plan of %s: %q", c.ID, e.Shape, e.Stages)
		}
	}
	if len(operations) != 5 || len(cell.Warnings) > 0 && slices.ContainsFunc(cell.Warnings, func(w string) bool { return strings.HasPrefix(w, "no plan") }) {
		t.Errorf("%s: plans of %v, warnings %q", c.ID, operations, cell.Warnings)
	}
	// All members define alike what the workload has created: a collection,
	// its indexes and that of _id.
	if d := cell.Definitions; len(d) != 1 || len(d[0].Members) != phases["before"] || len(d[0].Facts) != 9 || d[0].Facts["collection flights"] != "{}" ||
		!strings.Contains(d[0].Facts["index flights.flight_date_1"], `"flight_date"`) {
		t.Errorf("%s: definitions %+v of %d members, warnings %q", c.ID, d, phases["before"], cell.Warnings)
	}
	if points, err := c.Checkpoints(); err != nil || len(points.Workers) != 2 {
		t.Errorf("%s: checkpoints %+v, %v", c.ID, points, err)
	}
}

// TestTargetDies closes the servers of one target while it is measured.
func TestTargetDies(t *testing.T) {
	t.Parallel()
	dying, other := deploy(t, "dying", 1), deploy(t, "other", 1)
	o := serverOptions(t, dying.target, other.target)
	o.Runner = &InProcess{HealthWait: 4 * time.Second}
	o.Settings.OpTimeout = 300 * time.Millisecond
	var once sync.Once
	o.Progress = func(e Event) {
		if e.Phase == Running && e.Target == "dying" && e.Load != nil {
			once.Do(func() { go dying.servers[0].Close() })
		}
	}
	result, err := Run(t.Context(), o)
	var down *DownError
	if !errors.As(err, &down) || !errors.Is(err, loadgen.ErrTargetDown) || !slices.Equal(down.Targets, []string{"dying"}) {
		t.Fatalf("error = %v", err)
	}
	if result.Finished < 1 || result.Skipped > 1 {
		t.Errorf("result = %+v", result)
	}
	counted := map[string]int{}
	for _, c := range cellsOf(t, result.Dir) {
		if c.Status == record.Counted {
			counted[c.ID.Target]++
		}
	}
	if counted["dying"] != 0 || counted["other"] != 1 {
		t.Errorf("counted cells: %v", counted)
	}
}

// TestMemberDiesBeforeTheLoad closes a secondary while documents are seeded:
// the wait for it to catch up has no use, however long it may take.
func TestMemberDiesBeforeTheLoad(t *testing.T) {
	t.Parallel()
	d := deploy(t, "dying", 3)
	o := serverOptions(t, d.target)
	o.Runner = &InProcess{HealthWait: 4 * time.Second}
	var once sync.Once
	o.Progress = func(e Event) {
		if e.Phase == Seeding {
			once.Do(func() {
				d.servers[1].Close()
				d.waitMissed(t, 1)
			})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := Run(ctx, o)
	if !errors.Is(err, loadgen.ErrTargetDown) || !errors.Is(err, mongodb.ErrSilent) {
		t.Errorf("error = %v", err)
	}
}

// TestInterruptedLoad stops a cell while its load runs.
func TestInterruptedLoad(t *testing.T) {
	t.Parallel()
	o := serverOptions(t, deploy(t, "alone", 1).target)
	o.Settings.Duration = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(e Event) {
		if e.Phase == Running && e.Load != nil && e.Load.Commands > 0 {
			cancel()
		}
	}
	result, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	cells := cellsOf(t, result.Dir)
	if len(cells) != 1 || cells[0].Status != record.Partial || cells[0].Cell == nil {
		t.Fatalf("cells = %+v", cells)
	}
	if c := cells[0].Cell; !c.Interrupted || c.Commands == 0 || c.Valid {
		t.Errorf("partial = %+v", c)
	}
}
