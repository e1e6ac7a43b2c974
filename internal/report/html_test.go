package report

import (
	"bytes"
	"html"
	"regexp"
	"strings"
	"testing"
)

func TestKeepUnits(t *testing.T) {
	for text, want := range map[string]string{
		"-2.3 % at 1M":                     "-2.3~% at 1M",
		"-3.9 to -0.6 %":                   "-3.9 to -0.6~%",
		"30 min, 300 ms, 5 µs, 8 s or 2 h": "30~min, 300~ms, 5~µs, 8~s or 2~h",
		"took 9 h 29 min.":                 "took 9~h~29~min.",
		"3,639 per second (7.2 GiB)":       "3,639~per~second (7.2~GiB)",
		"2 sizes, 3 minutes, 4 hours":      "2 sizes, 3 minutes, 4 hours",
		"x min, 5 of 6 cells, h 5 min":     "x min, 5 of 6 cells, h 5~min",
		"99 %* and 1 %":                    "99~%* and 1~%",
	} {
		if got := strings.ReplaceAll(keepUnits(text), "\u00a0", "~"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Only the page keeps numbers and units together, and never in what is to be
// copied.
func TestSpacesThatDoNotBreak(t *testing.T) {
	c := compared(t, "published")
	for _, format := range Formats() {
		if n := bytes.Count(render(t, format, c), []byte("\u00a0")); (n > 0) != (format == FormatHTML) {
			t.Errorf("%s: %d spaces that do not break", format, n)
		}
	}
	page := string(render(t, FormatHTML, c))
	for _, m := range regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindAllString(page, -1) {
		if strings.Contains(m, "\u00a0") {
			t.Errorf("a command with other spaces: %s", m)
		}
	}
	// What stands in running text and cells has none left that break.
	for _, m := range regexp.MustCompile(`(?s)<(p|li|dd|td|span|figcaption)\b[^>]*>([^<]*)`).FindAllStringSubmatch(page, -1) {
		if text := html.UnescapeString(m[2]); keepUnits(text) != text {
			t.Errorf("<%s> can break %q", m[1], numberAndUnit.FindString(text))
		}
	}
}
