package mirror

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// debianPackages are what a Debian-like machine may want of its distribution,
// with all they depend on. They are the real ones, from wherever this host
// gets its own.
func debianPackages() []string {
	return []string{
		"adduser", "ca-certificates", "chrony", "curl", "gnupg", "jq", "lsb-release", "numactl",
		"procps", "python3", "tzdata", "unattended-upgrades", "wget", "xfsprogs",
	}
}

// el9Packages are what the repositories of the el9-like machines have. They
// are empty: such a machine has the programs, from Debian, and no package
// that says so.
func el9Packages() []pkg {
	packages := []pkg{}
	for _, p := range []struct{ name, version string }{
		{"chrony", "4.6.1"}, {"cyrus-sasl-plain", "2.1.27"}, {"e2fsprogs", "1.46.5"}, {"gnupg2", "2.3.3"}, {"jq", "1.6"},
		{"kmod", "28"}, {"numactl", "2.0.19"}, {"policycoreutils-python-utils", "3.6"}, {"python3-dnf-plugin-versionlock", "4.3.0"},
		{"tuned", "2.25.1"}, {"unzip", "6.0"}, {"xfsprogs", "6.4.0"}, {"yum-utils", "4.3.0"},
	} {
		packages = append(packages, pkg{name: p.name, version: p.version, release: "1.el9", summary: "Part of the distribution", anyArch: true})
	}
	return packages
}

// downloadDistribution fetches the packages with apt as this host is
// configured, and all they depend on, whatever is installed here. They are
// kept until the list changes or the folder is removed.
func downloadDistribution(ctx context.Context, cache string, p platform, progress func(string)) ([]string, error) {
	wanted := debianPackages()
	sum := sha256.Sum256([]byte(fmt.Sprintf("%+v %s", p, strings.Join(wanted, " "))))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:8]))
	if _, err := os.Stat(dir); err == nil {
		return debsIn(dir)
	}
	progress("downloading packages of the distribution")
	if err := os.RemoveAll(cache); err != nil {
		return nil, err
	}
	part := dir + ".part"
	if err := os.MkdirAll(filepath.Join(part, "partial"), 0o755); err != nil { //nolint:gosec // packages are public
		return nil, err
	}
	// As if nothing were installed.
	status := filepath.Join(part, "status")
	if err := write(status, nil); err != nil {
		return nil, err
	}
	options := []string{
		"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + part,
		"-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3",
		// What the host has cached is of another state.
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=",
	}
	install := append(append([]string{}, options...), append([]string{"install", "--yes", "--download-only", "--no-install-recommends"}, wanted...)...)
	if _, err := output(ctx, "", nil, "apt-get", install...); err != nil {
		// The lists may be missing or older than what they list.
		if _, err := output(ctx, "", nil, "apt-get", "update", "-qq"); err != nil {
			return nil, fmt.Errorf("packages of the distribution: %w", err)
		}
		if _, err := output(ctx, "", nil, "apt-get", install...); err != nil {
			return nil, fmt.Errorf("packages of the distribution: %w", err)
		}
	}
	for _, name := range []string{"status", "partial", "lock"} {
		if err := os.RemoveAll(filepath.Join(part, name)); err != nil {
			return nil, err
		}
	}
	names, err := debsIn(part)
	if err != nil {
		return nil, err
	}
	if len(names) < len(wanted) {
		return nil, fmt.Errorf("packages of the distribution: apt-get downloaded %d for %s", len(names), strings.Join(wanted, ", "))
	}
	if err := os.Rename(part, dir); err != nil {
		return nil, err
	}
	return debsIn(dir)
}

func debsIn(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	sort.Strings(names)
	return names, err
}
