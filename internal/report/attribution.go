package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// upstream is MongoDB's version in a distribution's: 8.0.34 of 8.0.34-15.
func upstream(version string) string {
	version, _, _ = strings.Cut(version, "-")
	return version
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
			return known(&o) && (o.Distribution == t.Distribution && upstream(o.ActualVersion) == upstream(base.ActualVersion) ||
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
	cold := slices.ContainsFunc(b.c.heads(), func(r RunHead) bool { return !r.Settings.WarmsUp() })
	counted, steady := 0, 0
	for i := range b.c.Cells {
		if x := &b.c.Cells[i]; x.State == StateCounted {
			counted++
			if x.Steady != nil && x.Steady.Known && x.Steady.Reached {
				steady++
			}
		}
	}
	switch {
	case counted == 0:
	case !cold:
		add(name, OK, "what was sent before the measured time is in no number")
	case steady == counted:
		add(name, OK, "none: the measured time begins with the caches as seeding left them; no cell's level was found to change afterwards, as far as the test of the steady state sees")
	default:
		add(name, Caution, "none: the measured time begins with the caches as seeding left them, and %d of %d cells did not keep their level, or are too short to tell", counted-steady, counted)
	}
}
