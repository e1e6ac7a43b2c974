package environment

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzLoad feeds variable files of both syntaxes, -var values and TF_VAR_
// values to the loader. It must not crash, must give either a Spec or errors,
// and a Spec must keep what the rest of the program relies on.
func FuzzLoad(f *testing.F) {
	add := func(name string, data []byte) { f.Add(string(data), filepath.Ext(name) == ".json", false) }
	published, err := filepath.Glob("../../environments/*.tfvars")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range published {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		add(path, data)
	}
	cases, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range cases {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range archive.Files {
			if file.Name != "want" {
				add(file.Name, file.Data)
			}
		}
	}
	f.Add(`{ a = { mongo_version = "8.0.34" } }`, false, true)
	f.Fuzz(func(t *testing.T, text string, isJSON, isVar bool) {
		o := Options{Name: "fuzz"}
		in := memory{}
		name := "f.tfvars"
		if isJSON {
			name = "f.tfvars.json"
		}
		if isVar {
			o.Args = []Arg{{Var, "replsets=" + text}}
			o.Environ = []string{"TF_VAR_image=" + text, "TF_VAR_region=" + text}
		} else {
			in[name] = text
			o.Args = []Arg{{VarFile, name}}
		}
		for _, platform := range []Platform{Local, GCP} {
			o.Platform = string(platform)
			spec, problems := loadFrom(in, o)
			if (spec == nil) != problems.HasErrors() {
				t.Fatalf("Spec is nil: %v, has errors: %v", spec == nil, problems.HasErrors())
			}
			if err := problems.WriteText(io.Discard, 80, false); err != nil {
				t.Fatal(err)
			}
			for _, p := range problems.List() {
				if p.Summary == "" || p.Line < 0 || p.Column < 0 {
					t.Fatalf("malformed problem %+v", p)
				}
			}
			if spec == nil {
				continue
			}
			names := map[string]bool{}
			for _, d := range spec.Deployments {
				if d.Distribution == "" || d.Release == "" || d.Series == "" || d.Name != d.ReplicaSet {
					t.Fatalf("incomplete deployment %+v", d)
				}
				if n := len(d.Members); n < 1 || n > maxVoting || d.Members[0].Role != Data {
					t.Fatalf("members %+v", d.Members)
				}
				for _, m := range d.Members {
					if names[m.Name] || !hostName.MatchString(m.Name) {
						t.Fatalf("host name %q", m.Name)
					}
					names[m.Name] = true
				}
			}
			if len(spec.Deployments) == 0 || (platform == GCP) != (len(spec.Machines) > 0) {
				t.Fatalf("%d deployments, %d machines on %s", len(spec.Deployments), len(spec.Machines), platform)
			}
		}
	})
}
