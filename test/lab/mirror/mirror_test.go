//go:build e2e && linux

package mirror

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// address is one of the loopback network that nothing else uses.
const address = "127.83.7.1"

var progress = func(text string) { fmt.Fprintln(os.Stderr, text) }

func open_(t *testing.T) *Repositories {
	t.Helper()
	r, err := Open(t.Context(), Options{Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestOpen(t *testing.T) {
	start := time.Now()
	r := open_(t)
	t.Log(time.Since(start), r.dir)
	_ = context.Background
	_ = io.Discard
	_ = http.MethodGet
	_ = exec.Command
	_ = filepath.Join
	_ = strings.Cut
}
