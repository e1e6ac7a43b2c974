package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/stats"
)

// none stands where there is no number.
const none = "-"

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// number writes a value of any unit with about three digits: 3,667 12.3 0.152.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0 || math.IsNaN(v) || math.IsInf(v, 0):
		return none
	case a >= 99.95:
		return thousands(int64(math.Round(v)))
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

// change writes a ratio as the difference from 1: -2.3 %.
func change(ratio float64) string {
	if ratio <= 0 {
		return none
	}
	return signed((ratio-1)*100) + " %"
}

func signed(p float64) string {
	digits := 1
	if math.Abs(p) >= 99.95 {
		digits = 0
	}
	s := strconv.FormatFloat(p, 'f', digits, 64)
	switch {
	case strings.Trim(s, "-0.") == "":
		return "0.0"
	case p > 0:
		return "+" + s
	}
	return s
}

// bound writes an end of an interval with as many digits as tell it from
// zero: the sign says whether the interval excludes it.
func bound(ratio float64) string {
	p := (ratio - 1) * 100
	s := signed(p)
	for digits := 2; s == "0.0" && p != 0 && digits < 5; digits++ {
		if x := strconv.FormatFloat(p, 'f', digits, 64); strings.Trim(x, "-0.") != "" {
			s = x
		}
	}
	switch {
	case s == "0.0" && p < 0:
		return "-0.0"
	case p > 0 && s[0] != '+':
		return "+" + s
	}
	return s
}

// interval writes the 95 % interval of a ratio: -4.1 to -0.5 %.
func interval(r stats.Ratio) string {
	if !r.HasInterval() {
		return none
	}
	return bound(r.Low) + " to " + bound(r.High) + " %"
}

// percent writes a share, with the digits that small ones need.
func percent(share float64) string {
	p := share * 100
	switch {
	case p >= 9.95:
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	case p >= 0.1 || p == 0:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	case p >= 0.001:
		return strconv.FormatFloat(p, 'f', 3, 64) + " %"
	}
	return "under 0.001 %"
}

// seconds writes a time of s seconds: 8.2 s, 45 s, 30 min, 2 h 5 min.
func seconds(s float64) string {
	switch {
	case s < 9.95:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
	d := time.Duration(math.Round(s/60)) * time.Minute
	h, m := int(d.Hours()), int(d.Minutes())%60
	switch {
	case h == 0:
		return fmt.Sprintf("%d min", m)
	case m == 0:
		return fmt.Sprintf("%d h", h)
	}
	return fmt.Sprintf("%d h %d min", h, m)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// list joins names: a, b and c. Of more than six, it names five.
func list(names []string) string {
	if n := len(names); n > 6 {
		return strings.Join(names[:5], ", ") + fmt.Sprintf(" and %d more", n-5)
	}
	return everyOne(names)
}

// everyOne joins names, however many they are.
func everyOne(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func mixText(mix map[string]int) string {
	order := [...]string{"find", "update", "delete", "insert", "bulk_insert", "aggregate"}
	compare := func(a, b string) int {
		rank := func(s string) int {
			for i, name := range order {
				if name == s {
					return i
				}
			}
			return len(order)
		}
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	}
	var parts []string
	for _, name := range sortedKeys(mix, compare) {
		if mix[name] != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", name, mix[name]))
		}
	}
	return strings.Join(parts, ",")
}

// Verdict is the outcome of a difference in words.
func (d *Difference) Verdict() string {
	word := d.Ratio.Verdict(d.Direction)
	if d.Metric == MetricCPUPrimary || d.Metric == MetricCPUSecondary {
		switch d.Ratio.Outcome(d.Direction) {
		case stats.Faster:
			word = "less CPU"
		case stats.Slower:
			word = "more CPU"
		}
	}
	if d.onlyNoise() {
		word += ", but no more than A/A"
	}
	return word
}
