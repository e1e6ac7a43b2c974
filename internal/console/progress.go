package console

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows pieces of work that go on side by side: redrawn lines with
// a bar on a terminal, plain lines elsewhere.
type Progress struct {
	console *Console
	bars    *mpb.Progress // nil where Err is no terminal
}

// NewProgress starts showing progress; Close ends it.
func (c *Console) NewProgress() *Progress {
	p := &Progress{console: c}
	if c.ErrTerminal {
		p.bars = mpb.New(mpb.WithOutput(c.Err), mpb.ForceAutoRefresh(), mpb.WithWidth(24), mpb.WithRefreshRate(150*time.Millisecond))
	}
	return p
}

// Notef writes a line above the work that is shown.
func (p *Progress) Notef(format string, args ...any) {
	if p.bars != nil {
		_, _ = fmt.Fprintf(p.bars, format+"\n", args...)
		return
	}
	p.console.Notef(format, args...)
}

// Close stops drawing and leaves the last state on the screen. Every task
// must have ended.
func (p *Progress) Close() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

// State is what a task shows. Done and Total are in any unit; a Total of 0
// means that the end is not known.
type State struct {
	Done, Total int64
	Detail      string   // beside the bar: counts, rate, phase
	Lines       []string // below it, on a terminal only, up to twelve
}

// Task is one piece of work in a Progress. Its methods may be called from
// any goroutine.
type Task struct {
	progress *Progress
	name     string
	bar      *mpb.Bar

	mu      sync.Mutex
	state   State
	began   time.Time // of the current phase
	printed time.Time
	ended   bool
	result  string
}

// Task adds a piece of work.
func (p *Progress) Task(name string) *Task {
	t := &Task{progress: p, name: name, began: time.Now()}
	if p.bars == nil {
		return t
	}
	// A total of 0 keeps the bar from ending by itself: Done and Fail do that.
	t.bar = p.bars.New(0, mpb.BarStyle().Lbound("").Rbound("").Filler("█").Tip("█").Padding("░"),
		mpb.BarFillerClearOnComplete(), mpb.BarFillerClearOnAbort(),
		mpb.PrependDecorators(decor.Name(name+" ", decor.WCSyncSpaceR)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return t.summary() })),
		mpb.BarBtmExtender(t.lineFillers()...),
	)
	return t
}

// maxLines is how many of a state's Lines are shown.
const maxLines = 12

// lineFillers draw the state's lines; each filler draws one, if it is there.
func (t *Task) lineFillers() []mpb.BarFiller {
	fillers := make([]mpb.BarFiller, maxLines)
	for i := range fillers {
		fillers[i] = mpb.BarFillerFunc(func(w io.Writer, _ decor.Statistics) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.ended || i >= len(t.state.Lines) {
				return nil
			}
			_, err := fmt.Fprintln(w, t.state.Lines[i])
			return err
		})
	}
	return fillers
}

// summary is the text beside the bar.
func (t *Task) summary() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return t.result
	}
	return t.line()
}

// line renders the state: detail and an estimate of what is left. The
// caller holds the lock.
func (t *Task) line() string {
	s := t.state
	if s.Total <= 0 || s.Done <= 0 || s.Done >= s.Total {
		return s.Detail
	}
	left := time.Duration(float64(time.Since(t.began)) * float64(s.Total-s.Done) / float64(s.Done))
	return fmt.Sprintf("%s, %s left", s.Detail, Duration(left))
}

// Update shows a new state. When Done goes back a new phase has begun and
// the estimate starts anew.
func (t *Task) Update(s State) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	now := time.Now()
	if s.Done < t.state.Done || s.Total != t.state.Total {
		t.began = now
	}
	t.state = s
	plain := ""
	if t.bar == nil && now.Sub(t.printed) >= t.progress.console.PlainEvery {
		t.printed = now
		plain = t.name + ": " + t.line()
		if s.Total > 0 {
			plain = fmt.Sprintf("%s: %d%% %s", t.name, 100*s.Done/s.Total, t.line())
		}
	}
	t.mu.Unlock()
	if t.bar != nil {
		t.bar.SetTotal(max(s.Total, 1), false)
		t.bar.SetCurrent(min(s.Done, s.Total))
	}
	if plain != "" {
		t.progress.console.Notef("%s", plain)
	}
}

// Done ends the task with a result.
func (t *Task) Done(result string) { t.end("✓ " + result) }

// Fail ends the task with what went wrong; only the first line is shown.
func (t *Task) Fail(reason string) {
	first, _, _ := strings.Cut(reason, "\n")
	t.end("✗ " + first)
}

func (t *Task) end(result string) {
	t.mu.Lock()
	if t.ended {
		t.mu.Unlock()
		return
	}
	t.ended, t.result = true, result
	t.mu.Unlock()
	if t.bar != nil {
		t.bar.SetTotal(-1, true)
		return
	}
	t.progress.console.Notef("%s: %s", t.name, result)
}
