package loadgen

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/event"
)

// attemptsKey is where a worker's context carries its counter of attempts.
type attemptsKey struct{}

// NewMonitor returns a command monitor for the client that Run gets: the
// driver retries on its own, and every attempt beyond a command's first is a
// retry. A client-side timeout lets the driver retry until it has passed,
// not only once.
//
// It listens to the ends of attempts alone; to be told of their starts, the
// driver would copy every command.
func NewMonitor() *event.CommandMonitor {
	return &event.CommandMonitor{
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) { countAttempt(ctx, e.CommandName) },
		Failed:    func(ctx context.Context, e *event.CommandFailedEvent) { countAttempt(ctx, e.CommandName) },
	}
}

// countAttempt is called in the worker's own goroutine, inside Execute.
func countAttempt(ctx context.Context, command string) {
	switch command {
	case "find", "aggregate", "insert", "update", "delete":
		// getMore and killCursors belong to a command that is counted.
		if n, ok := ctx.Value(attemptsKey{}).(*int64); ok {
			*n++
		}
	}
}
