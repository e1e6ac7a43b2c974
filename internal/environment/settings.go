package environment

import (
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// feature is something that a file can ask for and this version does not do.
// Ignoring it in silence would make a deployment that is not the one asked
// for.
type feature struct {
	name string // of the attribute or variable
	what string // as a sentence goes on: "asks for …"
	hint string
}

func replsetFeatures() []feature {
	return []feature{
		{"use_tls", "TLS", "Remove use_tls: members authenticate each other with a keyfile, and clients connect without TLS."},
		{"enable_audit", "an audit log", "Remove enable_audit."},
		{"audit_filter", "an audit filter", "Remove audit_filter."},
		{"ldap_server", "LDAP", "Remove ldap_server: users are kept in the database."},
		{"enable_mongot", "a search process (mongot)", "Remove enable_mongot."},
		{"enable_pbm", "backups (PBM)", "Remove enable_pbm: a backup agent has no place beside a benchmark, and is off unless it is asked for."},
	}
}

func environmentFeatures() []feature {
	return []feature{
		{"clusters", "sharded clusters", "Write clusters = {} and use replsets."},
		{"ldap_servers", "LDAP servers", "Remove ldap_servers."},
		{"enable_pcsm", "Percona ClusterSync", "Remove enable_pcsm."},
		{"enable_ca", "a certificate authority", "Remove enable_ca."},
		{"enable_ycsb", "a YCSB machine", "Remove enable_ycsb: sandbox brings its own load generator."},
	}
}

func (l *loader) refuseFeatures() {
	const summary = "Not supported yet"
	for _, f := range environmentFeatures() {
		if asksFor(l.value(f.name)) {
			l.problems.refuse(l.keyAt(f.name), summary, fmt.Sprintf("The environment asks for %s (%s), which this version does not set up.", f.what, f.name), f.hint)
		}
	}
	replsets := l.value("replsets")
	if replsets == cty.NilVal {
		return
	}
	for key, object := range elements(replsets) {
		r := &replset{loader: l, name: key, object: object}
		for _, f := range replsetFeatures() {
			if asksFor(object.GetAttr(f.name)) {
				at := r.keyRange()
				if r.spelled(f.name) {
					at = l.keyAt("replsets", key, f.name)
				}
				l.problems.refuse(at, summary, fmt.Sprintf("%q asks for %s (%s), which this version does not set up.", key, f.what, f.name), f.hint)
			}
		}
	}
}

// asksFor reports whether a value is more than nothing: true, a text, or a
// map with elements.
func asksFor(value cty.Value) bool {
	return value != cty.NilVal && !value.IsNull() && !isOff(value)
}

// Reasons why a setting is not applied.
const (
	noMachines   = "there are no machines: members are processes on this one"
	noCloud      = "nothing is created in a cloud"
	noMonitoring = "there is no monitoring server"
	noLoadHost   = "there is no load host"
	noPackages   = "nothing is installed from packages"
	noClusters   = "there are no sharded clusters"
	noBackups    = "there are no backups"
	noSearch     = "there is no search process"
	noSync       = "there is no ClusterSync"
	noCA         = "there is no certificate authority"
	noYCSB       = "there is no YCSB machine"
	noSSH        = "nothing is reached through SSH"
)

// notApplied says why a variable, or an attribute of a replica set, has no
// effect on a platform; "" when it has one. Those that shape the deployments
// themselves and the switches of environmentFeatures have one, too.
func (l *loader) notApplied(name string, platform Platform) string {
	switch name {
	case "shardsvr_type", "shardsvr_volume_size", "configsvr_type", "configsvr_volume_size", "mongos_type":
		return noClusters
	case "default_bucket_name", "backup_retention", "pbm_version", "pbm_repo":
		return noBackups
	case "mongot_repo", "mongot_source", "mongot_version":
		return noSearch
	case "ycsb_type", "default_ycsb_host":
		return noYCSB
	case "ca_placement", "ca_type", "default_ca_host":
		return noCA
	case "default_pcsm_host":
		return noSync
	}
	if strings.HasPrefix(name, "pcsm_") {
		return noSync
	}
	monitored := platform != Local && l.is("enable_pmm")
	loaded := platform != Local && l.is("enable_plgm")
	switch name {
	case "default_pmm_host", "pmm_type", "pmm_disk_type", "pmm_volume_size", "pmm_port", "pmm_image", "port_to_forward",
		"env_tag", "pmm_client_version", "pmm_client_repo":
		if !monitored {
			return noMonitoring
		}
	case "plgm_type":
		if !loaded {
			return noLoadHost
		}
	}
	if platform != Local {
		return ""
	}
	switch name {
	case "project_id", "region", "state_bucket", "zone_mode", "compact_placement", "default_vpc_name", "subnet_name", "subnet_cidr":
		return noCloud
	case "replsetsvr_type", "replsetsvr_volume_size", "arbiter_type", "data_disk_type", "min_cpu_platform", "nic_type", "image", "use_spot_instances":
		return noMachines
	case "enable_plgm":
		return noLoadHost
	case "enable_pmm":
		return noMonitoring
	case "gce_ssh_users", "my_ssh_user", "ssh_private_key_path", "enable_ssh_gateway", "ssh_gateway_name", "source_ranges":
		return noSSH
	case "mongo_repo":
		return noPackages
	}
	return ""
}

// settings lists the environment-wide settings that have an effect, defaults
// included, and those of the sources that have none: both of variables and of
// attributes of replica sets. What merely turns off something that is off
// anyway is in neither list.
func (l *loader) settings(platform Platform) (applied, ignored []Setting) {
	structural := map[string]bool{"platform": true, "replsets": true}
	for _, f := range environmentFeatures() {
		structural[f.name] = true
	}
	for _, v := range l.schema.variables {
		value := l.value(v.name)
		if structural[v.name] || value == cty.NilVal || value.IsNull() {
			continue
		}
		setting := Setting{Name: v.name, Value: hclText(value)}
		if v.sensitive {
			setting.Value = "(sensitive)"
		}
		if setting.Reason = l.notApplied(v.name, platform); setting.Reason == "" {
			applied = append(applied, setting)
		} else if l.sources[v.name] != nil && !isOff(value) {
			ignored = append(ignored, setting)
		}
	}
	for key, object := range elements(l.value("replsets")) {
		r := &replset{loader: l, name: key, object: object}
		for _, attr := range l.schema.byName["replsets"].attributes() {
			value := object.GetAttr(attr)
			reason := l.notApplied(attr, platform)
			if reason == "" || !r.spelled(attr) || value.IsNull() || isOff(value) {
				continue
			}
			path := cty.Path{}.IndexString(key).GetAttr(attr)
			ignored = append(ignored, Setting{Name: pathText("replsets", path), Value: hclText(value), Reason: reason})
		}
	}
	return applied, ignored
}

// isOff reports whether a value is false or empty: asking for nothing.
func isOff(value cty.Value) bool {
	switch {
	case value.Type() == cty.Bool:
		return value.False()
	case value.Type() == cty.String:
		return value.AsString() == ""
	case value.CanIterateElements():
		return value.LengthInt() == 0
	}
	return false
}
