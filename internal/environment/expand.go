package environment

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Limits of a replica set, see "Replica Set Members" in MongoDB's manual.
const (
	maxMembers = 50
	maxVoting  = 7
	// More than one arbiter is refused by the server since 5.3 unless it is
	// started with allowMultipleArbiters.
	maxArbiters = 1
)

// Defaults of the public variables for deployments that say nothing.
const (
	defaultDistribution = "psmdb"
	defaultRelease      = "psmdb-80"
)

// expand turns the resolved variables into a Spec. It reports what is wrong
// and goes on; the result counts only when nothing was.
func (l *loader) expand(name string) *Spec {
	spec := &Spec{Name: name, Platform: GCP, Files: l.files, Given: l.given()}
	if platform := l.text("platform"); platform != "" {
		spec.Platform = Platform(platform)
	}
	if spec.Platform == Existing {
		at := l.valueAt("platform")
		l.problems.refuse(at, "Not supported yet", "This version does not manage deployments that exist already.", "Run the load generator on its own against them: sandbox workload run --uri URI.")
	}
	l.refuseFeatures()

	prefix := l.text("prefix")
	if prefix == "" && l.values["prefix"] != cty.NilVal && spec.Platform == GCP {
		prefix = name // machines share a project with those of other environments
	}
	replsets := l.values["replsets"]
	if replsets == cty.NilVal {
		return spec // it has been said why
	}
	if replsets.LengthInt() == 0 && !l.partial && l.clean("replsets") && !asksFor(l.value("clusters")) {
		l.problems.refuse(l.keyAt("replsets"), "No deployment", "No replica set is defined, so there is nothing to create.", "Add one: replsets = { rs1 = {} }.")
	}
	hosts := map[string]string{} // host label -> name of the first deployment that has it
	for key, object := range elements(replsets) {
		r := &replset{loader: l, name: key, object: object}
		d := r.expand(prefix, spec.Platform)
		label := hostLabel(key)
		if other, taken := hosts[label]; taken {
			l.problems.refuse(r.keyRange(), "Same host names", fmt.Sprintf("%q and %q would both have hosts named %q.", other, key, memberName(prefix, key, Data, 0)), "Rename one of them: host names have lower-case letters, digits and hyphens only.")
		} else {
			hosts[label] = key
		}
		spec.Deployments = append(spec.Deployments, d)
	}
	if spec.Platform == GCP {
		spec.Machines = l.machines(spec, prefix)
		spec.Cloud = l.cloud(spec, prefix)
	}
	spec.Variables = l.variables()
	spec.Settings, spec.NotApplied = l.settings(spec.Platform)
	return spec
}

// clean reports whether a variable's value lost no element to errors.
func (l *loader) clean(name string) bool {
	value, src := l.values[name], l.sources[name]
	if value == cty.NilVal {
		return false
	}
	if src == nil {
		return true
	}
	given, _ := src.expr.Value(nil)
	return given.IsNull() || given.LengthInt() == value.LengthInt()
}

func (l *loader) value(name string) cty.Value {
	if value, ok := l.values[name]; ok {
		return value
	}
	return cty.NilVal
}

// text returns a string variable, "" when it is unset or unsound.
func (l *loader) text(name string) string { return textOf(l.value(name)) }

// is reports whether a bool variable is true.
func (l *loader) is(name string) bool { return isTrue(l.value(name)) }

func textOf(value cty.Value) string {
	if value == cty.NilVal || value.IsNull() || value.Type() != cty.String {
		return ""
	}
	return value.AsString()
}

func isTrue(value cty.Value) bool {
	return value != cty.NilVal && !value.IsNull() && value.Type() == cty.Bool && value.True()
}

// keyAt and valueAt are the place of a variable or of an element of it, nil
// when nothing sets the variable.
func (l *loader) keyAt(name string, steps ...string) *hcl.Range {
	src := l.sources[name]
	if src == nil {
		return nil
	}
	key, _ := src.place(pathOf(steps))
	return &key
}

func (l *loader) valueAt(name string, steps ...string) *hcl.Range {
	src := l.sources[name]
	if src == nil {
		return nil
	}
	_, value := src.place(pathOf(steps))
	return &value
}

func pathOf(steps []string) cty.Path {
	var path cty.Path
	for _, step := range steps {
		path = path.IndexString(step)
	}
	return path
}

// replset is one element of the variable replsets.
type replset struct {
	*loader
	name   string
	object cty.Value
}

func (r *replset) keyRange() *hcl.Range { return r.keyAt("replsets", r.name) }

// attrRange is the place of an attribute's value, or of the replica set's
// name when the attribute is left out.
func (r *replset) attrRange(attr string) *hcl.Range {
	if r.spelled(attr) {
		return r.valueAt("replsets", r.name, attr)
	}
	return r.keyRange()
}

// spelled reports whether the source has the attribute.
func (r *replset) spelled(attr string) bool {
	src := r.sources["replsets"]
	if src == nil {
		return false
	}
	outer, _ := src.place(pathOf([]string{r.name}))
	inner, _ := src.place(pathOf([]string{r.name, attr}))
	return outer != inner
}

func (r *replset) expand(prefix string, platform Platform) Deployment {
	d := Deployment{Name: r.name, ReplicaSet: r.name}
	r.version(&d)
	r.packages(&d, platform)
	r.cache(&d)

	data, dataOK := wholeNumber(r.object.GetAttr("data_nodes_per_replset"))
	arbiters, arbitersOK := wholeNumber(r.object.GetAttr("arbiters_per_replset"))
	switch {
	case !dataOK:
		r.refuseCount("data_nodes_per_replset")
	case data < 1:
		r.problems.refuse(r.attrRange("data_nodes_per_replset"), "No data member", fmt.Sprintf("%q has %d members with data; a replica set needs at least one.", r.name, data), "Set data_nodes_per_replset to 1 or more, or remove the replica set.")
		dataOK = false
	}
	switch {
	case !arbitersOK || arbiters < 0:
		r.refuseCount("arbiters_per_replset")
		arbitersOK = false
	case arbiters > maxArbiters && data+arbiters <= maxVoting:
		r.problems.refuse(r.attrRange("arbiters_per_replset"), "Too many arbiters", fmt.Sprintf("%q has %d arbiters; MongoDB allows one.", r.name, arbiters), "Set arbiters_per_replset to 0 or 1.")
	}
	if !dataOK || !arbitersOK {
		data, arbiters = min(max(data, 0), 1), 0 // enough to judge the name by
	}
	if !r.countsFit(data, arbiters) {
		data, arbiters = 1, 0
	}
	if !r.nameFits(prefix, data, arbiters) {
		return d
	}
	for i := range data {
		d.Members = append(d.Members, Member{Name: memberName(prefix, r.name, Data, i), Role: Data})
	}
	for i := range arbiters {
		d.Members = append(d.Members, Member{Name: memberName(prefix, r.name, Arbiter, i), Role: Arbiter})
	}
	if platform == GCP && d.Release != "" && d.Version == "" {
		r.problems.warn(r.keyRange(), "No exact version", fmt.Sprintf("%q does not say which version of %q it runs, so it gets whatever is the newest when it is created.", r.name, d.Release), "Set mongo_version to make comparisons repeatable.")
	}
	if platform == GCP && isTrue(r.object.GetAttr("enable_pmm")) && r.value("enable_pmm") != cty.NilVal && !r.is("enable_pmm") {
		r.problems.refuse(r.attrRange("enable_pmm"), "No monitoring server", fmt.Sprintf("%q asks for monitoring, but the environment has no PMM server (enable_pmm = false).", r.name), "Set the environment's enable_pmm to true, or remove this one.")
	}
	return d
}

// The bounds of storage.wiredTiger.engineConfig.cacheSizeGB.
const (
	minCacheGB = 0.25
	maxCacheGB = 10000
)

// cache settles the storage engine's cache: the replica set's own, else the
// environment's.
func (r *replset) cache(d *Deployment) {
	const name = "wiredtiger_cache_gb"
	value, at := r.object.GetAttr(name), r.attrRange(name)
	if value.IsNull() {
		if value = r.value(name); value == cty.NilVal || value.IsNull() {
			return
		}
		at = r.valueAt(name)
	}
	gb, _ := value.AsBigFloat().Float64()
	if gb < minCacheGB || gb > maxCacheGB {
		r.problems.refuse(at, "Invalid cache size", fmt.Sprintf("%q has a cache of %g GB; MongoDB allows %g to %d.", r.name, gb, minCacheGB, maxCacheGB), "Leave "+name+" out for the server's default.")
		return
	}
	d.CacheGB = gb
}

func (r *replset) refuseCount(attr string) {
	r.problems.refuse(r.attrRange(attr), "Invalid number", fmt.Sprintf("%s of %q is a whole number from 0 to %d.", attr, r.name, maxVoting), "")
}

// countsFit checks the numbers of members. Every member votes, since the file
// has no way of saying that one does not.
func (r *replset) countsFit(data, arbiters int) bool {
	total := data + arbiters
	at := r.attrRange("data_nodes_per_replset")
	switch {
	case total > maxMembers:
		r.problems.refuse(at, "Too many members", fmt.Sprintf("%q has %d members; a replica set has at most %d, of which %d vote.", r.name, total, maxMembers, maxVoting), fmt.Sprintf("Use at most %d.", maxVoting))
		return false
	case total > maxVoting:
		r.problems.refuse(at, "Too many voting members", fmt.Sprintf("%q has %d members, and all of them vote; a replica set has at most %d voting members.", r.name, total, maxVoting), fmt.Sprintf("Use at most %d members with data and arbiters together.", maxVoting))
		return false
	case total > 0 && total%2 == 0:
		r.problems.warn(at, "Even number of voting members", fmt.Sprintf("%q has %d voting members. A majority of them is %d, so it survives the loss of %s, no more than with %s.", r.name, total, total/2+1, membersText((total-1)/2), membersText(total-1)), "Use an odd number.")
	}
	return true
}

func membersText(n int) string {
	switch n {
	case 0:
		return "no member"
	case 1:
		return "one member"
	}
	return fmt.Sprintf("%d members", n)
}

var (
	replicaSetName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	hostName       = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// nameFits checks that the name can be a replica set's and that the hosts'
// names can be names of hosts.
func (r *replset) nameFits(prefix string, data, arbiters int) bool {
	const summary = "Invalid name"
	if !replicaSetName.MatchString(r.name) {
		r.problems.refuse(r.keyRange(), summary, fmt.Sprintf("%q cannot be the name of a replica set and of its hosts.", r.name), "Use letters, digits, hyphens and underscores, starting with a letter.")
		return false
	}
	longest := memberName(prefix, r.name, Data, max(data-1, 0))
	if arbiters > 0 {
		longest = memberName(prefix, r.name, Arbiter, arbiters-1)
	}
	switch {
	case hostName.MatchString(longest):
		return true
	case len(longest) > 63:
		r.problems.refuse(r.keyRange(), summary, fmt.Sprintf("The host name %q of a member of %q has %d characters; 63 are allowed.", longest, r.name, len(longest)), "Use a shorter name or prefix.")
	default:
		r.problems.refuse(r.keyRange(), summary, fmt.Sprintf("The host name %q of a member of %q does not start with a letter.", longest, r.name), "Start the name with a letter, or set a prefix.")
	}
	return false
}

// hostLabel is a name as a part of a host name.
func hostLabel(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
}

// memberName is [prefix-]deployment-N for members with data and
// [prefix-]deployment-arbN for arbiters. No two deployments with different
// labels can share one: the last part tells where the label ends.
func memberName(prefix, deployment string, role Role, i int) string {
	last := fmt.Sprint(i)
	if role == Arbiter {
		last = "arb" + last
	}
	return hostOf(prefix, hostLabel(deployment)+"-"+last)
}

func hostOf(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "-" + name
}

var (
	psmdbRelease  = regexp.MustCompile(`^psmdb-([0-9]+)([0-9])$`)
	serverRelease = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)
	wholeRelease  = regexp.MustCompile(`^[0-9]+$`)
	serverVersion = regexp.MustCompile(`^([0-9]+\.[0-9]+)\.[0-9]+([-~.][0-9A-Za-z.~-]+)?$`)
)

// version settles distribution, release and version: the replica set's own,
// else the environment's, else what follows from the others. The version may
// stay empty: it is then the newest of the release that the platform finds.
func (r *replset) version(d *Deployment) {
	distribution, _, distributionAt := r.setting("mongodb_distribution")
	release, _, releaseAt := r.setting("mongo_release")
	version, ownVersion, versionAt := r.setting("mongo_version")

	series := ""
	if version != "" {
		if m := serverVersion.FindStringSubmatch(version); m != nil {
			series = m[1]
		} else {
			r.problems.refuse(versionAt, "Invalid version", fmt.Sprintf("%q is not an exact version.", version), `Write all three parts in quotes, such as "8.0.34".`)
			version = ""
		}
	}
	if !slices.Contains([]string{"", "community", "psmdb", "enterprise"}, distribution) {
		r.problems.refuse(distributionAt, "Unknown distribution", fmt.Sprintf("There is no distribution %q.", distribution), "Use community, psmdb or enterprise.")
		return
	}
	for _, name := range []string{"mongodb_distribution", "mongo_release", "mongo_version"} {
		if r.value(name) == cty.NilVal && r.textAttr(name) == "" {
			return // the environment's is unsound, as has been said
		}
	}
	if release == "" {
		switch {
		case series != "" && distribution == "psmdb":
			release = "psmdb-" + strings.ReplaceAll(series, ".", "")
		case series != "" && distribution != "":
			release = series
		case series == "" && (distribution == "psmdb" || distribution == ""):
			distribution, release = defaultDistribution, defaultRelease
		default:
			r.problems.refuse(r.keyRange(), "Missing release", fmt.Sprintf("%q does not say which release it runs.", r.name), `Set mongo_release, such as "8.0" or "psmdb-80".`)
			return
		}
	}
	switch m := psmdbRelease.FindStringSubmatch(release); {
	case m != nil:
		d.Series = m[1] + "." + m[2]
	case serverRelease.MatchString(release):
		d.Series = release
	case wholeRelease.MatchString(release):
		r.problems.refuse(releaseAt, "Invalid release", fmt.Sprintf("%q is not a release.", release), fmt.Sprintf("Write it in quotes: \"%s.0\". Without them it is a number, and Terraform drops the zero.", release))
		return
	default:
		r.problems.refuse(releaseAt, "Invalid release", fmt.Sprintf("%q is not a release.", release), `Releases are written like "psmdb-80" for psmdb, and like "8.0" for community and enterprise.`)
		return
	}
	ofPSMDB := strings.HasPrefix(release, "psmdb-")
	if distribution == "" {
		distribution = "community"
		if ofPSMDB {
			distribution = "psmdb"
		}
	}
	at := releaseAt
	if r.textAttr("mongo_release") == "" && r.textAttr("mongodb_distribution") != "" {
		at = distributionAt
	}
	switch dotless := strings.ReplaceAll(d.Series, ".", ""); {
	case distribution == "psmdb" && !ofPSMDB:
		r.problems.refuse(at, "Release of another distribution", fmt.Sprintf("%q runs psmdb, whose releases are not written %q.", r.name, release), fmt.Sprintf("Write mongo_release = \"psmdb-%s\".", dotless))
	case distribution != "psmdb" && ofPSMDB:
		r.problems.refuse(at, "Release of another distribution", fmt.Sprintf("%q runs %s, but %q is a release of psmdb.", r.name, distribution, release), fmt.Sprintf("Write mongo_release = %q, or mongodb_distribution = \"psmdb\".", d.Series))
	}
	if series != "" && series != d.Series {
		at := versionAt
		from := ""
		if !ownVersion {
			from = ", which it takes from the environment's mongo_version"
			if r.keyRange() != nil {
				at = r.attrRange("mongo_release")
			}
		}
		r.problems.refuse(at, "Version of another release", fmt.Sprintf("%q asks for release %q and for version %q%s.", r.name, release, version, from), fmt.Sprintf("A version of %q starts with %q.", release, d.Series+"."))
	}
	d.Distribution, d.Release, d.Version = distribution, release, version
}

// packages settles where the server and its monitoring come from; on the
// local platform, they come from nowhere.
func (r *replset) packages(d *Deployment, platform Platform) {
	if platform != GCP {
		return
	}
	d.Repository, _, _ = r.setting("mongo_repo")
	d.EnvTag = r.textAttr("env_tag")
	monitored := r.object.GetAttr("enable_pmm")
	d.Monitored = r.is("enable_pmm") && (monitored.IsNull() || isTrue(monitored))
	if d.Monitored {
		d.PMMVersion, _, _ = r.setting("pmm_client_version")
		d.PMMRepository, _, _ = r.setting("pmm_client_repo")
	}
}

// textAttr is a string attribute, "" when it is null.
func (r *replset) textAttr(attr string) string { return textOf(r.object.GetAttr(attr)) }

// setting is a string that the replica set or else the environment sets, with
// the place of it and whether it is the replica set's own.
func (r *replset) setting(name string) (text string, own bool, at *hcl.Range) {
	if text = r.textAttr(name); text != "" {
		return text, true, r.attrRange(name)
	}
	if text = r.text(name); text != "" {
		return text, false, r.valueAt(name)
	}
	return "", false, nil
}
