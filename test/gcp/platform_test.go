//go:build e2e

package gcp

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
	"github.com/mongo-sandbox/sandbox/test/gcp/computeapi"
)

// stage is an environment of internal/gcp on a cloud of its own.
type stage struct {
	t       *testing.T
	cloud   *computeapi.Server
	options gcp.Options
	spec    *environment.Spec
	events  []gcp.Event
}

func newStage(t *testing.T, name string, varFiles ...string) *stage {
	t.Helper()
	s := &stage{t: t, cloud: newCloud(t), spec: load(t, name, varFiles...)}
	s.options = gcp.Options{
		Dir: filepath.Join(t.TempDir(), name), Environment: name, Owner: "Test Er", TTL: 4 * time.Hour,
		Environ:       environ(t, s.cloud),
		CallerAddress: func(context.Context) (string, error) { return "192.0.2.10", nil },
		Progress:      func(e gcp.Event) { s.events = append(s.events, e) },
	}
	s.quicken()
	return s
}

// quicken puts the override into the work directory.
func (s *stage) quicken() {
	s.t.Helper()
	work := filepath.Join(s.options.Dir, "terraform")
	must(s.t, os.MkdirAll(work, 0o700))
	must(s.t, os.WriteFile(filepath.Join(work, "test_override.tf"), []byte(quickPolls), 0o600))
}

// platform is what a new run of the program has.
func (s *stage) platform() *gcp.Platform { return gcp.New(s.options) }

// plan does what up does until it asks.
func (s *stage) plan() (*gcp.Platform, *gcp.Plan) {
	s.t.Helper()
	p := s.platform()
	preflight, err := p.Preflight(s.t.Context(), s.spec)
	must(s.t, err)
	must(s.t, preflight.Err())
	plan, err := p.Plan(s.t.Context(), s.spec, preflight)
	must(s.t, err)
	return p, plan
}

// up plans and applies.
func (s *stage) up() (*environment.Inventory, error) {
	s.t.Helper()
	started := time.Now()
	p, plan := s.plan()
	planned := time.Now()
	inventory, err := p.Apply(s.t.Context(), plan)
	s.t.Logf("planned %d changes in %.1f s, applied in %.1f s", len(plan.Changes), planned.Sub(started).Seconds(), time.Since(planned).Seconds())
	return inventory, err
}

func (s *stage) mustUp() *environment.Inventory {
	s.t.Helper()
	inventory, err := s.up()
	must(s.t, err)
	return inventory
}

func (s *stage) planIsEmpty() {
	s.t.Helper()
	if _, plan := s.plan(); !plan.Empty() {
		s.t.Errorf("the plan is not empty: %+v", plan.Changes)
	}
}

// down destroys, removes what is left and checks that nothing is.
func (s *stage) down() (removed gcp.Removed, left []gcp.Resource) {
	s.t.Helper()
	p := s.platform()
	started := time.Now()
	removed, err := p.Destroy(s.t.Context())
	must(s.t, err)
	left, err = p.Leftovers(s.t.Context())
	must(s.t, err)
	must(s.t, p.Remove(s.t.Context(), left))
	s.t.Logf("destroyed %d, removed %d more in %.1f s", removed.Total(), len(left), time.Since(started).Seconds())
	if there := s.cloud.Resources(); len(there) > 0 {
		s.t.Errorf("left: %s", strings.Join(there, ", "))
	}
	return removed, left
}

func ids(cloud *computeapi.Server) map[string]uint64 {
	all := map[string]uint64{}
	for name, i := range computeapi.All[compute.Instance](cloud) {
		all[name] = i.Id
	}
	return all
}

func TestLifecycle(t *testing.T) {
	t.Parallel()
	s := newStage(t, "first-look", published)
	_, plan := s.plan()
	// 11 machines, 10 data disks, network, subnet, three rules, the policy.
	if got := plan.Count(gcp.Create); got != 27 || len(plan.Changes) != 27 {
		t.Errorf("the plan creates %d of %d", got, len(plan.Changes))
	}
	if there := s.cloud.Resources(); len(there) > 0 {
		t.Errorf("planning made %v", there)
	}
	inventory := s.mustUp()
	instances := computeapi.All[compute.Instance](s.cloud)
	if len(inventory.Machines) != 11 || len(instances) != 11 || len(inventory.Deployments) != 3 {
		t.Errorf("%d machines and %d deployments in the inventory, %d in the cloud", len(inventory.Machines), len(inventory.Deployments), len(instances))
	}
	for _, m := range inventory.Machines {
		nic := instances[m.Name].NetworkInterfaces[0]
		if m.InternalIP != nic.NetworkIP || m.ExternalIP != nic.AccessConfigs[0].NatIP || m.ID == "" || m.CPUPlatform == "" ||
			m.Role == string(environment.Data) && (m.DiskType != "pd-ssd" || m.DiskGB != 80) {
			t.Errorf("%+v", m)
		}
	}
	kept, err := s.platform().Inventory()
	must(t, err)
	equal(t, "inventory on disk", inventory, kept)
	equal(t, "first endpoint", environment.MemberState{Name: "first-look-mongo9-0", Role: environment.Data, Host: "first-look-mongo9-0", Port: 27017}, inventory.Deployments[0].Endpoints[0])
	equal(t, "SSH", &environment.SSH{User: "sandbox", KeyFile: "id_ed25519", KnownHosts: "known_hosts"}, inventory.SSH)
	public, err := os.ReadFile(filepath.Join(s.options.Dir, "id_ed25519.pub"))
	must(t, err)
	for name, i := range instances {
		for _, item := range i.Metadata.Items {
			if item.Key == "ssh-keys" && !strings.HasPrefix(string(public), strings.TrimPrefix(*item.Value, "sandbox:")) {
				t.Errorf("%s has the key %q, not %q", name, *item.Value, public)
			}
		}
		if i.Labels["owner"] != "test-er" || i.Labels["ttl"] != "4h" {
			t.Errorf("%s has the labels %v", name, i.Labels)
		}
	}
	var finished int
	for _, e := range s.events {
		if e.Stage == gcp.StageApply && e.Phase == gcp.Done && e.Name != "" {
			finished++
			if e.Kind == "machine" && instances[e.Name].Name == "" || e.Total != 27 {
				t.Errorf("event %+v", e)
			}
		}
	}
	if finished != 27 {
		t.Errorf("%d resources were reported as done", finished)
	}
	s.planIsEmpty()
	before := ids(s.cloud)
	s.options.TTL = 8 * time.Hour
	s.mustUp()
	equal(t, "machines after a longer life was given", before, ids(s.cloud))
	s.sweep()
	removed, left := s.down()
	if removed.Total() != 27 || removed["machine"] != 11 || len(left) != 0 {
		t.Errorf("removed %v, left %v", removed, left)
	}
	if _, err := s.platform().Inventory(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the inventory is still there: %v", err)
	}
	s.down() // again
}

// sweep checks what a sweep finds of the environment before and after its
// time.
func (s *stage) sweep() {
	s.t.Helper()
	o := gcp.SweepOptions{Environ: s.options.Environ, Now: time.Now().Add(7*time.Hour + 50*time.Minute)}
	found, err := gcp.Sweep(s.t.Context(), o)
	must(s.t, err)
	if len(found) != 0 {
		s.t.Errorf("found before its time: %+v", found)
	}
	o.Now = o.Now.Add(15 * time.Minute)
	found, err = gcp.Sweep(s.t.Context(), o)
	must(s.t, err)
	if len(found) != 1 || found[0].Environment != s.options.Environment || found[0].Owner != "test-er" || len(found[0].Resources) != 27+11 {
		s.t.Errorf("found after its time: %+v", found)
	}
}

// Google takes a machine; up starts it again and knows its new address.
func TestPreempted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "small", "testdata/small.tfvars")
	s.mustUp()
	before := ids(s.cloud)
	must(t, s.cloud.Preempt("small-odd-name-v2-1"))
	inventory := s.mustUp()
	equal(t, "machines", before, ids(s.cloud))
	for _, m := range inventory.Machines {
		i := computeapi.All[compute.Instance](s.cloud)[m.Name]
		if i.Status != "RUNNING" || m.ExternalIP != i.NetworkInterfaces[0].AccessConfigs[0].NatIP || m.ExternalIP == "" {
			t.Errorf("%s is %s at %v, %q in the inventory", m.Name, i.Status, i.NetworkInterfaces[0].AccessConfigs[0].NatIP, m.ExternalIP)
		}
	}
	s.planIsEmpty()
	s.down()
}

func TestLostState(t *testing.T) {
	t.Parallel()
	s := newStage(t, "small", "testdata/small.tfvars")
	s.mustUp()
	must(t, os.RemoveAll(s.options.Dir))
	left, err := s.platform().Leftovers(t.Context())
	must(t, err)
	// Four machines with boot disks, two data disks, network, subnet, two
	// rules.
	if len(left) != 4+4+2+1+1+2 {
		t.Errorf("left: %+v", left)
	}
	removed, _ := s.down()
	equal(t, "removed by Terraform", 0, removed.Total())
}

func TestUpAfterLostState(t *testing.T) {
	t.Parallel()
	s := newStage(t, "small", "testdata/small.tfvars")
	s.mustUp()
	before := ids(s.cloud)
	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup"} {
		_ = os.Remove(filepath.Join(s.options.Dir, "terraform", name))
	}
	_, plan := s.plan()
	equal(t, "adopted", 10, plan.Count(gcp.Adopt))
	equal(t, "created", 0, plan.Count(gcp.Create))
	s.mustUp()
	equal(t, "machines", before, ids(s.cloud))
	s.planIsEmpty()
	_, left := s.down()
	equal(t, "left", 0, len(left))
}

func TestStockoutThenAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, "stockout", published)
	s.cloud.FailInsert(3, "ZONE_RESOURCE_POOL_EXHAUSTED")
	_, err := s.up()
	failure := &gcp.TerraformError{}
	if !errors.As(err, &failure) || !strings.Contains(failure.Fix, "Run up again") || len(failure.Diagnostics) != 1 {
		t.Fatalf("the first up ended with %v", err)
	}
	first := ids(s.cloud)
	s.mustUp()
	second := ids(s.cloud)
	if len(second) != 11 {
		t.Errorf("there are %d machines", len(second))
	}
	for name, id := range first {
		if second[name] != id {
			t.Errorf("%s was made anew", name)
		}
	}
	s.planIsEmpty()
	s.down()
	// The next one begins in another zone, though down removes the folder.
	must(t, os.RemoveAll(s.options.Dir))
	preflight, err := s.platform().Preflight(t.Context(), s.spec)
	must(t, err)
	equal(t, "zones", zonesOf("northamerica-northeast1", "b", "c", "a"), preflight.Zones)
}

func TestQuotaAndOtherProblems(t *testing.T) {
	t.Parallel()
	s := newStage(t, "first-look", published)
	problems := func(change func(*environment.Spec, *gcp.Options)) string {
		t.Helper()
		spec, options := *s.spec, s.options
		cloud := *spec.Cloud
		spec.Cloud, spec.Machines = &cloud, slices.Clone(spec.Machines)
		change(&spec, &options)
		preflight, err := gcp.New(options).Preflight(t.Context(), &spec)
		if err != nil {
			t.Fatalf("preflight: %v", err)
		}
		for _, problem := range preflight.Problems {
			if problem.Fix == "" {
				t.Errorf("%s: no fix", problem.Summary)
			}
		}
		if len(preflight.Problems) == 0 {
			return ""
		}
		return preflight.Problems.Error()
	}
	without := func(names ...string) func(*environment.Spec, *gcp.Options) {
		return func(_ *environment.Spec, o *gcp.Options) {
			o.Environ = slices.DeleteFunc(slices.Clone(o.Environ), func(entry string) bool {
				name, _, _ := strings.Cut(entry, "=")
				return slices.Contains(names, name)
			})
		}
	}
	for want, change := range map[string]func(*environment.Spec, *gcp.Options){
		"no region atlantis-1":                  func(s *environment.Spec, _ *gcp.Options) { s.Cloud.Region = "atlantis-1" },
		"the project elsewhere is not there":    func(s *environment.Spec, _ *gcp.Options) { s.Cloud.Project = "elsewhere" },
		"lacks the CPU platform Intel Coffee":   func(s *environment.Spec, _ *gcp.Options) { s.Cloud.MinCPUPlatform = "Intel Coffee" },
		"lacks the machine type n2-standard-5":  func(s *environment.Spec, _ *gcp.Options) { s.Machines[0].Type = "n2-standard-5" },
		"lacks the disk type pd-fast":           func(s *environment.Spec, _ *gcp.Options) { s.Machines[0].DiskType = "pd-fast" },
		"there is no image projects/x/global":   func(s *environment.Spec, _ *gcp.Options) { s.Cloud.Image = "projects/x/global/images/family/y" },
		"no Google Cloud project is named":      without("GOOGLE_PROJECT"),
		"neither tofu nor terraform is in PATH": without("PATH"),
		"/nowhere/key.json": func(_ *environment.Spec, o *gcp.Options) {
			without("GOOGLE_OAUTH_ACCESS_TOKEN")(nil, o)
			o.Environ = append(o.Environ, "GOOGLE_APPLICATION_CREDENTIALS=/nowhere/key.json")
		},
		"Google does not accept the credentials": func(_ *environment.Spec, o *gcp.Options) {
			o.Environ = append(slices.Clone(o.Environ), "GOOGLE_OAUTH_ACCESS_TOKEN=stolen")
		},
		"this machine's address on the internet is not known": func(_ *environment.Spec, o *gcp.Options) {
			o.CallerAddress = func(context.Context) (string, error) { return "", errors.New("offline") }
		},
	} {
		if got := problems(change); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	s.cloud.SetQuota("N2_CPUS", 20)
	s.cloud.SetQuota("SSD_TOTAL_GB", 500)
	s.cloud.SetQuota("CPUS_ALL_REGIONS", 30)
	got := problems(func(*environment.Spec, *gcp.Options) {})
	// 9 members of 4 CPUs and 80 GB, a load host of 8, PMM's 100 GB, 11 boot
	// disks.
	for _, want := range []string{"N2_CPUS of northamerica-northeast1 has 20 left of 20, and 44 are needed", "SSD_TOTAL_GB of northamerica-northeast1 has 500 left of 500, and 1040 are needed", "CPUS_ALL_REGIONS of the project test-project has 30 left of 30, and 46 are needed"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A plan that is declined leaves nothing that a later up would have to heed.
// What one says of owner and time to live holds until another says otherwise.
func TestDeclinedThenMade(t *testing.T) {
	t.Parallel()
	s := newStage(t, "small", "testdata/small.tfvars")
	environ := s.options.Environ
	s.options.Environ = append(slices.Clone(environ), "TF_CLI_CONFIG_FILE=/dev/null", "HTTPS_PROXY=http://127.0.0.1:1") // no provider
	preflight, err := s.platform().Preflight(t.Context(), s.spec)
	must(t, err)
	if _, err := s.platform().Plan(t.Context(), s.spec, preflight); err == nil || !gcp.Exists(s.options.Dir) {
		t.Errorf("an up without a provider ended with %v, and the folder is known: %v", err, gcp.Exists(s.options.Dir))
	}
	s.options.Environ = environ
	s.plan() // and no more
	elsewhere, cloud := *s.spec, *s.spec.Cloud
	cloud.Region, elsewhere.Cloud = "us-central1", &cloud
	preflight, err = s.platform().Preflight(t.Context(), &elsewhere)
	must(t, err)
	must(t, preflight.Err())

	now := time.Now().Add(72 * time.Hour)
	s.options.Now = func() time.Time { return now }
	s.mustUp()
	expired := func() []gcp.Expired {
		found, err := gcp.Sweep(t.Context(), gcp.SweepOptions{Environ: environ, Now: now.Add(time.Minute)})
		must(t, err)
		return found
	}
	if found := expired(); len(found) > 0 {
		t.Errorf("born expired: %+v", found)
	}
	s.options.TTL, s.options.Owner = 0, ""
	s.options.User = "somebody"
	s.planIsEmpty()
	now = now.Add(5 * time.Hour)
	if found := expired(); len(found) != 1 || found[0].Owner != "test-er" {
		t.Errorf("after its time there are %+v", found)
	}

	other := *s
	other.options.Dir = filepath.Join(t.TempDir(), "small")
	preflight, err = other.platform().Preflight(t.Context(), s.spec)
	must(t, err)
	if err := preflight.Err(); err == nil || !strings.Contains(err.Error(), "has an environment small of test-er") {
		t.Errorf("somebody else's up: %v", err)
	}
	left, err := other.platform().Leftovers(t.Context())
	must(t, err)
	if ours, theirs, owners, err := other.platform().Split(left); err != nil || len(ours) != 0 || len(theirs) != len(left) || !slices.Equal(owners, []string{"test-er"}) {
		t.Errorf("somebody else's down would remove %v and leave %v of %v (%v)", ours, theirs, owners, err)
	}
	s.down()
}

// TestMain is the program that is killed, when a test starts it as that.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TEST_GCP_APPLY"); dir != "" {
		os.Exit(applyUntilKilled(dir))
	}
	os.Exit(m.Run())
}

func applyUntilKilled(dir string) int {
	file, err := filepath.Abs("testdata/small.tfvars")
	spec, problems := environment.Load(environment.Options{Name: "small", Dir: dir, Platform: string(environment.GCP), Args: []environment.Arg{{Kind: environment.VarFile, Value: file}}})
	if err != nil || spec == nil {
		println("load:", problems.Error())
		return 1
	}
	p := gcp.New(gcp.Options{Dir: dir, Environment: "small", Environ: os.Environ(), CallerAddress: func(context.Context) (string, error) { return "192.0.2.10", nil }})
	ctx := context.Background()
	preflight, err := p.Preflight(ctx, spec)
	if err == nil {
		var plan *gcp.Plan
		if plan, err = p.Plan(ctx, spec, preflight); err == nil {
			_, err = p.Apply(ctx, plan)
		}
	}
	if err != nil {
		println(err.Error())
		return 1
	}
	return 0
}

// The program is killed at several points of its apply; the next up goes on
// with what is there.
func TestKilledDuringApply(t *testing.T) {
	t.Parallel()
	// Killed when so many resources are there: while disks are made, while
	// machines are.
	for _, at := range []int{4, 9} {
		s := newStage(t, "small", "testdata/small.tfvars")
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(slices.Clone(s.options.Environ), "TEST_GCP_APPLY="+s.options.Dir)
		var output strings.Builder
		command.Stderr = &output
		must(t, command.Start())
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		deadline := time.After(2 * time.Minute)
		for len(s.cloud.Resources()) < at {
			select {
			case err := <-ended:
				t.Fatalf("it ended by itself: %v\n%s", err, output.String())
			case <-deadline:
				t.Fatalf("there are only %v", s.cloud.Resources())
			case <-time.After(5 * time.Millisecond):
			}
		}
		must(t, command.Process.Signal(syscall.SIGKILL))
		if err := <-ended; err == nil {
			t.Error("it ended well before it was killed")
		}
		before := ids(s.cloud)
		_, plan := s.plan()
		t.Logf("killed at %d with %d machines: then %d to create, %d to adopt", at, len(before), plan.Count(gcp.Create), plan.Count(gcp.Adopt))
		s.mustUp()
		after := ids(s.cloud)
		equal(t, "machines", 4, len(after))
		for name, id := range before {
			if after[name] != id {
				t.Errorf("%s was made anew", name)
			}
		}
		s.planIsEmpty()
		_, left := s.down()
		equal(t, "left", 0, len(left))
		noProcesses(t, s.options.Dir)
	}
}

// noProcesses checks that nothing runs in the environment's folder.
func noProcesses(t *testing.T, dir string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	must(t, err)
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, dir) {
			name, _ := os.Readlink(filepath.Join(filepath.Dir(link), "exe"))
			t.Errorf("%s runs in %s", name, at)
		}
	}
}

// An interrupt stops Terraform in good order. What the provider did not wait
// for is there all the same, and up takes it over.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "small", "testdata/small.tfvars")
	p, plan := s.plan()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(s.cloud.Resources()) < 5 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	_, err := p.Apply(ctx, plan)
	interrupted := &gcp.InterruptedError{}
	if !errors.As(err, &interrupted) || !errors.Is(err, context.Canceled) {
		t.Fatalf("apply ended with %v", err)
	}
	there := len(s.cloud.Resources())
	_, again := s.plan()
	t.Logf("%v, with %d resources: then %d to create, %d to adopt", err, there, again.Count(gcp.Create), again.Count(gcp.Adopt))
	s.mustUp()
	s.planIsEmpty()
	s.down()
	noProcesses(t, s.options.Dir)
}
