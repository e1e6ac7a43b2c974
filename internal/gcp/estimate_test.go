package gcp

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

func load(t *testing.T, name string, args ...environment.Arg) *environment.Spec {
	t.Helper()
	spec, problems := environment.Load(environment.Options{Name: name, Dir: t.TempDir(), Platform: string(environment.GCP), Args: args})
	if spec == nil {
		t.Fatal(problems)
	}
	return spec
}

func published(t *testing.T) *environment.Spec {
	t.Helper()
	file, err := filepath.Abs("../../environments/mongodb-9-first-look.tfvars")
	if err != nil {
		t.Fatal(err)
	}
	return load(t, "first-look", environment.Arg{Kind: environment.VarFile, Value: file})
}

// Prices that are published for whole machine types.
func TestMachinePrices(t *testing.T) {
	prices := PriceList()
	for _, c := range []struct {
		region, machine string
		want            float64
	}{
		{"us-central1", "n2-standard-4", 0.194236},
		{"us-central1", "n2-highcpu-8", 0.286784},
		{"us-central1", "e2-standard-2", 0.06701142},
		{"us-central1", "e2-medium", 0.03350571},
		{"us-central1", "e2-micro", 0.0083764275},
		{"us-east4", "n2-highmem-8", 0.590184},
		{"europe-west1", "n2-highcpu-16", 0.630944},
		{"northamerica-northeast1", "n2-highcpu-16", 0.631456},
		{"northamerica-northeast1", "e2-highcpu-16", 0.43570464},
		{"europe-west9", "e2-micro", 0.0097165},
	} {
		if got := prices.Machine(c.region, c.machine); !got.Known || math.Abs(got.USD-c.want) > 1e-6 {
			t.Errorf("%s in %s costs %v, want %v", c.machine, c.region, got, c.want)
		}
	}
	for _, unknown := range [][2]string{{"us-central1", "c4-standard-8"}, {"atlantis-1", "n2-standard-4"}, {"us-central1", "n2-standard-x"}, {"us-central1", "n2-ultra-4"}, {"us-central1", "n2"}} {
		if got := prices.Machine(unknown[0], unknown[1]); got.Known {
			t.Errorf("%v costs %v", unknown, got)
		}
	}
}

func TestEstimateOfPublishedEnvironment(t *testing.T) {
	e := EstimateOf(published(t))
	// 9 members, load host, PMM; 9 and 1 data disks; 11 boot disks; 11
	// addresses.
	if len(e.Costs) != 3+2+1+1 || len(e.Unknown) != 0 || e.Date == "" {
		t.Errorf("estimate %+v", e)
	}
	month := 9*80*0.187 + 100*0.187 + 11*20*0.11
	want := 9*(4*0.0348+16*0.004664) + 0.315728 + 2*0.0240130 + 8*0.003218 + month/730 + 11*0.005
	if math.Abs(e.Hourly-want) > 0.002 {
		t.Errorf("%.4f an hour, want %.4f", e.Hourly, want)
	}
	sum := 0.0
	for _, c := range e.Costs {
		sum += c.Hourly().USD
	}
	if math.Abs(sum-e.Hourly) > 1e-9 {
		t.Errorf("the parts are %.4f, the whole %.4f", sum, e.Hourly)
	}
}

func TestEstimateSaysWhatItDoesNotKnow(t *testing.T) {
	spec := load(t, "x", environment.Arg{Kind: environment.Var, Value: `replsets={ rs = {} }`}, environment.Arg{Kind: environment.Var, Value: "replsetsvr_type=c4-standard-8"}, environment.Arg{Kind: environment.Var, Value: "data_disk_type=hyperdisk-balanced"})
	e := EstimateOf(spec)
	want := []string{"c4-standard-8 in northamerica-northeast1", "hyperdisk-balanced 100 GB in northamerica-northeast1", "hyperdisk-balanced 20 GB in northamerica-northeast1"}
	if !slices.Equal(e.Unknown, want) {
		t.Errorf("unknown %v, want %v", e.Unknown, want)
	}
}
