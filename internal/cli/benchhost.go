package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

// dialer connects to a machine of an environment.
type dialer func(ctx context.Context, machine string) (*remote.Conn, error)

// remoteBench says how a bench runs on the load host of an environment.
func (a *app) remoteBench(inventory *environment.Inventory, dial dialer) (bench.Remote, error) {
	machine := ""
	for _, m := range inventory.Machines {
		if m.Role == environment.LoadHost {
			machine = m.Name
		}
	}
	if machine == "" {
		return bench.Remote{}, fail(exitUsage, fmt.Errorf("environment %s has no load host", inventory.Environment),
			"set enable_ycsb or enable_plgm in the variable file and run `sandbox up` again")
	}
	reached := false
	return bench.Remote{
		Dial: func(ctx context.Context) (bench.Host, error) {
			conn, err := dial(ctx, machine)
			var auth *remote.AuthError
			if reached && errors.As(err, &auth) {
				// A machine that is just starting may let nobody in.
				err = &startingError{err}
			}
			if err != nil {
				return nil, err
			}
			reached = true
			return &loadHost{conn}, nil
		},
		Lost:         connectionLost,
		Program:      func(system, machine string) (string, error) { return programFor(a.executable, system, machine) },
		JobCommand:   []string{"bench", "job"},
		CheckCommand: []string{"--version"},
	}, nil
}

// startingError is a refusal by a machine that has let us in before.
type startingError struct{ err error }

func (e *startingError) Error() string { return e.err.Error() }
func (e *startingError) Unwrap() error { return e.err }

// connectionLost tells what another connection may mend.
func connectionLost(err error) bool {
	var lost *remote.LostError
	var unreachable *remote.UnreachableError
	var starting *startingError
	return errors.As(err, &lost) || errors.As(err, &unreachable) || errors.As(err, &starting)
}

// programFor finds the build of this program for a machine, whose uname says
// system and machine: this program itself, else one that `make dist` has
// left beside it or in the dist folder of its source.
func programFor(executable, system, machine string) (string, error) {
	arch, known := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[machine]
	if system != "Linux" || !known {
		return "", fail(exitUsage, fmt.Errorf("there is no build of this program for %s %s", system, machine), "use an x86_64 or arm64 machine type for the load host")
	}
	if runtime.GOOS == "linux" && runtime.GOARCH == arch {
		return executable, nil
	}
	name := "sandbox-linux-" + arch
	dir := filepath.Dir(executable)
	for _, path := range []string{
		filepath.Join(dir, name), filepath.Join(dir, "dist", name), filepath.Join(dir, "..", "dist", name),
	} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fail(exitUsage, fmt.Errorf("the load host needs the build of this program for linux/%s, which is not beside %s", arch, executable),
		fmt.Sprintf("build it with `GOOS=linux GOARCH=%s CGO_ENABLED=0 go build -o dist/%s ./cmd/sandbox`", arch, name))
}

// loadHost is a connection as bench needs it.
type loadHost struct{ conn *remote.Conn }

func (h *loadHost) Close() error { return h.conn.Close() }

func (h *loadHost) Output(ctx context.Context, script string, args ...string) (string, error) {
	return h.conn.Output(ctx, remote.Command{Name: "load host", Script: script, Args: args})
}

func (h *loadHost) Put(ctx context.Context, local, path string) error {
	_, err := h.conn.CopyTo(ctx, local, path, remote.CopyOptions{Mode: 0o755})
	return err
}

func (h *loadHost) Write(ctx context.Context, path string, data []byte) error {
	_, err := h.conn.WriteFile(ctx, path, data, remote.CopyOptions{Mode: 0o600})
	return err
}

func (h *loadHost) Get(ctx context.Context, path, local string) error {
	return h.conn.CopyFrom(ctx, path, local, remote.CopyOptions{Mode: 0o644})
}

func (h *loadHost) Start(ctx context.Context, dir string, args []string) error {
	_, err := h.conn.StartJob(ctx, remote.JobSpec{Dir: dir, Args: args})
	return err
}

func (h *loadHost) State(ctx context.Context, dir string) (bench.JobState, error) {
	_, state, err := h.conn.Attach(ctx, dir)
	var none *remote.NoJobError
	if errors.As(err, &none) {
		return bench.JobState{}, nil
	}
	return jobState(state), err
}

func jobState(s remote.JobState) bench.JobState {
	return bench.JobState{Phase: bench.JobPhase(s.Phase), LogSize: s.LogSize}
}

func (h *loadHost) Stop(ctx context.Context, dir string, grace time.Duration) error {
	job, _, err := h.conn.Attach(ctx, dir)
	if err != nil {
		return err
	}
	_, err = job.Stop(ctx, grace)
	return err
}

func (h *loadHost) Follow(ctx context.Context, dir string, offset int64, w io.Writer) (bench.JobState, int64, error) {
	job, _, err := h.conn.Attach(ctx, dir)
	if err != nil {
		return bench.JobState{}, 0, err
	}
	state, written, err := job.Follow(ctx, offset, w)
	return jobState(state), written, err
}
