// Package secret holds values that must never be shown by accident.
//
// In go passwords and keyfiles; out come values that print, format and
// marshal as "[redacted]", and files of mode 0600. The package does not
// encrypt anything: a secret is as safe as the file system it lives on.
package secret

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Redacted is what every rendering of a Text shows in place of its value.
const Redacted = "[redacted]"

// Text is a secret string. Its zero value is the empty secret.
type Text struct{ value string }

// New wraps value.
func New(value string) Text { return Text{value} }

// Generate returns a random secret of n characters out of [A-Za-z0-9_-],
// six bits of entropy each, safe in URIs, shells and YAML without quoting.
func Generate(n int) Text {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails: crypto/rand.Read ends the program instead
	return Text{base64.RawURLEncoding.EncodeToString(raw)[:n]}
}

// Reveal returns the value itself. Callers pass it on to a file or a
// protocol, never to a message.
func (t Text) Reveal() string { return t.value }

// IsEmpty reports whether there is no value.
func (t Text) IsEmpty() bool { return t.value == "" }

// Format implements fmt.Formatter for every verb, so that %v, %+v, %#v, %q
// and %x are all redacted.
func (t Text) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Redacted)) }

// String implements fmt.Stringer.
func (t Text) String() string { return Redacted }

// MarshalText implements encoding.TextMarshaler and with it JSON and YAML.
func (t Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// Write stores the value in a file of mode 0600, replacing what was there
// in one step.
func (t Text) Write(path string) error {
	if err := WriteFile(path, []byte(t.value)); err != nil {
		return fmt.Errorf("store secret: %w", err)
	}
	return nil
}

// WriteFile replaces the file at path with one of mode 0600 in one step, and
// makes the folder if there is none. It serves the files that belong beside
// secrets as well. Its errors name the file.
func WriteFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600 by definition
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(tmp.Name(), path)
}

// Read loads a secret from a file, without the white space around it. A
// file that others may read is refused.
func Read(path string) (Text, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Text{}, fmt.Errorf("read secret: %w", err)
	}
	if info.Mode()&fs.ModePerm&0o077 != 0 {
		return Text{}, fmt.Errorf("read secret %s: others may read it (mode %04o, want 0600)", path, info.Mode().Perm())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Text{}, fmt.Errorf("read secret: %w", err)
	}
	return Text{strings.TrimSpace(string(data))}, nil
}

// LoadOrCreate reads the secret at path, or generates one of n characters
// and stores it there.
func LoadOrCreate(path string, n int) (Text, error) {
	t, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t = Generate(n)
	return t, t.Write(path)
}
