package report

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// RunHead is one of several runs that are compared.
type RunHead struct {
	// Label is short and tells the run from the others.
	Label string
	// Placement is the number, from 1, of the set of machines that it ran on;
	// 0 unless the runs are pooled.
	Placement int
	record.Run
}

// subject says where a target of a joined run comes from.
type subject struct {
	run    int
	origin string
}

// LoadRuns reads the run records in dirs and compares what is in all of them,
// pooled or apart as o says. Apart, targets of the same name become subjects
// of their own, name@label; labels has one for every run, or is empty: then
// the run's ids make them. Each is compared with the target of the same name
// in the first run that has one. Pooled, the runs are repetitions of one.
//
// A *RequestError says that the runs cannot be put side by side: one is there
// twice, has nothing that counts, or has no size in common with another, or
// they were to be pooled and may not. Any other error is that of a record
// whose head cannot be read.
func LoadRuns(dirs, labels []string, o Options) (*Comparison, error) {
	inputs := make([]Input, len(dirs))
	for i, dir := range dirs {
		reader, err := record.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("compare: %w", err)
		}
		defer func() { _ = reader.Close() }()
		if inputs[i], err = read(reader); err != nil {
			return nil, fmt.Errorf("compare %s: %w", dir, err)
		}
	}
	joined, err := combine(inputs, labels, o)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	comparison, err := Build(joined)
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return comparison, nil
}

// Join puts runs together as one, apart; LoadRuns says how.
func Join(inputs []Input, labels []string) (Input, error) {
	labels, err := labelRuns(inputs, labels)
	if err != nil {
		return Input{}, err
	}
	common, left, err := commonGroups(inputs, labels)
	if err != nil {
		return Input{}, err
	}
	first := inputs[0].Run
	out := Input{Run: first, Down: map[string]string{}, Failed: map[AttemptKey]string{}}
	out.Run.Engine, out.Run.Warnings, out.Run.Targets, out.Run.Sizes = first.Engine, left, nil, nil
	for i := range inputs {
		out.Runs = append(out.Runs, RunHead{Label: labels[i], Run: inputs[i].Run})
	}
	names := subjectNames(inputs, labels)
	out.Run.Baseline = names[subject{0, first.Baseline}]
	seen := map[string]bool{}
	for _, s := range subjects(inputs) {
		run := &inputs[s.run].Run
		target := run.Targets[slices.IndexFunc(run.Targets, func(t record.Target) bool { return t.Name == s.origin })]
		target.Name = names[s]
		target.AAOf = "" // the floor of one run says nothing of another
		if seen[target.Name] {
			return Input{}, &RequestError{fmt.Sprintf("there would be two targets named %s", target.Name), "give the runs other labels with --label"}
		}
		seen[target.Name] = true
		out.Run.Targets = append(out.Run.Targets, target)
		out.subjects = append(out.subjects, s)
	}
	for i := range inputs {
		in := &inputs[i]
		if in.Run.Engine == record.EngineEmbedded {
			out.Run.Engine = record.EngineEmbedded
		}
		for _, size := range in.Run.Sizes {
			k := slices.IndexFunc(out.Run.Sizes, func(s record.Size) bool { return s.Documents == size.Documents })
			switch {
			case !slices.ContainsFunc(common, func(k groupKey) bool { return k.size == size.Documents }):
			case k < 0:
				out.Run.Sizes = append(out.Run.Sizes, size)
			default:
				out.Run.Sizes[k].Iterations = max(out.Run.Sizes[k].Iterations, size.Iterations)
			}
		}
		prefix := "run " + labels[i] + ": "
		for _, text := range in.Run.Warnings {
			out.Run.Warnings = append(out.Run.Warnings, prefix+text)
		}
		for _, text := range in.Damage {
			out.Damage = append(out.Damage, prefix+text)
		}
		rename := func(name string) string { return cmp.Or(names[subject{i, name}], name+"@"+labels[i]) }
		for name, reason := range in.Down {
			out.Down[rename(name)] = reason
		}
		for _, cell := range in.Cells {
			if !slices.Contains(common, groupKey{cell.ID.Size, cell.ID.Variant}) {
				continue
			}
			before := cell.ID.String()
			cell.ID.Target = rename(cell.ID.Target)
			if reason, failed := in.Failed[AttemptKey{before, cell.Attempt}]; failed {
				out.Failed[AttemptKey{cell.ID.String(), cell.Attempt}] = reason
			}
			out.Cells = append(out.Cells, cell.of(&out.Runs[i]))
		}
	}
	slices.SortStableFunc(out.Run.Sizes, func(x, y record.Size) int { return cmp.Compare(x.Documents, y.Documents) })
	return out, nil
}

// of is the cell as one of several runs'.
func (in CellInput) of(r *RunHead) CellInput {
	prefix := "run " + r.Label + ": "
	if in.Settings == nil {
		in.Settings = &r.Settings
	}
	in.Checkpoints, in.Explains = labelled(prefix, in.Checkpoints), labelled(prefix, in.Explains)
	in.Outcomes = labelled(prefix, in.Outcomes)
	in.Intervals, in.Windows = labelledAll(prefix, in.Intervals), labelledAll(prefix, in.Windows)
	in.Samples = labelledAll(prefix, in.Samples)
	return in
}

// labelled puts a prefix before a function's errors: files of different runs
// have the same names.
func labelled[T any](prefix string, f func() (T, error)) func() (T, error) {
	if f == nil {
		return nil
	}
	return func() (T, error) {
		v, err := f()
		if err != nil {
			err = fmt.Errorf("%s%w", prefix, err)
		}
		return v, err
	}
}

func labelledAll[T any](prefix string, values iter.Seq2[T, error]) iter.Seq2[T, error] {
	if values == nil {
		return nil
	}
	return func(yield func(T, error) bool) {
		for v, err := range values {
			if err != nil {
				err = fmt.Errorf("%s%w", prefix, err)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// labelRuns checks the labels, or makes them of what differs in the ids.
func labelRuns(inputs []Input, labels []string) ([]string, error) {
	if len(inputs) < 2 {
		return nil, &RequestError{"one run cannot be compared with itself", "name two runs or more"}
	}
	ids := make([]string, len(inputs))
	for i := range inputs {
		ids[i] = inputs[i].Run.ID
		if slices.Contains(ids[:i], ids[i]) {
			return nil, &RequestError{fmt.Sprintf("run %s is there twice", ids[i]), "a comparison of a run with itself finds no difference, whatever there is"}
		}
	}
	if len(labels) == 0 {
		return shortLabels(ids), nil
	}
	if len(labels) != len(inputs) {
		return nil, &RequestError{fmt.Sprintf("%d labels for %d runs", len(labels), len(inputs)), "give --label once for every run, in their order"}
	}
	for i, label := range labels {
		odd := strings.ContainsFunc(label, func(r rune) bool {
			letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
			return !letter && !strings.ContainsRune("-_.+", r)
		})
		if label == "" || odd {
			return nil, &RequestError{fmt.Sprintf("label %q: want letters, digits and - _ . +", label), ""}
		}
		if slices.Contains(labels[:i], label) {
			return nil, &RequestError{fmt.Sprintf("label %q is there twice", label), ""}
		}
	}
	return labels, nil
}

// shortLabels are the shortest parts of different ids, cut at hyphens, that
// tell them apart: the days of runs on different days, else their times.
func shortLabels(ids []string) []string {
	parts := make([][]string, len(ids))
	for i, id := range ids {
		parts[i] = strings.Split(id, "-")
	}
	for !slices.ContainsFunc(parts, func(p []string) bool { return len(p) < 2 || p[0] != parts[0][0] }) {
		for i := range parts {
			parts[i] = parts[i][1:]
		}
	}
	labels := make([]string, len(ids))
	for n := 1; ; n++ {
		whole := true
		for i, p := range parts {
			labels[i] = strings.Join(p[:min(n, len(p))], "-")
			whole = whole && n >= len(p)
		}
		distinct := slices.Clone(labels)
		slices.Sort(distinct)
		if len(slices.Compact(distinct)) == len(labels) && !slices.Contains(labels, "") {
			return labels
		}
		if whole {
			return ids
		}
	}
}

// groupKey is what cells have in common that are put side by side.
type groupKey struct {
	size    int64
	variant string
}

// commonGroups are those in which two runs or more have a cell that counts;
// left says which were left out.
func commonGroups(inputs []Input, labels []string) (common []groupKey, left []string, err error) {
	runs := map[groupKey][]int{}
	var keys []groupKey
	for i := range inputs {
		found := false
		for _, c := range inputs[i].Cells {
			if !counts(c) {
				continue
			}
			found = true
			key := groupKey{c.ID.Size, c.ID.Variant}
			if runs[key] == nil {
				keys = append(keys, key)
			}
			if !slices.Contains(runs[key], i) {
				runs[key] = append(runs[key], i)
			}
		}
		if !found {
			return nil, nil, &RequestError{fmt.Sprintf("run %s has no finished cell", inputs[i].Run.ID), "`sandbox bench --resume` goes on with an unfinished run"}
		}
	}
	slices.SortFunc(keys, func(x, y groupKey) int {
		return cmp.Or(cmp.Compare(x.size, y.size), strings.Compare(x.variant, y.variant))
	})
	name := func(key groupKey) string {
		text := thousands(key.size) + " documents"
		if key.variant != record.DefaultVariant {
			text += " (" + key.variant + ")"
		}
		return text
	}
	shares := make([]bool, len(inputs))
	sizes := make([][]string, len(inputs))
	for _, key := range keys {
		for _, i := range runs[key] {
			sizes[i] = append(sizes[i], name(key))
			shares[i] = shares[i] || len(runs[key]) > 1
		}
		if len(runs[key]) > 1 {
			common = append(common, key)
		} else {
			left = append(left, fmt.Sprintf("run %s: %s left out, no other run has them", labels[runs[key][0]], name(key)))
		}
	}
	var alone, all []string
	for i := range inputs {
		all = append(all, fmt.Sprintf("%s has %s", inputs[i].Run.ID, list(sizes[i])))
		if !shares[i] {
			alone = append(alone, inputs[i].Run.ID)
		}
	}
	switch {
	case len(common) == 0:
		return nil, nil, &RequestError{fmt.Sprintf("the runs have no size in common: %s", strings.Join(all, "; ")), "runs are compared at the sizes that both have"}
	case len(alone) > 0:
		return nil, nil, &RequestError{fmt.Sprintf("run %s has no size in common with another: %s", list(alone), strings.Join(all, "; ")), "leave it out"}
	}
	return common, left, nil
}

// subjects are the targets of all runs, those of the same name together.
func subjects(inputs []Input) []subject {
	var out []subject
	for i := range inputs {
		for _, t := range inputs[i].Run.Targets {
			last := -1
			for k := range out {
				if out[k].origin == t.Name {
					last = k
				}
			}
			if last < 0 {
				last = len(out) - 1
			}
			out = slices.Insert(out, last+1, subject{i, t.Name})
		}
	}
	return out
}

// subjectNames names the targets of all runs: a name that only one run has
// stays as it is.
func subjectNames(inputs []Input, labels []string) map[subject]string {
	count := map[string]int{}
	all := subjects(inputs)
	for _, s := range all {
		count[s.origin]++
	}
	names := map[subject]string{}
	for _, s := range all {
		names[s] = s.origin
		if count[s.origin] > 1 {
			names[s] += "@" + labels[s.run]
		}
	}
	return names
}

// baselines says of every target with which it is compared.
func (b *builder) baselines() error {
	c := b.c
	asked := b.in.Options.Baseline
	if asked != "" {
		i := c.resolve(asked)
		if i < 0 {
			return c.unknownTarget("baseline", asked)
		}
		c.Baseline = c.Targets[i].Name
	}
	for i := range c.Targets {
		t := &c.Targets[i]
		first, shared := i, false
		for k := range c.Targets {
			if c.Targets[k].Origin == t.Origin && k != i {
				shared = true
				if c.Targets[k].Run < c.Targets[first].Run {
					first = k
				}
			}
		}
		switch {
		case t.Name == c.Baseline:
		case t.AAOf != "" && c.target(t.AAOf) >= 0:
			t.Baseline = t.AAOf
		case asked == "" && first != i:
			t.Baseline = c.Targets[first].Name
		case asked == "" && shared: // others are compared with it
		default:
			t.Baseline = c.Baseline
		}
	}
	return nil
}

// resolve finds a target by its name, or by its name in a run, "@" and that
// run's label or id; -1 if there is none.
func (c *Comparison) resolve(word string) int {
	if i := c.target(word); i >= 0 {
		return i
	}
	name, run, found := cutLast(word, "@")
	if !found {
		return -1
	}
	return slices.IndexFunc(c.Targets, func(t Target) bool {
		return t.Origin == name && len(c.Runs) > 0 && c.pool == nil && (c.Runs[t.Run].Label == run || c.Runs[t.Run].ID == run)
	})
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (c *Comparison) unknownTarget(what, word string) error {
	names := make([]string, len(c.Targets))
	for i := range c.Targets {
		names[i] = c.Targets[i].Name
	}
	return &RequestError{fmt.Sprintf("%s %s is not among the targets%s", what, word, didYouMean(word, names)), "the targets are " + list(names)}
}

// runOf is the head of the run that a target belongs to.
func (c *Comparison) runOf(t *Target) *record.Run {
	if len(c.Runs) == 0 {
		return &c.Run
	}
	return &c.Runs[t.Run].Run
}

// runName is the run of a target in words.
func (c *Comparison) runName(t int) string {
	if len(c.Runs) == 0 {
		return "the run"
	}
	return "run " + c.Runs[c.Targets[t].Run].Label
}

// heads are the heads of all runs.
func (c *Comparison) heads() []RunHead {
	if len(c.Runs) == 0 {
		return []RunHead{{Label: "value", Run: c.Run}}
	}
	return c.Runs
}

// asked is how many iterations a target's run asked for.
func (b *builder) asked(g, t int) int {
	group := &b.c.Groups[g]
	if len(b.c.Runs) == 0 || b.c.pool != nil {
		return group.Iterations
	}
	for _, size := range b.c.Runs[b.c.Targets[t].Run].Sizes {
		if size.Documents == group.Size {
			return min(max(size.Iterations, 1), maxIterations)
		}
	}
	return 0
}

// isBaseline tells whether others are compared with the target.
func (c *Comparison) isBaseline(name string) bool {
	i := c.target(name)
	return i >= 0 && c.Targets[i].Baseline == ""
}

// followers are, for every target that others are compared with, these; at
// least one entry.
func (c *Comparison) followers() (bases []int, others [][]int) {
	for i := range c.Targets {
		var of []int
		for k := range c.Targets {
			if c.Targets[k].Baseline == c.Targets[i].Name {
				of = append(of, k)
			}
		}
		if len(of) > 0 {
			bases, others = append(bases, i), append(others, of)
		}
	}
	if len(bases) == 0 {
		return []int{c.target(c.Baseline)}, [][]int{nil}
	}
	return bases, others
}

// baselineWords is what the targets are compared with, in words.
func (c *Comparison) baselineWords() string {
	bases, _ := c.followers()
	if len(bases) == 1 {
		return c.Targets[bases[0]].Name
	}
	if len(c.Runs) == 0 {
		return "their baselines"
	}
	return "the same target in run " + c.Runs[0].Label
}

// family is the index of the target with which another is compared, or its
// own.
func (c *Comparison) family(t int) int {
	if i := c.target(c.Targets[t].Baseline); i >= 0 {
		return i
	}
	return t
}

// runFact is something that belongs to a run as a whole.
type runFact struct {
	name string
	of   func(*record.Run) string
}

// values are one per run, and whether they differ; what is not known does
// not.
func (f runFact) values(runs []RunHead) (values []string, differ bool) {
	known := ""
	for i := range runs {
		v := f.of(&runs[i].Run)
		if v != "" {
			differ = differ || known != "" && v != known
			known = v
		}
		values = append(values, cmp.Or(v, "unknown"))
	}
	return values, differ
}

// runEnvironment is what should be equal between the machines of runs beside
// those of the members.
func runEnvironment() []runFact {
	return []runFact{
		{"platform", func(r *record.Run) string { return r.Platform }},
		{"engine", func(r *record.Run) string { return r.Engine }},
		{"load host: operating system", func(r *record.Run) string { return r.LoadHost.OS }},
		{"load host: kernel", func(r *record.Run) string { return r.LoadHost.Kernel }},
		{"load host: CPU model", func(r *record.Run) string { return r.LoadHost.CPUModel }},
		{"load host: CPUs", func(r *record.Run) string { return positive(int64(r.LoadHost.CPUs)) }},
		{"load host: memory", func(r *record.Run) string { return memoryText(r.LoadHost) }},
	}
}

// runParity lists what differs between the machines of runs.
func (b *builder) runParity() {
	for _, f := range runEnvironment() {
		values, differ := f.values(b.c.Runs)
		if !differ {
			continue
		}
		p := Parity{Fact: f.name, Cause: CauseEnvironment}
		for i := range b.c.Targets {
			p.Values = append(p.Values, values[b.c.Targets[i].Run])
		}
		b.c.Fairness.Parity = append(b.c.Fairness.Parity, p)
	}
}

// paceFact is the setting without which runs are not comparable at all.
const paceFact = "rate"

// runSettings are those that a run's numbers depend on, beside what defines
// the commands.
func runSettings() []runFact {
	return []runFact{
		{paceFact, func(r *record.Run) string {
			if r.Settings.Rate == 0 {
				return "closed loop"
			}
			return number(r.Settings.Rate) + " commands/s"
		}},
		{"duration", func(r *record.Run) string { return seconds(r.Settings.Duration.Seconds()) }},
		{"warm-up", func(r *record.Run) string { return warmupText(&r.Settings) }},
		{"read-preference", func(r *record.Run) string { return r.Settings.ReadPreference }},
		{"write-concern", func(r *record.Run) string { return cmp.Or(r.Settings.WriteConcern, "the server's default") }},
		{"op-timeout", func(r *record.Run) string { return r.Settings.OpTimeout.String() }},
		{"record-outcomes", func(r *record.Run) string { return fmt.Sprint(r.Settings.RecordOutcomes) }},
		{"order", func(r *record.Run) string { return r.Order }},
		{"pause between cells", func(r *record.Run) string { return durationText(r.Interval) }},
		{"sandbox", func(r *record.Run) string { return strings.TrimSpace(r.Tool.Version + " " + r.Tool.Commit) }},
	}
}

// checkRuns says what comes of comparing different runs.
func (b *builder) checkRuns(add addCheck) {
	runs := b.c.Runs
	if len(runs) == 0 {
		return
	}
	var differ []string
	status := OK
	for _, f := range runSettings() {
		values, differs := f.values(runs)
		if !differs {
			continue
		}
		switch {
		case f.name == paceFact:
			status = Unfair
		case status == OK:
			status = Caution
		}
		for i := range values {
			values[i] += " in " + runs[i].Label
		}
		differ = append(differ, f.name+": "+list(values))
	}
	switch status {
	case Unfair:
		add("Settings", Unfair, "the runs were paced differently, so their throughput is not the servers': %s", strings.Join(differ, "; "))
	case Caution:
		add("Settings", Caution, "the runs differ in what is then part of the difference: %s", strings.Join(differ, "; "))
	default:
		add("Settings", OK, "the runs were made with the same settings")
	}
	if b.c.pool != nil {
		b.c.checkPlacements(add)
		return
	}
	apart := ""
	if b.in.notPooled != "" {
		apart = "; not pooled: " + b.in.notPooled
	}
	early, late := runs[0].Started, runs[0].Started
	for i := range runs {
		if runs[i].Started.Before(early) {
			early = runs[i].Started
		}
		if runs[i].Started.After(late) {
			late = runs[i].Started
		}
	}
	add("Runs", Caution, "the runs began %s apart, perhaps on other machines: what that changes is in no interval on this page, which see only what differs within each run; only repeating the runs would show it%s",
		seconds(late.Sub(early).Seconds()), apart)
}

// runTable says which runs are compared.
func (c *Comparison) runTable() *sheet {
	t := &sheet{
		Caption: "Runs",
		Columns: []column{{Head: "run"}, {Head: "id", Whole: true}, {Head: "environment"}, {Head: "platform"}, {Head: "started"}, {Head: "sandbox"}},
	}
	for i := range c.Runs {
		r := &c.Runs[i]
		t.Rows = append(t.Rows, row{Cells: []cell{
			{Text: r.Label}, {Text: r.ID}, {Text: cmp.Or(r.Environment, none)}, {Text: cmp.Or(r.Platform, none)},
			{Text: r.Started.UTC().Format("2006-01-02 15:04")}, {Text: cmp.Or(r.Tool.Version, none)},
		}})
	}
	if c.pool != nil { // all on one platform
		t.Columns[3] = column{Head: "placement", Right: true}
		for i := range c.Runs {
			t.Rows[i].Cells[3] = cell{Text: fmt.Sprint(c.Runs[i].Placement)}
		}
		t.Note = "A placement is a set of machines that were made together. Iterations are numbered through, in the order of the runs."
	}
	return t
}

// madeBy names the records and the program that a page comes from.
func (c *Comparison) madeBy() string {
	if len(c.Runs) == 0 {
		return fmt.Sprintf("Run record %s, made and reported by sandbox %s.", c.Run.ID, c.Run.Tool.Version)
	}
	ids := make([]string, len(c.Runs))
	for i := range c.Runs {
		ids[i] = c.Runs[i].ID
	}
	return fmt.Sprintf("Run records %s.", list(ids))
}
