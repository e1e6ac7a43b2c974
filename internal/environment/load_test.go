package environment

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the wanted messages in testdata/problems")

// memory is a folder of files for tests.
type memory map[string]string

func (m memory) read(name string) ([]byte, error) {
	text, ok := m[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("no such file or directory")}
	}
	return []byte(text), nil
}

func (m memory) list() ([]string, error) { return sortedKeys(m), nil }

var readSchema = sync.OnceValue(func() *schema {
	s, err := loadSchema()
	if err != nil {
		panic(err)
	}
	return s
})

// loadFrom is Load from a folder in memory, with the schema read once.
func loadFrom(in files, o Options) (*Spec, *Problems) {
	l := newLoader(o)
	l.schema = readSchema()
	return l.load(in), l.problems
}

// TestProblems runs every case of testdata/problems: a description and
// options, the files, and last what is reported about them.
func TestProblems(t *testing.T) {
	paths, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := memory{}
			var first, want string
			for _, file := range archive.Files {
				if file.Name == "want" {
					want = string(file.Data)
					continue
				}
				if first == "" {
					first = file.Name
				}
				in[file.Name] = string(file.Data)
			}
			o := Options{Platform: "local"}
			args := "-var-file " + first
			var vars []string
			for line := range strings.Lines(string(archive.Comment)) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				switch value = strings.TrimSpace(value); key {
				case "platform":
					o.Platform = value
				case "name":
					o.Name = value
				case "args":
					args = value
				case "var":
					vars = append(vars, value)
				case "env":
					o.Environ = append(o.Environ, value)
				}
			}
			if strings.Contains(in[first], "platform =") && !strings.Contains(string(archive.Comment), "platform:") {
				o.Platform = "" // the file's own is what the case is about
			}
			for word := range strings.FieldsSeq(args) {
				if word != "-var-file" {
					o.Args = append(o.Args, Arg{VarFile, word})
				}
			}
			for _, v := range vars {
				o.Args = append(o.Args, Arg{Var, v})
			}
			spec, problems := loadFrom(in, o)
			var text bytes.Buffer
			if err := problems.WriteText(&text, 78, false); err != nil {
				t.Fatal(err)
			}
			if (spec == nil) != problems.HasErrors() {
				t.Errorf("Spec is nil: %v, has errors: %v", spec == nil, problems.HasErrors())
			}
			if strings.Contains(text.String(), "hunter2") {
				t.Errorf("a value that may be a secret is shown:\n%s", &text)
			}
			list, err := json.Marshal(problems)
			if err != nil || bytes.Contains(list, []byte("hunter2")) {
				t.Errorf("JSON: %v %s", err, list)
			}
			if *update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == "want" })
				archive.Files = append(archive.Files, txtar.File{Name: "want", Data: text.Bytes()})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Errorf("messages differ (-want +got):\n%s", diff)
			}
		})
	}
}

// sound is the shortest deployment without a warning.
const sound = `replsets = { rs1 = { mongodb_distribution = "community", mongo_version = "8.0.34" } }` + "\n"

func mustLoad(t *testing.T, in files, o Options) *Spec {
	t.Helper()
	spec, problems := loadFrom(in, o)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return spec
}

func settingOf(spec *Spec, name string) string {
	for _, s := range spec.Settings {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

func TestPrecedence(t *testing.T) {
	layers := []struct {
		file, text string // a file that is read by itself
		arg        Arg
		environ    string
		want       string
	}{
		{environ: "TF_VAR_region=env-env1", want: `"env-env1"`},
		{file: "terraform.tfvars", text: `region = "tf-tf1"`, want: `"tf-tf1"`},
		{file: "terraform.tfvars.json", text: `{"region": "tfjson-tf1"}`, want: `"tfjson-tf1"`},
		{file: "a.auto.tfvars", text: `region = "autoa-x1"`, want: `"autoa-x1"`},
		{file: "b.auto.tfvars.json", text: `{"region": "autob-x1"}`, want: `"autob-x1"`},
		{file: "c.auto.tfvars", text: `region = "autoc-x1"`, want: `"autoc-x1"`},
		{arg: Arg{VarFile, "one.tfvars"}, text: `region = "one-x1"`, want: `"one-x1"`},
		{arg: Arg{Var, "region=two-x1"}, want: `"two-x1"`},
		{arg: Arg{VarFile, "three.tfvars.json"}, text: `{"region": "three-x1"}`, want: `"three-x1"`},
		{arg: Arg{Var, "region=four-x1"}, want: `"four-x1"`},
	}
	in := memory{"base.tfvars": sound, "other.tfvars": `region = "never-x1"`}
	o := Options{Args: []Arg{{VarFile, "base.tfvars"}}}
	for _, layer := range layers {
		if layer.environ != "" {
			o.Environ = append(o.Environ, layer.environ)
		}
		if layer.file != "" {
			in[layer.file] = layer.text
		}
		if layer.arg.Value != "" {
			o.Args = append(o.Args, layer.arg)
			if layer.arg.Kind == VarFile {
				in[layer.arg.Value] = layer.text
			}
		}
		if got := settingOf(mustLoad(t, in, o), "region"); got != layer.want {
			t.Errorf("after adding %+v the region is %s, want %s", layer, got, layer.want)
		}
	}
	// A map is replaced as a whole, not merged.
	in["more.tfvars"] = strings.ReplaceAll(sound, "rs1", "rs2")
	o.Args = append(o.Args, Arg{VarFile, "more.tfvars"})
	if spec := mustLoad(t, in, o); len(spec.Deployments) != 1 || spec.Deployments[0].Name != "rs2" {
		t.Errorf("deployments of two files: %+v, want only rs2 of the later", spec.Deployments)
	}
	// --platform is the last word.
	in["platform.tfvars"] = `platform = "gcp"`
	o.Args = append(o.Args, Arg{VarFile, "platform.tfvars"})
	o.Platform = "local"
	if spec := mustLoad(t, in, o); spec.Platform != Local {
		t.Errorf("platform %s, want local", spec.Platform)
	}
}

// What was set outside of files is kept for whoever repeats it, unless
// something else had the last word; secrets are not.
func TestGiven(t *testing.T) {
	in := memory{"a.tfvars": sound + `region = "file-x1"`}
	spec := mustLoad(t, in, Options{
		Name: "given", Platform: "local",
		Environ: []string{"TF_VAR_region=env-x1", "TF_VAR_plgm_type=n2-highcpu-8", "TF_VAR_pmm_port=1", "TF_VAR_ldap_servers={}"},
		Args:    []Arg{{Var, "platform=gcp"}, {Var, "prefix=first"}, {VarFile, "a.tfvars"}, {Var, "prefix=second"}, {Var, "pmm_port=8444"}},
	})
	want := []Given{
		{Name: "ldap_servers", Value: "[redacted]", Sensitive: true}, {Name: "plgm_type", Value: "n2-highcpu-8"},
		{Name: "pmm_port", Value: "8444"}, {Name: "prefix", Value: "second"},
	}
	if diff := cmp.Diff(want, spec.Given); diff != "" {
		t.Error(diff)
	}
	if spec := mustLoad(t, in, Options{Args: []Arg{{VarFile, "a.tfvars"}}}); spec.Given == nil || len(spec.Given) != 0 {
		t.Errorf("of a file alone: %#v", spec.Given)
	}
}

// A file given twice, and equal settings in whatever order, give the same.
func TestOrderOfEqualSettings(t *testing.T) {
	in := memory{"a.tfvars": sound + `region = "same-x1"`, "b.tfvars": `region = "same-x1"`, "c.tfvars": `plgm_type = "n2-highcpu-8"`}
	var want *Spec
	for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c", "a"}, {"a", "a", "c", "b", "b"}} {
		o := Options{Name: "same"}
		for _, name := range order {
			o.Args = append(o.Args, Arg{VarFile, name + ".tfvars"})
		}
		spec := mustLoad(t, in, o)
		if len(spec.Files) != 3 {
			t.Errorf("%v: %d files, want every file once", order, len(spec.Files))
		}
		spec.Files = nil
		if want == nil {
			want = spec
		}
		spec.Variables = want.Variables // their order is their meaning
		if diff := cmp.Diff(want, spec); diff != "" {
			t.Errorf("order %v:\n%s", order, diff)
		}
	}
}

func TestConversions(t *testing.T) {
	for _, c := range []struct{ name, text, setting, want string }{
		{"number as text", `replsetsvr_volume_size = "80"`, "replsetsvr_volume_size", "80"},
		{"text as number", `port_to_forward = 23444`, "port_to_forward", `"23444"`},
		{"bool as text", `enable_plgm = "false"`, "enable_plgm", "false"},
		{"null takes the default", `replsetsvr_volume_size = null`, "replsetsvr_volume_size", "100"},
		{"null without a default", `min_cpu_platform = null`, "min_cpu_platform", ""},
		{"image by region", `image = { northamerica-northeast1 = "a" }`, "image", `{ northamerica-northeast1 = "a" }`},
		{"image for all", `image = "a"`, "image", `"a"`},
		{"users", `gce_ssh_users = { me = "me.pub", "you.x" = 7 }`, "gce_ssh_users", `{ me = "me.pub", "you.x" = "7" }`},
		{"empty text is unset", `mongo_repo = ""`, "mongo_repo", `""`},
		{"heredoc", "project_id = <<EOT\nabc\nEOT\n", "project_id", `"abc\n"`},
		{"arithmetic", `replsetsvr_volume_size = 2 * 40`, "replsetsvr_volume_size", "80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := memory{"env.tfvars": sound + c.text + "\n"}
			spec := mustLoad(t, in, Options{Args: []Arg{{VarFile, "env.tfvars"}}})
			if got := settingOf(spec, c.setting); got != c.want {
				t.Errorf("%s = %s, want %s", c.setting, got, c.want)
			}
		})
	}
}

func TestReplsetDefaultsAndConversions(t *testing.T) {
	in := memory{"env.tfvars": `
mongodb_distribution = "community"
mongo_release        = "8.0"
mongo_version        = "8.0.34"
replsets = ({
  all-defaults = {}
  converted    = { data_nodes_per_replset = "1", arbiters_per_replset = null, enable_pbm = "false" }
  own          = { mongodb_distribution = "psmdb", mongo_release = "psmdb-83", mongo_version = "8.3.13-7" }
  null-is-none = { mongo_version = null, mongo_release = "" }
  My_RS        = {}
  with_arbiter = { data_nodes_per_replset = 2, arbiters_per_replset = 1 }
})
`}
	spec := mustLoad(t, in, Options{Args: []Arg{{VarFile, "env.tfvars"}}, Platform: "local"})
	type brief struct {
		Name, Distribution, Release, Series, Version string
		Members                                      string
	}
	var got []brief
	for _, d := range spec.Deployments {
		var members []string
		for _, m := range d.Members {
			members = append(members, m.Name+":"+string(m.Role))
		}
		if d.ReplicaSet != d.Name {
			t.Errorf("replica set %q of deployment %q", d.ReplicaSet, d.Name)
		}
		got = append(got, brief{d.Name, d.Distribution, d.Release, d.Series, d.Version, strings.Join(members, " ")})
	}
	want := []brief{
		{"My_RS", "community", "8.0", "8.0", "8.0.34", "my-rs-0:data my-rs-1:data my-rs-2:data"},
		{"all-defaults", "community", "8.0", "8.0", "8.0.34", "all-defaults-0:data all-defaults-1:data all-defaults-2:data"},
		{"converted", "community", "8.0", "8.0", "8.0.34", "converted-0:data"},
		{"null-is-none", "community", "8.0", "8.0", "8.0.34", "null-is-none-0:data null-is-none-1:data null-is-none-2:data"},
		{"own", "psmdb", "psmdb-83", "8.3", "8.3.13-7", "own-0:data own-1:data own-2:data"},
		{"with_arbiter", "community", "8.0", "8.0", "8.0.34", "with-arbiter-0:data with-arbiter-1:data with-arbiter-arb0:arbiter"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestVersionsThatFollow(t *testing.T) {
	for _, c := range []struct{ attrs, distribution, release, series, version string }{
		{``, "psmdb", "psmdb-80", "8.0", ""},
		{`mongodb_distribution = "psmdb"`, "psmdb", "psmdb-80", "8.0", ""},
		{`mongo_release = "psmdb-70"`, "psmdb", "psmdb-70", "7.0", ""},
		{`mongo_release = "psmdb-100"`, "psmdb", "psmdb-100", "10.0", ""},
		{`mongo_release = "8.2"`, "community", "8.2", "8.2", ""},
		{`mongo_release = 8.2`, "community", "8.2", "8.2", ""},
		{`mongodb_distribution = "psmdb", mongo_version = "8.0.34"`, "psmdb", "psmdb-80", "8.0", "8.0.34"},
		{`mongodb_distribution = "enterprise", mongo_version = "9.0.4"`, "enterprise", "9.0", "9.0", "9.0.4"},
		{`mongo_release = "9.0", mongo_version = "9.0.0-rc1"`, "community", "9.0", "9.0", "9.0.0-rc1"},
		{`mongo_release = "8.0", mongo_version = "8.0.32-1.el9"`, "community", "8.0", "8.0", "8.0.32-1.el9"},
	} {
		in := memory{"env.tfvars": "replsets = { a = { " + c.attrs + " } }\n"}
		spec, problems := loadFrom(in, Options{Args: []Arg{{VarFile, "env.tfvars"}}})
		if err := problems.Err(); err != nil {
			t.Errorf("%s: %v", c.attrs, err)
			continue
		}
		d := spec.Deployments[0]
		if d.Distribution != c.distribution || d.Release != c.release || d.Series != c.series || d.Version != c.version {
			t.Errorf("%s: %s %s %s %s, want %s %s %s %s", c.attrs, d.Distribution, d.Release, d.Series, d.Version, c.distribution, c.release, c.series, c.version)
		}
		// The newest of a release is not repeatable where packages come from a
		// repository; a local process says what it is.
		if warned := len(problems.Warnings()) == 1; warned != (c.version == "") {
			t.Errorf("%s: warnings %v", c.attrs, problems.Warnings())
		}
	}
}

func TestEnvironmentName(t *testing.T) {
	in := memory{}
	for _, c := range []struct{ name, file, auto, want string }{
		{"given", "x.tfvars", "", "given"},
		{"", "dir/My First_Look.tfvars", "", "my-first-look"},
		{"", "a.tfvars.json", "", "a"},
		{"", "b.json", "", "b"},
		{"", "plain", "", "plain"},
		{"", "c.auto.tfvars", "", "c"},
		{"", "", "d.auto.tfvars", "d"},
		{"", "", "terraform.tfvars", "terraform"},
	} {
		clear(in)
		o := Options{Name: c.name}
		text := sound
		if strings.HasSuffix(c.file, ".json") {
			text = `{"replsets": {"rs1": {}}}`
		}
		if c.file != "" {
			in[c.file] = text
			o.Args = []Arg{{VarFile, c.file}}
		}
		if c.auto != "" {
			in[c.auto] = text
		}
		if spec := mustLoad(t, in, o); spec.Name != c.want {
			t.Errorf("%+v: %q", c, spec.Name)
		}
	}
}

func TestMachines(t *testing.T) {
	in := memory{"lab.tfvars": `
region                 = "europe-west1"
zone_mode              = "multi"
replsetsvr_volume_size = 50
replsets = {
  a = { mongodb_distribution = "psmdb", mongo_version = "8.0.34", data_nodes_per_replset = 4, arbiters_per_replset = 1 }
  b = { mongodb_distribution = "psmdb", mongo_version = "8.3.13", data_nodes_per_replset = 1 }
}
`}
	o := Options{Args: []Arg{{VarFile, "lab.tfvars"}}}
	want := []Machine{
		{"lab-a-0", "data", "a", "n2-standard-4", "europe-west1/1", "pd-ssd", 50},
		{"lab-a-1", "data", "a", "n2-standard-4", "europe-west1/2", "pd-ssd", 50},
		{"lab-a-2", "data", "a", "n2-standard-4", "europe-west1/3", "pd-ssd", 50},
		{"lab-a-3", "data", "a", "n2-standard-4", "europe-west1/1", "pd-ssd", 50},
		{"lab-a-arb0", "arbiter", "a", "e2-medium", "europe-west1/2", "", 0},
		{"lab-b-0", "data", "b", "n2-standard-4", "europe-west1/1", "pd-ssd", 50},
		{"lab-plgm", "load host", "", "n2-highcpu-8", "europe-west1/1", "", 0},
		{"lab-pmm-server", "monitoring", "", "e2-standard-2", "europe-west1/1", "pd-ssd", 100},
	}
	if diff := cmp.Diff(want, mustLoad(t, in, o).Machines); diff != "" {
		t.Error(diff)
	}
	o.Args = append(o.Args, Arg{Var, "zone_mode=single"}, Arg{Var, "enable_pmm=false"}, Arg{Var, "enable_plgm=false"}, Arg{Var, "prefix=p"})
	spec := mustLoad(t, in, o)
	if len(spec.Machines) != 6 || spec.Machines[0].Name != "p-a-0" {
		t.Errorf("machines without load host and monitoring: %+v", spec.Machines)
	}
	for _, m := range spec.Machines {
		if m.Zone != "europe-west1/1" {
			t.Errorf("%s is in %s with zone_mode single", m.Name, m.Zone)
		}
	}
	if settingOf(spec, "pmm_type") != "" || settingOf(spec, "plgm_type") != "" {
		t.Error("settings of machines that are not created are listed as applied")
	}
}

func TestCloud(t *testing.T) {
	in := memory{"lab.tfvars": `
project_id          = "p1"
zone_mode           = "multi"
image               = { northamerica-northeast1 = "projects/debian-cloud/global/images/family/debian-12" }
source_ranges       = "192.0.2.0/24, 198.51.100.7/32"
pmm_client_repo     = "testing"
replsets = {
  a = { mongodb_distribution = "psmdb", mongo_version = "8.0.34", mongo_repo = "testing", env_tag = "prod", pmm_client_version = "3.4.0" }
  b = { mongodb_distribution = "psmdb", mongo_version = "8.0.34", enable_pmm = false }
}
`, "more.auto.tfvars": `use_spot_instances = true`}
	args := []Arg{{VarFile, "lab.tfvars"}, {Var, "min_cpu_platform=Intel Ice Lake"}}
	spec := mustLoad(t, in, Options{Dir: "/d", Args: args, Environ: []string{"HOME=/root", "TF_VAR_region=northamerica-northeast1"}})
	want := &Cloud{
		Project: "p1", Region: "northamerica-northeast1", Prefix: "lab", MultiZone: true, Spot: true, MinCPUPlatform: "Intel Ice Lake",
		Image:        "projects/debian-cloud/global/images/family/debian-12",
		SourceRanges: []string{"192.0.2.0/24", "198.51.100.7/32"},
		PMM:          &PMMServer{Machine: "lab-pmm-server", Image: "percona/pmm-server:3", Port: 8443, ForwardPort: 23443},
	}
	if diff := cmp.Diff(want, spec.Cloud); diff != "" {
		t.Errorf("cloud:\n%s", diff)
	}
	if diff := cmp.Diff(Variables{
		Environ: []string{"TF_VAR_region=northamerica-northeast1"}, Files: []string{"/d/more.auto.tfvars"},
		Args: []Arg{{VarFile, "/d/lab.tfvars"}, args[1]},
	}, spec.Variables); diff != "" {
		t.Errorf("variables:\n%s", diff)
	}
	a, b := spec.Deployments[0], spec.Deployments[1]
	if !a.Monitored || a.Repository != "testing" || a.EnvTag != "prod" || a.PMMVersion != "3.4.0" || a.PMMRepository != "testing" {
		t.Errorf("deployment %+v", a)
	}
	if b.Monitored || b.Repository != "" || b.EnvTag != "test" {
		t.Errorf("deployment %+v", b)
	}
	_, problems := loadFrom(in, Options{Args: args, Environ: []string{"TF_VAR_region=europe-west1"}})
	if err := problems.Err(); err == nil || !strings.Contains(err.Error(), "without an entry for the region") {
		t.Errorf("an image for another region: %v", err)
	}
}

func TestNotApplied(t *testing.T) {
	in := memory{"env.tfvars": `
platform     = "local"
region       = "europe-west1"
prefix       = "p"
clusters     = {}
enable_pmm   = false
enable_ca    = false
pcsm_version = "1.0"
pbm_repo     = ""
mongo_release = "8.0"
replsets = {
  a = { mongo_repo = "testing", mongot_version = "1.2", enable_pbm = false, pbm_version = "2.16.0", env_tag = "prod", mongo_version = "8.0.34" }
}
`}
	spec := mustLoad(t, in, Options{Args: []Arg{{VarFile, "env.tfvars"}}})
	want := []Setting{
		{"region", `"europe-west1"`, noCloud},
		{"pcsm_version", `"1.0"`, noSync},
		{`replsets["a"].env_tag`, `"prod"`, noMonitoring},
		{`replsets["a"].mongo_repo`, `"testing"`, noPackages},
		{`replsets["a"].mongot_version`, `"1.2"`, noSearch},
		{`replsets["a"].pbm_version`, `"2.16.0"`, noBackups},
	}
	if diff := cmp.Diff(want, spec.NotApplied); diff != "" {
		t.Errorf("not applied:\n%s", diff)
	}
	if diff := cmp.Diff([]Setting{{"prefix", `"p"`, ""}, {"mongo_release", `"8.0"`, ""}}, spec.Settings); diff != "" {
		t.Errorf("applied:\n%s", diff)
	}
	if len(spec.Machines) != 0 || spec.Deployments[0].Members[0].Name != "p-a-0" {
		t.Errorf("machines %v, members %v", spec.Machines, spec.Deployments[0].Members)
	}
}

// TestEnvironments loads every published file on both platforms.
func TestEnvironments(t *testing.T) {
	const dir = "../../environments"
	paths, err := filepath.Glob(dir + "/*.tfvars")
	if err != nil || len(paths) < 5 {
		t.Fatalf("environments: %v %v", paths, err)
	}
	index, err := os.ReadFile(dir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		if !strings.Contains(string(index), "["+name+"]("+name+")") {
			t.Errorf("%s is not in the index", name)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, hclwrite.Format(text)) {
			t.Errorf("%s is not formatted as terraform fmt does", name)
		}
		for _, platform := range []Platform{Local, GCP} {
			spec, problems := Load(Options{Dir: dir, Args: []Arg{{VarFile, name}}, Platform: string(platform)})
			if len(problems.List()) > 0 {
				t.Errorf("%s on %s: %+v", name, platform, problems.List())
				continue
			}
			members := 0
			for _, d := range spec.Deployments {
				members += len(d.Members)
			}
			if members == 0 || spec.Files[0].Text != string(text) {
				t.Errorf("%s on %s: %d members", name, platform, members)
			}
			if platform == GCP && len(spec.Machines) < members {
				t.Errorf("%s: %d machines for %d members", name, len(spec.Machines), members)
			}
		}
	}
}

// The published file is not ours to change.
func TestPublishedEnvironment(t *testing.T) {
	spec, problems := Load(Options{Dir: "../../environments", Args: []Arg{{VarFile, "mongodb-9-first-look.tfvars"}}})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	const sum = "8ae22e5abd998cf474d8062ef3e84a00abea9d365a33a64ca7d762b5a1a52f61"
	if spec.Files[0].SHA256 != sum {
		t.Errorf("the file has changed: %s", spec.Files[0].SHA256)
	}
	if spec.Platform != GCP || len(spec.Machines) != 11 || len(spec.NotApplied) != 0 {
		t.Errorf("platform %s, %d machines, not applied %v; want gcp, 11, none", spec.Platform, len(spec.Machines), spec.NotApplied)
	}
}

func TestLoadFromFolder(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("x.auto.tfvars", `region = "auto-x1"`)
	write("env.tfvars", sound)
	for _, name := range []string{"env.tfvars", filepath.Join(dir, "env.tfvars")} {
		spec, problems := Load(Options{Dir: dir, Args: []Arg{{VarFile, name}}})
		if err := problems.Err(); err != nil {
			t.Fatal(err)
		}
		if got := settingOf(spec, "region"); got != `"auto-x1"` || spec.Name != "env" {
			t.Errorf("region %s, name %s", got, spec.Name)
		}
	}
	write("big.tfvars", sound+strings.Repeat("# \n", maxFileBytes/3))
	for name, want := range map[string]string{
		"gone.tfvars": "gone.tfvars: Unreadable variable file: gone.tfvars cannot be read: no such file or directory.",
		"big.tfvars":  "big.tfvars: Unreadable variable file: big.tfvars cannot be read: it is larger than 1 MiB.",
		".":           ".: Unreadable variable file: . cannot be read: is a directory.",
	} {
		_, problems := Load(Options{Dir: dir, Name: "e", Args: []Arg{{VarFile, name}, {VarFile, "env.tfvars"}}})
		if err := problems.Err(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	_, problems := Load(Options{Dir: filepath.Join(dir, "none"), Name: "e"})
	if !problems.HasErrors() {
		t.Error("a folder that is not there is accepted")
	}
}

func TestProblemsAsValues(t *testing.T) {
	in := memory{"env.tfvars": "regoin = 1\nreplsets = { a = { use_tls = true, data_nodes_per_replset = 2, mongo_release = \"8.0\" } }\n"}
	_, problems := loadFrom(in, Options{Args: []Arg{{VarFile, "env.tfvars"}}, Platform: "local"})
	var _ error = problems
	if got, want := problems.Error(), `env.tfvars:1:1: Unknown variable: There is no variable "regoin". (and 1 more)`; got != want {
		t.Errorf("Error() = %s", got)
	}
	var list []map[string]any
	data, err := json.Marshal(problems)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &list); err != nil || len(list) != 3 {
		t.Fatalf("%v %s", err, data)
	}
	first := map[string]any{"severity": "error", "summary": "Unknown variable", "detail": `There is no variable "regoin".`, "file": "env.tfvars", "line": 1.0, "column": 1.0, "hint": `Did you mean "region"?`}
	if diff := cmp.Diff(first, list[0]); diff != "" {
		t.Error(diff)
	}
	if warnings := problems.Warnings(); len(warnings) != 1 {
		t.Errorf("warnings %v", warnings)
	}
	var none *Problems
	if data, err := none.MarshalJSON(); err != nil || string(data) != "[]" || none.Err() != nil || none.WriteText(nil, 0, false) != nil || none.List() != nil {
		t.Errorf("no problems: %s %v", data, err)
	}
	var colored bytes.Buffer
	if err := problems.WriteText(&colored, 0, true); err != nil || !strings.Contains(colored.String(), "\x1b[31mError\x1b[0m") {
		t.Errorf("colored: %v %q", err, colored.String())
	}
	if err := problems.WriteText(failingWriter{}, 0, false); err == nil {
		t.Error("a failing writer goes unnoticed")
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestLimits feeds what would exhaust a recursive parser.
func TestLimits(t *testing.T) {
	loop := func(n int) string {
		return "image = " + strings.Repeat("[for x in [1]: ", n) + `"a"` + strings.Repeat("]", n)
	}
	for _, c := range []struct{ file, text, want string }{
		{"x.tfvars", "image = " + strings.Repeat("(", maxDepth+1), "is nested more than 100 deep"},
		{"x.tfvars", "image = " + strings.Repeat(`"${`, maxDepth+1), "is nested more than 100 deep"},
		{"x.tfvars.json", `{"image": ` + strings.Repeat("[", maxDepth+1), "is nested more than 100 deep"},
		{"x.tfvars.json", strings.Repeat("[],", maxTokens+1), "has more than 20000 words and signs"},
		{"x.tfvars", "image = " + strings.Repeat("-", maxTokens), "has more than 20000 words and signs"},
		{"x.tfvars", loop(maxLoops + 1), "has more than 2 loops in each other"},
		{"x.tfvars", "image = \"" + strings.Repeat("%{for x in [1]}", maxLoops+1), "has more than 2 loops in each other"},
		{"x.tfvars", strings.Repeat("#", maxFileBytes+1), "it is larger than 1 MiB"},
	} {
		_, problems := loadFrom(memory{c.file: c.text}, Options{Args: []Arg{{VarFile, c.file}}})
		if err := problems.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40s: %v, want %q", c.text, err, c.want)
		}
	}
	_, problems := loadFrom(memory{"x.tfvars": sound}, Options{Args: []Arg{{VarFile, "x.tfvars"}, {Var, loop(3)}, {Var, "image=" + strings.Repeat(" ", maxFileBytes)}}})
	if n := len(problems.List()); n != 2 {
		t.Errorf("limits of -var values: %v", problems.List())
	}
	// Loops beside each other are no matter.
	in := memory{"x.tfvars": `replsets = { for name in [for n in ["a", "b"] : "rs-${n}"] : name => { mongodb_distribution = "psmdb" } }` + "\n" +
		`project_id = "%{for x in ["p"]}${x}%{endfor}%{for x in ["q"]}${x}%{endfor}%{for x in ["r"]}${x}%{endfor}"`}
	if spec := mustLoad(t, in, Options{Args: []Arg{{VarFile, "x.tfvars"}}}); len(spec.Deployments) != 2 || settingOf(spec, "project_id") != `"pqr"` {
		t.Errorf("deployments %+v, project %s", spec.Deployments, settingOf(spec, "project_id"))
	}
	// Many problems are counted rather than shown, and long lines cut.
	in = memory{"x.tfvars": "replsets = { a = {} " + strings.Repeat(", a = {}", 2*maxShown) + "}"}
	_, problems = loadFrom(in, Options{Args: []Arg{{VarFile, "x.tfvars"}}, Platform: "local"})
	var text bytes.Buffer
	if err := problems.WriteText(&text, 0, true); err != nil || !strings.HasSuffix(text.String(), "And 100 more problems.\n") || !strings.Contains(text.String(), "…\x1b[0m\n") {
		t.Errorf("%v\n%.300s", err, text.String()[max(0, text.Len()-300):])
	}
}

// TestProblemsDoNotSteerTerminals shows lines with control characters.
func TestProblemsDoNotSteerTerminals(t *testing.T) {
	for _, text := range []string{"x = \"\x1b[2Ja\x00b\rc\u009b1m", "\xff\xfex\x00 \x00=\x00", "y = [\x07\r\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f.tfvars"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, problems := Load(Options{Dir: dir, Args: []Arg{{VarFile, "f.tfvars"}}})
		var shown strings.Builder
		if err := problems.WriteText(&shown, 80, false); err != nil || !problems.HasErrors() {
			t.Fatalf("%q: %v, %v", text, problems, err)
		}
		if got := shown.String(); !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}
