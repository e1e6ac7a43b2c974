package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the scripts that run on the machine
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The scripts' first lines say what they take and print.
var (
	//go:embed put.sh
	putScript string
	//go:embed get.sh
	getScript string
)

// CopyOptions says how a file arrives.
type CopyOptions struct {
	// Mode is the permissions of the file that arrives. Zero means 0600.
	Mode fs.FileMode
	// Sudo reads or writes the machine's file as root.
	Sudo bool
}

func (o CopyOptions) mode() fs.FileMode {
	if o.Mode == 0 {
		return 0o600
	}
	return o.Mode.Perm()
}

// CopyTo copies a local file to the machine, unless the same content is there
// already: copied says which. The file appears under its name whole, checked
// and in one step; its directory must exist.
func (c *Conn) CopyTo(ctx context.Context, local, remote string, o CopyOptions) (copied bool, err error) {
	file, err := os.Open(local)
	if err != nil {
		return false, fmt.Errorf("copy to %s: %w", c.machine.name(), err)
	}
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return false, fmt.Errorf("copy to %s: %w", c.machine.name(), err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("copy to %s: %w", c.machine.name(), err)
	}
	return c.put(ctx, file, hexSum(sum), remote, o)
}

// WriteFile writes a small file on the machine, as CopyTo does. It is the way
// for secrets: the data is in no argument.
func (c *Conn) WriteFile(ctx context.Context, remote string, data []byte, o CopyOptions) (written bool, err error) {
	sum := sha256.New()
	_, _ = sum.Write(data)
	return c.put(ctx, bytes.NewReader(data), hexSum(sum), remote, o)
}

// put sends the checksum ahead of the data, in the data's own stream: that of
// a short secret is better kept out of arguments too.
func (c *Conn) put(ctx context.Context, data io.Reader, sum, remote string, o CopyOptions) (bool, error) {
	said, err := c.output(ctx, Command{
		Name: "copy to " + remote, Script: putScript, Args: []string{remote, fmt.Sprintf("%04o", o.mode())},
		Sudo: o.Sudo, Stdin: io.MultiReader(strings.NewReader(sum+"\n"), data),
	})
	if err != nil {
		return false, wrap(c.machine, err)
	}
	switch got, damaged := strings.CutPrefix(said, "damaged "); {
	case damaged:
		return false, wrap(c.machine, &ChecksumError{Path: remote, Want: sum, Got: got})
	case said == "copied", said == "same":
		return said == "copied", nil
	}
	return false, wrap(c.machine, fmt.Errorf("copy to %s: unexpected answer %q", remote, said))
}

// CopyFrom copies a file of the machine to a local path, where it appears
// whole, checked and in one step; its directory must exist.
func (c *Conn) CopyFrom(ctx context.Context, remote, local string, o CopyOptions) error {
	tmp, err := os.CreateTemp(filepath.Dir(local), "."+filepath.Base(local)+"-*")
	if err != nil {
		return fmt.Errorf("copy from %s: %w", c.machine.name(), err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	defer func() { _ = tmp.Close() }()
	w := &checkedWriter{to: tmp, sum: sha256.New()}
	err = c.run(ctx, Command{
		Name: "copy from " + remote, Script: getScript, Args: []string{remote}, Sudo: o.Sudo, Stdout: w,
	})
	if err != nil {
		return wrap(c.machine, err)
	}
	if got := hexSum(w.sum); string(w.head) != got+"\n" {
		return wrap(c.machine, &ChecksumError{Path: local, Want: strings.TrimSpace(string(w.head)), Got: got})
	}
	if err := errors.Join(tmp.Chmod(o.mode()), tmp.Sync(), tmp.Close(), os.Rename(tmp.Name(), local)); err != nil {
		return fmt.Errorf("copy from %s: %w", c.machine.name(), err)
	}
	return nil
}

const sha256Hex = 2 * sha256.Size

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// checkedWriter takes a line with a checksum off the front of a stream and
// sums up the rest on its way.
type checkedWriter struct {
	to   io.Writer
	sum  hash.Hash
	head []byte
}

func (w *checkedWriter) Write(p []byte) (int, error) {
	n := min(sha256Hex+1-len(w.head), len(p))
	w.head = append(w.head, p[:n]...)
	_, _ = w.sum.Write(p[n:])
	m, err := w.to.Write(p[n:])
	return n + m, err
}
