package cli

import (
	"context"
	"os"
	"os/signal"
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
// says that things may be left running and ends the program at once.
func withInterrupts(parent context.Context, c *console.Console) (context.Context, context.CancelFunc) {
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
		c.Notef("stopped at once: servers of the environment may be running (`sandbox status`, `sandbox down`); what was measured is kept (`sandbox bench --resume`)")
		os.Exit(exitInterrupted)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
