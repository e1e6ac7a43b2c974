package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

var ansi = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestTextFitsAndColourIsOnlyAsked(t *testing.T) {
	for _, s := range scenarios(t) {
		c := build(t, s.input)
		plain := string(render(t, FormatText, c))
		for _, width := range []int{100, 80} {
			var b bytes.Buffer
			if err := RenderText(&b, c, TextOptions{Width: width}); err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(b.String(), "\n") {
				// Tables of numbers need 100 columns; commands and digests
				// are to be copied whole.
				if n := utf8.RuneCountInString(line); n > 100 {
					t.Errorf("%s at %d: line %d has %d columns: %s", s.name, width, i+1, n, line)
				}
				if strings.TrimRight(line, " ") != line {
					t.Errorf("%s: line %d ends in spaces", s.name, i+1)
				}
			}
		}
		if strings.Contains(plain, "\x1b") {
			t.Errorf("%s: escape codes without being asked", s.name)
		}
		var b bytes.Buffer
		if err := RenderText(&b, c, TextOptions{Color: true}); err != nil {
			t.Fatal(err)
		}
		trimmed := regexp.MustCompile(`(?m) +$`).ReplaceAllString(ansi.ReplaceAllString(b.String(), ""), "")
		if !strings.Contains(b.String(), "\x1b[") || trimmed != plain {
			t.Errorf("%s: colour changes more than colour", s.name)
		}
	}
}

func TestSameRecordSameBytes(t *testing.T) {
	in := troubled(t)
	want := map[string][]byte{}
	for range 5 {
		c := build(t, in)
		for _, format := range Formats() {
			got := render(t, format, c)
			if want[format] == nil {
				want[format] = got
			}
			if !bytes.Equal(got, want[format]) {
				t.Fatalf("%s differs between two reports of one record", format)
			}
		}
	}
}

func TestBannerInEveryFormat(t *testing.T) {
	c := build(t, standIn(t))
	for _, format := range Formats() {
		got := strings.ReplaceAll(string(render(t, format, c)), `\-`, "-")
		if !strings.Contains(got, "EMBEDDED ENGINE: THESE NUMBERS SAY NOTHING ABOUT MONGODB") {
			t.Errorf("%s: no banner", format)
		}
		if format != FormatCSV && !strings.Contains(got, "requested 9.0.4, actual 0.1.0-sandbox-embedded") {
			t.Errorf("%s: versions are not apart", format)
		}
	}
	c = build(t, troubled(t))
	for _, format := range Formats() {
		if strings.Contains(string(render(t, format, c)), "EMBEDDED ENGINE") {
			t.Errorf("%s: banner on MongoDB's own numbers", format)
		}
	}
}

func TestMixedEnginesAreUnfair(t *testing.T) {
	in := standIn(t)
	in.Run.Targets = slices.Clone(in.Run.Targets)
	in.Run.Targets[0].Engine = record.EngineMongod
	c := build(t, in)
	if c.Fairness.Fair || len(c.Banner()) != 4 {
		t.Errorf("fair %v, banner %q", c.Fairness.Fair, c.Banner())
	}
}

func (c *Comparison) check(name string) Check {
	for _, check := range c.Fairness.Checks {
		if check.Name == name {
			return check
		}
	}
	return Check{}
}

func TestDifferentCommandsAreNeverPutSideBySide(t *testing.T) {
	c := build(t, troubled(t))
	for _, d := range c.Differences {
		if d.Target == "d-other-commands" || d.Target == "c-died" && c.Groups[d.Group].Size == 1_000_000 {
			t.Errorf("compared: %+v", d)
		}
	}
	for _, l := range c.Timelines {
		if l.Target == "d-other-commands" {
			t.Error("drawn beside the others")
		}
	}
	check := c.check("Commands")
	if check.Status != Unfair || !strings.Contains(check.Text, "find-batch: 10 and 20") || !strings.Contains(check.Text, "worker 5, commands 17,001 to 18,000") {
		t.Errorf("%+v", check)
	}
}

func TestFingerprintPrefix(t *testing.T) {
	c := build(t, published(t))
	var last Sequence
	for _, s := range c.Fairness.Sequences {
		if !s.Same {
			t.Errorf("%+v", s)
		}
		last = s
	}
	// No target finished the pass at 8M: the shortest chain of each worker
	// counts, and the fingerprint covers what all workers have of that.
	in := published(t)
	chains, err := in.find(t, "mongo9", 8_000_000, 1).Checkpoints()
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := chains.Fingerprint(digest(uint64(178477), int64(8_000_000), 1), last.PerWorker); !ok || last.Fingerprint != want {
		t.Errorf("fingerprint %s, want %s", last.Fingerprint, want)
	}
	if last.Commands <= 16*last.PerWorker || last.Commands >= 4_000_000 || last.PerWorker%1000 != 0 || last.PerWorker == 0 {
		t.Errorf("%+v", last)
	}
	if first := c.Fairness.Sequences[0]; first.Commands != 4_000_000 || first.PerWorker != 250_000 || first.Fingerprint == "" {
		t.Errorf("%+v", first)
	}
}

func TestTooShortToProve(t *testing.T) {
	in := standIn(t)
	for i := range in.Cells {
		in.Cells[i].Checkpoints = func() (record.Checkpoints, error) { return record.Checkpoints{}, nil }
		in.Cells[i].Cell.FingerprintCommands = 0
		in.Cells[i].Cell.Fingerprint = ""
	}
	c := build(t, in)
	if check := c.check("Commands"); check.Status != Caution || !strings.Contains(check.Text, "too few commands") {
		t.Errorf("%+v", check)
	}
}

// shortRun is a run whose workers came nowhere near their first checkpoint:
// those of a sent 797, 796, … commands, those of b 652, 653, ….
func shortRun(t testing.TB) Input {
	in := small(t)
	in.Run.Settings.OpsPerWorker = 250_000
	for i := range in.Cells {
		c := &in.Cells[i]
		c.Cell.Complete = false
		sent := func(w int) int64 {
			if c.ID.Target == "a" {
				return 797 - int64(w)
			}
			return 652 + int64(w)
		}
		v := record.Checkpoints{Every: 1000, EarlyEvery: 10}
		state := func(w int, n int64) string { return digest(c.Cell.SequenceID, w, n) }
		least := int64(1000)
		for w := range in.Run.Settings.Workers {
			v.Workers = append(v.Workers, nil)
			var early []string
			for n := int64(10); n <= sent(w); n += 10 {
				early = append(early, state(w, n))
			}
			v.Early = append(v.Early, early)
			v.Last = append(v.Last, record.ChainEnd{Commands: sent(w), State: state(w, sent(w))})
			least = min(least, sent(w)/10*10)
		}
		c.Checkpoints = func() (record.Checkpoints, error) { return v, nil }
		c.Cell.FingerprintCommands = least
		c.Cell.Fingerprint, _ = v.Fingerprint(c.Cell.SequenceID, least)
	}
	return in
}

// Commands that are too few for a checkpoint are compared all the same.
func TestShortRun(t *testing.T) {
	c := build(t, shortRun(t))
	in := shortRun(t)
	want := in.find(t, "b", 1000, 1).Cell.Fingerprint // b sent fewer
	s := c.Fairness.Sequences[0]
	if !s.Same || s.PerWorker != 650 || s.Fingerprint != want || s.Problem != "" {
		t.Errorf("%+v, want the first 650 commands of every worker and %s", s, want)
	}
	if total := int64(8*650 + 8*660); s.Commands != total {
		t.Errorf("proven over %d commands, want %d", s.Commands, total)
	}
	if check := c.check("Commands"); check.Status != OK || !strings.Contains(check.Text, "fingerprint covers the first 650 of every worker") {
		t.Errorf("%+v", check)
	}
	text := strings.Join(strings.Fields(string(render(t, FormatText, c))), " ")
	if !strings.Contains(text, "--commands 650") || !strings.Contains(text, want) {
		t.Error("how to compute the fingerprint again is not told")
	}

	// Whoever ends after as many commands is compared to the last of them.
	in = shortRun(t)
	for iteration := 1; iteration <= 2; iteration++ {
		a, b := in.find(t, "a", 1000, iteration), in.find(t, "b", 1000, iteration)
		v, _ := a.Checkpoints()
		b.Checkpoints = func() (record.Checkpoints, error) { return v, nil }
		b.Cell.FingerprintCommands, b.Cell.Fingerprint = a.Cell.FingerprintCommands, a.Cell.Fingerprint
	}
	total := int64(0)
	for w := range int64(16) {
		total += 797 - w
	}
	if s := build(t, in).Fairness.Sequences[0]; !s.Same || s.Commands != total || s.PerWorker != 780 {
		t.Errorf("%+v, want %d commands", s, total)
	}

	// And a difference is found, and where.
	in = shortRun(t)
	b := in.find(t, "b", 1000, 1)
	v, _ := b.Checkpoints()
	v.Early = slices.Clone(v.Early)
	v.Early[5] = slices.Clone(v.Early[5])
	for i := 42; i < len(v.Early[5]); i++ {
		v.Early[5][i] = digest("another", i)
	}
	b.Checkpoints = func() (record.Checkpoints, error) { return v, nil }
	if s := build(t, in).Fairness.Sequences[0]; s.Same || !strings.Contains(s.Problem, "worker 5, commands 421 to 430, on") {
		t.Errorf("%+v", s)
	}
}

func TestParityCauses(t *testing.T) {
	causes := func(c *Comparison) map[string]Cause {
		out := map[string]Cause{}
		for _, p := range c.Fairness.Parity {
			out[p.Fact] = p.Cause
		}
		return out
	}
	in := standIn(t)
	in.Run.Targets = slices.Clone(in.Run.Targets)
	for i := range in.Run.Targets {
		members := slices.Clone(in.Run.Targets[i].Members)
		for k := range members {
			members[k].Settings = map[string]string{
				"setParameter.default":             fmt.Sprint(i),     // nobody set it
				"setParameter.given":               fmt.Sprint(i / 2), // one target set it
				"wiredTiger.cache_bytes":           fmt.Sprint(1 + i%2),
				"buildInfo.allocator":              fmt.Sprint("a", i),
				"setParameter.same":                "1",
				fmt.Sprint("setParameter.only", i): "1",
			}
			if i == 2 {
				members[k].Settings["cmdLine.setParameter.given"] = "1"
			}
			members[k].Machine.MemoryMB += int64(k) // not a difference
		}
		// An arbiter's facts do not matter.
		members = append(members, record.MemberFacts{Role: "ARBITER", Version: "0", Machine: record.MachineFacts{CPUs: 1}})
		in.Run.Targets[i].Members = members
	}
	got := causes(build(t, in))
	for fact, want := range map[string]Cause{
		"setParameter.default": CauseVersion, "setParameter.given": CauseEnvironment, "wiredTiger.cache_bytes": CauseEnvironment,
		"buildInfo.allocator": CauseVersion, "setParameter.only1": CauseVersion, "distribution": CauseVersion,
	} {
		if got[fact] != want {
			t.Errorf("%s is %q, want %q", fact, got[fact], want)
		}
	}
	for _, fact := range []string{"setParameter.same", "memory", "CPUs", "version"} {
		if got[fact] != "" {
			t.Errorf("%s is listed as a difference", fact)
		}
	}
}

func TestJSONContract(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(render(t, FormatJSON, build(t, published(t))), &doc); err != nil {
		t.Fatal(err)
	}
	need := func(where string, v any, keys ...string) map[string]any {
		t.Helper()
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s is a %T", where, v)
		}
		for _, k := range keys {
			if _, ok := m[k]; !ok {
				t.Errorf("%s has no %q", where, k)
			}
		}
		return m
	}
	first := func(v any) any { return v.([]any)[0] }
	need("the document", doc, "schema_version", "run", "baseline", "targets", "cells", "comparisons", "fair", "warnings")
	need("run", doc["run"], "id", "started", "platform", "engine", "seed", "settings")
	need("targets[]", first(doc["targets"]), "name", "requested_version", "actual_version")
	cell := need("cells[]", first(doc["cells"]), "target", "size", "variant", "iteration", "valid", "complete", "fingerprint",
		"commands", "errors", "duration_s", "throughput_per_s", "latency_ms", "operations", "cpu_us_per_command")
	need("latency_ms", cell["latency_ms"], "mean", "p50", "p95", "p99", "p99_9", "max")
	operations := need("operations", cell["operations"], "find", "insertMany")
	need("operations.find", operations["find"], "count", "errors", "latency_ms")
	need("cpu_us_per_command", cell["cpu_us_per_command"], "primary", "secondary")
	comparison := need("comparisons[]", first(doc["comparisons"]), "target", "baseline", "size", "metric", "operation", "ratio", "low", "high", "verdict")
	if comparison["verdict"] != "slower" || comparison["metric"] != "throughput" || comparison["operation"] != "all" {
		t.Errorf("%v", comparison)
	}
	if doc["fair"] != true || len(doc["warnings"].([]any)) < 4 {
		t.Errorf("fair %v, warnings %v", doc["fair"], doc["warnings"])
	}
}

func TestCSV(t *testing.T) {
	c := build(t, troubled(t))
	rows, err := csv.NewReader(bytes.NewReader(render(t, FormatCSV, c))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(row []string, name string) string { return row[slices.Index(rows[0], name)] }
	cells := map[string]int{}
	for _, row := range rows[1:] {
		key := column(row, "target") + column(row, "size") + column(row, "iteration")
		cells[key]++
		if column(row, "counted") == "true" && column(row, "state") != string(StateCounted) {
			t.Errorf("%v", row)
		}
	}
	if cells["a-baseline1000001"] != 1+len(mixShares) || cells["c-died10000001"] != 1 {
		t.Errorf("rows per cell: %v", cells)
	}
}

// A record is untrusted input: nothing in it may become markup, a script, a
// terminal's escape sequence or a formula.
func TestHostileNames(t *testing.T) {
	in := standIn(t)
	evil := "=x<script>alert(1)</script>\x1b[31m\"'`|*\u202e"
	in.Run.Targets = slices.Clone(in.Run.Targets)
	old := in.Run.Targets[1].Name
	in.Run.Targets[1].Name, in.Run.Environment, in.Run.Sizes = evil, evil, []record.Size{{Documents: 1000, Label: evil, Iterations: 1 << 30}}
	in.Run.CommandLine = []string{"sandbox", evil}
	in.Run.Warnings = []string{evil}
	for i := range in.Cells {
		if in.Cells[i].ID.Target == old {
			in.Cells[i].ID.Target = evil
			in.Cells[i].Cell.Target = evil
			in.Cells[i].Cell.Errors, in.Cells[i].Cell.ErrorCodes = 1, map[string]int64{evil: 1}
			in.Cells[i].Explains = explains(explain("find", evil, 1, 1, 0, evil))
		}
	}
	c := build(t, in)
	for _, format := range Formats() {
		got := string(render(t, format, c))
		if strings.ContainsRune(got, '\x1b') {
			t.Errorf("%s: an escape character came through", format)
		}
		switch format {
		case FormatHTML, FormatMarkdown:
			// What stands in a block of code is no markup.
			got = regexp.MustCompile("(?s)```.*?```").ReplaceAllString(got, "")
			if strings.Contains(got, "<script>alert") {
				t.Errorf("%s: markup came through", format)
			}
		case FormatCSV:
			if regexp.MustCompile(`(?m)(^|,)"?=x`).MatchString(got) {
				t.Errorf("%s: a formula came through", format)
			}
		}
	}
}

func TestExtremeNumbers(t *testing.T) {
	for _, v := range []float64{-1, 0, 1e-300, 1e17, 1e300} {
		in := standIn(t)
		for i := range in.Cells {
			c := in.Cells[i].Cell
			c.ThroughputPerS, c.DurationS, c.LatencyMS = v, v, record.Latency{Mean: v, P50: v, P95: v, P99: v}
			c.CPUUSPerCommand = &record.CPUPerCommand{Primary: v, Secondary: v}
			in.Cells[i].Windows = values([]record.Window{{StartS: -v, EndS: v}, {StartS: v, EndS: v}})
			in.Cells[i].Intervals = values([]record.Interval{{StartS: -v, EndS: v}, {StartS: v, EndS: v * 2}})
		}
		c := build(t, in)
		for _, format := range Formats() {
			render(t, format, c)
		}
	}
}

// What else runs on the load host is told when it is much.
func TestForeignLoad(t *testing.T) {
	with := func(platform string, machine float64) Check {
		in := published(t)
		in.Run.Platform = platform
		for i := range in.Cells {
			in.Cells[i].Cell.Client.MachineCPUPercent = 23 // of which 21.25 are the load generator's
		}
		in.find(t, "psmdb80", 4_000_000, 1).Cell.Client.MachineCPUPercent = machine
		return build(t, bare(in)).check("Foreign load")
	}
	if check := with("gcp", 44); check.Status != Caution || !strings.Contains(check.Text, "up to 23 %") || !strings.Contains(check.Text, "1 cell: psmdb80 at 4M iteration 1") {
		t.Errorf("%+v", check)
	}
	for _, machine := range []float64{0, 21, 31} {
		if check := with("gcp", machine); check != (Check{}) {
			t.Errorf("%v %%: %+v", machine, check)
		}
	}
	// Each of several runs has a load host of its own.
	runs := []Input{week(t, 0, 1), week(t, 7, 1)}
	for i := range runs {
		runs[i].Run.LoadHost.CPUs = 16 / (i + 1)
		for k := range runs[i].Cells {
			client := &runs[i].Cells[k].Cell.Client
			client.CPUS, client.MachineCPUPercent = 17, 21.25 // 1.7 of 8 CPUs
			if i == 0 {
				client.MachineCPUPercent /= 2
			}
		}
	}
	if check := build(t, joined(t, nil, runs...)).check("Foreign load"); check != (Check{}) {
		t.Errorf("%+v", check)
	}
	runs[0].Run.Platform = "local"
	runs[1].Cells[0].Cell.Client.MachineCPUPercent = 60
	if check := build(t, joined(t, nil, runs...)).check("Foreign load"); check.Status != Caution || !strings.Contains(check.Text, "1 cell: a@20261113") {
		t.Errorf("%+v", check)
	}
	if check := with("local", 99); check != (Check{}) {
		t.Errorf("on the machine of the members: %+v", check)
	}
}

func TestOneTargetAndEmptyRun(t *testing.T) {
	in := standIn(t)
	in.Run.Targets = in.Run.Targets[:1]
	in.Cells = slices.DeleteFunc(in.Cells, func(c CellInput) bool { return c.ID.Target != in.Run.Targets[0].Name })
	c := build(t, in)
	if text := string(render(t, FormatText, c)); !strings.Contains(text, "one target: nothing to compare it with") {
		t.Errorf("%s", text)
	}
	in.Cells = nil
	in.Run.Finished = nil
	c = build(t, in)
	for _, format := range Formats() {
		render(t, format, c)
	}
	if c.Fairness.Fair || !strings.Contains(c.check("Cells").Text, "none of 6 cells counts") {
		t.Errorf("%+v", c.Fairness.Checks)
	}
	if _, err := Build(Input{}); err == nil {
		t.Error("a record without targets was compared")
	}
}

func TestHTMLNeedsNothingElse(t *testing.T) {
	for _, s := range scenarios(t) {
		page := string(render(t, FormatHTML, build(t, s.input)))
		if len(page) > 3<<20 {
			t.Errorf("%s: %d bytes", s.name, len(page))
		}
		for _, m := range regexp.MustCompile(`(?i)(?:src|href|action|data)="([^"]*)"|url\(([^)]*)\)|@import|https?://[^ <"]*`).FindAllStringSubmatch(page, -1) {
			if target := m[1] + m[2]; !strings.HasPrefix(target, "#") && target != "data:," {
				t.Errorf("%s: refers to %q", s.name, m[0])
			}
		}
		if !strings.Contains(page, "default-src 'none'") || strings.Contains(page, "ZgotmplZ") {
			t.Errorf("%s: no policy, or a value that the template refused", s.name)
		}
		ids := map[string]bool{}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if ids[m[1]] {
				t.Errorf("%s: id %q twice", s.name, m[1])
			}
			ids[m[1]] = true
		}
		if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s: a coordinate is no number", s.name)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	err := Render(&bytes.Buffer{}, "pdf", build(t, troubled(t)))
	if err == nil || !strings.Contains(err.Error(), "text, md, html, json, csv") {
		t.Errorf("%v", err)
	}
}

// write puts an input on disk as a run would.
func write(t testing.TB, in Input) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), in.Run.ID)
	w, err := record.Create(dir, in.Run)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range in.Cells {
		at := in.Run.Started
		cw, err := w.Begin(c.ID, at)
		must(err)
		for v, err := range c.Intervals {
			must(err)
			must(cw.Interval(v))
		}
		for v, err := range c.Windows {
			must(err)
			must(cw.Window(v))
		}
		if c.Samples != nil {
			for v, err := range c.Samples {
				must(err)
				must(cw.Sample(v))
			}
		}
		chains, err := c.Checkpoints()
		must(err)
		must(cw.Checkpoints(chains))
		if c.Explains != nil {
			list, err := c.Explains()
			must(err)
			must(cw.Explains(list))
		}
		writeOutcomes(t, &c, cw)
		switch {
		case c.Status != record.Partial:
			must(cw.Finish(*c.Cell, at))
		case c.Cell != nil:
			must(cw.Abandon(c.Cell, record.Interrupted, "", at))
		default:
			must(cw.Abandon(nil, record.CellFailed, in.Failed[AttemptKey{c.ID.String(), c.Attempt}], at))
		}
	}
	for _, t := range in.Run.Targets {
		if reason := in.Down[t.Name]; reason != "" {
			must(w.Log(record.Event{At: in.Run.Started, Event: record.TargetDown, Target: t.Name, Reason: reason}))
		}
	}
	must(w.Close())
	return dir
}

func TestLoadReadsWhatARunWrote(t *testing.T) {
	in := troubled(t)
	for i := range in.Cells {
		in.Cells[i].Settings = nil // a record has one set of settings
	}
	want := string(render(t, FormatText, build(t, in)))
	c, err := Load(write(t, in), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(render(t, FormatText, c)); got != want {
		t.Errorf("from disk:\n%s\nfrom memory:\n%s", got, want)
	}
	if _, err := Load(t.TempDir(), Options{}); err == nil {
		t.Error("a folder without a record was compared")
	}
}

// cpuSeconds is what this process has used of the CPU.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// What the last section says can be typed as it stands.
func TestRecipe(t *testing.T) {
	commands := func(change func(*record.Run)) string {
		in := standIn(t)
		in.Run.CommandLine = []string{"sandbox", "bench", "--sizes", "1k"}
		change(&in.Run)
		c := &Comparison{Run: in.Run}
		var lines []string
		for _, b := range recipe(&c.Run, nil) {
			lines = append(lines, b.Code...)
		}
		return strings.Join(lines, "\n")
	}
	for name, test := range map[string]struct {
		change func(*record.Run)
		want   string
	}{
		"files of other folders and names": {
			func(r *record.Run) {
				r.ID, r.Environment, r.Platform = "r1", "b", "local"
				r.Files = []record.InputFile{{Name: "some where/-a b.tfvars"}, {Name: "b.tfvars.json"}}
			}, `jq -j '.files[0].text' runs/r1/run.json > './-a b.tfvars'
jq -j '.files[1].text' runs/r1/run.json > b.tfvars.json
sandbox up -var-file './-a b.tfvars' -var-file b.tfvars.json -env b --platform local
sandbox bench --sizes 1k
sandbox report
sandbox down -env b`,
		},
		"the environment is named after its file": {
			func(r *record.Run) {
				r.ID, r.Environment, r.Platform = "r1", "quickstart", "local"
				r.Files = []record.InputFile{{Name: "environments/quickstart.tfvars"}}
			}, `jq -j '.files[0].text' runs/r1/run.json > quickstart.tfvars
sandbox up -var-file quickstart.tfvars --platform local
sandbox bench --sizes 1k
sandbox report
sandbox down -env quickstart`,
		},
		"variables outside of files": {
			func(r *record.Run) {
				r.ID, r.Environment, r.Platform = "r1", "quickstart", "gcp"
				r.Files = []record.InputFile{{Name: "quickstart.tfvars"}}
				r.Variables = []record.Variable{{Name: "ldap_servers", Value: "[redacted]", Sensitive: true}, {Name: "replsets", Value: `{ rs1 = {} }`}}
			}, `jq -j '.files[0].text' runs/r1/run.json > quickstart.tfvars
sandbox up -var-file quickstart.tfvars --platform gcp -var 'ldap_servers=[redacted]' \
  -var 'replsets={ rs1 = {} }'
sandbox bench --sizes 1k
sandbox report
sandbox down -env quickstart`,
		},
		"no environment": {
			func(r *record.Run) { r.CommandLine = []string{"sandbox", "workload", "run", "--size", "1k"} },
			"sandbox workload run --size 1k\nsandbox report",
		},
	} {
		if diff := cmp.Diff(test.want, commands(test.change)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// One interval without end must not flatten the bars beside it.
func TestHopelessInterval(t *testing.T) {
	groups := []barGroup{{label: "1k", bars: []bar{{series: 1, value: 100}, {series: 2, value: 90, low: 50, high: 1e6}}}}
	c := barChart("x", "y", wideChart, 300, groups)
	i := slices.IndexFunc(c.Marks, func(m mark) bool { return m.Shape == "rect" })
	height, err := strconv.ParseFloat(c.Marks[i].H, 64)
	if err != nil || height < 50 || !c.Cut {
		t.Errorf("the bar of the highest value is %v pixels high (%v), cut: %v", height, err, c.Cut)
	}
	groups[0].bars[1].high = 150
	if c := barChart("x", "y", wideChart, 300, groups); c.Cut {
		t.Error("an interval that fits is cut")
	}
}
