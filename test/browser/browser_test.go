//go:build e2e

package browser

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// golden is where the reports are, as the tests of internal/report keep them.
const golden = "../../internal/report/testdata"

// pictures is where screenshots go, to be looked at. Git ignores it.
const pictures = "screenshots"

// tab is a page in a browser, and what it did.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	file     string // open now
	requests []string
	problems []string // of the console
}

// open starts a browser of its own with a file.
func open(t *testing.T, file string) *tab {
	t.Helper()
	browser := ""
	for _, name := range []string{os.Getenv("BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if name != "" && browser == "" {
			browser = name
			if !strings.Contains(name, "/") && !onPath(name) {
				browser = ""
			}
		}
	}
	if browser == "" {
		t.Fatal("no Chromium: apt-get install chromium, or set BROWSER")
	}
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		// Whatever the browser itself would ask for has no address.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.WindowSize(1100, 900),
	)...)
	t.Cleanup(cancel)
	x := &tab{t: t}
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithListener(x.event))
	t.Cleanup(cancel)
	// The context of the first action is that of the browser: no limit yet.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	x.ctx, cancel = context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	t.Cleanup(x.quiet)
	x.goTo(file)
	return x
}

func onPath(name string) bool {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

func (x *tab) event(ev any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e := ev.(type) {
	case *network.EventRequestWillBeSent:
		x.requests = append(x.requests, e.Request.URL)
	case *runtime.EventConsoleAPICalled:
		x.problems = append(x.problems, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		x.problems = append(x.problems, "exception: "+e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		x.problems = append(x.problems, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	if err := chromedp.Do(x.ctx, steps...); err != nil {
		x.t.Fatal(err)
	}
}

func evaluate[T any](x *tab, script string) T {
	x.t.Helper()
	v, err := chromedp.Run(x.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		x.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// goTo opens a file.
func (x *tab) goTo(file string) {
	x.t.Helper()
	x.quiet()
	path, err := filepath.Abs(file)
	if err != nil {
		x.t.Fatal(err)
	}
	address := (&url.URL{Scheme: "file", Path: path}).String()
	x.mu.Lock()
	x.file = address
	x.mu.Unlock()
	x.do(chromedp.Navigate(address))
}

// quiet checks that the open file asked for nothing but itself and had
// nothing to say on the console.
func (x *tab) quiet() {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.requests {
		// The empty icon and pictures inside of the page are no requests.
		if r != x.file && !strings.HasPrefix(r, "data:") {
			x.t.Errorf("%s asked for %s", filepath.Base(x.file), r)
		}
	}
	for _, p := range x.problems {
		x.t.Errorf("%s: %s", filepath.Base(x.file), p)
	}
	x.requests, x.problems = nil, nil
}

// media sets what the page is shown on: screen or print, light or dark.
func (x *tab) media(media, scheme string) {
	x.t.Helper()
	x.do(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	})
}

func (x *tab) picture(name string, of chromedp.Action[[]byte]) {
	x.t.Helper()
	data, err := chromedp.Run(x.ctx, of)
	if err != nil {
		x.t.Fatalf("%s: %v", name, err)
	}
	if len(data) < 2000 {
		x.t.Errorf("%s: a picture of %d bytes", name, len(data))
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(pictures, name), data, 0o644); err != nil {
		x.t.Fatal(err)
	}
}

// ugly lists texts of charts that are cut off or lie on one another, and
// what makes the page wider than the window.
func (x *tab) ugly() []string {
	x.t.Helper()
	return evaluate[[]string](x, `(function () {
  var bad = [];
  document.querySelectorAll("svg.chart, svg[role=img]").forEach(function (svg) {
    var box = svg.getBoundingClientRect();
    var name = svg.getAttribute("aria-label") || document.title;
    var texts = Array.prototype.filter.call(svg.querySelectorAll("text"), function (t) { return t.textContent.trim() && t.getClientRects().length; });
    var at = texts.map(function (t) { return t.getBoundingClientRect(); });
    var scale = box.width / svg.viewBox.baseVal.width;
    at.forEach(function (a, i) {
      if (a.left < box.left - 1 || a.right > box.right + 1 || a.top < box.top - 1 || a.bottom > box.bottom + 1)
        bad.push(name + ": cut off: " + texts[i].textContent);
      for (var k = 0; k < i; k++) {
        var b = at[k];
        var wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 * scale && high > 4 * scale) bad.push(name + ": " + texts[k].textContent + " lies on " + texts[i].textContent);
      }
    });
  });
  var root = document.documentElement;
  if (root.tagName === "html" && root.scrollWidth > root.clientWidth) bad.push("the page is " + root.scrollWidth + " wide in a window of " + root.clientWidth);
  return bad;
})()`)
}

func TestReports(t *testing.T) {
	for _, name := range []string{"published", "embedded", "troubled"} {
		t.Run(name, func(t *testing.T) {
			x := open(t, filepath.Join(golden, name+".html"))
			sections := evaluate[[]string](x, `Array.prototype.map.call(document.querySelectorAll("main > section"), function (s) { return s.id; })`)
			if len(sections) < 4 {
				t.Errorf("sections %v", sections)
			}
			for _, shown := range []struct{ name, media, scheme string }{
				{"light", "screen", "light"}, {"dark", "screen", "dark"}, {"print", "print", "dark"},
			} {
				x.media(shown.media, shown.scheme)
				if name == "published" { // in pieces that can be looked at
					x.picture(fmt.Sprintf("%s-%s-0-head.png", name, shown.name), chromedp.Screenshot(chromedp.CSS("header")))
					for i, id := range sections {
						x.picture(fmt.Sprintf("%s-%s-%d-%s.png", name, shown.name, i+1, id), chromedp.Screenshot(chromedp.CSS("#"+id)))
					}
				} else {
					x.picture(fmt.Sprintf("%s-%s.png", name, shown.name), chromedp.FullScreenshot(100))
				}
				// Paper is white, whatever the reader's screen is.
				dark := evaluate[string](x, `getComputedStyle(document.body).backgroundColor`) == "rgb(20, 23, 27)"
				if dark != (shown.name == "dark") {
					t.Errorf("%s: dark is %v", shown.name, dark)
				}
			}
			x.media("screen", "light")
			for _, bad := range x.ugly() {
				t.Error(bad)
			}
			x.media("", "dark") // the printer's own, whatever the reader's screen is
			x.picture(name+".pdf", chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4)))
			x.media("screen", "light")
			x.do(chromedp.EmulateViewport(390, 844))
			for _, bad := range x.ugly() {
				t.Errorf("on a telephone: %s", bad)
			}
			x.picture(name+"-telephone.png", chromedp.CaptureScreenshot())
		})
	}
}

// shown counts the marks of a series that can be seen.
func (x *tab) shown(series int) int {
	return evaluate[int](x, fmt.Sprintf(`Array.prototype.filter.call(document.querySelectorAll(".chart .t%d"), function (m) { return m.getClientRects().length > 0; }).length`, series))
}

func TestLegend(t *testing.T) {
	x := open(t, filepath.Join(golden, "published.html"))
	before, others := x.shown(2), x.shown(1)
	if before == 0 || others == 0 {
		t.Fatalf("%d and %d marks", before, others)
	}
	button := `#throughput-by-size button[data-series="2"]`
	check := func(how string, want int, pressed string) {
		t.Helper()
		if got := x.shown(2); got != want {
			t.Errorf("%s: %d marks of the series are shown, want %d", how, got, want)
		}
		if got := x.shown(1); got != others {
			t.Errorf("%s: %d marks of another series are shown, want %d", how, got, others)
		}
		states := evaluate[[]string](x, `Array.prototype.map.call(document.querySelectorAll('button[data-series="2"]'), function (b) { return b.getAttribute("aria-pressed"); })`)
		for _, s := range states {
			if s != pressed {
				t.Errorf("%s: the legends' buttons say %v, want all %s", how, states, pressed)
				break
			}
		}
	}
	x.do(chromedp.Click(chromedp.CSS(button)))
	check("a click", 0, "false")
	x.picture("published-switched-off.png", chromedp.Screenshot(chromedp.CSS("#throughput-by-size")))
	x.do(chromedp.Click(chromedp.CSS(button)))
	check("a second click", before, "true")

	// By keyboard: from the top of the page, as somebody without a mouse.
	evaluate[bool](x, `(document.activeElement.blur(), window.scrollTo(0, 0), true)`)
	reached := false
	for range 200 {
		x.do(chromedp.KeyEvent(kb.Tab))
		if evaluate[bool](x, `document.activeElement.matches('button[data-series="2"]')`) {
			reached = true
			break
		}
	}
	if !reached {
		t.Fatal("the legend is not reached with the Tab key")
	}
	if width := evaluate[string](x, `getComputedStyle(document.activeElement).outlineWidth`); width != "3px" {
		t.Errorf("the outline of what has the focus is %s wide", width)
	}
	x.do(chromedp.KeyEvent(" "))
	check("the space bar", 0, "false")
	x.do(chromedp.KeyEvent(kb.Enter))
	check("the Enter key", before, "true")
}

// A chart is one stop of the Tab key; the arrow keys go from point to point
// and each says its numbers.
func TestPointsByKeyboard(t *testing.T) {
	x := open(t, filepath.Join(golden, "published.html"))
	tip := func() string {
		return evaluate[string](x, `(document.getElementById("tip") || {textContent: ""}).textContent`)
	}
	chart := func() string {
		return evaluate[string](x, `(document.activeElement.closest("svg.chart") || document.body).getAttribute("aria-label") || ""`)
	}
	for range 200 {
		x.do(chromedp.KeyEvent(kb.Tab))
		if chart() != "" {
			break
		}
	}
	first, title := tip(), chart()
	if title == "" || !strings.Contains(first, "against mongo9") {
		t.Fatalf("chart %q, tip %q", title, first)
	}
	x.do(chromedp.KeyEvent(kb.ArrowRight))
	if second := tip(); second == first || second == "" || chart() != title {
		t.Errorf("after the arrow: %q in %q", second, chart())
	}
	x.picture("published-tip.png", chromedp.CaptureScreenshot())
	x.do(chromedp.KeyEvent(kb.Home))
	if got := tip(); got != first {
		t.Errorf("after Home: %q", got)
	}
	x.do(chromedp.KeyEvent(kb.Escape))
	if got := tip(); got != "" {
		t.Errorf("after Escape: %q", got)
	}
	x.do(chromedp.KeyEvent(kb.Tab))
	if chart() == title {
		t.Error("the chart holds the Tab key")
	}
	// What is switched off is no stop.
	x.do(chromedp.Click(chromedp.CSS(`#differences button[data-series="2"]`)))
	stops := evaluate[[]string](x, `Array.prototype.map.call(document.querySelectorAll('.chart [tabindex="0"]'), function (p) { return p.getClientRects().length ? "" : p.getAttribute("aria-label"); }).filter(Boolean)`)
	if len(stops) > 0 {
		t.Errorf("hidden, and stops of the Tab key: %v", stops)
	}
}

// A point that has the focus keeps its colours within an outline, and its tip
// lies on no other point of its series.
func TestTips(t *testing.T) {
	x := open(t, filepath.Join(golden, "published.html"))
	x.do(chromedp.KeyEvent(kb.Tab)) // the focus comes by keyboard
	seen := evaluate[[]string](x, `(function () {
  var out = [];
  document.querySelectorAll("svg.chart [tabindex]").forEach(function (p) {
    var name = p.getAttribute("aria-label"), look = function () { var s = getComputedStyle(p); return s.fill + " " + s.stroke; };
    var before = look();
    p.scrollIntoView({ block: "center" });
    p.focus();
    if (look() !== before) out.push(name + ": from " + before + " to " + look());
    if (getComputedStyle(p).outlineStyle !== "solid") out.push(name + ": no outline");
    var tip = document.getElementById("tip").getBoundingClientRect(), series = /\bt\d+\b/.exec(p.getAttribute("class"))[0];
    p.closest("figure").querySelectorAll(".chart .point." + series + ", .chart .dot." + series + ", .chart .bar." + series).forEach(function (o) {
      var r = o.getBoundingClientRect();
      if (r.left < tip.right && r.right > tip.left && r.top < tip.bottom && r.bottom > tip.top) out.push(name + ": its tip lies on " + (o === p ? "itself" : o.querySelector("title").textContent));
    });
    out.push("");
  });
  return out;
})()`)
	points := 0
	for _, text := range seen {
		if text == "" {
			points++
		} else {
			t.Error(text)
		}
	}
	if points < 30 {
		t.Errorf("%d points", points)
	}
	for i, point := range []string{"#differences .point", "#throughput-by-size .bar.t2", "#throughput-over-time .course.t2"} {
		evaluate[bool](x, fmt.Sprintf(`(function (p) { p.scrollIntoView({ block: "center" }); p.focus(); return true; })(document.querySelector(%q))`, point))
		x.picture(fmt.Sprintf("published-tip-%d.png", i+1), chromedp.CaptureScreenshot())
	}
}

// The figures of the Markdown form stand alone.
func TestFigureFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(golden, "published", "report-figures", "*.svg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %d files", err, len(files))
	}
	x := open(t, files[0])
	for _, file := range files {
		x.goTo(file)
		for _, bad := range x.ugly() {
			t.Errorf("%s: %s", filepath.Base(file), bad)
		}
		// It is readable on any page: its ground is white and covers it.
		if ground := evaluate[string](x, `getComputedStyle(document.querySelector(".paper")).fill`); ground != "rgb(255, 255, 255)" {
			t.Errorf("%s: the ground is %s", filepath.Base(file), ground)
		}
		x.do(chromedp.EmulateViewport(920, evaluate[int64](x, `document.documentElement.viewBox.baseVal.height`)))
		x.picture("figure-"+strings.TrimSuffix(filepath.Base(file), ".svg")+".png", chromedp.CaptureScreenshot())
	}
}
