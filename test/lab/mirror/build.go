package mirror

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// builder builds the trees below dir, which nobody reads before it is done.
type builder struct {
	platform     platform
	identity     *identity
	programs     programs
	distribution []string // packages of the distribution
	dir          string
	progress     func(string)
	built        map[string]*debFile // by file name: several suites have the same
}

// target is an apt distribution that the vendors serve.
type target struct{ distribution, codename string }

// targets are what the machines of the lab may be, and the host's own.
func (b *builder) targets() []target {
	all := []target{{"debian", "bookworm"}, {"ubuntu", "noble"}}
	if own := (target{b.platform.Distribution, b.platform.Codename}); !slices.Contains(all, own) {
		all = append(all, own)
	}
	return all
}

func (b *builder) build(ctx context.Context) error {
	if err := os.RemoveAll(b.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(b.dir, 0o755); err != nil { //nolint:gosec // served files
		return err
	}
	defer b.identity.stopAgent(context.WithoutCancel(ctx))
	for _, part := range []struct {
		name string
		make func(context.Context) error
	}{
		{"MongoDB's packages", b.buildMongoDB},
		{"Percona's packages", b.buildPercona},
		{"Docker's packages", b.buildDocker},
		{"the distribution's packages", b.buildDistribution},
	} {
		b.progress("building " + part.name)
		if err := part.make(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	// The trees have links to all of it.
	for _, name := range []string{"rpms", "debs"} {
		if err := os.RemoveAll(filepath.Join(b.dir, name)); err != nil {
			return err
		}
	}
	return write(filepath.Join(b.dir, "complete"), nil)
}

// debs builds packages and returns their files.
func (b *builder) debs(ctx context.Context, packages []pkg) ([]*debFile, error) {
	dir := filepath.Join(b.dir, "debs")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // served files
		return nil, err
	}
	files := []*debFile{}
	for _, p := range packages {
		name := p.debName(b.platform)
		f := b.built[name]
		if f == nil {
			var err error
			if f, err = b.deb(ctx, p, filepath.Join(dir, name)); err != nil {
				return nil, err
			}
			b.built[name] = f
		}
		files = append(files, f)
	}
	return files, nil
}

func (b *builder) buildMongoDB(ctx context.Context) error {
	for _, edition := range []struct {
		product, host string
		lines         []Line
	}{
		{"mongodb-org", hostMongo, Community()},
		{"mongodb-enterprise", hostEnterprise, Enterprise()},
	} {
		extras, err := b.debs(ctx, b.mongodbExtras(flavour{}))
		if err != nil {
			return err
		}
		for _, line := range edition.lines {
			files := slices.Clone(extras)
			for _, v := range line.Versions {
				built, err := b.debs(ctx, b.mongodb(flavour{}, edition.product, v))
				if err != nil {
					return err
				}
				files = append(files, built...)
			}
			for _, t := range b.targets() {
				component := map[string]string{"debian": "main", "ubuntu": "multiverse"}[t.distribution]
				s := suite{host: edition.host, root: "apt/" + t.distribution, key: line.key,
					name:       fmt.Sprintf("%s/%s/%s", t.codename, edition.product, line.Series),
					components: map[string][]*debFile{component: files}}
				if err := b.apt(ctx, s); err != nil {
					return err
				}
			}
			y := yumRepository{host: edition.host, folder: "RPMS", key: line.key,
				root:   fmt.Sprintf("yum/redhat/9/%s/%s/%s", edition.product, line.Series, b.platform.RPM),
				groups: [][]pkg{b.mongodbExtras(flavour{rpm: true})}}
			for _, v := range line.Versions {
				y.groups = append(y.groups, b.mongodb(flavour{rpm: true}, edition.product, v))
			}
			if err := b.yum(ctx, y); err != nil {
				return err
			}
		}
	}
	for name, key := range map[string]string{"server-7.0.asc": keyMongo70, "server-8.0.asc": keyMongo80, "server-9.asc": keyMongo9} {
		if err := write(filepath.Join(b.dir, "www", hostMongoKeys, name), b.identity.armored[key]); err != nil {
			return err
		}
	}
	return nil
}

// perconaRepository is one of those that percona-release enables: what each
// of its channels has. The testing channel has the release channel's too.
type perconaRepository struct {
	name             string
	arch             string // folder of the yum packages
	release, testing func(flavour) [][]pkg
}

func (b *builder) perconaRepositories() []perconaRepository {
	one := func(group func(flavour) []pkg) func(flavour) [][]pkg {
		return func(f flavour) [][]pkg { return [][]pkg{group(f)} }
	}
	none := func(flavour) [][]pkg { return nil }
	repositories := []perconaRepository{
		{"prel", "noarch", one(b.perconaRelease), none},
		{"telemetry", b.platform.RPM, one(b.perconaTelemetry), none},
		{"pmm3-client", b.platform.RPM, func(f flavour) (groups [][]pkg) {
			for _, v := range PMMClient() {
				groups = append(groups, b.pmmClient(f, v))
			}
			return groups
		}, none},
	}
	for _, line := range Percona() {
		versions := func(list []string) func(flavour) [][]pkg {
			return func(f flavour) (groups [][]pkg) {
				if len(list) > 0 {
					groups = append(groups, b.perconaShell(f))
				}
				for _, v := range list {
					groups = append(groups, b.percona(f, v))
				}
				return groups
			}
		}
		repositories = append(repositories, perconaRepository{"psmdb-" + strings.ReplaceAll(line.Series, ".", ""), b.platform.RPM,
			versions(line.Versions), versions(line.Testing)})
	}
	return repositories
}

func (b *builder) buildPercona(ctx context.Context) error {
	repositories := b.perconaRepositories()
	for _, t := range b.targets() {
		for _, r := range repositories {
			f := flavour{codename: t.codename}
			components := map[string][]*debFile{}
			for component, groups := range map[string][][]pkg{"main": r.release(f), "testing": r.testing(f), "experimental": nil} {
				components[component] = nil
				for _, group := range groups {
					built, err := b.debs(ctx, group)
					if err != nil {
						return err
					}
					components[component] = append(components[component], built...)
				}
			}
			s := suite{host: hostPercona, root: r.name + "/apt", name: t.codename, pool: "pool", key: keyPercona, components: components}
			if err := b.apt(ctx, s); err != nil {
				return err
			}
		}
	}
	for _, r := range repositories {
		f := flavour{rpm: true}
		for channel, groups := range map[string][][]pkg{"release": r.release(f), "testing": r.testing(f), "experimental": nil} {
			y := yumRepository{host: hostPercona, root: fmt.Sprintf("%s/yum/%s/9/RPMS/%s", r.name, channel, r.arch), key: keyPercona, groups: groups}
			if err := b.yum(ctx, y); err != nil {
				return err
			}
		}
	}
	// What is downloaded by hand.
	www := filepath.Join(b.dir, "www", hostPercona)
	deb, err := b.debs(ctx, b.perconaRelease(flavour{}))
	if err != nil {
		return err
	}
	if err := link(deb[0].path, filepath.Join(www, "apt/percona-release_latest.generic_all.deb")); err != nil {
		return err
	}
	rpm, err := filepath.Glob(filepath.Join(www, "prel/yum/release/9/RPMS/noarch/percona-release-*.rpm"))
	if err != nil || len(rpm) != 1 {
		return fmt.Errorf("percona-release: %d packages built: %w", len(rpm), err)
	}
	return link(rpm[0], filepath.Join(www, "yum/percona-release-latest.noarch.rpm"))
}

func (b *builder) buildDocker(ctx context.Context) error {
	www := filepath.Join(b.dir, "www", hostDocker, "linux")
	files, err := b.debs(ctx, b.dockerVendor(flavour{}))
	if err != nil {
		return err
	}
	for _, t := range b.targets() {
		s := suite{host: hostDocker, root: "linux/" + t.distribution, name: t.codename, pool: "dists/" + t.codename + "/pool", key: keyDocker,
			components: map[string][]*debFile{"stable": files}}
		if err := b.apt(ctx, s); err != nil {
			return err
		}
		if err := write(filepath.Join(www, t.distribution, "gpg"), b.identity.armored[keyDocker]); err != nil {
			return err
		}
	}
	y := yumRepository{host: hostDocker, root: "linux/centos/9/" + b.platform.RPM + "/stable", folder: "Packages", key: keyDocker,
		groups: [][]pkg{b.dockerVendor(flavour{rpm: true})}}
	if err := b.yum(ctx, y); err != nil {
		return err
	}
	if err := write(filepath.Join(www, "centos", "gpg"), b.identity.armored[keyDocker]); err != nil {
		return err
	}
	const repository = `[docker-ce-stable]
name=Docker CE Stable - $basearch
baseurl=https://download.docker.com/linux/centos/$releasever/$basearch/stable
enabled=1
gpgcheck=1
gpgkey=https://download.docker.com/linux/centos/gpg
`
	return write(filepath.Join(www, "centos", "docker-ce.repo"), []byte(repository))
}

func (b *builder) buildDistribution(ctx context.Context) error {
	files, err := b.debs(ctx, []pkg{b.dockerEngine(flavour{}, "docker.io")})
	if err != nil {
		return err
	}
	for _, name := range b.distribution {
		f, err := readDeb(ctx, name)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	s := suite{host: hostDistribution, root: "debian", name: b.platform.Codename, pool: "pool", key: keyDistribution,
		components: map[string][]*debFile{"main": files}}
	if err := b.apt(ctx, s); err != nil {
		return err
	}
	for name, group := range map[string][]pkg{"BaseOS": el9Packages(), "AppStream": b.podman()} {
		y := yumRepository{host: hostDistribution, root: fmt.Sprintf("centos/9-stream/%s/%s/os", name, b.platform.RPM), folder: "Packages",
			key: keyDistribution, groups: [][]pkg{group}}
		if err := b.yum(ctx, y); err != nil {
			return err
		}
	}
	return nil
}
