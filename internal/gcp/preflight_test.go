package gcp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

func quota(metric string, limit, usage float64) *computepb.Quota {
	return &computepb.Quota{Metric: proto.String(metric), Limit: proto.Float64(limit), Usage: proto.Float64(usage)}
}

// The project's own quota for CPUs counts those of all families, and none of
// spot machines that have their own.
func TestQuotaOfAllRegions(t *testing.T) {
	region := &computepb.Region{Name: proto.String("r"), Quotas: []*computepb.Quota{quota("CPUS", 100, 0), quota("N2_CPUS", 100, 0), quota("PREEMPTIBLE_CPUS", 100, 0)}}
	spec := &environment.Spec{
		Cloud:    &environment.Cloud{},
		Machines: []environment.Machine{{Name: "a", Type: "n2-standard-4"}, {Name: "b", Type: "e2-standard-2"}, {Name: "there", Type: "n2-standard-4"}},
	}
	sizes := map[string]int{"n2-standard-4": 4, "e2-standard-2": 2}
	existing := []Resource{{Kind: kindMachine, Name: "there"}}
	for _, c := range []struct {
		limit, usage float64
		spot         bool
		want         string
	}{
		{limit: 32, usage: 26},
		{limit: 32, usage: 27, want: "CPUS_ALL_REGIONS of the project p has 5 left of 32, and 6 are needed"},
		{limit: 0, spot: true},
	} {
		spec.Cloud.Spot = c.spot
		result := &Preflight{}
		project := &computepb.Project{Name: proto.String("p"), Quotas: []*computepb.Quota{quota("CPUS_ALL_REGIONS", c.limit, c.usage), quota("NETWORKS", 0, 0)}}
		checkQuota(project, region, spec, existing, sizes, result)
		got := result.Problems.Error()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Zones without machines are remembered beside the environment's folder, for a
// day.
func TestExhaustedZones(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	root := t.TempDir()
	platform := func(name string) *Platform {
		return New(Options{Dir: filepath.Join(root, name), Environment: name, Now: func() time.Time { return now }})
	}
	platform("x").noteExhausted("The zone 'projects/p/zones/us-central1-a' does not have enough resources")
	if err := os.RemoveAll(filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(20 * time.Hour)
	platform("y").noteExhausted("The zone 'projects/p/zones/us-central1-b' does not have enough resources")
	if got := platform("x").exhausted(); len(got) != 2 || got["us-central1-a"] != 1 || got["us-central1-b"] != 1 {
		t.Errorf("after 20 hours: %v", got)
	}
	now = now.Add(5 * time.Hour)
	if got := platform("x").exhausted(); len(got) != 1 || got["us-central1-b"] != 1 {
		t.Errorf("after 25 hours: %v", got)
	}
	if err := os.WriteFile(platform("x").exhaustedFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := platform("x").exhausted(); len(got) != 0 {
		t.Errorf("from a broken file: %v", got)
	}
}
