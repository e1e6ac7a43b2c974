package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

func (c *Comparison) repeatSection() section {
	s := section{ID: "repeat", Title: "How to repeat it"}
	s.Blocks = append(s.Blocks, c.recipes()...)
	s.Blocks = append(s.Blocks, block{Table: c.settingsTable()})
	for i := range c.heads() {
		s.Blocks = append(s.Blocks, block{Table: c.fileTable(&c.heads()[i])})
	}
	if len(c.Fairness.Sequences) > 0 {
		prints := &sheet{
			Caption: "Commands sent to all targets of a size and iteration",
			Columns: []column{{Head: "size"}, {Head: "it.", Right: true}, {Head: "the same", Right: true}, {Head: "fingerprint", Whole: true}, {Head: "per worker", Right: true}},
			Note: "The same: so many commands on all targets, by the checkpoints of every worker as far as it came on each. " +
				"Fingerprint: of so many first commands per worker, as all of them came to; the checkpoints of some reach further.",
		}
		for _, q := range c.Fairness.Sequences {
			same := cell{Text: thousands(q.Commands)}
			if !q.Same {
				same = cell{Text: "NO", Tone: toneBad}
			} else if q.Commands == 0 {
				same = cell{Text: "unproven", Tone: toneCaution}
			}
			over := none
			if q.PerWorker > 0 {
				over = thousands(q.PerWorker)
			}
			prints.Rows = append(prints.Rows, row{Cells: []cell{
				{Text: c.Groups[q.Group].Label}, {Text: fmt.Sprint(q.Iteration)}, same, {Text: cmp.Or(q.Fingerprint, none)}, {Text: over},
			}})
		}
		s.Blocks = append(s.Blocks, block{Table: prints})
	}
	return s.withoutEmpty()
}

// settingsTable has a column for every run.
func (c *Comparison) settingsTable() *sheet {
	t := &sheet{Caption: "Settings", Columns: []column{{Head: "setting"}}}
	for i, head := range c.heads() {
		t.Columns = append(t.Columns, column{Head: head.Label, Wrap: true})
		c.settings(&head.Run, i, func(name, value string) {
			k := slices.IndexFunc(t.Rows, func(r row) bool { return r.Cells[0].Text == name })
			if k < 0 {
				k = len(t.Rows)
				t.Rows = append(t.Rows, row{Cells: []cell{{Text: name}}})
				for range c.heads() {
					t.Rows[k].Cells = append(t.Rows[k].Cells, cell{Text: none})
				}
			}
			t.Rows[k].Cells[i+1].Text = cmp.Or(value, none)
		})
	}
	return t
}

func (c *Comparison) settings(r *record.Run, run int, add func(name, value string)) {
	x := &r.Settings
	add("workload", x.Workload)
	add("seed", fmt.Sprint(x.Seed))
	add("workers", fmt.Sprint(x.Workers))
	add("ops-per-worker", thousands(x.OpsPerWorker))
	add("mix", mixText(x.Mix))
	add("insert-batch, find-batch, find-limit", fmt.Sprintf("%d, %d, %d", x.InsertBatch, x.FindBatch, x.FindLimit))
	add("duration, warm-up, pause between cells", fmt.Sprintf("%s, %s, %s", seconds(x.Duration.Seconds()), warmupText(x), durationText(r.Interval)))
	if x.Rate > 0 {
		add("rate", number(x.Rate)+" commands/s")
	}
	add("order", r.Order)
	add("read preference", x.ReadPreference)
	add("write concern", cmp.Or(x.WriteConcern, "the server's default"))
	add("op-timeout", timeoutText(x.OpTimeout))
	add("explain", onOff(x.Explain))
	add("record-outcomes", onOff(x.RecordOutcomes))
	add("tool", strings.TrimSpace(fmt.Sprintf("sandbox %s %s", r.Tool.Version, r.Tool.Commit)))
	add("built and run with", fmt.Sprintf("%s on %s/%s", r.Tool.GoVersion, r.Tool.OS, r.Tool.Arch))
	if m := r.LoadHost; m != (record.MachineFacts{}) {
		add("load host", machineText(m))
	}
	for i := range c.Targets {
		if v := c.Targets[i].GitVersion; v != "" && (c.Targets[i].Run == run || c.pool != nil) {
			add("git version of "+c.Targets[i].Name, v)
		}
	}
}

func (c *Comparison) fileTable(head *RunHead) *sheet {
	files := &sheet{Caption: "Input files; the record keeps a copy of each", Columns: []column{{Head: "file"}, {Head: "SHA-256", Whole: true}}}
	if len(c.Runs) > 0 {
		files.Caption = "Input files of run " + head.Label + "; the record keeps a copy of each"
	}
	for _, f := range head.Files {
		files.Rows = append(files.Rows, row{Cells: []cell{{Text: f.Name}, {Text: f.SHA256}}})
	}
	return files
}

// recipes are the whole way from nothing to this report, to be copied.
func (c *Comparison) recipes() []block {
	if len(c.Runs) == 0 {
		blocks := recipe(&c.Run, c.asked.flags())
		if len(blocks) > 0 && madeByBench(&c.Run) {
			blocks = append(blocks, block{Text: strings.TrimSpace(defaultsNote + " " + c.timeText())})
			blocks = slices.Concat(blocks, c.machinesRecipe(), c.rateRecipe(), c.fingerprintRecipe())
		}
		return blocks
	}
	compare := []string{"sandbox", "compare"}
	var blocks []block
	for i := range c.Runs {
		r := &c.Runs[i].Run
		blocks = append(blocks, block{Text: fmt.Sprintf("Run %s:", c.Runs[i].Label)})
		blocks = append(blocks, recipe(r, nil)...)
		compare = append(compare, r.ID)
	}
	blocks = append(blocks, block{Text: defaultsNote + " With all records in runs/:"}, block{Code: commandLines(append(compare, c.asked.flags()...))})
	return append(blocks, c.fingerprintRecipe()...)
}

// defaultsNote says why the commands do not show every setting.
const defaultsNote = "Flags that are not given, be it the seed, the workers or the mix, have the defaults of that version of sandbox: what they came to is under Settings."

// madeByBench tells a run of a bench from one of the load generator alone.
func madeByBench(r *record.Run) bool { return len(r.CommandLine) > 1 && r.CommandLine[1] == "bench" }

// recipe repeats one run and its report, which is asked for with flags.
func recipe(r *record.Run, flags []string) []block {
	if len(r.CommandLine) == 0 {
		return nil
	}
	show := commandLines(append([]string{"sandbox", "report"}, flags...))
	if !madeByBench(r) {
		return []block{{Code: append(commandLines(r.CommandLine), show...)}}
	}
	commands, up := upCommand(r)
	var blocks []block
	if len(r.Files) > 0 {
		commands = append(commands, commandLines(up)...)
		blocks = append(blocks, block{Text: "With this record in runs/ and sandbox " + cmp.Or(r.Tool.Version, "of the version below") +
			firstLines(len(r.Files)) + variablesNote(r.Variables)})
	}
	down := append([]string{"sandbox", "down"}, environmentFlag(r.Environment)...)
	return append(blocks, block{Code: slices.Concat(commands, commandLines(r.CommandLine), show, commandLines(down))})
}

func firstLines(files int) string {
	if files == 1 {
		return ". The first line writes the environment's file from the copy in the record"
	}
	return ". The first lines write the environment's files from the copies in the record"
}

// upCommand makes the run's environment from files that the first lines
// write.
func upCommand(r *record.Run) (files, up []string) {
	up = []string{"sandbox", "up"}
	named := "" // the environment, by the first file
	for i, f := range r.Files {
		name := path.Base(f.Name)
		if strings.HasPrefix(name, "-") {
			name = "./" + name
		}
		files = append(files, fmt.Sprintf("jq -j '.files[%d].text' %s > %s",
			i, shellQuote([]string{"runs/" + r.ID + "/run.json"}), shellQuote([]string{name})))
		up = append(up, "-var-file", name)
		if i == 0 {
			named = strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".tfvars")
		}
	}
	if r.Environment != "" && r.Environment != named {
		up = append(up, "-env", r.Environment)
	}
	if r.Platform != "" {
		up = append(up, "--platform", r.Platform)
	}
	return files, append(up, variableFlags(r.Variables)...)
}

// variableFlags set again what was set outside of files.
func variableFlags(variables []record.Variable) (flags []string) {
	for _, v := range variables {
		flags = append(flags, "-var", v.Name+"="+v.Value)
	}
	return flags
}

// variablesNote ends the sentence on where the environment comes from.
func variablesNote(variables []record.Variable) string {
	var secrets []string
	for _, v := range variables {
		if v.Sensitive {
			secrets = append(secrets, v.Name)
		}
	}
	switch {
	case variables == nil:
		return "; variables that were set outside of files are not among them."
	case len(secrets) > 0:
		return fmt.Sprintf("; -var sets what was set outside of files. What %s was set to is secret: fill it in.", list(secrets))
	case len(variables) > 0:
		return "; -var sets what was set outside of files."
	}
	return "; nothing was set outside of them."
}

func environmentFlag(name string) []string {
	if name == "" {
		return nil
	}
	return []string{"-env", name}
}

// fingerprintRecipe recomputes a fingerprint of this page without a server:
// that of a whole pass if there is one, else one that all targets share, else
// any.
func (c *Comparison) fingerprintRecipe() []block {
	var size, commands int64 // commands of every worker; 0 is the pass
	iteration, fingerprint := 0, ""
	take := func(complete bool) {
		i := slices.IndexFunc(c.Cells, func(v Cell) bool {
			return v.State == StateCounted && v.Result != nil && v.Result.Complete == complete && v.Result.Fingerprint != ""
		})
		if i < 0 {
			return
		}
		v := &c.Cells[i]
		size, iteration, fingerprint = v.Size, v.Iteration, v.Result.Fingerprint
		if !complete {
			commands = v.Result.FingerprintCommands
		}
	}
	take(true)
	if i := slices.IndexFunc(c.Fairness.Sequences, func(q Sequence) bool { return q.Fingerprint != "" }); fingerprint == "" && i >= 0 {
		q := &c.Fairness.Sequences[i]
		size, iteration, fingerprint, commands = c.Groups[q.Group].Size, q.Iteration, q.Fingerprint, q.PerWorker
	}
	if fingerprint == "" {
		take(false)
	}
	if fingerprint == "" {
		return []block{{Text: "No worker sent enough commands for a fingerprint that `sandbox workload fingerprint` could recompute; with a longer --duration there is one."}}
	}
	what := "the whole pass"
	first := []string{"sandbox", "workload", "fingerprint", "--size", fmt.Sprint(size), "--iteration", fmt.Sprint(c.runIteration(size, iteration))}
	if commands > 0 {
		what = fmt.Sprintf("every worker's first %s commands", thousands(commands))
		first = append(first, "--commands", fmt.Sprint(commands))
	}
	command := c.workloadCommand(first)
	text := fmt.Sprintf("Whether sandbox still makes the same commands can be checked without any server. This makes the commands of %s at %s documents, iteration %d, once more and prints their fingerprint, which was %s",
		what, thousands(size), c.runIteration(size, iteration), fingerprint)
	if len(c.Fairness.Sequences) > 1 {
		text += ". The other fingerprints of the table that ends this page are checked likewise, with their --size and --iteration, and --commands where they are over fewer than the pass"
	}
	return []block{
		{Text: text + ":"},
		{Code: command},
	}
}

// workloadCommand is the lines of a `sandbox workload` command with all that
// defines the sequence besides what first says.
func (c *Comparison) workloadCommand(first []string) []string {
	x := &c.Run.Settings
	parts := [][]string{
		first,
		{"  --workload", x.Workload, "--seed", fmt.Sprint(x.Seed), "--workers", fmt.Sprint(x.Workers), "--ops-per-worker", fmt.Sprint(x.OpsPerWorker)},
		{"  --mix", mixText(x.Mix)},
		{"  --insert-batch", fmt.Sprint(x.InsertBatch), "--find-batch", fmt.Sprint(x.FindBatch), "--find-limit", fmt.Sprint(x.FindLimit)},
	}
	lines := make([]string, len(parts))
	for i, part := range parts {
		lines[i] = part[0] + " " + shellQuote(part[1:])
		if i < len(parts)-1 {
			lines[i] += " \\"
		}
	}
	return lines
}

func durationText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return seconds(d.Seconds())
}

func timeoutText(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return timeLimit(d.Seconds())
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func warmupText(s *record.Settings) string {
	if s.WarmupCommands > 0 {
		return thousands(s.WarmupCommands) + " commands"
	}
	return durationText(s.Warmup)
}

func machineText(m record.MachineFacts) string {
	var parts []string
	if m.CPUs > 0 {
		parts = append(parts, plural(m.CPUs, "CPU", "CPUs"))
	}
	for _, s := range []string{memoryText(m), m.CPUModel, m.OS, m.Kernel} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ")
}

// shellQuote writes a command line so that a POSIX shell reads it back.
func shellQuote(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		plain := a != "" && !strings.ContainsFunc(a, func(r rune) bool {
			letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
			return !letter && !strings.ContainsRune("-_./:=,@%+", r)
		})
		if plain {
			quoted[i] = a
		} else {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
