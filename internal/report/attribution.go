package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// upstream is MongoDB's version in a distribution's: 8.0.34 of 8.0.34-15, but
// not of 8.0.34-rc1.
func upstream(version string) string {
	base, build, _ := strings.Cut(version, "-")
	if build == "" || build[0] < '0' || build[0] > '9' {
		return version
	}
	return base
}

// shown tells whether a target has a result anywhere.
func (c *Comparison) shown(target int) bool {
	return slices.ContainsFunc(c.Groups, func(g Group) bool { return g.Summaries[target].Shown() })
}

// checkAttribution names the targets that differ from their baseline in
// distribution and version at once, when no other target tells the two apart.
func (b *builder) checkAttribution(add addCheck) {
	known := func(t *Target) bool {
		return t.Engine == record.EngineMongod && t.Distribution != "" && t.ActualVersion != ""
	}
	var both []string
	for i := range b.c.Targets {
		t := &b.c.Targets[i]
		at := b.c.target(t.Baseline)
		if at < 0 || t.AAOf != "" {
			continue
		}
		base := &b.c.Targets[at]
		if !known(t) || !known(base) || t.Distribution == base.Distribution || upstream(t.ActualVersion) == upstream(base.ActualVersion) {
			continue
		}
		if slices.ContainsFunc(b.c.Targets, func(o Target) bool {
			return known(&o) && b.c.shown(b.c.target(o.Name)) && (o.Distribution == t.Distribution && upstream(o.ActualVersion) == upstream(base.ActualVersion) ||
				o.Distribution == base.Distribution && upstream(o.ActualVersion) == upstream(t.ActualVersion))
		}) {
			continue
		}
		both = append(both, fmt.Sprintf("%s (%s %s) and %s (%s %s)", t.Name, t.Distribution, t.ActualVersion, base.Name, base.Distribution, base.ActualVersion))
	}
	if len(both) > 0 {
		add("Attribution", Caution, "distribution and version differ at once between %s: which of them makes a difference takes a target that shares one of them with each",
			strings.Join(both, "; "))
	}
}

// checkWarmup says what the measured time begins with.
func (b *builder) checkWarmup(add addCheck) {
	const name = "Warm-up"
	var cold []string
	for _, r := range b.c.heads() {
		if !r.Settings.WarmsUp() {
			cold = append(cold, r.Label)
		}
	}
	const begins = "the measured time begins with the caches as seeding left them"
	steady := slices.ContainsFunc(b.c.Fairness.Checks, func(c Check) bool { return c.Name == steadyState && c.Status == OK })
	switch {
	case !slices.ContainsFunc(b.c.Cells, func(x Cell) bool { return x.State == StateCounted }):
	case len(cold) == 0:
		add(name, OK, "what was sent before the measured time is in no number")
	case len(cold) < len(b.c.heads()):
		add(name, Caution, "none in run %s: there %s", list(cold), begins)
	case steady:
		add(name, OK, "none: %s; no level was found to change afterwards", begins)
	default:
		add(name, Caution, "none: %s; whether that showed is no clearer than the steady state is", begins)
	}
}
