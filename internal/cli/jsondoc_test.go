package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/json.md has the fields of `workload fingerprint --json`; those of the
// report are checked where they are made.
func TestFingerprintIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "json.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## workload fingerprint\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, made []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, m[1])
	}
	for f := range reflect.TypeFor[fingerprintOutput]().Fields() {
		made = append(made, f.Tag.Get("json"))
	}
	if !slices.Equal(documented, made) {
		t.Errorf("documented %v, made %v", documented, made)
	}
}
