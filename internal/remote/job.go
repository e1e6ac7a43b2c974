package remote

import (
	"context"
	_ "embed" // the scripts that run on the machine
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The scripts' first lines say what they take and print.
var (
	//go:embed job_start.sh
	jobStartScript string
	//go:embed job_run.sh
	jobRunScript string
	//go:embed job_alive.sh
	jobAliveScript string
	//go:embed job_state.sh
	jobStateScript string
	//go:embed job_follow.sh
	jobFollowScript string
	//go:embed job_stop.sh
	jobStopScript string
)

// JobSpec is a command to run detached from the connection that starts it.
type JobSpec struct {
	// Dir is the directory, on the machine, that the job keeps its log and
	// state in and runs in. It must not exist; its name identifies the job.
	// A relative one is below the login directory. Only letters, digits and
	// "._-/" are allowed.
	Dir string
	// Args are the words of the command. They are kept in a file of mode
	// 0600 and seen by other users of the machine: no secrets.
	Args []string

	systemd string // where a booted systemd shows; set by tests
}

// Job is a detached command on a machine. It belongs to its directory, not to
// the connection: any later Conn can attach to it.
type Job struct {
	conn *Conn
	dir  string
}

// JobPhase says how far a job is.
type JobPhase string

// The phases of a job.
const (
	// JobRunning: its command runs.
	JobRunning JobPhase = "running"
	// JobExited: its command ended by itself and left an exit status.
	JobExited JobPhase = "exited"
	// JobStopped: it ended because Stop asked it to.
	JobStopped JobPhase = "stopped"
	// JobLost: it is gone and left no exit status. It was killed, or its
	// machine went down, or it never started.
	JobLost JobPhase = "lost"
)

// JobState is what a machine says of a job.
type JobState struct {
	Phase   JobPhase
	Status  int    // exit status, -1 if there is none
	PID     int    // of the process that waits for the command
	Manager string // "systemd" or "setsid"
	LogSize int64
}

// Ended reports whether the job is over.
func (s JobState) Ended() bool { return s.Phase != JobRunning }

var jobDir = regexp.MustCompile(`^[A-Za-z0-9_./][A-Za-z0-9_./-]*$`)

// StartJob starts a command that survives the connection: in a unit of its own
// under systemd where the machine runs that and we may (as root, or with sudo
// that asks for no password), else in a session of its own. Its output goes to
// its log, its input is empty, and it runs as the login user in any case.
//
// When the connection is lost while StartJob runs, the job may have started:
// Attach says. Starting it a second time is a *JobExistsError.
func (c *Conn) StartJob(ctx context.Context, spec JobSpec) (*Job, error) {
	job, err := c.startJob(ctx, spec)
	if err != nil {
		return nil, wrap(c.machine, err)
	}
	return job, nil
}

func (c *Conn) startJob(ctx context.Context, spec JobSpec) (*Job, error) {
	if !jobDir.MatchString(spec.Dir) {
		return nil, fmt.Errorf("start job: directory %q has characters other than letters, digits and ._-/", spec.Dir)
	}
	if len(spec.Args) == 0 {
		return nil, errors.New("start job: no command given")
	}
	words, err := Quote(spec.Args...)
	if err != nil {
		return nil, fmt.Errorf("start job: %w", err)
	}
	systemd := spec.systemd
	if systemd == "" {
		systemd = "/run/systemd/system"
	}
	dir, err := c.output(ctx, Command{
		Name: "start job", Script: jobStartScript,
		Args: []string{spec.Dir, unitName(spec.Dir), jobRunScript, "set -- " + words, systemd},
	})
	var exit *ExitError
	if errors.As(err, &exit) && exit.Status == jobExistsStatus {
		return nil, &JobExistsError{Dir: spec.Dir}
	}
	if err != nil {
		return nil, err
	}
	return &Job{conn: c, dir: dir}, nil
}

// Exit statuses of the scripts.
const (
	jobExistsStatus = 73
	noJobStatus     = 66
)

// unitName names a job's unit after its directory.
func unitName(dir string) string {
	name := strings.Trim(strings.NewReplacer("/", "-", ".", "_").Replace(dir), "-")
	if len(name) > 180 { // of the 255 that systemd allows
		name = name[len(name)-180:]
	}
	return "sandbox-job-" + name
}

// Attach returns the job in a directory of the machine and its state, or a
// *NoJobError.
func (c *Conn) Attach(ctx context.Context, dir string) (*Job, JobState, error) {
	j := &Job{conn: c, dir: dir}
	state, err := j.State(ctx)
	if err != nil {
		return nil, JobState{}, err
	}
	return j, state, nil
}

// Dir returns the job's directory on the machine.
func (j *Job) Dir() string { return j.dir }

// State asks the machine how far the job is.
func (j *Job) State(ctx context.Context) (JobState, error) {
	state, err := j.state(ctx)
	return state, wrap(j.conn.machine, err)
}

func (j *Job) state(ctx context.Context) (JobState, error) {
	out, err := j.output(ctx, "job state", jobStateScript)
	if err != nil {
		return JobState{}, err
	}
	state := JobState{Status: -1}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch name {
		case "phase":
			state.Phase = JobPhase(value)
		case "manager":
			state.Manager = value
		case "pid":
			state.PID, err = strconv.Atoi(value)
		case "status":
			state.Status, err = strconv.Atoi(value)
		case "log":
			state.LogSize, err = strconv.ParseInt(value, 10, 64)
		}
		if err != nil {
			return JobState{}, fmt.Errorf("job state: %w", err)
		}
	}
	if state.Phase == "" {
		return JobState{}, fmt.Errorf("job state: unexpected answer %q", out)
	}
	return state, nil
}

// Follow writes the job's log to w, from a byte offset on and as it grows,
// until the job ends, and returns its state. The offset to go on from after an
// error is the old one plus written.
func (j *Job) Follow(ctx context.Context, offset int64, w io.Writer) (state JobState, written int64, err error) {
	counter := &countingWriter{to: w}
	err = j.command(ctx, Command{
		Name: "follow job", Script: jobAliveScript + jobFollowScript,
		Args: []string{j.dir, strconv.FormatInt(offset+1, 10)}, Stdout: counter,
	})
	if err == nil {
		state, err = j.state(ctx)
	}
	return state, counter.n, wrap(j.conn.machine, err)
}

// Stop asks the job to end with SIGTERM, and after a grace period makes it,
// and returns when it is over. A job that is over already stays as it is.
func (j *Job) Stop(ctx context.Context, grace time.Duration) (JobState, error) {
	tenths := strconv.FormatInt(int64(max(grace, 0)/(100*time.Millisecond)), 10)
	_, err := j.output(ctx, "stop job", jobStopScript, tenths)
	if err != nil {
		return JobState{}, wrap(j.conn.machine, err)
	}
	return j.State(ctx)
}

// output runs one of the scripts that need to know whether the job is alive.
func (j *Job) output(ctx context.Context, name, script string, args ...string) (string, error) {
	var out strings.Builder
	err := j.command(ctx, Command{
		Name: name, Script: jobAliveScript + script, Args: append([]string{j.dir}, args...), Stdout: &out,
	})
	return strings.TrimSpace(out.String()), err
}

func (j *Job) command(ctx context.Context, cmd Command) error {
	if !jobDir.MatchString(j.dir) {
		return &NoJobError{Dir: j.dir}
	}
	err := j.conn.run(ctx, cmd)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Status == noJobStatus {
		return &NoJobError{Dir: j.dir}
	}
	return err
}

type countingWriter struct {
	to io.Writer
	n  int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	return n, err
}
