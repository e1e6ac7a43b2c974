package gcp

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const lockDetail = `Error message: writing "gs://states/sandbox/p/x/default.tflock" failed: googleapi: Error 412
Lock Info:
  ID:        1795123
  Path:      gs://states/sandbox/p/x/default.tflock
  Operation: OperationTypeApply
  Who:       %s
  Version:   1.12.6
  Created:   2026-11-30 12:00:00 UTC
  Info:      
`

// What is locked by a run here that is gone is told from what is in use.
func TestLocks(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who    string
		bucket bool
		stale  bool
		says   []string
	}{
		{"ann@elsewhere", true, false, []string{"(ann@elsewhere)", "wait for it", "tofu force-unlock -force 1795123`"}},
		{"ann@" + host, true, true, []string{"was killed", "&& tofu force-unlock -force 1795123`"}},
		{"ann@" + host, false, false, []string{"wait for it"}}, // a file's lock goes with its process
	} {
		p := New(Options{Dir: filepath.Join(t.TempDir(), "a b"), Environment: "x"})
		if err := os.MkdirAll(p.workDir(), 0o700); err != nil {
			t.Fatal(err)
		}
		if c.bucket {
			if err := os.WriteFile(filepath.Join(p.workDir(), backendFile), []byte(p.workDir()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		failure := &TerraformError{Diagnostics: []Diagnostic{{Summary: "Error acquiring the state lock", Detail: strings.ReplaceAll(lockDetail, "%s", c.who)}}}
		got := &TerraformError{}
		if !errors.As(p.explainLock(t.Context(), &terraform{p: p, path: "/usr/bin/tofu"}, failure), &got) || got.Lock == nil {
			t.Fatalf("%s: no lock in %v", c.who, failure)
		}
		if *got.Lock != (Lock{ID: "1795123", Who: c.who, Stale: c.stale}) {
			t.Errorf("%+v: %+v", c, got.Lock)
		}
		for _, part := range append(c.says, "cd '"+p.workDir()+"'") {
			if !strings.Contains(got.Fix, part) {
				t.Errorf("%q is not in %s", part, got.Fix)
			}
		}
	}
	other := &TerraformError{Diagnostics: []Diagnostic{{Summary: "Error creating instance", Detail: "ID: 7"}}, Fix: "as it was"}
	if err := New(Options{Dir: t.TempDir()}).explainLock(t.Context(), nil, other); !errors.Is(err, error(other)) || other.Lock != nil || other.Fix != "as it was" {
		t.Errorf("got %+v", other)
	}
}
