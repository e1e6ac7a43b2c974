package cli

import (
	"bytes"
	"syscall"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/console"
)

// TestEchoOfAnInterrupt sends the same interrupt twice, as a terminal and a
// wrapper between it and this program do. Taken for a second one, it would
// end the test.
func TestEchoOfAnInterrupt(t *testing.T) {
	var notes bytes.Buffer
	ctx, stop := withInterrupts(t.Context(), &console.Console{Err: &notes})
	for range 2 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	time.Sleep(echo / 2) // for what must not happen
	stop()
}
