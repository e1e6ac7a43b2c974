package secret

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNeverShown(t *testing.T) {
	const value = "hunter2-hunter2"
	s := New(value)
	type holder struct{ Password Text }
	asJSON, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{
		s.String(), string(asJSON),
		fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %x %d", s, s, s, s, s, s, s),
		fmt.Sprintf("%v %+v", holder{s}, &holder{s}),
		fmt.Errorf("connect: %v", s).Error(),
	}
	for _, text := range shown {
		if strings.Contains(text, value) || strings.Contains(text, fmt.Sprintf("%x", value)) {
			t.Errorf("shown: %s", text)
		}
	}
	if s.Reveal() != value || s.IsEmpty() || !(Text{}).IsEmpty() {
		t.Error("the value itself is lost")
	}
}

func TestLoadOrCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "password")
	first, err := LoadOrCreate(path, 32)
	if err != nil {
		t.Fatal(err)
	}
	second, err := LoadOrCreate(path, 32)
	if err != nil {
		t.Fatal(err)
	}
	if first.Reveal() != second.Reveal() || len(first.Reveal()) != 32 {
		t.Errorf("created %q, read back %q", first.Reveal(), second.Reveal())
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %04o", info.Mode().Perm())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(path, 32); err == nil || strings.Contains(err.Error(), first.Reveal()) {
		t.Errorf("a secret that others may read: %v", err)
	}
	if _, err := Read(path + "-absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

func TestGenerateDiffers(t *testing.T) {
	a, b := Generate(24), Generate(24)
	if a.Reveal() == b.Reveal() {
		t.Error("two generated secrets are equal")
	}
}
