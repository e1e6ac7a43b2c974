package remote

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
)

// noise is data that no compression or guess reproduces.
func noise(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

func TestCopyTo(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	ctx := testContext(t)
	from := filepath.Join(t.TempDir(), "from")
	dir := t.TempDir()
	to := filepath.Join(dir, "a name with 'quotes'")
	check := func(step string, want []byte, mode os.FileMode) {
		t.Helper()
		if got := read(t, to); got != string(want) {
			t.Fatalf("%s: %d bytes arrived, want %d", step, len(got), len(want))
		}
		if info, _ := os.Stat(to); info.Mode() != mode {
			t.Errorf("%s: mode %v, want %v", step, info.Mode(), mode)
		}
		if got := names(t, dir); got != filepath.Base(to) {
			t.Errorf("%s: left in the directory: %s", step, got)
		}
	}
	for _, data := range [][]byte{{}, []byte("no line feed"), noise(1 << 20)} {
		write(t, from, string(data))
		if copied, err := c.CopyTo(ctx, from, to, CopyOptions{}); err != nil || !copied {
			t.Fatalf("%v, %v", copied, err)
		}
		check("new", data, 0o600)
		if copied, err := c.CopyTo(ctx, from, to, CopyOptions{Mode: 0o755}); err != nil || copied {
			t.Fatalf("the same again: %v, %v", copied, err)
		}
		check("same", data, 0o755)
	}
	if written, err := c.WriteFile(ctx, to, []byte("short\n"), CopyOptions{Mode: 0o640}); err != nil || !written {
		t.Fatalf("%v, %v", written, err)
	}
	check("written", []byte("short\n"), 0o640)

	_, err := c.CopyTo(ctx, from, filepath.Join(dir, "absent", "x"), CopyOptions{})
	if exit := as[*ExitError](t, err); exit.Stderr == "" {
		t.Error(err)
	}
	_, err = c.CopyTo(ctx, from, dir, CopyOptions{})
	if exit := as[*ExitError](t, err); !strings.Contains(exit.Stderr, "is a directory") {
		t.Error(err)
	}
	if _, err = c.CopyTo(ctx, filepath.Join(dir, "absent"), to, CopyOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// What arrives is not what was announced.
	_, err = c.put(ctx, strings.NewReader("other"), hexSum(sha256.New()), to, CopyOptions{})
	if bad := as[*ChecksumError](t, err); bad.Path != to {
		t.Errorf("%+v", bad)
	}
	check("after a damaged copy", []byte("short\n"), 0o640)
}

func TestCopyFrom(t *testing.T) {
	s := newSite(t)
	c := s.dial()
	ctx := testContext(t)
	from := filepath.Join(t.TempDir(), "from")
	dir := t.TempDir()
	to := filepath.Join(dir, "to")
	for _, data := range [][]byte{{}, []byte("x"), noise(1 << 20)} {
		write(t, from, string(data))
		if err := c.CopyFrom(ctx, from, to, CopyOptions{Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, to); got != string(data) {
			t.Fatalf("%d bytes arrived, want %d", len(got), len(data))
		}
	}
	_ = as[*ExitError](t, c.CopyFrom(ctx, from+"-absent", to, CopyOptions{}))
	if err := c.CopyFrom(ctx, from, filepath.Join(dir, "absent", "x"), CopyOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if got := names(t, dir); got != "to" {
		t.Errorf("left in the directory: %s", got)
	}
	if info, _ := os.Stat(to); info.Mode() != 0o644 {
		t.Error(info.Mode())
	}
}

// A connection that is lost in the middle of a copy leaves what was there.
func TestLostUnderACopy(t *testing.T) {
	s := newSite(t)
	dir, data := t.TempDir(), noise(4<<20)
	to := filepath.Join(dir, "to")
	write(t, to, "as before")

	w := sshdtest.NewWire(t, s.Port, 2<<20)
	m := s.machine()
	m.Port = w.Port()
	_, err := s.dialTo(m).WriteFile(testContext(t), to, data, CopyOptions{})
	_ = as[*LostError](t, err)
	eventually(t, "the half copy is cleaned up", func() bool { return names(t, dir) == "to" })
	if got := read(t, to); got != "as before" {
		t.Errorf("%d bytes", len(got))
	}

	write(t, filepath.Join(dir, "big"), string(data))
	here := t.TempDir()
	err = s.dialTo(m).CopyFrom(testContext(t), filepath.Join(dir, "big"), filepath.Join(here, "to"), CopyOptions{})
	_ = as[*LostError](t, err)
	if got := names(t, here); got != "" {
		t.Errorf("left in the directory: %s", got)
	}
}
