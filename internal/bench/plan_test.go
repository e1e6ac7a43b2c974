package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

func names(cells []record.CellID) string {
	var out []string
	for _, id := range cells {
		out = append(out, strings.ReplaceAll(id.String(), "/default/", "#"))
	}
	return strings.Join(out, " ")
}

func TestPlan(t *testing.T) {
	sizes := []record.Size{{Documents: 1, Iterations: 2}, {Documents: 2, Iterations: 1}}
	targets := []Target{{Name: "a"}, {Name: "b"}}
	for order, want := range map[string]string{
		Sequential:  "a/1#1 a/1#2 a/2#1 b/1#1 b/1#2 b/2#1",
		Interleaved: "a/1#1 b/1#1 a/2#1 b/2#1 a/1#2 b/1#2",
	} {
		if got := names(plan(order, 7, sizes, targets)); got != want {
			t.Errorf("%s: %s, want %s", order, got, want)
		}
	}
}

func TestRandomPlan(t *testing.T) {
	sizes := []record.Size{{Documents: 1, Iterations: 20}, {Documents: 2, Iterations: 20}}
	targets := []Target{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	cells := plan(Random, 178477, sizes, targets)
	if again := plan(Random, 178477, sizes, targets); !slices.Equal(cells, again) {
		t.Error("the same seed gave another order")
	}
	if other := plan(Random, 1, sizes, targets); slices.Equal(cells, other) {
		t.Error("another seed gave the same order")
	}
	orders := map[string]int{}
	for block := range slices.Chunk(cells, len(targets)) {
		var order []string
		for _, id := range block {
			if id.Size != block[0].Size || id.Iteration != block[0].Iteration {
				t.Fatalf("block %v mixes sizes or iterations", block)
			}
			order = append(order, id.Target)
		}
		orders[strings.Join(order, "")]++
		slices.Sort(order)
		if !slices.Equal(order, []string{"a", "b", "c"}) {
			t.Fatalf("block %v does not have every target once", block)
		}
	}
	if len(orders) != 6 {
		t.Errorf("of 6 orders only %v occur in 40 blocks", orders)
	}
	// Pinned: a run that is resumed by a later version goes on in its order.
	if got, want := names(cells[:6]), pinnedRandomOrder; got != want {
		t.Errorf("order began with %s, want %s", got, want)
	}
}

func TestParseSizes(t *testing.T) {
	got, err := ParseSizes("1M:3,4M, 8k", 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Size{
		{Documents: 1_000_000, Label: "1M", Iterations: 3},
		{Documents: 4_000_000, Label: "4M", Iterations: 2},
		{Documents: 8_000, Label: "8k", Iterations: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "1M,", "1M:0", "1M:x", "1M:1001", "-1", "1k,1000", "1M::2", "many"} {
		if got, err := ParseSizes(bad, 1); err == nil {
			t.Errorf("ParseSizes(%q) = %v", bad, got)
		}
	}
	if _, err := ParseSizes("1k", 0); err == nil {
		t.Error("0 iterations were accepted")
	}
}

func TestTargetsOf(t *testing.T) {
	inventory := &environment.Inventory{
		Username: "admin",
		Machines: []environment.MachineState{{
			Name: "m0", ID: "4711", Type: "n2-standard-4", CPUPlatform: "Intel Ice Lake", Zone: "z-a", Disk: true, DiskType: "pd-ssd", DiskGB: 80,
		}},
		Deployments: []environment.DeploymentState{{
			Deployment: environment.Deployment{Name: "mongodb-8", ReplicaSet: "rs8", Distribution: "community", Version: "8.0.34"},
			Engine:     record.EngineEmbedded,
			Endpoints: []environment.MemberState{
				{Name: "m0", Role: environment.Data, Host: "127.0.0.1", Port: 1},
				{Name: "m1", Role: environment.Data, Host: "::1", Port: 2},
				{Name: "m2", Role: environment.Arbiter, Host: "127.0.0.1", Port: 3},
			},
		}, {Deployment: environment.Deployment{Name: "mongodb-9"}}},
	}
	got, err := TargetsOf(inventory, secret.New("hunter2"), []string{"mongodb-8"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Target{{
		Name: "mongodb-8", ReplicaSet: "rs8", Distribution: "community", RequestedVersion: "8.0.34",
		Engine: record.EngineEmbedded, URI: "mongodb://127.0.0.1:1,[::1]:2/?replicaSet=rs8",
		Username: "admin", Password: secret.New("hunter2"),
		Members: []Member{
			{
				Name: "m0", Address: "127.0.0.1:1", MachineID: "4711",
				Cloud: record.CloudFacts{MachineType: "n2-standard-4", CPUPlatform: "Intel Ice Lake", Zone: "z-a", DiskType: "pd-ssd", DiskGB: 80},
			}, {Name: "m1", Address: "[::1]:2"}, {Name: "m2", Address: "127.0.0.1:3", Arbiter: true},
		},
	}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(secret.Text{})); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if all, err := TargetsOf(inventory, secret.Text{}, nil); err != nil || len(all) != 2 {
		t.Errorf("all targets: %v, %v", all, err)
	}
	if _, err := TargetsOf(inventory, secret.Text{}, []string{"mongodb-7"}); err == nil || !strings.Contains(err.Error(), "mongodb-8, mongodb-9") {
		t.Errorf("unknown target: %v", err)
	}
}

const pinnedRandomOrder = "b/1#1 a/1#1 c/1#1 b/2#1 c/2#1 a/2#1"

func TestSettingsThatTheTargetCannotServe(t *testing.T) {
	t.Parallel()
	psa := []Member{{Name: "a"}, {Name: "b"}, {Name: "c", Arbiter: true}}
	for _, c := range []struct {
		members           []Member
		set, read, writes string
		want              string
	}{
		{psa, "rs", "secondary", "2", ""},
		{psa, "rs", "primary", "majority", ""},
		{psa, "rs", "primary", "3", "write concern 3: target t has 2 data-bearing members"},
		{psa[:1], "rs", "Secondary", "", "read preference Secondary: target t has no secondary"},
		{psa[:1], "rs", "secondaryPreferred", "1", ""},
		{psa[:1], "", "secondary", "3", ""}, // mongos: not known
	} {
		target := Target{Name: "t", ReplicaSet: c.set, Members: c.members}
		err := target.serves(record.Settings{ReadPreference: c.read, WriteConcern: c.writes})
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
			t.Errorf("%s, %s of %d members: %v, want %q", c.read, c.writes, len(c.members), err, c.want)
		}
	}
}
