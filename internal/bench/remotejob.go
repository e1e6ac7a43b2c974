package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// jobFile is what a run on the load host is told. It holds passwords: it is
// written with mode 0600, and the job removes it as soon as it has read it.
type jobFile struct {
	ID          string             `json:"id"`
	RunsDir     string             `json:"runs_dir"`
	Environment string             `json:"environment"`
	Platform    string             `json:"platform"`
	CommandLine []string           `json:"command_line"`
	Files       []record.InputFile `json:"files"`
	Variables   []record.Variable  `json:"variables"`
	Settings    record.Settings    `json:"settings"`
	Sizes       []record.Size      `json:"sizes"`
	Order       string             `json:"order"`
	Baseline    string             `json:"baseline"`
	Targets     []jobTarget        `json:"targets"`
	Interval    time.Duration      `json:"interval_ns"`
	Reruns      int                `json:"reruns"`
}

// jobTarget is a Target with its password in the open: a secret.Text does
// not survive being written down.
type jobTarget struct {
	Target   Target `json:"target"`
	Password string `json:"password"`
}

func encodeJob(o Options) ([]byte, error) {
	job := jobFile{
		ID: o.ID, RunsDir: o.RunsDir, Environment: o.Environment, Platform: o.Platform, CommandLine: o.CommandLine,
		Files: o.Files, Variables: o.Variables, Settings: o.Settings, Sizes: o.Sizes, Order: o.Order, Baseline: o.Baseline,
		Interval: o.Interval, Reruns: o.Reruns,
	}
	for _, t := range o.Targets {
		job.Targets = append(job.Targets, jobTarget{Target: t, Password: t.Password.Reveal()})
	}
	return json.Marshal(job)
}

func decodeJob(data []byte) (Options, error) {
	var job jobFile
	if err := json.Unmarshal(data, &job); err != nil {
		return Options{}, err
	}
	o := Options{
		ID: job.ID, RunsDir: job.RunsDir, Environment: job.Environment, Platform: job.Platform, CommandLine: job.CommandLine,
		Files: job.Files, Variables: job.Variables, Settings: job.Settings, Sizes: job.Sizes, Order: job.Order, Baseline: job.Baseline,
		Interval: job.Interval, Reruns: job.Reruns,
	}
	for _, t := range job.Targets {
		t.Target.Password = secret.New(t.Password)
		o.Targets = append(o.Targets, t.Target)
	}
	return o, nil
}

// jobLine is a line of a job's log: an event, or how the run ended.
type jobLine struct {
	Event *Event  `json:"event,omitempty"`
	End   *jobEnd `json:"end,omitempty"`
}

// jobEnd says how a run ended.
type jobEnd struct {
	Error       string       `json:"error,omitempty"`
	Interrupted bool         `json:"interrupted,omitempty"`
	Down        []downTarget `json:"down,omitempty"`
	Skipped     int          `json:"skipped,omitempty"`
}

type downTarget struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// RunJob is the load host's half of RunRemote: it reads the job file, which
// is gone then, starts the run it describes or goes on with it, and writes
// events to log until the run ends.
func RunJob(ctx context.Context, file string, tool record.Tool, runner Runner, log io.Writer) error {
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.Remove(file)
	}
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	o, err := decodeJob(data)
	if err != nil {
		return fmt.Errorf("read job %s: %w", file, err)
	}
	o.Tool, o.Runner = tool, runner
	dir := filepath.Join(o.RunsDir, o.ID)
	if _, err := os.Stat(filepath.Join(dir, runFile)); err == nil {
		o.Resume = dir
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read job: %w", err)
	}
	lines := &jobLog{to: json.NewEncoder(log), every: min(max(o.Settings.Duration/100, 200*time.Millisecond), 2*time.Second)}
	o.Progress = lines.event
	result, err := Run(ctx, o)
	lines.end(result, err)
	return err
}

// jobLog writes what happens, and of what repeats itself only now and then:
// who reads along pays for every line.
type jobLog struct {
	to    *json.Encoder
	every time.Duration
	last  Event
	at    time.Time
}

// event is called by one goroutine at a time. What cannot be written is
// nobody's loss but the spectators'.
func (l *jobLog) event(e Event) {
	now := time.Now()
	repeated := e.Phase == l.last.Phase && e.Cell == l.last.Cell && e.Attempt == l.last.Attempt
	if repeated && now.Sub(l.at) < l.every && (e.Phase == Running || e.Phase == Seeding && e.Seeded < e.Documents) {
		return
	}
	l.last, l.at = e, now
	if e.Outcome != nil { // without its histograms: the record has them
		outcome := *e.Outcome
		outcome.Operations = nil
		e.Outcome = &outcome
	}
	_ = l.to.Encode(jobLine{Event: &e})
}

func (l *jobLog) end(result *Result, err error) {
	end := &jobEnd{}
	if result != nil {
		end.Skipped = result.Skipped
	}
	if err != nil {
		end.Error = record.Redact(err.Error())
		end.Interrupted = errors.Is(err, context.Canceled)
		var down *DownError
		if errors.As(err, &down) {
			for i, name := range down.Targets {
				end.Down = append(end.Down, downTarget{Name: name, Reason: record.Redact(down.causes[i].Error())})
			}
		}
	}
	_ = l.to.Encode(jobLine{End: end})
}

// error is the run's error as it was there.
func (e *jobEnd) error() error {
	switch {
	case e.Error == "":
		return nil
	case e.Interrupted:
		return &interruptedError{context.Canceled}
	case len(e.Down) > 0:
		down := &DownError{}
		for _, t := range e.Down {
			down.Targets = append(down.Targets, t.Name)
			down.causes = append(down.causes, errors.New(t.Reason))
		}
		return down
	}
	return fmt.Errorf("on the load host: %s", e.Error)
}
