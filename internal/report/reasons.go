package report

import (
	"fmt"
	"slices"
	"strings"
)

// reasons are what may explain a difference in throughput: more CPU per
// command where CPU was nearest its limit, and elsewhere what is known of the
// cost of a command, which then explains nothing for sure.
func (c *Comparison) reasons() []string {
	var out []string
	for i := range c.Targets {
		t := &c.Targets[i]
		if t.Baseline == "" || t.AAOf != "" { // what A/A shows is the noise floor
			continue
		}
		var limiting, perhaps cpuReasons
		var open []string
		for k := range c.Groups {
			limit, known := c.limitOf(k, t)
			if !known {
				perhaps.add(c, k, t)
				continue
			}
			explained := limit == LimitCPU && limiting.add(c, k, t)
			if d := c.difference(k, t.Name, MetricThroughput, AllOperations); d != nil && d.Ratio.Differs() && !d.onlyNoise() && !explained {
				open = append(open, c.Groups[k].Label+c.costText(k, t, limit))
			}
		}
		head := fmt.Sprintf("CPU per command of %s against %s, ", t.Name, t.Baseline)
		if text := limiting.text(); text != "" {
			out = append(out, head+"where CPU was nearest its limit: "+text)
		}
		if text := perhaps.text(); text != "" {
			out = append(out, head+"whether or not CPU was the limit: "+text)
		}
		if len(open) > 0 {
			out = append(out, fmt.Sprintf("what made the difference of %s against %s is not known at %s", t.Name, t.Baseline, strings.Join(open, " and at ")))
		}
	}
	return out
}

// costText is what a command cost more of, where that was not what was nearest
// its limit, or points the other way.
func (c *Comparison) costText(group int, t *Target, limit Limit) string {
	var parts []string
	cpu := func(metric, side string) {
		d := c.difference(group, t.Name, metric, AllOperations)
		switch {
		case d == nil:
		case !d.Ratio.HasInterval():
			parts = append(parts, fmt.Sprintf("CPU per command of the %s %s, without an interval", side, change(d.Ratio.Value)))
		case !d.Ratio.Differs() || d.onlyNoise():
			parts = append(parts, fmt.Sprintf("no difference detected in CPU per command of the %s", side))
		default:
			parts = append(parts, fmt.Sprintf("CPU per command of the %s %s", side, change(d.Ratio.Value)))
		}
	}
	cpu(MetricCPUPrimary, "primary")
	if c.readsSecondaries(t) {
		cpu(MetricCPUSecondary, "secondaries")
	}
	if slices.Contains([]Limit{LimitDisk, LimitCacheMisses, LimitEviction}, limit) {
		if of, base := c.readsPerCommand(group, t.Name), c.readsPerCommand(group, t.Baseline); of > 0 && base > 0 {
			parts = append(parts, fmt.Sprintf("disk reads per command of all members together %s, without an interval", change(of/base)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// cpuReasons gathers differences in CPU per command, "+6.8 % at 1M".
type cpuReasons struct{ primary, secondary []string }

// add returns whether one of them goes the way that throughput does.
func (r *cpuReasons) add(c *Comparison, group int, t *Target) (explains bool) {
	throughput := c.difference(group, t.Name, MetricThroughput, AllOperations)
	for _, side := range []struct {
		metric string
		counts bool
		at     *[]string
	}{{MetricCPUPrimary, true, &r.primary}, {MetricCPUSecondary, c.readsSecondaries(t), &r.secondary}} {
		d := c.difference(group, t.Name, side.metric, AllOperations)
		if !side.counts || d == nil || !d.Ratio.Differs() || d.onlyNoise() {
			continue
		}
		*side.at = append(*side.at, fmt.Sprintf("%s at %s", change(d.Ratio.Value), c.Groups[group].Label))
		explains = explains || throughput != nil && throughput.Ratio.Outcome(throughput.Direction) == d.Ratio.Outcome(d.Direction)
	}
	return explains
}

func (r *cpuReasons) text() string {
	var sides []string
	if len(r.primary) > 0 {
		sides = append(sides, "primary "+list(r.primary))
	}
	if len(r.secondary) > 0 {
		sides = append(sides, "secondaries, which answer reads, "+list(r.secondary))
	}
	return strings.Join(sides, "; ")
}

// limitOf is what limited a target in a group, or its baseline: CPU if it was
// either's. It is not known where either's is not.
func (c *Comparison) limitOf(group int, t *Target) (limit Limit, known bool) {
	sides := 0
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Group != group || l.Target != t.Name && l.Target != t.Baseline {
			continue
		}
		if l.Bottleneck.Limit == LimitUnknown {
			return LimitUnknown, false
		}
		sides++
		if limit != LimitCPU && (l.Target == t.Name || l.Bottleneck.Limit == LimitCPU) {
			limit = l.Bottleneck.Limit
		}
	}
	return limit, sides == 2
}

// readsSecondaries tells whether a target's secondaries answered commands, or
// may have.
func (c *Comparison) readsSecondaries(t *Target) bool {
	preference := c.runOf(t).Settings.ReadPreference
	return preference != "" && !strings.EqualFold(preference, "primary")
}

// readsPerCommand is the sum over a target's members, 0 when one did not
// tell.
func (c *Comparison) readsPerCommand(group int, target string) (sum float64) {
	for _, m := range c.meanMembers(group, target) {
		v, ok := m.Values[DiskReadsPerCommand]
		if !ok {
			return 0
		}
		sum += v
	}
	return sum
}
