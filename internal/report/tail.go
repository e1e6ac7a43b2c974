package report

import "fmt"

// A quantile is read from the commands beyond it: from k of them, its rank
// is uncertain by about 2/√k (95 %). From ten it is hardly more than the
// slowest few; from a hundred it is known to a fifth of what lies beyond.
const (
	leastBeyond  = 10
	enoughBeyond = 100
)

// beyondTail is how many of n commands are slower than their p99.9.
func beyondTail(n int64) int64 { return n / 1000 }

// tailKnown tells whether n commands have a p99.9 worth a number.
func tailKnown(n int64) bool { return beyondTail(n) >= leastBeyond }

// latency is what a metric says of the summary, 0 when nothing.
func (s *Summary) latency(m *latencyMetric) float64 {
	if m.metric == MetricP999 && !tailKnown(s.Commands) {
		return 0
	}
	return m.of(&s.LatencyMS)
}

// tailNote says where p99.9 rests on few commands, and where it is missing.
func (c *Comparison) tailNote() string {
	var few, gone []string
	least := int64(enoughBeyond)
	for g := range c.Groups {
		shown, beyond := false, int64(enoughBeyond)
		for i := range c.Groups[g].Summaries {
			if s := &c.Groups[g].Summaries[i]; s.Shown() {
				shown = true
				beyond = min(beyond, beyondTail(s.Commands))
			}
		}
		switch label := c.Groups[g].Label; {
		case !shown || beyond >= enoughBeyond:
		case beyond < leastBeyond:
			gone = append(gone, label)
		default:
			few = append(few, label)
			least = min(least, beyond)
		}
	}
	note := ""
	if len(few) > 0 {
		note += fmt.Sprintf(" p99.9 rests on the slowest thousandth of the commands, at %s on as few as %d: a few stalls move it.", list(few), least)
	}
	if len(gone) > 0 {
		note += fmt.Sprintf(" Not every target has a p99.9 at %s: it takes %s commands, of which %d are slower.", list(gone), thousands(leastBeyond*1000), leastBeyond)
	}
	return note
}
