package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
)

// TestEchoOfAnInterrupt sends the same interrupt twice, as a terminal and a
// wrapper between it and this program do. Taken for a second one, it would
// end the test.
func TestEchoOfAnInterrupt(t *testing.T) {
	var notes bytes.Buffer
	ctx, stop := withInterrupts(t.Context(), &console.Console{Err: &notes}, &risk{}, os.Exit)
	for range 2 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	time.Sleep(echo / 2) // for what must not happen
	stop()
}

// The second interrupt says what may be left in the cloud, and how to remove
// it.
func TestSecondInterrupt(t *testing.T) {
	var notes bytes.Buffer
	c := &console.Console{Err: &notes}
	progress := newStepProgress(&console.Console{Err: &bytes.Buffer{}})
	defer progress.close()
	progress.resource(gcp.Event{Stage: gcp.StageApply, Phase: gcp.Started, Total: 3})
	for _, name := range []string{"x-rs-0", "x-rs-1"} {
		progress.resource(gcp.Event{Stage: gcp.StageApply, Kind: "machine", Name: name, Action: gcp.Create, Phase: gcp.Started})
	}
	progress.resource(gcp.Event{Stage: gcp.StageApply, Kind: "machine", Name: "x-rs-0", Action: gcp.Create, Phase: gcp.Done})

	r := &risk{}
	over := r.of(func() string { return makingRisk("x", progress.unfinished()) })
	ended := make(chan int)
	ctx, stop := withInterrupts(t.Context(), c, r, func(code int) { ended <- code })
	defer stop()
	interrupt := func() {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	<-ctx.Done()
	code := 0
	for code == 0 { // those too close to the first are its echo
		interrupt()
		select {
		case code = <-ended:
		case <-time.After(echo):
		}
	}
	if code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	text := notes.String()
	says(t, text, "runs and costs money", "not finished and may do so as well: machine x-rs-1.", "`sandbox down --env x`")
	if strings.Contains(text, "x-rs-0") {
		t.Errorf("what was finished is called unfinished: %s", text)
	}
	over()
	says(t, r.text(), "sandbox status")
	says(t, removalRisk("x", "p", []string{"disk d"}), "costs money", "disk d", "`sandbox down --env x --project p`")
}
