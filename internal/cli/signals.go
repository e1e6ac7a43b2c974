package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/console"
)

// echo is how soon after the first a signal is the same one again: a Ctrl-C
// reaches the whole process group, and what stands between the terminal and
// this program may pass its own on.
const echo = 100 * time.Millisecond

// withInterrupts returns a context that the first SIGINT or SIGTERM
// cancels: the command stops gracefully and keeps what it has. The second
// says what may be left running and ends the program at once, with exit.
func withInterrupts(parent context.Context, c *console.Console, risk *risk, exit func(int)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		c.Notef("interrupted: stopping gracefully; once more to stop at once")
		cancel()
		for first := time.Now(); time.Since(first) < echo; {
			<-signals
		}
		c.Notef("stopped at once: %s", risk.text())
		exit(exitInterrupted)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

// risk is what is left when the program ends at once.
type risk struct {
	mu  sync.Mutex
	now func() string
}

// of says what is at risk from now on, until the function that it returns is
// called.
func (r *risk) of(text func() string) (over func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.now
	r.now = text
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.now = before
	}
}

func (r *risk) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now != nil {
		return r.now()
	}
	return "servers of the environment may be running (`sandbox status`, `sandbox down`); what was measured is kept (`sandbox bench --resume`)"
}

// makingRisk is what is at risk while machines are made and installed.
func makingRisk(name string, unfinished []string) string {
	text := "what was made so far of the environment runs and costs money"
	if len(unfinished) > 0 {
		text += fmt.Sprintf("; these were not finished and may do so as well: %s", strings.Join(unfinished, ", "))
	}
	return text + fmt.Sprintf(". `sandbox down --env %s` removes all of it, and `sandbox up` again goes on", name)
}

// removalRisk is what is at risk while an environment is removed.
func removalRisk(name, project string, unfinished []string) string {
	if project != "" {
		name += " --project " + project
	}
	return "what was not removed yet runs on and costs money" + beingRemoved(unfinished) + fmt.Sprintf(". `sandbox down --env %s` goes on", name)
}

// sweepRisk is what is at risk while the environments of a project are removed.
func sweepRisk(environments []string, project string, unfinished []string) string {
	return fmt.Sprintf("what was not removed yet of %s runs on and costs money", strings.Join(environments, ", ")) + beingRemoved(unfinished) +
		fmt.Sprintf(". `sandbox sweep --remove --project %s` goes on", project)
}

func beingRemoved(unfinished []string) string {
	if len(unfinished) == 0 {
		return ""
	}
	return fmt.Sprintf(", perhaps these, which were being removed, too: %s", strings.Join(unfinished, ", "))
}
