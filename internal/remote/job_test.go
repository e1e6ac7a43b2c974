package remote

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

// counting is a command that prints a line whenever it is let go on, until it
// is told to end with a status.
func counting(dir string) []string {
	return []string{"sh", "-c", `
		n=0
		while [ ! -e "$1/end" ]; do
			if [ -e "$1/go" ]; then rm "$1/go"; n=$((n+1)); echo "line $n"; fi
			sleep 0.01
		done
		echo last
		exit "$(cat "$1/end")"`, "sh", dir}
}

func TestJobOutlivesItsConnection(t *testing.T) {
	s := newSite(t)
	w := sshdtest.NewWire(t, s.Port, 0)
	m := s.machine()
	m.Port = w.Port()
	dir, control := filepath.Join(t.TempDir(), "jobs", "one"), t.TempDir()
	c := s.dialTo(m)
	job, err := c.StartJob(testContext(t), JobSpec{Dir: dir, Args: counting(control)})
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, s, dir)
	if job.Dir() != dir {
		t.Errorf("in %s, want %s", job.Dir(), dir)
	}
	before, err := job.State(testContext(t))
	if err != nil || before.Phase != JobRunning || before.Ended() || before.Status != -1 || before.PID == 0 {
		t.Fatalf("%+v, %v", before, err)
	}
	_, err = c.StartJob(testContext(t), JobSpec{Dir: dir, Args: []string{"true"}})
	_ = as[*JobExistsError](t, err)

	// Every line loses the connection that brought it.
	var log safeBuffer
	lost := 0
	release := func() { write(t, filepath.Join(control, "go"), "") }
	release()
	cutter := writerFunc(func(p []byte) error {
		_, _ = log.Write(p)
		if bytes.HasPrefix(p, []byte("line")) {
			w.Cut()
		}
		return nil
	})
	var state JobState
	for offset := int64(0); ; lost++ {
		c, err := WaitReachable(testContext(t), m, s.opts, WaitOptions{Every: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		var written int64
		state, written, err = (&Job{conn: c, dir: dir}).Follow(testContext(t), offset, cutter)
		offset += written
		_ = c.Close()
		if err == nil {
			break
		}
		_ = as[*LostError](t, err)
		if lost < 2 {
			release()
		} else {
			write(t, filepath.Join(control, "end.new"), "5")
			if err := os.Rename(filepath.Join(control, "end.new"), filepath.Join(control, "end")); err != nil {
				t.Error(err)
			}
		}
	}
	if state.Phase != JobExited || state.Status != 5 || !state.Ended() {
		t.Fatalf("%+v, %v", state, err)
	}
	want := "line 1\nline 2\nline 3\nlast\n"
	if log.String() != want || lost != 3 || state.LogSize != int64(len(want)) {
		t.Errorf("lost %d times, log size %d, got %q", lost, state.LogSize, log.String())
	}
	if state.PID != before.PID {
		t.Errorf("another process: %d, before %d", state.PID, before.PID)
	}

	// Attached to after its end: from any byte on.
	c = s.dial()
	job, state, err = c.Attach(testContext(t), dir)
	if err != nil || state.Phase != JobExited || state.Status != 5 {
		t.Fatalf("%+v, %v", state, err)
	}
	var rest bytes.Buffer
	if _, n, err := job.Follow(testContext(t), 14, &rest); err != nil || n != 12 || rest.String() != want[14:] {
		t.Errorf("%d bytes: %q, %v", n, rest.String(), err)
	}
	if state, err = job.Stop(testContext(t), time.Second); err != nil || state.Phase != JobExited {
		t.Errorf("stopping what is over: %+v, %v", state, err)
	}
	_, _, err = c.Attach(testContext(t), dir+"-other")
	_ = as[*NoJobError](t, err)
}

// cleanUp makes sure that a failed test leaves no job behind.
func cleanUp(t *testing.T, s site, dir string) {
	t.Cleanup(func() {
		c, err := Dial(testContext(t), s.machine(), s.opts)
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		if job, state, err := c.Attach(testContext(t), dir); err == nil && !state.Ended() {
			_, _ = job.Stop(testContext(t), 0)
		}
	})
}

func TestJobArguments(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	words := []string{"", "a b", "it's", "$HOME", "%n", "*", "x\ny", `\`, "-n"}
	dir := filepath.Join(t.TempDir(), "job")
	job, err := c.StartJob(testContext(t), JobSpec{
		Dir: dir, Args: append([]string{"sh", "-c", `pwd; printf '<%s>' "$@"; cat`, "sh"}, words...),
	})
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, s, dir)
	var log bytes.Buffer
	if state, _, err := job.Follow(testContext(t), 0, &log); err != nil || state.Phase != JobExited || state.Status != 0 {
		t.Errorf("%+v, %v", state, err)
	}
	if want := dir + "\n<" + strings.Join(words, "><") + ">"; log.String() != want {
		t.Errorf("%q, want %q", log.String(), want)
	}
	for _, bad := range []JobSpec{
		{Dir: dir + "2"}, {Dir: "/a b", Args: words}, {Dir: "$x", Args: words}, {Dir: "-x", Args: words},
		{Dir: dir + "2", Args: []string{"\x00"}},
	} {
		if _, err := c.StartJob(testContext(t), bad); err == nil {
			t.Errorf("started %+v", bad)
		}
	}
	if _, err := os.Stat(dir + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused job left its directory: %v", err)
	}
}

func TestStopJob(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	for _, test := range []struct {
		name, script string
		grace        time.Duration
		status       int
	}{
		{"obedient", `trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.02; done`, time.Minute, 3},
		{"default", `echo ready; sleep 600`, time.Minute, 143},
		{"stubborn", `trap '' TERM; echo ready; while :; do sleep 0.02; done`, 0, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "job")
			job, err := c.StartJob(testContext(t), JobSpec{Dir: dir, Args: []string{"sh", "-c", test.script}})
			if err != nil {
				t.Fatal(err)
			}
			cleanUp(t, s, dir)
			eventually(t, "the command is ready", func() bool { return read(t, filepath.Join(dir, "log")) != "" })
			pid := strings.Fields(read(t, filepath.Join(dir, "pid")))[0]
			state, err := job.Stop(testContext(t), test.grace)
			if err != nil || state.Phase != JobStopped || state.Status != test.status {
				t.Errorf("%+v, %v", state, err)
			}
			group, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing of it is left", func() bool {
				return errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
			})
		})
	}
}

// A job that is killed, or whose machine went down, is told from one that
// ended.
func TestLostJob(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	dir := filepath.Join(t.TempDir(), "job")
	job, err := c.StartJob(testContext(t), JobSpec{Dir: dir, Args: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, s, dir)
	state, err := job.State(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	// After a reboot its number is another process's.
	whole := read(t, filepath.Join(dir, "pid"))
	write(t, filepath.Join(dir, "pid"), fmt.Sprintf("%d 1 %s\n", os.Getpid(), strings.Fields(whole)[2]))
	if s, err := job.State(testContext(t)); err != nil || s.Phase != JobLost {
		t.Errorf("another process with its number: %+v, %v", s, err)
	}
	fields := strings.Fields(whole)
	write(t, filepath.Join(dir, "pid"), fields[0]+" "+fields[1]+" another-boot\n")
	if s, err := job.State(testContext(t)); err != nil || s.Phase != JobLost {
		t.Errorf("another boot: %+v, %v", s, err)
	}
	if _, err := job.Stop(testContext(t), 0); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(dir, "pid"), whole)
	if s, err := job.State(testContext(t)); err != nil || s.Phase != JobRunning {
		t.Fatalf("it was stopped in another's place: %+v, %v", s, err)
	}

	if err := syscall.Kill(-state.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	state, _, err = job.Follow(testContext(t), 0, &bytes.Buffer{})
	if err != nil || state.Phase != JobLost || state.Status != -1 {
		t.Errorf("%+v, %v", state, err)
	}
}

// Under systemd the job is a unit. No systemd runs here, so the invocation is
// checked against a stand-in that does what systemd-run would.
func TestJobUnderSystemd(t *testing.T) {
	opts := newOptions(t)
	srv := newServer(t, opts.Key)
	bin := t.TempDir()
	write(t, filepath.Join(bin, "systemd-run"), `#!/bin/sh
printf '%s\n' "$@" >"`+bin+`/called"
while [ "${1#--}" != "$1" ]; do shift; done
setsid "$@" </dev/null >/dev/null 2>&1 &
`)
	write(t, filepath.Join(bin, "sudo"), "#!/bin/sh\nshift\n[ \"$1\" != -- ] || shift\nexec \"$@\"\n")
	for _, name := range []string{"systemd-run", "sudo"} {
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := bin + ":/usr/sbin:/usr/bin:/sbin:/bin"
	srv.Env = "PATH=" + path
	srv.Start()
	s := site{srv, opts}
	dir := filepath.Join(t.TempDir(), "run.1")
	job, err := s.dial().StartJob(testContext(t), JobSpec{Dir: dir, Args: []string{"echo", "$x"}, systemd: bin})
	if err != nil {
		t.Fatal(err)
	}
	cleanUp(t, s, dir)
	var log bytes.Buffer
	state, _, err := job.Follow(testContext(t), 0, &log)
	if err != nil || state.Phase != JobExited || state.Manager != "systemd" || log.String() != "$x\n" {
		t.Errorf("%+v, %q, %v", state, log.String(), err)
	}
	want := fmt.Sprintf(`--quiet
--collect
--unit=%s
--uid=%d
--gid=%d
--property=KillMode=mixed
--property=TimeoutStopSec=60
--property=LimitNOFILE=64000
--setenv=HOME=%s
--setenv=PATH=%s
/bin/sh
%[6]s/run
%[6]s
`, unitName(dir), os.Getuid(), os.Getgid(), srv.Dir, path, dir)
	if got := read(t, filepath.Join(bin, "called")); got != want {
		t.Errorf("called with\n%s\nwant\n%s", got, want)
	}
}

func TestUnitName(t *testing.T) {
	for dir, want := range map[string]string{
		"/var/lib/sandbox/run.1/": "sandbox-job-var-lib-sandbox-run_1",
		"jobs/x":                  "sandbox-job-jobs-x",
	} {
		if got := unitName(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
	if got := unitName(strings.Repeat("a", 500)); len(got) > 200 {
		t.Errorf("%d bytes", len(got))
	}
}
