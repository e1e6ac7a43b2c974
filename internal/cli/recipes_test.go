package cli

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

// printedCommands are the command lines of sandbox in a report, as a shell
// reads them.
func printedCommands(t *testing.T, report string) [][]string {
	t.Helper()
	var commands [][]string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(report, -1) {
		script := `jq() { :; }; sandbox() { for word; do printf '%s\0' "$word"; done; printf '\n\0'; }` + "\n" + m[1]
		shell := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
		shell.Dir = t.TempDir() // it writes files
		if err := os.MkdirAll(filepath.Join(shell.Dir, "runs"), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := shell.Output()
		if err != nil {
			t.Fatalf("%v in\n%s", err, m[1])
		}
		for command := range strings.SplitSeq(strings.TrimSuffix(string(out), "\n\x00"), "\n\x00") {
			if command = strings.TrimSuffix(command, "\x00"); command != "" {
				commands = append(commands, strings.Split(command, "\x00"))
			}
		}
	}
	return commands
}

// The commands that a report prints are those of this program, and its bench
// line asks for the run that was reported: the flags that are not there have
// the defaults.
func TestReportsPrintCommandsThatParse(t *testing.T) {
	reports, err := filepath.Glob(filepath.Join("..", "report", "testdata", "*.md"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("%d reports, %v", len(reports), err)
	}
	for _, path := range reports {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var run struct {
				Run struct {
					Platform environment.Platform
					Order    string
					Settings record.Settings
					Sizes    []record.Size
				}
			}
			document, err := os.ReadFile(strings.TrimSuffix(path, "md") + "json")
			if err == nil {
				err = json.Unmarshal(document, &run)
			}
			if err != nil {
				t.Fatal(err)
			}
			benches := 0
			for _, args := range printedCommands(t, string(text)) {
				a := &app{console: &console.Console{Out: io.Discard, Err: io.Discard}, dir: t.TempDir(), now: time.Now}
				root := newRoot(a)
				o := &benchOptions{}
				command, rest, err := root.Find(doubleDashes(root, args))
				if err != nil {
					t.Errorf("%q: %v", args, err)
					continue
				}
				if command.Name() == "bench" {
					command = benchCommand(a, o)
				}
				if err = command.ParseFlags(rest); err == nil {
					err = command.ValidateArgs(command.Flags().Args())
				}
				if err != nil {
					t.Errorf("%q: %v", args, err)
				}
				if command.Name() != "bench" {
					continue
				}
				benches++
				var options bench.Options
				if err := o.describe(&options, run.Run.Platform); err != nil {
					t.Errorf("%q: %v", args, err)
					continue
				}
				if options.Settings.Rate != run.Run.Settings.Rate {
					// Another run, at a rate: all else is the same.
					if len(options.Sizes) != 1 || options.Settings.Rate < 1 {
						t.Errorf("%q: rate %v of %+v", args, options.Settings.Rate, options.Sizes)
					}
					options.Settings.Rate, options.Sizes = run.Run.Settings.Rate, run.Run.Sizes
				}
				if diff := cmp.Diff(run.Run.Settings, options.Settings); diff != "" {
					t.Errorf("%q asks for another run (-reported +asked):\n%s", args, diff)
				}
				if diff := cmp.Diff(run.Run.Sizes, options.Sizes); diff != "" || options.Order != run.Run.Order {
					t.Errorf("%q asks for other cells, or in the order %s (-reported +asked):\n%s", args, options.Order, diff)
				}
			}
			if benches == 0 {
				t.Error("no sandbox bench is printed")
			}
		})
	}
}
