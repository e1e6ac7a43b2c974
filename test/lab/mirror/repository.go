package mirror

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// suite is one apt suite below a host.
type suite struct {
	host string
	root string // of the apt tree, what the sources line names: "apt/debian"
	name string // "bookworm/mongodb-org/9.0"
	// pool is where package files are, below root; "" is beside the index,
	// as MongoDB has them.
	pool       string
	key        string
	components map[string][]*debFile
}

// apt writes and signs a suite. Without packages it is an empty, valid one.
func (b *builder) apt(ctx context.Context, s suite) error {
	root := filepath.Join(b.dir, "www", s.host, s.root)
	dists := filepath.Join(root, "dists", s.name)
	components := []string{}
	index := map[string][]byte{}
	for component, packages := range s.components {
		components = append(components, component)
		folder := path.Join(component, "binary-"+b.platform.Deb)
		pool := path.Join(s.pool, component)
		if s.pool == "" {
			pool = path.Join("dists", s.name, folder)
		}
		var text bytes.Buffer
		for _, p := range packages {
			name := path.Join(pool, filepath.Base(p.path))
			if err := link(p.path, filepath.Join(root, name)); err != nil {
				return err
			}
			_, _ = fmt.Fprintf(&text, "%s\nFilename: %s\nSize: %d\nSHA256: %s\n\n", strings.TrimRight(p.control, "\n"), name, p.size, p.sha256)
		}
		index[path.Join(folder, "Packages")] = text.Bytes()
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(text.Bytes()); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		index[path.Join(folder, "Packages.gz")] = packed.Bytes()
	}
	sort.Strings(components)
	var release strings.Builder
	_, _ = fmt.Fprintf(&release, "Origin: sandbox lab\nLabel: sandbox lab\nSuite: %s\nCodename: %s\nArchitectures: %s\nComponents: %s\nDate: %s\nSHA256:\n",
		s.name, s.name, b.platform.Deb, strings.Join(components, " "), time.Now().UTC().Format(time.RFC1123))
	names := []string{}
	for name := range index {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := write(filepath.Join(dists, name), index[name]); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(&release, " %x %d %s\n", sha256.Sum256(index[name]), len(index[name]), name)
	}
	name := filepath.Join(dists, "Release")
	if err := write(name, []byte(release.String())); err != nil {
		return err
	}
	for suffix, form := range map[string]string{"Release.gpg": "--detach-sign", "InRelease": "--clear-sign"} {
		if _, err := b.identity.gpg(ctx, "--armor", "--digest-algo", "SHA512", "--local-user", keyUser(s.key),
			"--output", filepath.Join(dists, suffix), form, name); err != nil {
			return err
		}
	}
	return nil
}

// yumRepository is one yum repository below a host.
type yumRepository struct {
	host, root string // "yum/redhat/9/mongodb-org/9.0/x86_64"
	folder     string // of the packages below root: "RPMS", or ""
	key        string
	groups     [][]pkg
}

// yum builds, signs and indexes a repository; beside it, in the other tree,
// the same with packages that nobody signed. made keeps what a key has signed
// already, so that channels can share packages.
func (b *builder) yum(ctx context.Context, y yumRepository) error {
	signed := filepath.Join(b.dir, "www", y.host, y.root)
	unsigned := filepath.Join(b.dir, "unsigned", y.host, y.root)
	for _, root := range []string{signed, unsigned} {
		if err := os.MkdirAll(filepath.Join(root, y.folder), 0o755); err != nil { //nolint:gosec // served files
			return err
		}
	}
	for _, group := range y.groups {
		made, err := b.signedGroup(ctx, group, y.key)
		if err != nil {
			return err
		}
		for from, to := range map[string]string{"signed": signed, "unsigned": unsigned} {
			names, err := filepath.Glob(filepath.Join(made, from, "*.rpm"))
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := link(name, filepath.Join(to, y.folder, filepath.Base(name))); err != nil {
					return err
				}
			}
		}
	}
	for _, root := range []string{signed, unsigned} {
		if _, err := output(ctx, "", nil, "createrepo_c", "--quiet", "--no-database", "--general-compress-type=gz", root); err != nil {
			return err
		}
	}
	return nil
}

// signedGroup builds a group once per key and returns the folder that has
// it, signed and unsigned.
func (b *builder) signedGroup(ctx context.Context, group []pkg, key string) (string, error) {
	id := fmt.Sprintf("%s-%s-%s-%s", key, group[0].name, group[0].version, group[0].release)
	dir := filepath.Join(b.dir, "rpms", id)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	for _, d := range []string{"unsigned", "signed"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil { //nolint:gosec // served files
			return "", err
		}
	}
	if err := b.rpms(ctx, group, filepath.Join(dir, "unsigned")); err != nil {
		return "", err
	}
	names, err := filepath.Glob(filepath.Join(dir, "unsigned", "*.rpm"))
	if err != nil {
		return "", err
	}
	if len(names) != len(group) {
		return "", fmt.Errorf("package %s: %d of %d packages built", group[0].name, len(names), len(group))
	}
	for _, name := range names {
		e := entry{source: name, mode: 0o644}
		if err := e.write(filepath.Join(dir, "signed", filepath.Base(name))); err != nil {
			return "", err
		}
	}
	return dir, b.sign(ctx, filepath.Join(dir, "signed"), key)
}

// link makes a second name for a file.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // served files
		return err
	}
	err := os.Link(from, to)
	if os.IsExist(err) {
		return nil // two suites share a pool
	}
	return err
}

func write(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // served files
		return err
	}
	return os.WriteFile(name, data, 0o644) //nolint:gosec // served files
}
