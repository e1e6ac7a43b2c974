package report

import (
	"bytes"
	_ "embed" // for the figures
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode/utf8"
)

//go:embed figure.svg
var figureSVG string

// File is a figure as an SVG file that needs no other.
type File struct {
	Name string // ends in .svg
	Data []byte
}

// svgFigure is what the template of a file shows: a figure's charts on one
// sheet, with title and legend, since there is no page around them.
type svgFigure struct {
	W, H        int
	Title, Desc string
	Style       template.CSS
	Patterns    template.HTML
	Head        []mark
	Charts      []placedChart
}

type placedChart struct {
	chart
	X, Y int
}

// The measures of a sheet, in pixels.
const (
	sheetMargin  = 12
	sheetGap     = 12
	sheetWidth   = wideChart + 2*sheetMargin
	titleBase    = 28 // of the title's letters
	legendTop    = 44
	legendHeight = 24
	keyWidth     = 34
	nameWidth    = 6.9 // of a character
	footHeight   = 22
)

// figureFiles draws the figures, each as a file.
func (c *Comparison) figureFiles(figures []*figure) ([]File, error) {
	style, patterns, err := fileStyle(pageHTML)
	if err != nil {
		return nil, err
	}
	t, err := parsePage()
	if err == nil {
		t, err = t.Parse(figureSVG)
	}
	if err != nil {
		return nil, fmt.Errorf("parse the figure: %w", err)
	}
	files := make([]File, 0, len(figures))
	for _, f := range figures {
		x := c.svgFigure(f)
		x.Style, x.Patterns = style, patterns
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, "svg", x); err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.ID, err)
		}
		var clean bytes.Buffer
		for line := range strings.Lines(strings.TrimSpace(b.String())) {
			clean.WriteString(printable(strings.TrimSuffix(line, "\n")) + "\n")
		}
		files = append(files, File{f.ID + ".svg", clean.Bytes()})
	}
	return files, nil
}

// svgFigure places title, legend and charts.
func (c *Comparison) svgFigure(f *figure) *svgFigure {
	x := &svgFigure{W: sheetWidth, Title: f.Title}
	desc := []string{f.Alt}
	head := func(class, anchor string, at, y float64, s string) {
		x.Head = append(x.Head, mark{Shape: "text", Class: class, Anchor: anchor, X: px(at), Y: px(y), Text: s})
	}
	head("heading", "start", sheetMargin+6, titleBase, f.Title)
	at, y := float64(sheetMargin+6), float64(legendTop)
	for _, e := range f.Legend {
		width := keyWidth + 8 + nameWidth*float64(utf8.RuneCountInString(e.Name)) + 22
		if at+width > sheetWidth-sheetMargin && at > sheetMargin+6 {
			at, y = sheetMargin+6, y+legendHeight
		}
		middle := y + legendHeight/2
		x.Head = append(x.Head,
			mark{Shape: "path", Class: fmt.Sprintf("course c%d", e.Look.Index), D: fmt.Sprintf("M%s %sh%d", px(at), px(middle), keyWidth)},
			mark{Shape: "path", Class: fmt.Sprintf("point c%d", e.Look.Index), D: marker(e.Look.Index, at+keyWidth/2, middle, 4.5)})
		head("entry", "start", at+keyWidth+8, middle+4, e.Name)
		at += width
	}
	top := int(y) + legendHeight + sheetGap
	for i := 0; i < len(f.Charts); {
		left, height := sheetMargin, 0
		for i < len(f.Charts) && left+f.Charts[i].W <= sheetWidth-sheetMargin {
			x.Charts = append(x.Charts, placedChart{f.Charts[i], left, top})
			desc = append(desc, f.Charts[i].Title+": "+f.Charts[i].Desc)
			left += f.Charts[i].W + (wideChart - 2*halfChart)
			height = max(height, f.Charts[i].H)
			i++
		}
		top += height + sheetGap
	}
	x.H = top + footHeight
	x.Desc = strings.Join(desc, "\n")
	foot := "run " + c.Run.ID
	if c.Run.Tool.Version != "" {
		foot += ", sandbox " + c.Run.Tool.Version
	}
	if len(c.Runs) > 0 {
		foot = c.madeBy()
	}
	head("tick", "end", sheetWidth-sheetMargin-6, float64(x.H)-12, foot)
	return x
}

// fileStyle takes the charts' rules and the patterns from the page, for
// programs that know no variables: every variable is replaced by its light
// value, and those that differ by series become a rule for each.
func fileStyle(page string) (template.CSS, template.HTML, error) {
	_, rules, found := strings.Cut(page, "/* charts:")
	rules, _, ended := strings.Cut(rules, "/* end of charts */")
	_, rules, opened := strings.Cut(rules, "*/")
	root := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindStringSubmatch(page)
	defs := regexp.MustCompile(`(?s)<pattern id="p(\d)".*?</pattern>`).FindAllStringSubmatch(page, -1)
	if !found || !ended || !opened || root == nil || len(defs) != looks-1 {
		return "", "", errors.New("the page has no style for charts")
	}
	values := map[string]string{}
	for _, m := range regexp.MustCompile(`--([a-z0-9-]+): *([^;]+);`).FindAllStringSubmatch(root[1], -1) {
		values[m[1]] = m[2]
	}
	variable := regexp.MustCompile(`var\(--([a-z0-9-]+)\)`)
	resolve := func(text, series string) string {
		return variable.ReplaceAllStringFunc(text, func(v string) string {
			name := variable.FindStringSubmatch(v)[1]
			if name == "c" {
				name = "c" + series
			}
			return values[name]
		})
	}
	var css strings.Builder
	fmt.Fprintf(&css, "\n.paper { fill: %s; }\n.chart { font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, Arial, \"DejaVu Sans\", sans-serif; font-size: 12px; }\n", values["bg"])
	for _, m := range regexp.MustCompile(`([^{}]+)\{([^{}]*)\}`).FindAllStringSubmatch(rules, -1) {
		selectors, body := strings.TrimSpace(m[1]), strings.TrimSpace(m[2])
		switch {
		case strings.HasPrefix(body, "--c:"): // which is what is replaced
		case strings.Contains(body, "var(--c)"):
			for i := range looks {
				var each []string
				for s := range strings.SplitSeq(selectors, ",") {
					each = append(each, fmt.Sprintf("%s.c%d", strings.TrimSpace(s), i))
				}
				fmt.Fprintf(&css, "%s { %s }\n", strings.Join(each, ", "), resolve(body, fmt.Sprint(i)))
			}
		default:
			fmt.Fprintf(&css, "%s { %s }\n", selectors, resolve(body, ""))
		}
	}
	css.WriteString(".chart .heading { font-size: 16px; font-weight: 600; }\n.chart .entry { font-size: 12.5px; }\n")
	var patterns strings.Builder
	for _, m := range defs {
		patterns.WriteString(resolve(m[0], m[1]) + "\n")
	}
	return template.CSS(css.String()), template.HTML(patterns.String()), nil
}
