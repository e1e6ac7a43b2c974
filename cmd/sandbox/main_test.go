package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/shirou/gopsutil/v4/process"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"sandbox": main})
}

// TestScripts runs the commands as a user does. A script that brings an
// environment up ends with sandbox down; should it fail before, the servers
// it started are ended here.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("ENVIRONMENTS", filepath.Join(root, "environments"))
			env.Defer(func() { down(t, env.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":   exitCode,
			"grepline":   grepLine,
			"mode":       mode,
			"standin":    func(ts *testscript.TestScript, neg bool, args []string) { standin(ts, root, args) },
			"killmember": killMember,
			"noservers":  noServers,
			"nosecrets":  noSecrets,
			"recompute":  recompute,
			"uri":        connectionString,
			"waitfor":    waitFor,
		},
	})
}

// down ends what a failed script left running.
func down(t *testing.T, dir string) {
	environments, err := os.ReadDir(filepath.Join(dir, ".sandbox"))
	if err != nil {
		return // nothing was left
	}
	self, err := exec.LookPath("sandbox")
	if err != nil {
		t.Error(err)
		return
	}
	for _, e := range environments {
		cmd := exec.Command(self, "down", "-env", e.Name())
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("down after the script: %v\n%s", err, out)
		}
	}
}

// exitCode runs a command and checks its exit code: exitcode N COMMAND….
func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// grepLine checks that a file's content is a part of another's:
// grepline PART WHOLE.
func grepLine(ts *testscript.TestScript, _ bool, args []string) {
	if part := strings.TrimSpace(ts.ReadFile(args[0])); part == "" || !strings.Contains(ts.ReadFile(args[1]), part) {
		ts.Fatalf("%s is not in %s", args[0], args[1])
	}
}

// mode checks a file's mode: mode 0600 FILE.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mode MODE FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// standin builds the mongod stand-in as DIR/VERSION/bin/mongod:
// standin DIR VERSION.
func standin(ts *testscript.TestScript, root string, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: standin DIR VERSION")
	}
	bin := filepath.Join(ts.MkAbs(args[0]), args[1], "bin")
	ts.Check(os.MkdirAll(bin, 0o755))
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "mongod"), "./test/mongod")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	ts.Check(os.WriteFile(filepath.Join(bin, "mongod.version"), []byte(args[1]+"\n"), 0o644))
}

// inventory is what the scripts' commands need of an environment's.
type inventory struct {
	Deployments []struct {
		Endpoints []struct {
			Name    string
			Port    int
			Process struct{ PID int }
		}
	}
}

func readInventory(ts *testscript.TestScript, file string) inventory {
	data, err := os.ReadFile(ts.MkAbs(file))
	ts.Check(err)
	var inv inventory
	ts.Check(json.Unmarshal(data, &inv))
	return inv
}

// killMember ends a member with SIGKILL: killmember INVENTORY NAME.
func killMember(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: killmember INVENTORY NAME")
	}
	for _, d := range readInventory(ts, args[0]).Deployments {
		for _, m := range d.Endpoints {
			if m.Name == args[1] {
				ts.Check(syscall.Kill(m.Process.PID, syscall.SIGKILL))
				return
			}
		}
	}
	ts.Fatalf("no member %s in %s", args[1], args[0])
}

// runs tells whether a process is there; one that has ended and waits for
// its parent to notice is not.
func runs(pid int) bool {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return false
	}
	status, err := p.Status()
	return err == nil && !slices.Contains(status, process.Zombie)
}

// noServers checks that nothing of a saved inventory listens or runs.
func noServers(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: noservers INVENTORY")
	}
	seen := 0
	for _, d := range readInventory(ts, args[0]).Deployments {
		for _, m := range d.Endpoints {
			seen++
			if runs(m.Process.PID) {
				ts.Fatalf("process %d of %s is still there", m.Process.PID, m.Name)
			}
			if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.Port)); err == nil {
				_ = conn.Close()
				ts.Fatalf("port %d of %s still answers", m.Port, m.Name)
			}
		}
	}
	if seen == 0 {
		ts.Fatalf("%s names no member", args[0])
	}
}

// connectionString writes an environment's connection string, the password
// in it, to uri.txt with mode 0600: uri ENVIRONMENT.
func connectionString(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: uri ENVIRONMENT")
	}
	ts.Check(ts.Exec("sandbox", "status", "-env", args[0], "--json", "--show-secrets"))
	var status struct {
		ConnectionStrings map[string]string `json:"connection_strings"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &status))
	for _, uri := range status.ConnectionStrings {
		ts.Check(os.WriteFile(ts.MkAbs("uri.txt"), []byte(uri+"\n"), 0o600))
		return
	}
	ts.Fatalf("no connection string")
}

// waitFor waits until a file is there and not empty: waitfor FILE.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: waitfor FILE")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if info, err := os.Stat(ts.MkAbs(args[0])); err == nil && info.Size() > 0 {
			return
		}
	}
	ts.Fatalf("%s did not appear", args[0])
}

// noSecrets checks that a secret is in none of the files of the folders:
// nosecrets FILE-OF-THE-SECRET PATH….
func noSecrets(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: nosecrets FILE-OF-THE-SECRET PATH…")
	}
	secret := strings.TrimSpace(ts.ReadFile(args[0]))
	if len(secret) < 16 {
		ts.Fatalf("%s holds no secret", args[0])
	}
	for _, root := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			if bytes.Contains(data, []byte(secret)) {
				return fmt.Errorf("%s holds the secret of %s", path, args[0])
			}
			return err
		}))
	}
}

// recompute computes the fingerprint of the first cell of a result again,
// without a server: recompute RESULT.JSON FLAGS….
func recompute(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: recompute RESULT.JSON FLAGS…")
	}
	var result struct {
		Cells []struct {
			Complete            bool
			Fingerprint         string
			FingerprintCommands int64 `json:"fingerprint_commands"`
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &result))
	if len(result.Cells) == 0 || result.Cells[0].Complete || result.Cells[0].FingerprintCommands == 0 {
		ts.Fatalf("not the result of a pass that was begun and not finished: %+v", result)
	}
	c := result.Cells[0]
	ts.Check(ts.Exec("sandbox", append([]string{"workload", "fingerprint", "--commands", fmt.Sprint(c.FingerprintCommands)}, args[1:]...)...))
	if got := strings.TrimSpace(ts.ReadFile("stdout")); got != c.Fingerprint {
		ts.Fatalf("the fingerprint over %d commands is %s, the cell's %s", c.FingerprintCommands, got, c.Fingerprint)
	}
}
