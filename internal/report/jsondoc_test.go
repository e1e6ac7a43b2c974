package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// docField is a row of docs/json.md.
type docField struct{ kind, present, link string }

// jsonDoc reads the tables of docs/json.md by section.
func jsonDoc(t *testing.T) map[string]map[string]docField {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("^\\| `([^`]+)` \\| (.*?) \\| (.*?) \\| .*\\|$")
	link := regexp.MustCompile(`\]\(#([a-z-]+)\)`)
	doc := map[string]map[string]docField{}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.ReplaceAll(name, " ", "-")
			continue
		}
		if m := row.FindStringSubmatch(line); m != nil {
			f := docField{kind: m[2], present: m[3]}
			if l := link.FindStringSubmatch(m[2]); l != nil {
				f.link = l[1]
			}
			if doc[section] == nil {
				doc[section] = map[string]docField{}
			}
			if _, twice := doc[section][m[1]]; twice {
				t.Errorf("%s.%s is documented twice", section, m[1])
			}
			doc[section][m[1]] = f
		}
	}
	return doc
}

// docs/json.md and the structs have the same fields, of the same kinds and
// with the same rules for what is absent and what is null.
func TestJSONDocumentAndStructs(t *testing.T) {
	doc := jsonDoc(t)
	seen := map[string]bool{}
	var walk func(section string, typ reflect.Type)
	walk = func(section string, typ reflect.Type) {
		if seen[section] {
			return
		}
		seen[section] = true
		fields := doc[section]
		if fields == nil {
			t.Errorf("docs/json.md has no section %q", section)
			return
		}
		names := map[string]bool{}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			names[name] = true
			d, ok := fields[name]
			if !ok {
				t.Errorf("docs/json.md: section %q lacks %q", section, name)
				continue
			}
			kind, inner := jsonKind(f.Type)
			if want := strings.Replace(kind, "OBJECT", "[", 1); !strings.HasPrefix(d.kind, want) {
				t.Errorf("docs/json.md: %s.%s is documented as %q, is %q", section, name, d.kind, kind)
			}
			omit := strings.Contains(options, "omitempty")
			null := f.Type.Kind() == reflect.Pointer && !omit
			if got := strings.HasPrefix(d.present, "absent"); got != omit {
				t.Errorf("docs/json.md: %s.%s: present %q, omitempty is %v", section, name, d.present, omit)
			}
			if got := strings.HasPrefix(d.present, "null"); got != null {
				t.Errorf("docs/json.md: %s.%s: present %q, can be null: %v", section, name, d.present, null)
			}
			if inner != nil {
				walk(d.link, inner)
			}
		}
		for name := range fields {
			if !names[name] {
				t.Errorf("docs/json.md: %s.%s does not exist", section, name)
			}
		}
	}
	walk("report", reflect.TypeFor[jsonReport]())
	for section := range doc {
		if !seen[section] && section != "workload-fingerprint" { // which the commands' tests check
			t.Errorf("docs/json.md: nothing refers to section %q", section)
		}
	}
}

// jsonKind is a type as the document writes it, and the struct in it.
func jsonKind(typ reflect.Type) (string, reflect.Type) {
	switch typ.Kind() {
	case reflect.Pointer:
		return jsonKind(typ.Elem())
	case reflect.Slice:
		kind, inner := jsonKind(typ.Elem())
		return "array of " + kind, inner
	case reflect.Map:
		kind, inner := jsonKind(typ.Elem())
		if inner == nil {
			kind += "s"
		}
		return "object of " + kind, inner
	case reflect.Struct:
		if typ == reflect.TypeFor[time.Time]() {
			return "time", nil
		}
		return "OBJECT", typ
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Float64:
		return "number", nil
	}
	return "integer", nil
}

// What the golden reports have is documented.
func TestJSONDocumentAndGoldenReports(t *testing.T) {
	doc := jsonDoc(t)
	var walk func(where, section string, v any)
	walk = func(where, section string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s is a %T", where, v)
			return
		}
		for name, value := range object {
			f, ok := doc[section][name]
			at := where + "." + name
			switch {
			case !ok:
				t.Errorf("%s is not documented", at)
			case value == nil && !strings.HasPrefix(f.present, "null"):
				t.Errorf("%s is null", at)
			case value == nil || f.link == "":
			case strings.HasPrefix(f.kind, "array of"):
				for i, x := range value.([]any) {
					walk(fmt.Sprintf("%s[%d]", at, i), f.link, x)
				}
			case strings.HasPrefix(f.kind, "object of"):
				for key, x := range value.(map[string]any) {
					walk(at+"."+key, f.link, x)
				}
			default:
				walk(at, f.link, value)
			}
		}
		for name, f := range doc[section] {
			if _, ok := object[name]; !ok && !strings.HasPrefix(f.present, "absent") {
				t.Errorf("%s has no %s", where, name)
			}
		}
	}
	for _, s := range scenarios(t) {
		data, err := os.ReadFile(filepath.Join("testdata", s.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		var report any
		if err := json.Unmarshal(data, &report); err != nil {
			t.Fatal(err)
		}
		walk(s.name, "report", report)
	}
}
