package mirror

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"syscall"
	"time"
)

// sources are what decides the content of the repositories besides the built
// programs: the files inside the packages and the code that makes them.
//
//go:embed build.go catalogue.go distribution.go package.go repository.go files
var sources embed.FS

// module is the module whose programs are packaged.
const module = "github.com/mongo-sandbox/sandbox"

// Options say where to build and with what.
type Options struct {
	// Cache is the folder that keeps what was built; "" is
	// ~/.cache/sandbox-e2e/mirror.
	Cache string
	// Progress is told, in a line, what is being built; nil for silence.
	Progress func(string)
}

// Repositories are built repositories on disk. They are read-only and may be
// served by several servers and processes at once.
type Repositories struct {
	identity *identity
	platform platform
	dir      string   // trees by host: www/<host>/…, unsigned/<host>/…
	lock     *os.File // shared: nobody prunes dir while it is open
}

// platform is the machine the packages are for: the host's own kind, because
// the lab's machines run on its kernel and from its distribution.
type platform struct {
	Distribution string // "debian", "ubuntu"
	Codename     string // "bookworm"
	Deb, RPM     string // names of the architecture: "amd64", "x86_64"
}

// Open returns the repositories, building what the cache does not have. It
// needs the Debian packages rpm, createrepo-c and gnupg, and network for the
// distribution's packages the first time.
func Open(ctx context.Context, o Options) (*Repositories, error) {
	if o.Cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("package mirror: %w", err)
		}
		o.Cache = filepath.Join(home, "sandbox-e2e", "mirror")
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	for _, tool := range []string{"dpkg-deb", "rpmbuild", "rpmsign", "createrepo_c", "gpg", "apt-get"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("package mirror: %s is missing: apt-get install rpm createrepo-c gnupg", tool)
		}
	}
	var r *Repositories
	var err error
	if dir := os.Getenv(preparedVariable); dir != "" {
		r, err = reopen(ctx, dir)
	} else {
		r, err = open(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("package mirror: %w", err)
	}
	return r, nil
}

// reopen takes repositories that are there.
func reopen(ctx context.Context, dir string) (*Repositories, error) {
	p, err := hostPlatform()
	if err != nil {
		return nil, err
	}
	id, err := openIdentity(ctx, filepath.Join(filepath.Dir(filepath.Dir(dir)), "identity"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		return nil, err
	}
	lock, err := flock(filepath.Join(dir, "complete"), syscall.LOCK_SH)
	if err != nil {
		return nil, err
	}
	return &Repositories{identity: id, platform: p, dir: dir, lock: lock}, nil
}

func open(ctx context.Context, o Options) (_ *Repositories, err error) {
	if err := os.MkdirAll(o.Cache, 0o755); err != nil { //nolint:gosec // packages are public
		return nil, err
	}
	// One process builds, the others wait for it.
	building, err := flock(filepath.Join(o.Cache, "lock"), syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer func() { _ = building.Close() }()

	p, err := hostPlatform()
	if err != nil {
		return nil, err
	}
	id, err := openIdentity(ctx, filepath.Join(o.Cache, "identity"))
	if err != nil {
		return nil, err
	}
	programs, err := buildPrograms(ctx, filepath.Join(o.Cache, "bin"), o.Progress)
	if err != nil {
		return nil, err
	}
	distribution, err := downloadDistribution(ctx, filepath.Join(o.Cache, "distribution"), p, o.Progress)
	if err != nil {
		return nil, err
	}
	key, err := contentKey(p, id, programs, distribution)
	if err != nil {
		return nil, err
	}
	trees := filepath.Join(o.Cache, "trees")
	dir := filepath.Join(trees, key)
	if _, err := os.Stat(filepath.Join(dir, "complete")); errors.Is(err, fs.ErrNotExist) {
		b := &builder{platform: p, identity: id, programs: programs, distribution: distribution, dir: dir + ".part",
			progress: o.Progress, built: map[string]*debFile{}}
		if err := b.build(ctx); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		if err := os.Rename(b.dir, dir); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, "complete"), now, now); err != nil {
		return nil, err
	}
	prune(trees, dir)
	return reopen(ctx, dir)
}

// preparedVariable names the folder that Prepare has left to processes that
// inherit the environment.
const preparedVariable = "SANDBOX_LAB_REPOSITORIES"

// Prepare builds what the cache does not have, for which the network is
// needed. An Open in this process and in those that it starts then takes what
// is there and needs neither network nor compiler.
func Prepare(ctx context.Context) error {
	if os.Getenv(preparedVariable) != "" {
		return nil
	}
	r, err := Open(ctx, Options{Progress: func(text string) { _, _ = fmt.Fprintln(os.Stderr, "lab: "+text) }})
	if err != nil {
		return err
	}
	if err := os.Setenv(preparedVariable, r.dir); err != nil {
		return err
	}
	return r.Close()
}

// Close lets a later Open remove the repositories when they have become old.
func (r *Repositories) Close() error { return r.lock.Close() }

func hostPlatform() (platform, error) {
	p := platform{Deb: runtime.GOARCH, RPM: map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]}
	if p.RPM == "" {
		return p, fmt.Errorf("architecture %s: only amd64 and arm64 are known", runtime.GOARCH)
	}
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return p, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch value = strings.Trim(value, `"'`); name {
		case "ID":
			p.Distribution = value
		case "VERSION_CODENAME":
			p.Codename = value
		}
	}
	if p.Distribution != "debian" && p.Distribution != "ubuntu" || p.Codename == "" {
		return p, fmt.Errorf("/etc/os-release: neither Debian nor Ubuntu with a code name")
	}
	return p, nil
}

// contentKey is the same as long as the repositories would be.
func contentKey(p platform, id *identity, programs programs, distribution []string) (string, error) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%+v\n%s\n", p, id.fingerprint())
	names := []string{}
	err := fs.WalkDir(sources, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	sort.Strings(names)
	for _, name := range names {
		data, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(h, "%s %x\n", name, sha256.Sum256(data))
	}
	for _, file := range append([]string{programs.mongod, programs.standin}, distribution...) {
		sum, err := fileSHA256(file)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintf(h, "%s %s\n", filepath.Base(file), sum)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// keepTime is how long repositories stay after their last use.
const keepTime = time.Hour

// prune removes repositories of other keys that nobody has used for a while.
// Nobody else builds meanwhile.
func prune(trees, keep string) {
	entries, err := os.ReadDir(trees)
	if err != nil {
		return // the cache stays larger than needed
	}
	for _, e := range entries {
		dir := filepath.Join(trees, e.Name())
		complete := filepath.Join(dir, "complete")
		if dir == keep {
			continue
		}
		info, err := os.Stat(complete)
		if err != nil {
			_ = os.RemoveAll(dir) // of a build that was killed
			continue
		}
		if time.Since(info.ModTime()) < keepTime {
			continue
		}
		lock, err := flock(complete, syscall.LOCK_EX|syscall.LOCK_NB)
		if err != nil {
			continue // in use
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

func flock(name string, how int) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644) //nolint:gosec // an empty file
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

// programs are paths of executables that the packages contain.
type programs struct {
	mongod  string // the stand-in server
	standin string // docker, pmm-admin and what they talk to, by name of the call
}

// buildPrograms builds them static; Go's build cache makes it quick when
// nothing changed.
func buildPrograms(ctx context.Context, dir string, progress func(string)) (programs, error) {
	progress("building the stand-in programs")
	root, err := output(ctx, "", nil, "go", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return programs{}, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // programs are public
		return programs{}, err
	}
	build := func(name, pkg string) (string, error) {
		file := filepath.Join(dir, name)
		_, err := output(ctx, strings.TrimSpace(root), []string{"CGO_ENABLED=0", "GOFLAGS="}, "go", "build",
			"-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-ldflags=-s -w", "-o", file, pkg)
		return file, err
	}
	var p programs
	if p.mongod, err = build("mongod", "./test/mongod"); err != nil {
		return programs{}, err
	}
	p.standin, err = build("standin", "./"+path.Join("test/lab/mirror", "standin"))
	return p, err
}

// output runs a command and returns what it printed; an error has the end of
// what it complained.
func output(ctx context.Context, dir string, environ []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), append([]string{"LC_ALL=C.UTF-8"}, environ...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		text := strings.TrimSpace(complaint.String())
		if text == "" {
			text = strings.TrimSpace(string(out))
		}
		if lines := strings.Split(text, "\n"); len(lines) > 12 {
			text = strings.Join(lines[len(lines)-12:], "\n")
		}
		return "", fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return string(out), nil
}
