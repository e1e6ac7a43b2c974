package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// TestKillBench ends a real bench with kill -9 at ten random moments and
// resumes it after each: at the end every cell is there once, and what was
// finished before a kill is what it was.
func TestKillBench(t *testing.T) {
	if testing.Short() {
		t.Skip("runs servers and a bench")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "sandbox")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Dir = dir
		return cmd
	}
	must := func(args ...string) {
		t.Helper()
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("sandbox %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	const file = `
		platform = "local"
		replsets = {
		  a = { data_nodes_per_replset = 1, mongodb_distribution = "psmdb", mongo_release = "psmdb-80", mongo_version = "8.0.34" }
		  b = { data_nodes_per_replset = 1, mongodb_distribution = "psmdb", mongo_release = "psmdb-83", mongo_version = "8.3.13" }
		}`
	if err := os.WriteFile(filepath.Join(dir, "env.tfvars"), []byte(file), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must("down", "-env", "env") })
	must("up", "-var-file", "env.tfvars")

	args := []string{"bench", "--sizes", "40,80", "--iterations", "3", "--duration", "400ms", "--workers", "2", "--ops-per-worker", "20"}
	finished := map[string]string{} // cell.json by its path
	for kills := 0; kills < 10; kills++ {
		cmd := command(args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait := time.Duration(rand.IntN(1400)+100) * time.Millisecond
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil && !noRun(dir) {
				t.Fatalf("bench: %v\n%s", err, &out)
			}
			t.Logf("the run was complete before kill %d", kills+1)
			kills = 10
		case <-time.After(wait):
			_ = cmd.Process.Kill()
			t.Logf("kill %d after %s: %v", kills+1, wait, <-ended)
		}
		for path, content := range finished {
			if data, err := os.ReadFile(path); err != nil || string(data) != content {
				t.Fatalf("after kill %d (%s): %s is not what it was: %v", kills+1, wait, path, err)
			}
		}
		paths, err := filepath.Glob(filepath.Join(dir, "runs", "*", "cells", "*", "cell.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			finished[path] = string(data)
		}
		if !noRun(dir) {
			args = []string{"bench", "--resume"}
		}
	}
	if len(finished) < 12 {
		must(args...)
	}

	run, err := record.Newest(filepath.Join(dir, "runs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := record.Open(run)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	cells, err := reader.Cells()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[record.CellID]int{}
	for _, c := range cells {
		if c.Finished() {
			counted[c.ID]++
		}
	}
	if len(counted) != 12 || reader.Run().Finished == nil {
		t.Errorf("%d of 12 cells are there; finished: %v", len(counted), reader.Run().Finished)
	}
	for id, n := range counted {
		if n != 1 {
			t.Errorf("cell %s is there %d times", id, n)
		}
	}
	must("report")
}

func noRun(dir string) bool {
	_, err := record.Newest(filepath.Join(dir, "runs"), nil)
	return errors.Is(err, record.ErrNoRun)
}
