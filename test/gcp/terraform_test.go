//go:build e2e

package gcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/compute/v1"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/test/gcp/computeapi"
)

const published = "../../environments/mongodb-9-first-look.tfvars"

// machine is what environment.Machine says, as the cloud has it.
type machine struct{ Type, Zone, DiskType, DiskGB string }

// load is the environment as sandbox itself reads it.
func load(t *testing.T, name string, varFiles ...string) *environment.Spec {
	t.Helper()
	o := environment.Options{Name: name, Dir: t.TempDir(), Platform: string(environment.GCP)}
	for _, file := range varFiles {
		path, err := filepath.Abs(file)
		must(t, err)
		o.Args = append(o.Args, environment.Arg{Kind: environment.VarFile, Value: path})
	}
	spec, problems := environment.Load(o)
	if spec == nil {
		t.Fatalf("%v", problems)
	}
	return spec
}

// wanted are the machines of a Spec in the zones of its region.
func wanted(spec *environment.Spec, zones []string) map[string]machine {
	want := map[string]machine{}
	for _, m := range spec.Machines {
		_, number, _ := strings.Cut(m.Zone, "/")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(zones) {
			continue // then it is not like any machine of the cloud
		}
		w := machine{Type: m.Type, Zone: zones[n-1], DiskType: m.DiskType}
		if m.DiskGB > 0 {
			w.DiskGB = fmt.Sprint(m.DiskGB)
		}
		want[m.Name] = w
	}
	return want
}

// existing are the machines in the cloud.
func existing(t *testing.T, cloud *computeapi.Server) map[string]machine {
	t.Helper()
	disks := computeapi.All[compute.Disk](cloud)
	got := map[string]machine{}
	for name, i := range computeapi.All[compute.Instance](cloud) {
		m := machine{Type: last(i.MachineType), Zone: last(i.Zone)}
		for _, attached := range i.Disks[1:] {
			if attached.DeviceName != "data" {
				t.Errorf("%s has a disk %s", name, attached.DeviceName)
			}
			d := disks[last(attached.Source)]
			m.DiskType, m.DiskGB = last(d.Type), fmt.Sprint(d.SizeGb)
		}
		got[name] = m
	}
	return got
}

func last(link string) string { return link[strings.LastIndex(link, "/")+1:] }

func zonesOf(region string, letters ...string) []string {
	var zones []string
	for _, letter := range letters {
		zones = append(zones, region+"-"+letter)
	}
	return zones
}

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestPublishedEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "first-look", published)
	w.generated["zones"] = zonesOf("northamerica-northeast1", "b", "a", "c")
	w.run("fmt", "-check", "-diff")
	w.run("validate", "-no-color")
	w.apply()

	spec := load(t, "first-look", published)
	machines := existing(t, w.cloud)
	equal(t, "machines", wanted(spec, zonesOf("northamerica-northeast1", "b", "a", "c")), machines)
	if len(machines) != 11 {
		t.Errorf("there are %d machines", len(machines))
	}
	roles := map[string]string{}
	for _, m := range spec.Machines {
		roles[m.Name] = strings.ReplaceAll(m.Role, " ", "-")
	}
	created := map[string]uint64{}
	for name, i := range computeapi.All[compute.Instance](w.cloud) {
		created[name] = i.Id
		member := roles[name] == "data"
		equal(t, name+" labels", map[string]string{
			"managed-by": "sandbox", "environment": "first-look", "owner": "tester", "created": "20261130-120000", "ttl": "4h",
			"role": roles[name], "deployment": deploymentOf(spec, name), "goog-terraform-provisioned": "true",
		}, labelsWithDeployment(i.Labels))
		equal(t, name+" status", "RUNNING", i.Status)
		equal(t, name+" placed", member, len(i.ResourcePolicies) == 1)
		equal(t, name+" platform", member, i.MinCpuPlatform == "Intel Ice Lake")
		equal(t, name+" on maintenance", map[bool]string{true: "TERMINATE", false: "MIGRATE"}[member || roles[name] == "load-host"], i.Scheduling.OnHostMaintenance)
		equal(t, name+" model", "STANDARD", i.Scheduling.ProvisioningModel)
		equal(t, name+" NIC", roles[name] != "monitoring", i.NetworkInterfaces[0].NicType == "GVNIC")
		metadata := map[string]string{}
		for _, item := range i.Metadata.Items {
			metadata[item.Key] = *item.Value
		}
		equal(t, name+" metadata", map[string]string{"ssh-keys": "sandbox:" + publicKey, "block-project-ssh-keys": "TRUE", "enable-oslogin": "FALSE"}, metadata)
	}
	disks := computeapi.All[compute.Disk](w.cloud)
	if len(disks) != 11+10 {
		t.Errorf("there are %d disks", len(disks))
	}
	for name, d := range disks {
		if d.Labels["environment"] != "first-look" || d.Labels["ttl"] != "4h" || len(d.Users) != 1 {
			t.Errorf("disk %s: labels %v, used by %v", name, d.Labels, d.Users)
		}
		if boot := !strings.HasSuffix(name, "-data"); boot && !strings.Contains(d.SourceImage, "centos-cloud/global/images/centos-stream-9-v") {
			t.Errorf("disk %s is of image %s", name, d.SourceImage)
		}
	}
	equal(t, "what may connect", map[string]string{
		"first-look-ssh":    "from 192.0.2.10/32 to tcp 22",
		"first-look-pmm":    "from 192.0.2.10/32 to tcp 8443 on monitoring",
		"first-look-inside": "from 10.128.0.0/20 to tcp 22,27017,8443, icmp",
	}, firewalls(w.cloud))
	inventory(t, w, spec)

	w.planIsEmpty()
	w.cloud.PublishImages("v20261101") // a newer image is for new machines
	w.planIsEmpty()

	// A longer life and another caller change nothing but labels and the
	// firewall.
	w.generated["ttl"], w.generated["caller_range"] = "8h", "192.0.2.99/32"
	w.apply()
	for name, i := range computeapi.All[compute.Instance](w.cloud) {
		if i.Id != created[name] || i.Labels["ttl"] != "8h" {
			t.Errorf("%s: another machine, or labels %v", name, i.Labels)
		}
	}
	for name, d := range computeapi.All[compute.Disk](w.cloud) {
		if d.Labels["ttl"] != "8h" {
			t.Errorf("disk %s: labels %v", name, d.Labels)
		}
	}
	equal(t, "SSH", "from 192.0.2.99/32 to tcp 22", firewalls(w.cloud)["first-look-ssh"])
	w.planIsEmpty()
	w.destroy()
}

// labelsWithDeployment adds the empty label that cannot be.
func labelsWithDeployment(labels map[string]string) map[string]string {
	labels = maps.Clone(labels)
	labels["deployment"] += ""
	return labels
}

func deploymentOf(spec *environment.Spec, host string) string {
	for _, d := range spec.Deployments {
		if slices.ContainsFunc(d.Members, func(m environment.Member) bool { return m.Name == host }) {
			return d.Name
		}
	}
	return ""
}

// firewalls are the rules, in words.
func firewalls(cloud *computeapi.Server) map[string]string {
	rules := map[string]string{}
	for name, f := range computeapi.All[compute.Firewall](cloud) {
		var to []string
		for _, allowed := range f.Allowed {
			to = append(to, strings.TrimSpace(allowed.IPProtocol+" "+strings.Join(allowed.Ports, ",")))
		}
		slices.SortFunc(to, func(a, b string) int { return strings.Compare(b, a) })
		slices.Sort(f.SourceRanges)
		rules[name] = "from " + strings.Join(f.SourceRanges, ",") + " to " + strings.Join(to, ", ")
		if len(f.TargetTags) > 0 {
			rules[name] += " on " + strings.Join(f.TargetTags, ",")
		}
	}
	return rules
}

// inventory checks the output of that name against the cloud.
func inventory(t *testing.T, w *workspace, spec *environment.Spec) {
	t.Helper()
	type entry struct {
		Name        string `json:"name"`
		Role        string `json:"role"`
		Deployment  string `json:"deployment"`
		Zone        string `json:"zone"`
		Type        string `json:"type"`
		CPUPlatform string `json:"cpu_platform"`
		InternalIP  string `json:"internal_ip"`
		ExternalIP  string `json:"external_ip"`
		Disk        bool   `json:"disk"`
		ID          string `json:"id"`
	}
	instances := computeapi.All[compute.Instance](w.cloud)
	var want, got []entry
	for _, m := range spec.Machines {
		i := instances[m.Name]
		if len(i.NetworkInterfaces) == 0 {
			continue // it has been said that it is missing
		}
		nic := i.NetworkInterfaces[0]
		want = append(want, entry{m.Name, m.Role, deploymentOf(spec, m.Name), last(i.Zone), m.Type, i.CpuPlatform, nic.NetworkIP, nic.AccessConfigs[0].NatIP, m.DiskGB > 0, strconv.FormatUint(i.Id, 10)})
	}
	slices.SortFunc(want, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	must(t, json.Unmarshal([]byte(w.run("output", "-json", "inventory")), &got))
	equal(t, "inventory", want, got)
}

func TestSmallEnvironment(t *testing.T) {
	t.Parallel()
	const file = "testdata/small.tfvars"
	w := newWorkspace(t, "small", file)
	w.apply() // no zones given: they are looked up
	spec := load(t, "small", file)
	equal(t, "machines", wanted(spec, zonesOf("europe-west1", "b", "c", "d")), existing(t, w.cloud))
	for name, i := range computeapi.All[compute.Instance](w.cloud) {
		equal(t, name+" model", "SPOT", i.Scheduling.ProvisioningModel)
		equal(t, name+" placed", 0, len(i.ResourcePolicies))
	}
	for name, d := range computeapi.All[compute.Disk](w.cloud) {
		if boot := !strings.HasSuffix(name, "-data"); boot && !strings.Contains(d.SourceImage, "debian-12-v") {
			t.Errorf("disk %s is of image %s", name, d.SourceImage)
		}
	}
	equal(t, "what may connect", map[string]string{
		"small-ssh":    "from 192.0.2.0/24,198.51.100.7/32 to tcp 22",
		"small-inside": "from 10.128.0.0/20 to tcp 22,27017,8443, icmp",
	}, firewalls(w.cloud))
	inventory(t, w, spec)
	w.planIsEmpty()

	// Google takes a machine; the next apply starts it again.
	const taken = "small-odd-name-v2-1"
	before := computeapi.All[compute.Instance](w.cloud)[taken].Id
	must(t, w.cloud.Preempt(taken))
	w.apply()
	if i := computeapi.All[compute.Instance](w.cloud)[taken]; i.Status != "RUNNING" || i.Id != before {
		t.Errorf("after the preemption %s is %s", taken, i.Status)
	}
	// It has another address outside, which the next look finds.
	if output, code := w.change("refresh"); code != 0 {
		t.Fatal(output)
	}
	inventory(t, w, spec)
	w.planIsEmpty()
	w.destroy()
}

// Terraform and sandbox must make the same machines of the same files.
func TestExpansion(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"empty prefix":   `prefix = ""` + "\nreplsets = { rs = {} }",
		"a prefix":       `prefix = "p-q"` + "\nreplsets = { rs = { data_nodes_per_replset = \"1\", arbiters_per_replset = null } }",
		"names":          "replsets = { \"A_b.C-d\" = { arbiters_per_replset = 1, data_nodes_per_replset = 2 }, z9 = { data_nodes_per_replset = 7 } }",
		"nothing beside": "enable_pmm = false\nenable_plgm = false\nreplsets = { rs = {} }",
		"other types":    "default_pmm_host = \"Watch.er\"\npmm_type = \"e2-standard-4\"\npmm_volume_size = 33\npmm_disk_type = \"pd-balanced\"\narbiter_type = \"e2-micro\"\nreplsets = { rs = { arbiters_per_replset = 1 } }",
		"seven zones":    "zone_mode = \"multi\"\nreplsets = { rs = { data_nodes_per_replset = 6, arbiters_per_replset = 1 }, b = {} }",
		"null":           "region = null\nprefix = null\nenable_pmm = null\nreplsetsvr_volume_size = null\nreplsets = { rs = {} }",
	}
	files := map[string]string{}
	samples, err := filepath.Glob("../../environments/*.tfvars")
	must(t, err)
	if len(samples) == 0 {
		t.Fatal("there are no sample environments")
	}
	for _, file := range samples {
		files[filepath.Base(file)] = file
	}
	folder := t.TempDir()
	for name, text := range cases {
		files[name] = filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+".tfvars")
		must(t, os.WriteFile(files[name], []byte(text), 0o600))
	}
	w := newWorkspace(t, "expansion")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		t.Run(name, func(t *testing.T) {
			spec := load(t, "expansion", files[name])
			region := "northamerica-northeast1"
			for _, s := range spec.Settings {
				if s.Name == "region" {
					region = strings.Trim(s.Value, `"`)
				}
			}
			zones := zonesOf(region, "x", "y", "z")
			w := *w
			w.t, w.varFiles, w.generated = t, []string{files[name]}, maps.Clone(w.generated)
			must(t, absolute(w.varFiles))
			w.generated["zones"] = zones
			if output, code := w.change("plan", "-out=saved", "-refresh=false"); code != 0 {
				t.Fatal(output)
			}
			equal(t, "machines", wanted(spec, zones), planned(t, w.run("show", "-json", "saved")))
		})
	}
}

func absolute(files []string) (err error) {
	for i := range files {
		if files[i], err = filepath.Abs(files[i]); err != nil {
			return err
		}
	}
	return nil
}

// planned are the machines that a plan would make.
func planned(t *testing.T, plan string) map[string]machine {
	t.Helper()
	var content struct {
		Planned struct {
			Root struct {
				Resources []struct {
					Type   string `json:"type"`
					Index  any    `json:"index"`
					Values struct {
						Name        string  `json:"name"`
						Zone        string  `json:"zone"`
						MachineType string  `json:"machine_type"`
						Type        string  `json:"type"`
						Size        float64 `json:"size"`
					} `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"planned_values"`
	}
	must(t, json.Unmarshal([]byte(plan), &content))
	disks, got := map[string]machine{}, map[string]machine{}
	for _, r := range content.Planned.Root.Resources {
		if r.Type == "google_compute_disk" {
			disks[fmt.Sprint(r.Index)] = machine{DiskType: r.Values.Type, DiskGB: fmt.Sprint(r.Values.Size)}
		}
	}
	for _, r := range content.Planned.Root.Resources {
		if r.Type == "google_compute_instance" {
			m := disks[fmt.Sprint(r.Index)]
			m.Type, m.Zone = r.Values.MachineType, r.Values.Zone
			got[r.Values.Name] = m
		}
	}
	return got
}

// Whoever runs the folder by hand is told what is missing before anything is
// made.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, "by-hand", published)
	for name, want := range map[string]string{
		"caller_range":   "Set source_ranges",
		"ssh_public_key": "nobody could log in",
		"environment":    `No value for required variable`,
	} {
		kept := w.generated[name]
		delete(w.generated, name)
		output, code := w.change("plan")
		if code == 0 || !strings.Contains(strings.Join(strings.Fields(output), " "), want) {
			t.Errorf("without %s the plan ends with %d:\n%s", name, code, output)
		}
		w.generated[name] = kept
	}
	w.generated["zone_mode"] = "multi"
	if output, code := w.change("plan"); code == 0 || !strings.Contains(output, "compact_placement") {
		t.Errorf("with a contradiction the plan ends with %d:\n%s", code, output)
	}
	if made := w.cloud.Resources(); len(made) > 0 {
		t.Errorf("made: %v", made)
	}
}
