//go:build linux

package machines

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// recipe is all that the root file systems are made from: image/packages are
// installed, what image/masked names is switched off, image/rpms entered in the RPM
// database, and the folders laid over the root of all machines (common) or of
// those with one image. image.go is in it because it says how.
//
//go:embed image image.go
var recipe embed.FS

// BuildImage makes the root file systems, unless the cache has them, and
// returns their folder: base, and for each Image a folder to be laid over it.
// Progress is for people.
func BuildImage(ctx context.Context, progress io.Writer) (string, error) {
	root, err := cacheFolder("images")
	if err != nil {
		return "", err
	}
	key, err := recipeKey()
	if err != nil {
		return "", err
	}
	done := filepath.Join(root, key)
	building, err := os.Open(root)
	if err != nil {
		return "", err
	}
	defer func() { _ = building.Close() }()
	if err := unix.Flock(int(building.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	part := filepath.Join(root, "part") // whoever left one is dead: we have the lock
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if _, err := os.Stat(done); err == nil {
		return done, nil
	}
	_, _ = fmt.Fprintln(progress, "lab: building the machines' root file systems: a minute or two")
	if err := buildImage(ctx, part); err != nil {
		return "", fmt.Errorf("build root file systems: %w", err)
	}
	if err := os.Rename(part, done); err != nil {
		return "", err
	}
	return done, prune(root, key)
}

// prune removes what was built from other recipes and is not in use.
func prune(root, key string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == key {
			continue
		}
		path := filepath.Join(root, e.Name())
		held, err := lock(path, unix.LOCK_EX)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			return err
		}
		err = os.RemoveAll(path)
		_ = held.Close()
		if err != nil {
			return fmt.Errorf("remove old root file systems: %w", err)
		}
	}
	return nil
}

func recipeKey() (string, error) {
	hash := sha256.New()
	_, _ = fmt.Fprintln(hash, runtime.GOARCH)
	err := fs.WalkDir(recipe, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(recipe, name)
		_, _ = fmt.Fprintln(hash, name, len(text))
		_, _ = hash.Write(text)
		return err
	})
	return hex.EncodeToString(hash.Sum(nil))[:16], err
}

// recipeLines is the lines of a file of the recipe without comments.
func recipeLines(name string) ([]string, error) {
	text, err := fs.ReadFile(recipe, "image/"+name)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// output runs a program, in a root if there is one, and returns what it says.
// Whatever it mounts is gone with it.
func output(ctx context.Context, root, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	if root != "" {
		cmd.SysProcAttr.Chroot, cmd.Dir = root, "/"
		cmd.Env = []string{"LC_ALL=C.UTF-8", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", fmt.Errorf("%w: install the Debian packages mmdebstrap, systemd-container, iproute2 and openssh-client", err)
		}
		return "", fmt.Errorf("%s: %w: %s", path.Base(program), err, lastLines(stderr.String(), 10))
	}
	return stdout.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
