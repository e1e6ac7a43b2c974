//go:build e2e && linux

package mirror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/test/lab/machines"
)

func TestMain(m *testing.M) { os.Exit(machines.Main(m.Run, Prepare)) }

// newLab makes a lab whose machines have the mirror.
func newLab(t *testing.T) (*machines.Lab, *Server) {
	t.Helper()
	r, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	lab, err := machines.New(machines.Options{CA: r.CA(), Hosts: r.Hosts(), Files: func(image machines.Image) []machines.File {
		family := Debian
		if image == machines.CentOSStream9 {
			family = EL9
		}
		files := []machines.File{}
		for _, f := range r.RootFiles(family) {
			files = append(files, machines.File{Path: f.Path, Mode: f.Mode, Data: f.Data})
		}
		return files
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	s, err := r.Serve(machines.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return lab, s
}

// client asks the mirror whatever host a URL names.
func client(r *Repositories) *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.CA())
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(machines.Gateway, port))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(t *testing.T, c *http.Client, url string) (status int, text string) {
	t.Helper()
	response, err := c.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestPaths: everything is where the vendors have it, and nothing else.
func TestPaths(t *testing.T) {
	// The lab makes the gateway's address.
	_, s := newLab(t)
	r := s.repositories
	c := client(r)
	arch, deb := r.platform.RPM, r.platform.Deb
	for _, url := range []string{
		"https://pgp.mongodb.com/server-7.0.asc",
		"https://pgp.mongodb.com/server-8.0.asc",
		"https://pgp.mongodb.com/server-9.asc",
		"https://repo.mongodb.org/apt/debian/dists/bookworm/mongodb-org/9.0/InRelease",
		"https://repo.mongodb.org/apt/ubuntu/dists/noble/mongodb-org/8.3/multiverse/binary-" + deb + "/Packages.gz",
		"https://repo.mongodb.org/yum/redhat/9/mongodb-org/8.0/" + arch + "/repodata/repomd.xml",
		"https://repo.mongodb.org/yum/redhat/9/mongodb-org/9.0/" + arch + "/RPMS/mongodb-org-server-9.0.4-1.el9." + arch + ".rpm",
		"https://repo.mongodb.com/yum/redhat/9/mongodb-enterprise/8.0/" + arch + "/repodata/repomd.xml",
		"https://repo.percona.com/apt/percona-release_latest.generic_all.deb",
		"https://repo.percona.com/yum/percona-release-latest.noarch.rpm",
		"http://repo.percona.com/psmdb-80/",
		"http://repo.percona.com/psmdb-80/yum/release/9/",
		"http://repo.percona.com/psmdb-80/apt/dists/bookworm/",
		"http://repo.percona.com/psmdb-90/apt/dists/bookworm/InRelease",
		"http://repo.percona.com/psmdb-90/yum/testing/9/RPMS/" + arch + "/repodata/repomd.xml",
		"http://repo.percona.com/psmdb-83/apt/pool/main/percona-server-mongodb-server_8.3.13-4.noble_" + deb + ".deb",
		"http://repo.percona.com/pmm3-client/yum/release/9/RPMS/" + arch + "/pmm-client-3.5.0-7.el9." + arch + ".rpm",
		"https://download.docker.com/linux/centos/docker-ce.repo",
		"https://download.docker.com/linux/debian/gpg",
	} {
		if status, text := get(t, c, url); status != http.StatusOK || text == "" {
			t.Errorf("%s: %d %.100s", url, status, text)
		}
	}
	if unknown := s.Unknown(); len(unknown) > 0 {
		t.Errorf("not there: %v", unknown)
	}
	for _, url := range []string{
		"https://pgp.mongodb.com/server-9.0.asc", // there is no such key
		"http://repo.percona.com/psmdb-99/",
		"https://repo.mongodb.org/apt/debian/dists/bookworm/mongodb-org/9.1/InRelease",
	} {
		if status, _ := get(t, c, url); status != http.StatusNotFound {
			t.Errorf("%s: %d", url, status)
		}
	}
	if status, _ := get(t, c, "https://elsewhere.example/"); status != 0 {
		t.Errorf("another host: %d", status)
	}
	asked := []string{}
	for _, r := range s.Unknown() {
		asked = append(asked, r.Host+r.Path)
	}
	want := []string{"pgp.mongodb.com/server-9.0.asc", "repo.percona.com/psmdb-99/", "repo.mongodb.org/apt/debian/dists/bookworm/mongodb-org/9.1/InRelease", "elsewhere.example"}
	if !slices.Equal(asked, want) {
		t.Errorf("unknown: %q, want %q", asked, want)
	}
}

// TestFaults: each kind, its limits and its end.
func TestFaults(t *testing.T) {
	_, s := newLab(t)
	c := client(s.repositories)
	const host, url = "pgp.mongodb.com", "https://pgp.mongodb.com/server-9.asc"
	_, whole := get(t, c, url)
	check := func(what string, want int, same bool) {
		t.Helper()
		if status, text := get(t, c, url); status != want || (text == whole) != same {
			t.Errorf("%s: status %d (want %d), same text %t", what, status, want, text == whole)
		}
	}
	remove := s.Unreachable(host)
	check("refuse", 0, false)
	remove()
	check("refused no more", 200, true)

	remove = s.Inject(Fault{Kind: Unavailable, Host: host, Times: 2})
	check("unavailable", 503, false)
	check("unavailable", 503, false)
	check("available", 200, true)
	remove()

	remove = s.Inject(Fault{Kind: Corrupt, Host: host, Suffix: ".asc"})
	check("corrupt", 200, false)
	remove()
	remove = s.Inject(Fault{Kind: Corrupt, Host: host, Suffix: ".rpm"})
	check("something else is corrupt", 200, true)
	remove()

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "server-9.asc"), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	remove = s.Inject(Fault{Kind: Replace, Host: host, Path: "/", Dir: dir})
	check("replace", 200, false)
	remove()

	remove = s.Inject(Fault{Kind: Stall, Host: host})
	c.Timeout = 200 * time.Millisecond
	check("stall", 0, false)
	remove()
	if unknown := s.Unknown(); len(unknown) > 0 {
		t.Errorf("faults count as unknown: %v", unknown)
	}
	if n := len(s.Requests()); n != 10 {
		t.Errorf("%d requests recorded: %v", n, s.Requests())
	}
}

// TestVersions: release lines are in order and versions belong to them, so
// that the last is the newest.
func TestVersions(t *testing.T) {
	for _, line := range slices.Concat(Community(), Enterprise(), Percona()) {
		for _, v := range slices.Concat(line.Versions, line.Testing) {
			if !strings.HasPrefix(v, line.Series+".") {
				t.Errorf("%s is not of %s", v, line.Series)
			}
		}
	}
	if major("9.0.4") != 9 || major("10.0") != 10 {
		t.Error(fmt.Sprint(major("9.0.4"), major("10.0")))
	}
}
