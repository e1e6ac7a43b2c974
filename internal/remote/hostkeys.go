package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
	"golang.org/x/sys/unix"
)

// knownHosts is a known_hosts file, in OpenSSH's format. Processes and
// goroutines that share it take turns by a lock on the file.
type knownHosts struct{ path string }

// check accepts a key that is pinned for the address, pins the key of an
// address that has none, and refuses any other.
func (k knownHosts) check(address string, peer net.Addr, key ssh.PublicKey) error {
	return k.locked(func(file *os.File) error {
		err := k.verify(address, peer, key)
		var mismatch *knownhosts.KeyError
		if !errors.As(err, &mismatch) {
			return err
		}
		if len(mismatch.Want) == 0 {
			return appendLine(file, knownhosts.Line([]string{address}, key))
		}
		changed := &HostKeyError{
			Host: knownhosts.Normalize(address), File: k.path, Line: mismatch.Want[0].Line,
			Got: ssh.FingerprintSHA256(key),
		}
		for _, want := range mismatch.Want {
			changed.Pinned = append(changed.Pinned, ssh.FingerprintSHA256(want.Key))
		}
		return changed
	})
}

func (k knownHosts) verify(address string, peer net.Addr, key ssh.PublicKey) error {
	callback, err := knownhosts.New(k.path)
	if err != nil {
		return fmt.Errorf("read host keys: %w", err)
	}
	return callback(address, peer, key)
}

// algorithms lists the host key algorithms to offer, those of pinned keys
// first, so that a server with keys of several kinds shows the pinned one.
func (k knownHosts) algorithms(address string) ([]string, error) {
	order := []string{ssh.KeyAlgoED25519}
	callback, err := knownhosts.New(k.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read host keys: %w", err)
	default:
		// No key is equal to this one, so the error lists those pinned.
		var pinned *knownhosts.KeyError
		if errors.As(callback(address, &net.TCPAddr{}, noKey{}), &pinned) {
			var first []string
			for _, want := range pinned.Want {
				switch kind := want.Key.Type(); kind {
				case ssh.KeyAlgoRSA:
					first = append(first, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
				default:
					first = append(first, kind)
				}
			}
			order = append(first, order...)
		}
	}
	for _, a := range ssh.SupportedAlgorithms().HostKeys {
		// Certificates would need an authority to be checked against.
		if !slices.Contains(order, a) && !strings.Contains(a, "-cert-") {
			order = append(order, a)
		}
	}
	return order, nil
}

// noKey is a public key that no server has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }

// locked runs f with the file open for appending and locked.
func (k knownHosts) locked(f func(*os.File) error) error {
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return fmt.Errorf("pin host key: %w", err)
	}
	file, err := os.OpenFile(k.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("pin host key: %w", err)
	}
	defer func() { _ = file.Close() }() // releases the lock
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("pin host key: lock %s: %w", k.path, err)
		}
	}
	return f(file)
}

func appendLine(file *os.File, line string) error {
	data, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("pin host key: %w", err)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		line = "\n" + line // the rest of an interrupted write
	}
	_, err = file.WriteString(line + "\n")
	if err := errors.Join(err, file.Sync()); err != nil {
		return fmt.Errorf("pin host key: %w", err)
	}
	return nil
}

// ForgetHost removes the pinned keys of a machine that was destroyed, so that
// the next machine with its address is met as a new one. A file or a key that
// is not there is no error.
func ForgetHost(path string, m Machine) error {
	k := knownHosts{path}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	host := []byte(knownhosts.Normalize(m.endpoint()))
	return k.locked(func(file *os.File) error {
		data, err := io.ReadAll(file)
		if err != nil {
			return fmt.Errorf("forget host key: %w", err)
		}
		var kept []byte
		for line := range bytes.Lines(data) {
			fields := bytes.Fields(line)
			if len(fields) > 0 && bytes.Equal(fields[0], host) {
				continue
			}
			kept = append(kept, line...)
		}
		if len(kept) == len(data) {
			return nil
		}
		// In place: a rename would leave others with a lock on the old file.
		// O_APPEND writes at the end, which is the start after the cut.
		if err := file.Truncate(0); err != nil {
			return fmt.Errorf("forget host key: %w", err)
		}
		_, err = file.Write(kept)
		if err := errors.Join(err, file.Sync()); err != nil {
			return fmt.Errorf("forget host key: %w", err)
		}
		return nil
	})
}
