package mirror

import (
	"fmt"
	"strings"
)

// The vendors' host names.
const (
	hostMongo      = "repo.mongodb.org"
	hostEnterprise = "repo.mongodb.com"
	hostMongoKeys  = "pgp.mongodb.com"
	hostPercona    = "repo.percona.com"
	hostDocker     = "download.docker.com"
)

// hostDistribution stands for the distribution's own mirror, whose name is
// whatever the machines' package managers are configured with.
const hostDistribution = "distribution.lab"

// Line is a release line of a server with the versions on offer, the oldest
// first.
type Line struct {
	Series   string // "9.0"
	Versions []string
	// Testing are offered by the testing channel only (Percona).
	Testing []string
	key     string
}

// Community lists the release lines of MongoDB Community.
func Community() []Line {
	return []Line{
		{Series: "7.0", Versions: []string{"7.0.28", "7.0.31"}, key: keyMongo70},
		{Series: "8.0", Versions: []string{"8.0.32", "8.0.34"}, key: keyMongo80},
		{Series: "8.2", Versions: []string{"8.2.9"}, key: keyMongo80},
		{Series: "8.3", Versions: []string{"8.3.12", "8.3.13"}, key: keyMongo80},
		{Series: "9.0", Versions: []string{"9.0.3", "9.0.4"}, key: keyMongo9},
	}
}

// Enterprise lists the release lines of MongoDB Enterprise.
func Enterprise() []Line {
	return []Line{
		{Series: "8.0", Versions: []string{"8.0.34"}, key: keyMongo80},
		{Series: "9.0", Versions: []string{"9.0.4"}, key: keyMongo9},
	}
}

// Percona lists the release lines of Percona Server for MongoDB, with build
// numbers. The repository of 9.0 exists and is empty.
func Percona() []Line {
	return []Line{
		{Series: "7.0", Versions: []string{"7.0.31-17"}, key: keyPercona},
		{Series: "8.0", Versions: []string{"8.0.32-13", "8.0.34-14", "8.0.34-15"}, Testing: []string{"8.0.35-16"}, key: keyPercona},
		{Series: "8.3", Versions: []string{"8.3.12-3", "8.3.13-4"}, key: keyPercona},
		{Series: "9.0", key: keyPercona},
	}
}

// PMMClient lists the versions of PMM's client, the oldest first.
func PMMClient() []string { return []string{"3.4.1-7", "3.5.0-7"} }

const (
	mongoshVersion = "2.5.8"
	toolsVersion   = "100.13.0"
	dockerVersion  = "28.5.2"
)

// flavour is what the two package formats do differently.
type flavour struct {
	rpm      bool
	codename string // of the suite, for versions with it in the name
}

// version splits a version with an optional build for the format: Percona's
// packages have the code name in it, MongoDB's do not.
func (f flavour) version(v string, percona bool) (version, release string) {
	upstream, build, _ := strings.Cut(v, "-")
	switch {
	case !f.rpm && percona:
		return v + "." + f.codename, ""
	case !f.rpm:
		return v, ""
	case build == "":
		build = "1"
	}
	return upstream, build + ".el9"
}

// same is a relation on a package in the same version.
func (f flavour) same(name, version, release string) string {
	if f.rpm {
		return fmt.Sprintf("%s = %s-%s", name, version, release)
	}
	return fmt.Sprintf("%s (= %s)", name, version)
}

// text returns an embedded file with its placeholders filled.
func text(name string, pairs ...string) string {
	data, err := sources.ReadFile("files/" + name)
	if err != nil {
		panic(err) // not in the program
	}
	return strings.NewReplacer(pairs...).Replace(string(data))
}

func stub(path string) entry { return file(path, 0o755, []byte(text("tool"))) }

// server are the files of a package with mongod.
func (b *builder) server(version, unit, data, log, owner string) []entry {
	upstream, _, _ := strings.Cut(version, "-")
	return []entry{
		{path: "/usr/bin/mongod", mode: 0o755, source: b.programs.mongod},
		file("/usr/bin/mongod.version", 0o644, []byte(upstream+"\n")),
		file("/usr/lib/systemd/system/mongod.service", 0o644, []byte(unit)),
		config("/etc/mongod.conf", text("mongod.conf", "@DATA@", data, "@LOG@", log+"/mongod.log")),
		{path: data, mode: 0o755, dir: true, owner: owner},
		{path: log, mode: 0o755, dir: true, owner: owner},
	}
}

// mongodb are the packages of one version of MongoDB's distributions, which
// differ in their names only.
func (b *builder) mongodb(f flavour, product, v string) []pkg {
	version, release := f.version(v, false)
	p := func(name, summary string) pkg {
		return pkg{name: product + name, version: version, release: release, summary: summary}
	}
	exact := func(name string) string { return f.same(product+name, version, release) }
	user, data, log, options := "mongodb", "/var/lib/mongodb", "/var/log/mongodb", "--config /etc/mongod.conf"
	environment := "EnvironmentFile=-/etc/default/mongod\nEnvironment=\"MONGODB_CONFIG_OVERRIDE_NOFORK=1\""
	if f.rpm {
		user, data, options = "mongod", "/var/lib/mongo", "$OPTIONS"
		environment = "Environment=\"OPTIONS=-f /etc/mongod.conf\"\nEnvironment=\"MONGODB_CONFIG_OVERRIDE_NOFORK=1\"\nEnvironmentFile=-/etc/sysconfig/mongod"
	}
	if major(v) >= 8 {
		environment += "\nEnvironment=\"GLIBC_TUNABLES=glibc.pthread.rseq=0\""
	}
	unit := text("mongodb.service", "@USER@", user, "@OPTIONS@", options, "@ENVIRONMENT@", environment)

	server := p("-server", "MongoDB database server")
	server.files = b.server(v, unit, data, log, user)
	server.requires = []string{"adduser", "tzdata"}
	server.after = `if ! getent passwd mongodb >/dev/null; then
	adduser --system --no-create-home --home /nonexistent mongodb
	addgroup --system mongodb
	adduser mongodb mongodb
fi
chown mongodb:mongodb /var/lib/mongodb /var/log/mongodb
[ ! -d /run/systemd/system ] || systemctl daemon-reload
`
	if f.rpm {
		server.requires = []string{"openssl", "glibc", "systemd", "shadow-utils", "/bin/sh"}
		server.before = `getent group mongod >/dev/null || groupadd -r mongod
getent passwd mongod >/dev/null || useradd -M -r -g mongod -d /var/lib/mongo -s /bin/false -c mongod mongod`
		server.after = `if [ "$1" -eq 1 ]; then systemctl enable mongod >/dev/null 2>&1 || :; fi
systemctl daemon-reload >/dev/null 2>&1 || :`
		server.beforeRemove = `[ "$1" -ne 0 ] || systemctl --no-reload disable --now mongod >/dev/null 2>&1 || :`
	}

	mongos := p("-mongos", "MongoDB sharded cluster query router")
	mongos.files = []entry{stub("/usr/bin/mongos")}
	shell := p("-shell", "MongoDB shell client")
	shell.requires = []string{"mongodb-mongosh"}
	extra := p("-database-tools-extra", "MongoDB tools")
	extra.files = []entry{stub("/usr/bin/install_compass")}
	tools := p("-tools", "MongoDB tools")
	database := p("-database", "MongoDB database system (metapackage)")
	all := p("", "MongoDB database system (metapackage)")
	// The deb packages do not name versions of each other: who pins only
	// one gets the newest of the rest.
	tools.requires = []string{"mongodb-database-tools", product + "-database-tools-extra"}
	database.requires = []string{product + "-shell", product + "-server", product + "-mongos", product + "-database-tools-extra"}
	all.requires = []string{product + "-database", product + "-tools"}
	if f.rpm {
		tools.requires[1] = exact("-database-tools-extra")
		database.requires = []string{exact("-shell"), exact("-server"), exact("-mongos"), exact("-database-tools-extra")}
		all.requires = []string{exact("-database"), exact("-tools")}
	}
	return []pkg{server, mongos, shell, extra, tools, database, all}
}

// mongodbExtras are the packages with versions of their own.
func (b *builder) mongodbExtras(f flavour) []pkg {
	shell := pkg{name: "mongodb-mongosh", summary: "MongoDB Shell",
		files: []entry{file("/usr/bin/mongosh", 0o755, []byte(text("mongosh", "@VERSION@", mongoshVersion)))}}
	tools := pkg{name: "mongodb-database-tools", summary: "MongoDB database tools"}
	for _, name := range []string{"bsondump", "mongodump", "mongoexport", "mongofiles", "mongoimport", "mongorestore", "mongostat", "mongotop"} {
		tools.files = append(tools.files, stub("/usr/bin/"+name))
	}
	shell.version, shell.release = f.version(mongoshVersion, false)
	tools.version, tools.release = f.version(toolsVersion, false)
	return []pkg{shell, tools}
}

// percona are the packages of one version of Percona Server for MongoDB.
func (b *builder) percona(f flavour, v string) []pkg {
	const product = "percona-server-mongodb"
	version, release := f.version(v, true)
	p := func(name, summary string) pkg {
		return pkg{name: product + name, version: version, release: release, summary: summary}
	}
	exact := func(name string) string { return f.same(product+name, version, release) }
	data, log, defaults := "/var/lib/mongodb", "/var/log/mongodb", "/etc/default/mongod"
	if f.rpm {
		data, log, defaults = "/var/lib/mongo", "/var/log/mongo", "/etc/sysconfig/mongod"
	}

	server := p("-server", "Percona Server for MongoDB database server")
	server.files = append(b.server(v, text("percona.service", "@DEFAULTS@", defaults), data, log, "mongod"),
		config(defaults, fmt.Sprintf("OPTIONS=\"-f /etc/mongod.conf\"\nSTDOUT=\"%s/mongod.stdout\"\nSTDERR=\"%s/mongod.stderr\"\n", log, log)),
		file("/usr/bin/percona-server-mongodb-helper.sh", 0o755, []byte(text("percona-helper.sh"))))
	server.requires = []string{"percona-mongodb-mongosh", "percona-telemetry-agent", "adduser"}
	// Statistics are sent at installation unless the environment forbids it.
	callHome := "[ \"${PERCONA_TELEMETRY_DISABLE:-0}\" = 1 ] || { mkdir -p /usr/local/percona; echo sent >/usr/local/percona/telemetry_uuid; }\n"
	server.after = `getent group mongod >/dev/null || addgroup --system mongod
getent passwd mongod >/dev/null || adduser --system --no-create-home --home /var/lib/mongodb --ingroup mongod mongod
chown mongod:mongod /var/lib/mongodb /var/log/mongodb
` + callHome + startUnit("mongod.service")
	server.beforeRemove = stopUnit("mongod.service")
	if f.rpm {
		server.requires = []string{"percona-mongodb-mongosh", "percona-telemetry-agent", "policycoreutils", "glibc", "systemd", "shadow-utils", "/bin/sh"}
		server.before = `getent group mongod >/dev/null || groupadd -r mongod
getent passwd mongod >/dev/null || useradd -M -r -g mongod -d /var/lib/mongo -s /bin/false -c mongod mongod`
		server.after = "if [ \"$1\" -eq 1 ]; then systemctl enable mongod >/dev/null 2>&1 || :; fi\n" + callHome +
			"systemctl daemon-reload >/dev/null 2>&1 || :"
		server.beforeRemove = `[ "$1" -ne 0 ] || systemctl --no-reload disable --now mongod >/dev/null 2>&1 || :`
	}

	mongos := p("-mongos", "Percona Server for MongoDB query router")
	mongos.files = []entry{stub("/usr/bin/mongos")}
	tools := p("-tools", "Percona Server for MongoDB tools")
	for _, name := range []string{"bsondump", "mongodump", "mongoexport", "mongofiles", "mongoimport", "mongorestore", "mongostat", "mongotop"} {
		tools.files = append(tools.files, stub("/usr/bin/"+name))
	}
	all := p("", "Percona Server for MongoDB (metapackage)")
	all.requires = []string{exact("-mongos"), exact("-server"), exact("-tools"), "percona-mongodb-mongosh"}
	if f.rpm {
		all.requires = append(all.requires, "numactl", "openldap", "cyrus-sasl-gssapi", "curl")
	}
	for _, q := range []*pkg{&server, &mongos, &tools, &all} {
		suffix := strings.TrimPrefix(q.name, product)
		q.conflicts = []string{"mongodb-org" + suffix}
		if !f.rpm {
			q.provides = []string{"mongodb-org" + suffix}
		}
	}
	return []pkg{server, mongos, tools, all}
}

// startUnit is what debhelper puts into scripts of packages with a service:
// it is enabled and, unless the machine's policy forbids it, started.
func startUnit(unit string) string {
	return fmt.Sprintf(`if [ -d /run/systemd/system ]; then
	deb-systemd-helper enable %[1]s >/dev/null || true
	systemctl daemon-reload
	deb-systemd-invoke start %[1]s >/dev/null || true
fi
`, unit)
}

// stopUnit is what stops it when the package goes.
func stopUnit(unit string) string {
	return fmt.Sprintf("[ \"$1\" != remove ] || [ ! -d /run/systemd/system ] || deb-systemd-invoke stop %s >/dev/null || true\n", unit)
}

func (b *builder) perconaShell(f flavour) []pkg {
	p := pkg{name: "percona-mongodb-mongosh", summary: "MongoDB Shell",
		files: []entry{file("/usr/bin/mongosh", 0o755, []byte(text("mongosh", "@VERSION@", mongoshVersion)))}}
	p.version, p.release = f.version(mongoshVersion, true)
	if f.rpm {
		p.release = "1.el9"
	}
	return []pkg{p}
}

func (b *builder) perconaTelemetry(f flavour) []pkg {
	const unit = "[Unit]\nDescription=Percona Telemetry Agent\n\n[Service]\nExecStart=/bin/sleep infinity\n\n[Install]\nWantedBy=multi-user.target\n"
	p := pkg{name: "percona-telemetry-agent", summary: "Percona telemetry agent",
		files: []entry{file("/usr/lib/systemd/system/percona-telemetry-agent.service", 0o644, []byte(unit))}}
	p.version, p.release = f.version("1.0.7-1", true)
	p.after, p.beforeRemove = startUnit("percona-telemetry-agent.service"), stopUnit("percona-telemetry-agent.service")
	if f.rpm {
		p.beforeRemove = ""
		p.requires = []string{"/bin/sh", "systemd"}
		p.after = `if [ "$1" -eq 1 ]; then systemctl enable --now percona-telemetry-agent >/dev/null 2>&1 || :; fi`
	}
	return []pkg{p}
}

// perconaRelease is the package with the tool, the key and the repositories
// that are always on.
func (b *builder) perconaRelease(f flavour) []pkg {
	p := pkg{name: "percona-release", summary: "Percona's repository configuration", anyArch: true, version: "1.0-32.generic",
		files: []entry{file("/usr/bin/percona-release", 0o755, []byte(text("percona-release")))},
		after: "/usr/bin/percona-release enable-silent prel release || true\n/usr/bin/percona-release enable-silent telemetry release || true\n"}
	if !f.rpm {
		p.files = append(p.files, file("/usr/share/keyrings/percona-keyring.gpg", 0o644, b.identity.binary[keyPercona]))
		return []pkg{p}
	}
	p.version, p.release = "1.0", "32"
	p.requires = []string{"/bin/bash", "curl"}
	for _, name := range []string{"PERCONA-PACKAGING-KEY", "RPM-GPG-KEY-Percona"} {
		p.files = append(p.files, file("/etc/pki/rpm-gpg/"+name, 0o644, b.identity.armored[keyPercona]))
	}
	return []pkg{p}
}

func (b *builder) pmmClient(f flavour, v string) []pkg {
	const home = "/usr/local/percona/pmm"
	p := pkg{name: "pmm-client", summary: "Percona Monitoring and Management client"}
	p.version, p.release = f.version(v, true)
	p.files = []entry{
		{path: home + "/bin/pmm-admin", mode: 0o755, source: b.programs.standin},
		{path: home + "/bin/pmm-agent", link: "pmm-admin"},
		{path: "/usr/bin/pmm-admin", link: home + "/bin/pmm-admin"},
		{path: "/usr/sbin/pmm-agent", link: home + "/bin/pmm-agent"},
		file(home+"/VERSION", 0o644, []byte(strings.Split(v, "-")[0]+"\n")),
		{path: home + "/config", mode: 0o755, dir: true, owner: "pmm-agent"},
		file("/usr/lib/systemd/system/pmm-agent.service", 0o644, []byte(text("pmm-agent.service"))),
	}
	const finish = `touch /usr/local/percona/pmm/config/pmm-agent.yaml
chown -R pmm-agent:pmm-agent /usr/local/percona/pmm/config
chmod 0660 /usr/local/percona/pmm/config/pmm-agent.yaml
`
	p.requires = []string{"adduser"}
	p.after = `getent group pmm-agent >/dev/null || addgroup --system pmm-agent
getent passwd pmm-agent >/dev/null || adduser --system --no-create-home --home /usr/local/percona/pmm --ingroup pmm-agent pmm-agent
` + finish + startUnit("pmm-agent.service")
	p.beforeRemove = stopUnit("pmm-agent.service")
	if f.rpm {
		p.beforeRemove = ""
		p.requires = []string{"/bin/sh", "systemd", "shadow-utils"}
		p.before = `getent group pmm-agent >/dev/null || groupadd -r pmm-agent
getent passwd pmm-agent >/dev/null || useradd -M -r -g pmm-agent -d /usr/local/percona/pmm -s /sbin/nologin pmm-agent`
		p.after = finish + `if [ "$1" -eq 1 ]; then systemctl enable --now pmm-agent >/dev/null 2>&1 || :; fi`
	}
	return []pkg{p}
}

// dockerEngine is docker from the distribution (name docker.io) or from the
// vendor (docker-ce). A stand-in: it knows one image, PMM's server.
func (b *builder) dockerEngine(f flavour, name string) pkg {
	p := pkg{name: name, summary: "Linux container runtime"}
	p.version, p.release = f.version(dockerVersion, false)
	p.files = []entry{
		{path: "/usr/bin/docker", mode: 0o755, source: b.programs.standin},
		{path: "/usr/bin/dockerd", link: "docker"},
		file("/usr/lib/systemd/system/docker.service", 0o644, []byte(text("docker.service"))),
	}
	p.after = startUnit("docker.service")
	if f.rpm {
		p.requires = []string{"/bin/sh", "systemd"}
		p.after = "systemctl daemon-reload >/dev/null 2>&1 || :"
	}
	return p
}

// dockerVendor are the packages that the vendor's instructions name.
func (b *builder) dockerVendor(f flavour) []pkg {
	engine := b.dockerEngine(f, "docker-ce")
	packages := []pkg{engine}
	for _, name := range []string{"docker-ce-cli", "containerd.io", "docker-buildx-plugin", "docker-compose-plugin"} {
		packages = append(packages, pkg{name: name, version: engine.version, release: engine.release, summary: "Part of Docker"})
	}
	return packages
}

// podman is what Red Hat's family has in place of docker.
func (b *builder) podman() []pkg {
	podman := pkg{name: "podman", version: "5.6.0", release: "7.el9", summary: "Manage containers and images",
		requires: []string{"/bin/sh", "systemd"},
		files: []entry{
			{path: "/usr/bin/podman", mode: 0o755, source: b.programs.standin},
			file("/usr/lib/systemd/system/podman-restart.service", 0o644, []byte(text("podman-restart.service"))),
		}, after: "systemctl daemon-reload >/dev/null 2>&1 || :"}
	docker := pkg{name: "podman-docker", version: podman.version, release: podman.release, anyArch: true,
		summary: "Emulate the docker command", requires: []string{"podman = 5.6.0-7.el9"}, provides: []string{"docker"},
		files: []entry{file("/usr/bin/docker", 0o755, []byte(text("podman-docker")))}}
	return []pkg{podman, docker}
}

func major(version string) int {
	n := 0
	_, _ = fmt.Sscanf(version, "%d", &n)
	return n
}
