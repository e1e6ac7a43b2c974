package bench

import (
	"context"
	"path"
	"strings"
)

// BusyError says that a run is under way on the load host: a second one would
// measure the first, and what changes its machines would be measured by it.
type BusyError struct {
	Run string // its ID
}

func (e *BusyError) Error() string {
	return "run " + e.Run + " is under way on the load host"
}

// UnderWay looks for a run on the load host and changes nothing there. The
// error is a *BusyError while there is one; any other says that the load host
// could not be asked. A run whose targets are all down, or whose machine went
// down, has ended.
func UnderWay(ctx context.Context, r Remote) error {
	r = r.withDefaults()
	host, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = host.Close() }()
	said, err := host.Output(ctx, "set -eu\ncd\ncd -- \"$1/jobs\" 2>/dev/null || exit 0\npwd -P\n"+listJobs, r.Dir)
	if err != nil || said == "" {
		return err
	}
	dir, names, _ := strings.Cut(said, "\n")
	return alone(ctx, host, jobsIn(dir, strings.Split(names, "\n")))
}

// listJobs prints the names of the jobs in the working directory, one a line.
const listJobs = `for job in */; do
	if [ -d "$job" ]; then printf '%s\n' "${job%/}"; fi
done`

// jobsIn are the folders of the jobs that listJobs has printed, over or not.
func jobsIn(dir string, names []string) []string {
	var jobs []string
	for _, name := range names {
		if name != "" && !strings.HasSuffix(name, ".copy") {
			jobs = append(jobs, path.Join(dir, name))
		}
	}
	return jobs
}

// alone returns a *BusyError if one of the jobs is running.
func alone(ctx context.Context, host Host, jobs []string) error {
	for _, job := range jobs {
		state, err := host.State(ctx, job)
		if err != nil {
			return err
		}
		if state.Phase == JobRunning {
			return &BusyError{Run: path.Base(job)}
		}
	}
	return nil
}
