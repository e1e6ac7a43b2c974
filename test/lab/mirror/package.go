package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// pkg is a package in either format. Relations are in the format's own words.
type pkg struct {
	name    string
	version string // deb: upstream and revision; rpm: upstream
	release string // rpm only
	summary string
	anyArch bool // the same on every architecture
	// requires is Depends or Requires.
	requires, provides, conflicts []string
	files                         []entry
	// Scripts, without the line that names the shell.
	before, after, beforeRemove string
}

// entry is a file, link or folder in a package.
type entry struct {
	path   string // absolute
	mode   fs.FileMode
	data   []byte
	source string // file on disk, instead of data
	link   string // target of a symbolic link, instead of data
	dir    bool
	config bool
	owner  string // rpm only; "" is root
}

// file is an entry with text from the embedded files.
func file(path string, mode fs.FileMode, data []byte) entry {
	return entry{path: path, mode: mode, data: data}
}

func config(path, text string) entry {
	return entry{path: path, mode: 0o644, data: []byte(text), config: true}
}

// stage writes the package's files below root.
func (p *pkg) stage(root string) error {
	for _, f := range p.files {
		name := filepath.Join(root, f.path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // modes of a package
			return err
		}
		if err := f.write(name); err != nil {
			return err
		}
	}
	return nil
}

func (f *entry) write(name string) error {
	switch {
	case f.dir:
		return os.MkdirAll(name, 0o755) //nolint:gosec // modes of a package
	case f.link != "":
		if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
			return err
		}
		return os.Symlink(f.link, name)
	case f.source != "":
		in, err := os.Open(f.source)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, f.mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
		return err
	}
	return os.WriteFile(name, f.data, f.mode)
}

// debFile is a built package with what an index says of it.
type debFile struct {
	path    string
	control string // its paragraph, without file name, size and checksum
	size    int64
	sha256  string
}

func (p *pkg) debArch(platform platform) string {
	if p.anyArch {
		return "all"
	}
	return platform.Deb
}

func (p *pkg) debName(platform platform) string {
	return fmt.Sprintf("%s_%s_%s.deb", p.name, p.version, p.debArch(platform))
}

// deb builds one package into the file out.
func (b *builder) deb(ctx context.Context, p pkg, out string) (*debFile, error) {
	root, err := os.MkdirTemp(b.dir, "deb-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(root) }()
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // becomes the package's /
		return nil, err
	}
	if err := p.stage(root); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.name, err)
	}
	var control strings.Builder
	field := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(&control, "%s: %s\n", name, value)
		}
	}
	field("Package", p.name)
	field("Version", p.version)
	field("Architecture", p.debArch(b.platform))
	field("Maintainer", "Nobody <nobody@example.invalid>")
	field("Depends", strings.Join(p.requires, ", "))
	field("Provides", strings.Join(p.provides, ", "))
	field("Conflicts", strings.Join(p.conflicts, ", "))
	field("Section", "misc")
	field("Priority", "optional")
	field("Description", p.summary+" (stand-in of a test)")
	files := map[string]string{"control": control.String()}
	conffiles := ""
	for _, f := range p.files {
		if f.config {
			conffiles += f.path + "\n"
		}
	}
	if conffiles != "" {
		files["conffiles"] = conffiles
	}
	for name, script := range map[string]string{"preinst": p.before, "postinst": p.after, "prerm": p.beforeRemove} {
		if script != "" {
			files[name] = "#!/bin/sh\nset -e\n" + script
		}
	}
	for name, text := range files {
		mode := fs.FileMode(0o644)
		if name != "control" && name != "conffiles" {
			mode = 0o755
		}
		e := file("/DEBIAN/"+name, mode, []byte(text))
		if err := (&pkg{files: []entry{e}}).stage(root); err != nil {
			return nil, err
		}
	}
	if _, err := output(ctx, "", nil, "dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, out); err != nil {
		return nil, fmt.Errorf("package %s: %w", p.name, err)
	}
	return indexed(out, control.String())
}

// readDeb takes a package that exists.
func readDeb(ctx context.Context, name string) (*debFile, error) {
	control, err := output(ctx, "", nil, "dpkg-deb", "--field", name)
	if err != nil {
		return nil, err
	}
	return indexed(name, control)
}

func indexed(name, control string) (*debFile, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	sum, err := fileSHA256(name)
	return &debFile{path: name, control: control, size: info.Size(), sha256: sum}, err
}

// rpms builds packages into dir. They share one build, so that no name and no
// differing file may be there twice.
func (b *builder) rpms(ctx context.Context, group []pkg, dir string) error {
	root, err := os.MkdirTemp(b.dir, "rpm-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	stage := filepath.Join(root, "stage")
	var spec strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&spec, format+"\n", args...) }
	line("Name: group\nVersion: 1\nRelease: 1\nSummary: not built, it has no files\nLicense: none\nAutoReqProv: no")
	line("%%description\nNot built.")
	line("%%prep\n%%build\n%%install\nmkdir -p %%{buildroot}\ncp -a %s/. %%{buildroot}/", stage)
	if err := os.MkdirAll(stage, 0o755); err != nil { //nolint:gosec // modes of a package
		return err
	}
	for _, p := range group {
		if err := p.stage(stage); err != nil {
			return fmt.Errorf("package %s: %w", p.name, err)
		}
		line("%%package -n %s\nVersion: %s\nRelease: %s\nSummary: %s (stand-in of a test)\nAutoReqProv: no", p.name, p.version, p.release, p.summary)
		if p.anyArch {
			line("BuildArch: noarch")
		}
		for tag, values := range map[string][]string{"Requires": p.requires, "Provides": p.provides, "Conflicts": p.conflicts} {
			for _, v := range values {
				line("%s: %s", tag, v)
			}
		}
		line("%%description -n %s\nStand-in of a test.", p.name)
		for section, script := range map[string]string{"pre": p.before, "post": p.after, "preun": p.beforeRemove} {
			if script != "" {
				line("%%%s -n %s\n%s", section, p.name, script)
			}
		}
		line("%%files -n %s", p.name)
		for _, f := range p.files {
			owner, mode, kind := f.owner, fmt.Sprintf("%#o", f.mode), ""
			if owner == "" {
				owner = "root"
			}
			switch {
			case f.dir:
				kind = "%dir "
			case f.link != "":
				mode = "-"
			case f.config:
				kind = "%config(noreplace) "
			}
			line("%%attr(%s,%s,%s) %s%s", mode, owner, owner, kind, f.path)
		}
	}
	name := filepath.Join(root, "group.spec")
	if err := os.WriteFile(name, []byte(spec.String()), 0o600); err != nil {
		return err
	}
	_, err = output(ctx, root, nil, "rpmbuild", "--quiet", "-bb", "--target", b.platform.RPM+"-linux",
		"--define", "_topdir "+root, "--define", "_rpmdir "+dir, "--define", "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm",
		"--define", "_binary_payload w1.gzdio", "--define", "debug_package %{nil}", "--define", "__os_install_post %{nil}",
		"--define", "_build_id_links none", "--define", "_buildhost lab", name)
	if err != nil {
		return fmt.Errorf("package %s: %w", group[0].name, err)
	}
	return nil
}

// sign signs the packages in a folder with the key.
func (b *builder) sign(ctx context.Context, dir, key string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.rpm"))
	if err != nil || len(names) == 0 {
		return err
	}
	sort.Strings(names)
	_, err = output(ctx, "", []string{"GNUPGHOME=" + b.identity.home()}, "rpmsign",
		append([]string{"--define", "_gpg_name " + keyUser(key), "--define", "__gpg /usr/bin/gpg", "--addsign"}, names...)...)
	return err
}

func fileSHA256(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
