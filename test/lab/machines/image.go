//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Image is what a machine boots from.
type Image string

// The images there are.
const (
	Debian12      Image = "debian12"
	Ubuntu2404    Image = "ubuntu2404" // Debian 12 by another name
	CentOSStream9 Image = "el9"
)

// ImageOf is the image that stands in for one of Google's, by its name or that
// of its family, such as centos-stream-9-v20260801. A path before it is
// ignored.
func ImageOf(name string) (Image, error) {
	base := path.Base(name)
	for prefix, image := range map[string]Image{
		"debian-12": Debian12, "ubuntu-2404": Ubuntu2404, "centos-stream-9": CentOSStream9,
	} {
		if strings.HasPrefix(base, prefix) {
			return image, nil
		}
	}
	return "", fmt.Errorf("there is no machine with image %s", name)
}

// release is what all root file systems are at bottom.
const release = "bookworm"

// hidden is what a machine with an image must not show of the other family.
var hidden = map[Image][]string{
	Debian12:   rpmTools,
	Ubuntu2404: rpmTools,
	CentOSStream9: {
		"etc/apt", "etc/debian_version", "etc/dpkg",
		"usr/bin/apt", "usr/bin/apt-cache", "usr/bin/apt-cdrom", "usr/bin/apt-config", "usr/bin/apt-get", "usr/bin/apt-key", "usr/bin/apt-mark",
		"usr/bin/dpkg", "usr/bin/dpkg-deb", "usr/bin/dpkg-query", "usr/bin/dpkg-split", "usr/bin/dpkg-statoverride", "usr/bin/dpkg-trigger",
		"usr/bin/lsb_release", "var/lib/apt", "var/lib/dpkg",
	},
}

var rpmTools = []string{
	"etc/dnf", "etc/rpm", "etc/yum.repos.d", "usr/bin/dnf", "usr/bin/dnf-3", "usr/bin/rpm", "usr/bin/rpmbuild",
	"usr/bin/rpmdb", "usr/bin/rpmkeys", "usr/bin/rpmquery", "usr/bin/rpmsign", "usr/bin/rpmverify", "var/lib/rpm",
}

// links are symbolic links that an image has, by their place.
var links = map[Image]map[string]string{
	CentOSStream9: {
		"etc/redhat-release":                 "centos-release",
		"etc/system-release":                 "centos-release",
		"etc/pki/tls/certs/ca-bundle.crt":    "/etc/ssl/certs/ca-certificates.crt",
		"etc/systemd/system/sshd.service":    "/lib/systemd/system/ssh.service",
		"usr/bin/yum":                        "dnf",
		"usr/lib/systemd/system/sshd.socket": "/dev/null",
	},
}

// buildImage makes the root file systems in a folder: base, and for each Image
// one to be laid over it.
func buildImage(ctx context.Context, folder string) error {
	base := filepath.Join(folder, "base")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := bootstrap(ctx, base, filepath.Join(folder, "sources.list")); err != nil {
		return err
	}
	if err := enterRPMs(ctx, base); err != nil {
		return err
	}
	if err := prepareBase(ctx, base); err != nil {
		return err
	}
	for image := range hidden {
		if err := buildLayer(filepath.Join(folder, string(image)), image); err != nil {
			return fmt.Errorf("layer %s: %w", image, err)
		}
	}
	return nil
}

// bootstrap installs the packages into a new root, from where the apt of this
// machine would get them.
func bootstrap(ctx context.Context, root, sources string) error {
	lines, err := output(ctx, "", "apt-get", "indextargets", "--format", "deb $(REPO_URI) $(RELEASE) $(COMPONENT)",
		"Created-By: Packages", "Origin: Debian")
	if err != nil {
		return err
	}
	var wanted []string
	for line := range strings.Lines(lines) {
		if suite := strings.Fields(line)[2]; suite == release || strings.HasPrefix(suite, release+"-") {
			wanted = append(wanted, line)
		}
	}
	slices.Sort(wanted)
	if wanted = slices.Compact(wanted); len(wanted) == 0 {
		return fmt.Errorf("the apt sources of this machine have no Debian %s: %q", release, lines)
	}
	if err := os.WriteFile(sources, []byte(strings.Join(wanted, "")), 0o644); err != nil {
		return err
	}

	packages, err := recipeLines("packages")
	if err != nil {
		return err
	}
	args := []string{
		"--mode=root", "--variant=minbase", "--skip=check/qemu", "--include=" + strings.Join(packages, ","),
		"--dpkgopt=force-unsafe-io",
	}
	settings, err := output(ctx, "", "apt-config", "dump")
	if err != nil {
		return err
	}
	for line := range strings.Lines(settings) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{"Acquire::Check-", "Acquire::http", "Acquire::Retries", "Acquire::Max-ValidTime", "Acquire::Min-ValidTime"} {
			if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, ` "";`) {
				args = append(args, "--aptopt="+strings.TrimSuffix(line, ";"))
			}
		}
	}
	_, err = output(ctx, "", "mmdebstrap", append(args, release, root, sources)...)
	return err
}

// enterRPMs makes the RPM database of a root, from packages without files.
func enterRPMs(ctx context.Context, root string) error {
	lines, err := recipeLines("rpms")
	if err != nil {
		return err
	}
	var spec strings.Builder
	for i, line := range lines {
		fields := strings.Fields(line)
		version, rel, _ := strings.Cut(fields[1], "-")
		if i == 0 {
			fmt.Fprintf(&spec, "Name: %s\n", fields[0])
		} else {
			fmt.Fprintf(&spec, "%%package -n %s\n", fields[0])
		}
		fmt.Fprintf(&spec, "Version: %s\nRelease: %s\nLicense: Apache-2.0\nSummary: Stand-in for %s\n", version, rel, fields[0])
		for _, provided := range fields[2:] {
			fmt.Fprintf(&spec, "Provides: %s\n", provided)
		}
		if i == 0 {
			fmt.Fprintf(&spec, "AutoReqProv: no\n%%description\nStand-in.\n%%files\n")
		} else {
			fmt.Fprintf(&spec, "%%description -n %s\nStand-in.\n%%files -n %s\n", fields[0], fields[0])
		}
	}
	if err := os.WriteFile(filepath.Join(root, "tmp/base.spec"), []byte(spec.String()), 0o644); err != nil {
		return err
	}
	const script = `set -e
cd /tmp
rpmbuild -bb --quiet --define '_topdir /tmp/rpms' --define '_rpmfilename %%{NAME}.rpm' base.spec
rpm --initdb
rpm --install --nodeps --justdb rpms/RPMS/*.rpm
rm -r rpms base.spec`
	_, err = output(ctx, root, "/bin/sh", "-c", script)
	return err
}

// prepareBase makes a root fit for a container that takes itself for a machine.
func prepareBase(ctx context.Context, root string) error {
	if _, err := output(ctx, root, "/usr/sbin/groupadd", "--system", "google-sudoers"); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(root, name) }
	masked, err := recipeLines("masked")
	if err != nil {
		return err
	}
	for _, name := range masked {
		folder := "etc/systemd/system"
		if strings.HasSuffix(name, "-generator") {
			folder += "-generators"
		}
		if err := link(root, path.Join(folder, name), "/dev/null"); err != nil {
			return err
		}
	}
	if err := overlay("common", root); err != nil {
		return err
	}
	if err := errors.Join(
		os.Chmod(in("usr/lib/machine/boot"), 0o755),
		os.Chmod(in("etc/sudoers.d/google_sudoers"), 0o440),
		os.MkdirAll(in("var/lib/machine/knobs"), 0o755),
		link(root, "etc/systemd/system/sysinit.target.wants/machine-boot.service", "../machine-boot.service"),
		link(root, "etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target"),
		os.WriteFile(in("etc/machine-id"), nil, 0o444),
		os.RemoveAll(in("etc/apt/sources.list")),
		os.RemoveAll(in("var/lib/apt/lists")),
		os.MkdirAll(in("var/lib/apt/lists/partial"), 0o755),
	); err != nil {
		return err
	}
	keys, err := filepath.Glob(in("etc/ssh/ssh_host_*"))
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := os.Remove(key); err != nil {
			return err
		}
	}
	return nil
}

// buildLayer makes what is laid over the base for an image.
func buildLayer(folder string, image Image) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	if _, err := fs.Stat(recipe, "image/"+string(image)); err == nil {
		if err := overlay(string(image), folder); err != nil {
			return err
		}
	}
	for name, target := range links[image] {
		if err := link(folder, name, target); err != nil {
			return err
		}
	}
	for _, name := range hidden[image] {
		place := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		// How an overlay marks what is not there.
		if err := unix.Mknod(place, unix.S_IFCHR, 0); err != nil {
			return fmt.Errorf("hide %s: %w", name, err)
		}
	}
	return nil
}

// overlay copies a folder of the recipe over a root.
func overlay(folder, root string) error {
	files, err := fs.Sub(recipe, "image/"+folder)
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		place := filepath.Join(root, name)
		if entry.IsDir() {
			return os.MkdirAll(place, 0o755)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		return replace(place, text, 0o644)
	})
}

// replace writes a file anew, so that a link in its place is not followed.
func replace(place string, text []byte, mode fs.FileMode) error {
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(place, text, mode)
}

func link(root, name, target string) error {
	place := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, place)
}
