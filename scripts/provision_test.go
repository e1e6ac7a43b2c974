package scripts

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bash runs a script that may use what provision/lib.sh, packages.sh and
// paths.sh define. Commands in the folder bin, if given, come first.
func bash(t *testing.T, script, bin string) (stdout string, err error) {
	t.Helper()
	cmd := exec.Command("bash", "-c", ". provision/lib.sh; . provision/packages.sh; . provision/paths.sh\nPATH="+bin+":$PATH\n"+script)
	var out, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errors
	if err = cmd.Run(); err != nil {
		t.Logf("stderr: %s", &errors)
	}
	return out.String(), err
}

func expect(t *testing.T, script, bin, want string) {
	t.Helper()
	got, err := bash(t, script, bin)
	if err != nil {
		t.Errorf("%s: %v", script, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", script, diff)
	}
}

// commands makes a folder of programs, given as shell scripts.
func commands(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestShellcheck(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("no shellcheck here")
	}
	files, err := filepath.Glob("provision/*.sh")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if out, err := exec.Command("shellcheck", files...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPick(t *testing.T) {
	const deb = "8.0.3-1.bookworm 8.0.33-14.bookworm 8.0.34-9.bookworm 8.0.34-15.bookworm"
	const rpm = "9.0.0-0.1.rc2.el9 9.0.3-1.el9 9.0.4-1.el9"
	for _, test := range []struct{ wanted, offered, want string }{
		{"9.0.4", "9.0.3 9.0.4", "9.0.4"},
		{"9.0.4", rpm, "9.0.4-1.el9"},
		{"9.0.5", rpm, ""},
		{"9.0.0", rpm, ""},
		{"8.0.34", deb, "8.0.34-15.bookworm"},
		{"8.0.34-9", deb, "8.0.34-9.bookworm"},
		{"8.0.34-1", deb, ""},
		{"8.0.3", deb, "8.0.3-1.bookworm"},
		{"8.0", deb, ""},
		{"9.0.4", "9.0.4~rc0", ""},
		{"9.0.4~rc0", "9.0.4~rc0", "9.0.4~rc0"},
		{"", deb, "8.0.34-15.bookworm"},
		{"", "", ""},
	} {
		expect(t, "tr ' ' '\\n' <<<'"+test.offered+"' | pick '"+test.wanted+"'", "", test.want+"\n")
	}
}

func TestAvailable(t *testing.T) {
	lists := filepath.Join(t.TempDir(), "lists")
	bin := commands(t, map[string]string{
		"apt-get": "true",
		"dpkg":    "true",
		"apt-cache": `[ "$*" = "madison mongodb-org-server" ] || exit 0
cat <<'END'
mongodb-org-server |      9.0.4 | https://repo.mongodb.org/apt/debian bookworm/mongodb-org/9.0/main amd64 Packages
mongodb-org-server |      9.0.3 | https://repo.mongodb.org/apt/debian bookworm/mongodb-org/9.0/main amd64 Packages
END`,
		"dnf": `case "$*" in
*makecache*) touch ` + lists + `; exit ;;
*percona-server-mongodb-server) ;;
*just-published) [ -e ` + lists + ` ] && echo "just-published.x86_64 1.0-1.el9 x"; exit ;;
*) echo "Error: No matching Packages to list" >&2; exit 1 ;;
esac
cat <<'END'
Available Packages
percona-server-mongodb-server.x86_64 8.0.34-15.el9 psmdb-80-release-x86_64
percona-server-mongodb-server.x86_64
                                     8.0.9-4.el9   psmdb-80-release-x86_64
percona-server-mongodb-server-debug.x86_64 1-1.el9 psmdb-80-release-x86_64
END`,
	})
	expect(t, "FAMILY=apt; available mongodb-org-server", bin, "9.0.3\n9.0.4\n")
	expect(t, "FAMILY=dnf; available percona-server-mongodb-server", bin, "8.0.9-4.el9\n8.0.34-15.el9\n")

	// What the caller is told when there is no such version, or no package.
	for script, want := range map[string]string{
		"FAMILY=apt; choose mongodb-org-server 9.0.5": "PACKAGE=mongodb-org-server\nUNKNOWN_VERSION=9.0.5\nAVAILABLE=9.0.3 9.0.4 \n",
		"FAMILY=dnf; choose nothing 1.0":              "PACKAGE=nothing\nUNKNOWN_VERSION=1.0\nAVAILABLE= \n",
	} {
		got, err := bash(t, "exec 3>&1 4>&2 >/dev/null\n"+script, bin)
		if err == nil || got != want {
			t.Errorf("%s: %v, %q", script, err, got)
		}
	}
	expect(t, "FAMILY=apt; choose mongodb-org-server 9.0.4; echo $CHOSEN", bin, "9.0.4\n")
	// Only what is not in the lists at hand has them fetched again.
	if err := os.RemoveAll(lists); err != nil {
		t.Fatal(err)
	}
	expect(t, "FAMILY=dnf; choose percona-server-mongodb-server 8.0.34; echo $CHOSEN", bin, "8.0.34-15.el9\n")
	if _, err := os.Stat(lists); err == nil {
		t.Error("the lists were fetched without need")
	}
	expect(t, "FAMILY=dnf; choose just-published 1.0; echo $CHOSEN", bin, "1.0-1.el9\n")
}

func TestInstalled(t *testing.T) {
	bin := commands(t, map[string]string{
		"dpkg-query": `case "$4" in here) echo "installed 9.0.4";; gone) echo "config-files 9.0.3";; *) exit 1;; esac`,
		"rpm":        `case "$4" in here) echo 9.0.4-1.el9;; *) echo "package $4 is not installed"; exit 1;; esac`,
	})
	expect(t, "FAMILY=apt; echo $(installed here),$(installed gone),$(installed never)", bin, "9.0.4,,\n")
	expect(t, "FAMILY=dnf; echo $(installed here),$(installed never)", bin, "9.0.4-1.el9,\n")
}

func TestInstallWords(t *testing.T) {
	bin := commands(t, map[string]string{"apt-get": `echo "$@"`, "dnf": `echo "$@"`})
	got, err := bash(t, "FAMILY=apt; install_packages a=1.0 b", bin)
	if err != nil || !strings.HasSuffix(got, " install --no-install-recommends --allow-change-held-packages a=1.0 b\n") {
		t.Errorf("%v: %s", err, got)
	}
	got, err = bash(t, "FAMILY=dnf; install_packages a=1.0-1.el9 b", bin)
	if err != nil || !strings.HasSuffix(got, " install a-1.0-1.el9 b\n") {
		t.Errorf("%v: %s", err, got)
	}
}

func TestHostsWithBlock(t *testing.T) {
	const old = "127.0.0.1 localhost\n# sandbox: begin\n10.0.0.9 gone\n# sandbox: end\n::1 localhost\n"
	const want = "# sandbox: begin\n10.0.0.1 a\n10.0.0.2 b\n# sandbox: end\n127.0.0.1 localhost\n::1 localhost\n"
	script := "f() { hosts_with_block $'10.0.0.1 a\\n10.0.0.2 b'; }\n"
	expect(t, script+"printf '"+strings.ReplaceAll(old, "\n", "\\n")+"' | f", "", want)
	expect(t, script+"printf '"+strings.ReplaceAll(old, "\n", "\\n")+"' | f | f", "", want)
}

func TestPut(t *testing.T) {
	dir := t.TempDir()
	expect(t, `cd `+dir+`; owner=$(id -un):$(id -gn)
CHANGED=0; put `+dir+`/new/file 640 "$owner" <<<one; echo $CHANGED $(stat -c %a new/file) $(<new/file)
CHANGED=0; put `+dir+`/new/file 600 "$owner" <<<one; echo $CHANGED $(stat -c %a new/file) $(<new/file)
CHANGED=0; put `+dir+`/new/file 600 "$owner" <<<two; echo $CHANGED $(stat -c %a new/file) $(<new/file)
ls new`, "", "1 640 one\n0 600 one\n1 600 two\nfile\n")
}

func TestAtLeast(t *testing.T) {
	expect(t, `for SERIES in 7.0 8.0 8.3 9.0 10.1; do at_least 8 && echo "$SERIES"; done`, "", "8.0\n8.3\n9.0\n10.1\n")
}

func TestPaths(t *testing.T) {
	for _, test := range []struct{ family, distribution, role, want string }{
		{"apt", "psmdb", "data", "/var/lib/mongodb /var/log/mongodb /var/lib/mongodb\n"},
		{"dnf", "psmdb", "data", "/var/lib/mongo /var/log/mongo /var/lib/mongo\n"},
		{"dnf", "community", "arbiter", "/var/lib/mongo /var/log/mongodb /var/lib/mongo\n"},
		{"apt", "", "monitoring", "/var/lib/mongodb /var/log/mongodb /var/lib/docker\n"},
		{"dnf", "", "monitoring", "/var/lib/mongo /var/log/mongodb /var/lib/containers\n"},
	} {
		expect(t, "FAMILY="+test.family+" DISTRIBUTION="+test.distribution+" ROLE="+test.role+"; paths; echo $DBPATH $LOGDIR $MOUNT", "", test.want)
	}
}

// TestHold keeps what others excluded.
func TestHold(t *testing.T) {
	bin := commands(t, map[string]string{"apt-mark": `echo "$@"`})
	expect(t, "FAMILY=apt; hold a b", bin, "hold a b\n")

	conf := filepath.Join(t.TempDir(), "dnf.conf")
	if err := os.WriteFile(conf, []byte("[main]\ngpgcheck=1\nexcludepkgs=kernel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "FAMILY=dnf DNF_CONF="+conf+"; hold a b; hold b c; cat "+conf, "", "[main]\nexcludepkgs=kernel a b c\ngpgcheck=1\n")
}

// frame begins a script in a folder of its own.
func frame(t *testing.T) (script, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "machine.env"), []byte("NAME=box\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return ". provision/lib.sh\nPARAMETERS=" + dir + "/machine.env LOG=" + dir + "/log LOCK=" + dir + "/lock; begin\n", dir
}

// TestFrame: parameters, steps, results, and why a script failed.
func TestFrame(t *testing.T) {
	for _, test := range []struct{ script, stdout, stderr string }{
		{"step one; echo noise; result BUILD $NAME; step two; echo cause; false; echo never", "STEP=one\nBUILD=box\nSTEP=two\n", "noise\n--- two\ncause\n"},
		{"echo noise; die 'no such thing'", "", "no such thing\n"},
		{"echo $unset_variable", "", "unset_variable: unbound variable\n"},
	} {
		script, _ := frame(t)
		cmd := exec.Command("bash", "-c", script+test.script)
		var out, errors strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errors
		if err := cmd.Run(); err == nil || out.String() != test.stdout || !strings.HasSuffix(errors.String(), test.stderr) {
			t.Errorf("%s: %v\nstdout %q\nstderr %q", test.script, err, &out, &errors)
		}
	}
}

// TestCallerGoesAway: the script comes to its end all the same, and another
// run waits for it.
func TestCallerGoesAway(t *testing.T) {
	script, dir := frame(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	first := exec.Command("bash", "-c", script+"step one; read -r _ <"+dir+"/fifo; step two; result BUILD 1; echo end >"+dir+"/end")
	first.Stdout, first.Stderr = w, w
	fifo := filepath.Join(dir, "fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	line := make([]byte, len("STEP=one\n"))
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "STEP=one\n" {
		t.Fatalf("%q: %v", line, err)
	}
	_ = r.Close()

	second := exec.Command("bash", "-c", script+"cat "+dir+"/end >&3")
	out, err := second.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "STEP=waiting for an earlier run\n" {
		t.Fatalf("%q: %v", line, err)
	}
	if err := os.WriteFile(fifo, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("the script whose caller went away: %v", err)
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "end\n" {
		t.Errorf("%q: %v", line, err)
	}
	if err := second.Wait(); err != nil {
		t.Error(err)
	}
}
