//go:build e2e && linux

package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/test/lab/machines"
)

// machine is one of the lab that a test has logged in to.
type machine struct {
	t      *testing.T
	lab    *machines.Lab
	server *Server
	dial   func() *remote.Conn
	conn   *remote.Conn
}

func newMachine(t *testing.T, image string) *machine {
	t.Helper()
	lab, server := newLab(t)
	dir := t.TempDir()
	key, err := remote.LoadOrCreateKey(filepath.Join(dir, "key"), "test")
	if err != nil {
		t.Fatal(err)
	}
	spec := machines.Machine{Name: "m1", Image: image, InternalIP: "10.128.0.11", ExternalIP: "198.18.0.11", SSHKeys: []string{"tester:" + key.AuthorizedKey()}}
	if err := lab.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, lab: lab, server: server}
	m.dial = func() *remote.Conn {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		conn, err := remote.WaitReachable(ctx, remote.Machine{Name: spec.Name, Address: spec.ExternalIP, User: "tester"},
			remote.Options{Key: key, KnownHosts: filepath.Join(dir, "known_hosts")}, remote.WaitOptions{Every: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	m.conn = m.dial()
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range server.Unknown() {
				t.Log(r)
			}
		}
	})
	return m
}

// try runs a script as root and returns all it prints.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	return m.conn.Output(ctx, remote.Command{Args: []string{"bash", "-c", "exec 2>&1; set -eu -o pipefail; export DEBIAN_FRONTEND=noninteractive\n" + script}, Sudo: true})
}

func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	out, err := m.try(script)
	if err != nil {
		t.Fatalf("%s\n%s\n%v", script, out, err)
	}
	return out
}

// expect runs a script that must succeed and print the words.
func (m *machine) expect(t *testing.T, script string, words ...string) {
	t.Helper()
	out := m.run(t, script)
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("%s\nprints %q without %q", script, out, w)
		}
	}
}

// refuse runs a script that must fail and say one of the words.
func (m *machine) refuse(t *testing.T, script string, words ...string) {
	t.Helper()
	out, err := m.try(script)
	if err == nil {
		t.Errorf("%s\nsucceeds: %s", script, out)
		return
	}
	for _, w := range words {
		if strings.Contains(out, w) {
			return
		}
	}
	t.Errorf("%s\nfails with %q, without any of %q", script, out, words)
}

// answers waits for mongod. The machines cannot give it the limit that its
// unit asks for.
const answers = `for i in $(seq 600); do (exec 5<>/dev/tcp/127.0.0.1/27017) 2>/dev/null && break; sleep 0.1; done; exec 5<>/dev/tcp/127.0.0.1/27017
systemctl is-active mongod
systemctl show -p LimitNOFILE mongod
`

// TestDebian: packages of every vendor, installed with apt as documented, and
// refused when they are not what the vendor has signed.
func TestDebian(t *testing.T) {
	m := newMachine(t, "debian-12-bookworm-v20260801")
	t.Run("percona", func(t *testing.T) {
		m.expect(t, `curl -fsSO https://repo.percona.com/apt/percona-release_latest.generic_all.deb
apt-get update -qq
apt-get install -y ./percona-release_latest.generic_all.deb
percona-release enable psmdb-80 release
apt-cache madison percona-server-mongodb-server`, "8.0.34-15.bookworm", "8.0.34-14.bookworm", "8.0.32-13.bookworm")
		m.refuse(t, `apt-get install -y percona-server-mongodb=8.0.99-1.bookworm`, "was not found")
		m.refuse(t, `percona-release enable psmdb-99 release`, "does not exist")
		m.refuse(t, `percona-release enable psmdb-80 nightly`, "Unknown component")
		m.refuse(t, `percona-release install psmdb-80`, "Unknown action")
		m.expect(t, `PERCONA_TELEMETRY_DISABLE=1 apt-get install -y percona-server-mongodb{,-server,-mongos,-tools}=8.0.34-14.bookworm
mongod --version; id mongod; systemctl is-enabled mongod
test ! -e /usr/local/percona/telemetry_uuid; systemctl is-active percona-telemetry-agent
dpkg-query -W -f '${Package} ${Version}\n' percona-server-mongodb-mongos; mongosh --version
`+answers, "db version v8.0.34", "(mongod)", "enabled", "active", "percona-server-mongodb-mongos 8.0.34-14.bookworm", "LimitNOFILE=64000")
		// The newer build, and the channels.
		m.expect(t, `apt-mark hold percona-server-mongodb-server; apt-get install -y --allow-change-held-packages percona-server-mongodb{,-server,-mongos,-tools}=8.0.34-15.bookworm; mongod --version`, "8.0.34")
		m.expect(t, `percona-release enable-only psmdb-80 testing; apt-cache madison percona-server-mongodb-server; ls /etc/apt/sources.list.d; percona-release show`,
			"8.0.35-16.bookworm", "percona-psmdb-80-release.list.bak", "percona-prel-release.list\n")
		m.expect(t, `percona-release setup -y psmdb90; apt-cache madison percona-server-mongodb-server | grep psmdb-90 || echo none of 9.0`, "none of 9.0")
		m.run(t, `apt-get purge -y 'percona-server-mongodb*' percona-mongodb-mongosh; rm -rf /etc/apt/sources.list.d/percona-psmdb* /var/l*/mongodb`)
	})
	t.Run("signatures", func(t *testing.T) {
		const host = "repo.mongodb.org"
		m.run(t, `curl -fsS https://pgp.mongodb.com/server-9.asc -o /usr/share/keyrings/mongodb-9.asc
curl -fsS https://pgp.mongodb.com/server-8.0.asc -o /usr/share/keyrings/mongodb-8.asc`)
		list := func(key string) string {
			return fmt.Sprintf("rm -rf /var/lib/apt/lists/*mongodb* /var/lib/apt/lists/partial/*; echo 'deb [signed-by=/usr/share/keyrings/%s.asc] https://%s/apt/debian bookworm/mongodb-org/9.0 main' >/etc/apt/sources.list.d/mongodb.list\napt-get update --error-on=any", key, host)
		}
		with := func(f Fault, script string, words ...string) {
			t.Helper()
			f.Host = host
			remove := m.server.Inject(f)
			defer remove()
			m.refuse(t, script, words...)
		}
		m.refuse(t, list("mongodb-8"), "NO_PUBKEY")
		with(Fault{Kind: Unsigned}, list("mongodb-9"), "is not signed")
		with(Fault{Kind: Corrupt, Suffix: "InRelease"}, list("mongodb-9"), "BADSIG", "not signed", "invalid")
		with(Fault{Kind: Corrupt, Suffix: "Packages.gz"}, list("mongodb-9"), "Hash Sum mismatch")
		with(Fault{Kind: Refuse}, list("mongodb-9"), "Failed to fetch")
		m.run(t, list("mongodb-9"))
		with(Fault{Kind: Corrupt, Suffix: ".deb"}, `apt-get clean; apt-get install -y mongodb-org-server=9.0.4`, "Hash Sum mismatch")
		m.expect(t, `dpkg-query -W mongodb-org-server || echo nothing was installed`, "nothing was installed")
	})
	t.Run("mongodb", func(t *testing.T) {
		m.refuse(t, `apt-get install -y mongodb-org-server=9.0.99`, "was not found")
		m.expect(t, `printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
apt-get install -y mongodb-org=9.0.3 mongodb-org-{database,server,shell,mongos,tools,database-tools-extra}=9.0.3
dpkg-query -W -f '${Package} ${Version}\n' 'mongodb*'; mongod --version; systemctl is-active mongod || true; systemctl start mongod; stat -c '%U %n' /var/lib/mongodb
`+answers, "mongodb-org 9.0.3", "mongodb-mongosh 2.5.8", "db version v9.0.3", "inactive", "mongodb /var/lib/mongodb", "LimitNOFILE=64000")
	})
	t.Run("distribution", func(t *testing.T) {
		m.run(t, `apt-get install -y jq`)
	})
	t.Run("monitoring", func(t *testing.T) {
		m.run(t, `rm -f /usr/sbin/policy-rc.d; apt-get install -y docker.io; percona-release enable pmm3-client; apt-get install -y pmm-client=3.4.1-7.bookworm`)
		m.monitoring(t, "percona/pmm-server:3")
	})
	m.noneUnknown(t, "/psmdb-99/")
}

// TestEL9 is the same with dnf.
func TestEL9(t *testing.T) {
	m := newMachine(t, "centos-stream-9-v20260801")
	t.Run("percona", func(t *testing.T) {
		m.expect(t, `dnf install -y https://repo.percona.com/yum/percona-release-latest.noarch.rpm
percona-release enable psmdb-80 release
dnf -q --showduplicates list --available percona-server-mongodb-server`, "8.0.34-15.el9", "8.0.34-14.el9", "8.0.32-13.el9")
		m.refuse(t, `dnf install -y percona-server-mongodb-8.0.99`, "Unable to find a match")
		m.refuse(t, `percona-release enable psmdb-99 release`, "does not exist")
		m.expect(t, `PERCONA_TELEMETRY_DISABLE=1 dnf install -y percona-server-mongodb-8.0.34-14.el9
mongod --version; id mongod; systemctl is-enabled mongod; test ! -e /usr/local/percona/telemetry_uuid
rpm -q percona-server-mongodb-mongos; systemctl start mongod; stat -c '%U %n' /var/lib/mongo /var/log/mongo
`+answers, "db version v8.0.34", "(mongod)", "enabled", "percona-server-mongodb-mongos-8.0.34-14.el9", "mongod /var/lib/mongo", "mongod /var/log/mongo", "LimitNOFILE=64000")
		m.expect(t, `dnf install -y percona-server-mongodb-8.0.34-15.el9; mongod --version`, "8.0.34")
		m.expect(t, `percona-release enable-only psmdb-80 testing; dnf -q --showduplicates list --available percona-server-mongodb-server; ls /etc/yum.repos.d`,
			"8.0.35-16.el9", "percona-psmdb-80-release.repo.bak", "percona-prel-release.repo\n")
		m.expect(t, `percona-release setup -y psmdb90; dnf -q --showduplicates list --available percona-server-mongodb-server || echo none of 9.0`, "none of 9.0")
		m.run(t, `dnf remove -y 'percona-server-mongodb*' percona-mongodb-mongosh; rm -f /etc/yum.repos.d/percona-psmdb*`)
	})
	t.Run("signatures", func(t *testing.T) {
		const host = "repo.mongodb.org"
		repository := func(key string) string {
			return fmt.Sprintf("cat >/etc/yum.repos.d/mongodb.repo <<'R'\n[mongodb]\nname=MongoDB\nbaseurl=https://%s/yum/redhat/9/mongodb-org/9.0/$basearch/\ngpgcheck=1\ngpgkey=https://pgp.mongodb.com/%s.asc\nR\n", host, key)
		}
		const install = "dnf clean all; dnf install -y mongodb-org-server-9.0.4"
		with := func(f Fault, words ...string) {
			t.Helper()
			f.Host = host
			remove := m.server.Inject(f)
			defer remove()
			m.refuse(t, install, words...)
		}
		m.refuse(t, repository("server-8.0")+install, "Public key for mongodb-org-server", "is not installed")
		m.run(t, repository("server-9"))
		with(Fault{Kind: Unsigned}, "is not signed")
		with(Fault{Kind: Corrupt, Suffix: ".rpm"}, "checksum", "Checksum", "GPG check FAILED")
		with(Fault{Kind: Corrupt, Suffix: "primary.xml.gz"}, "hecksum")
		with(Fault{Kind: Refuse}, "Cannot download repomd.xml", "Failed to download metadata")
		// Who also rewrites the index, which is not signed, still does not
		// have the key.
		with(Fault{Kind: Replace, Path: "/yum/redhat/9/mongodb-org/9.0/", Dir: m.tampered(t)}, "GPG check FAILED", "BAD", "digest")
		m.expect(t, `rpm -q mongodb-org-server || true`, "not installed")
	})
	t.Run("mongodb", func(t *testing.T) {
		m.refuse(t, `dnf install -y mongodb-org-server-9.0.99`, "Unable to find a match")
		m.expect(t, `dnf clean all; dnf install -y mongodb-org-9.0.3; rpm -qa 'mongodb*'; mongod --version; systemctl is-enabled mongod; systemctl start mongod
`+answers, "mongodb-org-9.0.3-1.el9", "mongodb-org-server-9.0.3-1.el9", "mongodb-mongosh-2.5.8", "db version v9.0.3", "enabled", "LimitNOFILE=64000")
	})
	t.Run("distribution", func(t *testing.T) {
		m.run(t, `dnf install -y chrony jq`)
	})
	t.Run("monitoring", func(t *testing.T) {
		m.run(t, `dnf install -y podman-docker; mkdir -p /etc/containers; touch /etc/containers/nodocker; systemctl enable podman-restart
percona-release enable pmm3-client; dnf install -y pmm-client-3.4.1-7.el9`)
		m.refuse(t, `docker run -d --restart always -p 443:8443 -v pmm-data:/srv --name pmm-server percona/pmm-server:3`, "short-name")
		m.monitoring(t, "docker.io/percona/pmm-server:3")
	})
	m.noneUnknown(t, "/psmdb-99/")
}

// tampered is the repository with one of the signed packages changed and the
// index made anew.
func (m *machine) tampered(t *testing.T) string {
	t.Helper()
	r := m.server.repositories
	dir := t.TempDir()
	root := filepath.Join(dir, r.platform.RPM)
	name := "RPMS/mongodb-org-server-9.0.4-1.el9." + r.platform.RPM + ".rpm"
	data, err := os.ReadFile(filepath.Join(r.dir, "www", hostMongo, "yum/redhat/9/mongodb-org/9.0", r.platform.RPM, name))
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-len(data)/4] ^= 1 // in the payload
	if err := write(filepath.Join(root, name), data); err != nil {
		t.Fatal(err)
	}
	if _, err := output(t.Context(), "", nil, "createrepo_c", "--quiet", root); err != nil {
		t.Fatal(err)
	}
	return dir
}

// monitoring goes through what provisioning does with PMM: the server in its
// container, the client, a reboot. The machine is both.
func (m *machine) monitoring(t *testing.T, image string) {
	t.Helper()
	docker := "GF_SECURITY_ADMIN_PASSWORD=s3cret docker run -d --restart always -e GF_SECURITY_ADMIN_PASSWORD -p 8443:8443 -v pmm-data:/srv --name pmm-server "
	m.refuse(t, strings.Replace(docker, "--restart", "--restrat", 1)+image, "unknown flag: --restrat")
	m.refuse(t, strings.Replace(docker, "--restart always", "", 1)+image, "--restart")
	m.refuse(t, strings.Replace(docker, ":8443", ":443", 1)+image, "PORT:8443")
	m.refuse(t, docker+"docker.io/library/mongo:8", "manifest for")
	m.refuse(t, `docker inspect -f '{{.State.Running}}' pmm-server`, "No such object")
	m.run(t, docker+image)
	m.refuse(t, docker+image, "already in use")
	const ready = `for i in $(seq 600); do docker exec pmm-server curl -fsS http://127.0.0.1:8080/v1/server/readyz && break; sleep 0.1; done
curl -fsSk https://127.0.0.1:8443/v1/readyz; docker inspect -f '{{.State.Running}}' pmm-server`
	m.expect(t, ready, "{}", "true")
	m.expect(t, `docker ps --format '{{.Names}} {{.Status}}'; docker logs pmm-server`, "pmm-server Up")
	m.refuse(t, `curl -fsS https://127.0.0.1:8443/v1/readyz`, "certificate")

	setup := func(password string) string {
		return "PMM_AGENT_CONFIG_FILE=/usr/local/percona/pmm/config/pmm-agent.yaml PMM_AGENT_SERVER_ADDRESS=m1:8443 PMM_AGENT_SERVER_USERNAME=admin PMM_AGENT_SERVER_PASSWORD=" + password +
			" PMM_AGENT_SERVER_INSECURE_TLS=true pmm-agent setup 10.128.0.11 generic m1"
	}
	m.expect(t, `systemctl enable --now pmm-agent; systemctl is-active pmm-agent; pmm-admin list || echo not yet`, "not yet")
	m.refuse(t, setup("wrong"), "401")
	m.refuse(t, strings.Replace(setup("s3cret"), "TLS=true", "TLS=false", 1), "certificate")
	m.run(t, setup("s3cret")+"; systemctl restart pmm-agent; pmm-admin status --wait=20s")
	m.refuse(t, setup("s3cret"), "already exists")
	m.run(t, strings.Replace(setup("s3cret"), "pmm-agent setup", "PMM_AGENT_SETUP_FORCE=true pmm-agent setup", 1))

	m.run(t, `printf '{"username": "", "password": "", "agentpassword": ""}\n' >/root/none; printf '{"username": "u", "password": "wrong", "agentpassword": ""}\n' >/root/bad`)
	const add = `pmm-admin add mongodb --query-source=none --cluster=c --replication-set=rs --environment=e `
	m.refuse(t, add+`--credentials-source=/root/bad m1 127.0.0.1:27017`, "Connection check failed")
	m.refuse(t, add+`--credentials=/root/none m1 127.0.0.1:27017`, "unknown flag")
	m.refuse(t, add+`--query-source=slowlog m1`, "must be one of")
	m.expect(t, add+`--credentials-source=/root/none m1 127.0.0.1:27017; pmm-admin list`, "MongoDB Service added", "m1")
	m.refuse(t, add+`--credentials-source=/root/none m1 127.0.0.1:27017`, "already exists")
	m.expect(t, `curl -fsSk -u admin:s3cret https://m1:8443/v1/inventory/services`, `"service_name":"m1"`, `"replication_set":"rs"`, `"query_source":"none"`)
	m.expect(t, `docker exec -t pmm-server change-admin-password another; curl -sk -o /dev/null -w '%{http_code}' -u admin:s3cret https://m1:8443/v1/server/version`, "401")
	m.expect(t, `cat /var/log/standin.ndjson; grep -c s3cret -r /var/log/standin.ndjson /var/lib/docker/standin /var/lib/containers/standin 2>/dev/null || echo no secret`, "change-admin-password", "no secret")

	// Everything comes back after a reboot, and the inventory with it.
	if err := m.lab.Reboot(m.t.Context(), "m1"); err != nil {
		t.Fatal(err)
	}
	m.conn = m.dial()
	m.expect(t, ready, "{}", "true")
	m.expect(t, `curl -fsSk -u admin:another https://m1:8443/v1/inventory/services; systemctl is-active pmm-agent`, `"service_name":"m1"`, "active")
}

// noneUnknown checks that nothing was asked for in vain but what a test did
// on purpose.
func (m *machine) noneUnknown(t *testing.T, expected string) {
	t.Helper()
	for _, r := range m.server.Unknown() {
		if r.Path != expected {
			t.Errorf("unknown: %v", r)
		}
	}
	if names := m.lab.Lookups(); len(names) > 0 {
		t.Errorf("names asked for in vain: %q", names)
	}
}
