package environment

import (
	"fmt"
	"strings"
)

// Roles of machines, beside those of members.
const (
	LoadHost   = "load host"
	Monitoring = "monitoring"
)

// maxZones is the number of zones that members are spread over at most: every
// region but few has three.
const maxZones = 3

// machines lays out the gcp platform. The letters of a region's zones are
// known to the cloud alone, so a zone is written REGION/N: the N-th that the
// region offers, from 1. The layout is the same for every deployment: with
// zone_mode multi the N-th member of each, arbiters after members with data,
// is in zone N, and again from 1 after three. Load host and monitoring are in
// the first.
func (l *loader) machines(spec *Spec, prefix string) []Machine {
	spread := l.text("zone_mode") == "multi"
	zone := func(i int) string {
		if !spread {
			i = 0
		}
		return fmt.Sprintf("%s/%d", l.text("region"), i%maxZones+1)
	}
	if l.is("compact_placement") {
		if spread {
			l.problems.refuse(l.keyAt("compact_placement"), "Contradicting placement", "compact_placement puts the machines close together, and zone_mode \"multi\" spreads them over zones.", "Remove one of them.")
		}
		if family, _, _ := strings.Cut(l.text("replsetsvr_type"), "-"); family == "e2" {
			l.problems.refuse(l.keyAt("compact_placement"), "Impossible placement", fmt.Sprintf("Machines of type %s cannot be placed compactly.", l.text("replsetsvr_type")), "Use another machine family for replsetsvr_type, such as n2, or remove compact_placement.")
		}
	}
	var machines []Machine
	for _, d := range spec.Deployments {
		for i, member := range d.Members {
			m := Machine{Name: member.Name, Role: string(member.Role), Deployment: d.Name, Zone: zone(i)}
			if member.Role == Arbiter {
				m.Type = l.text("arbiter_type")
			} else {
				m.Type = l.text("replsetsvr_type")
				m.DiskType = l.text("data_disk_type")
				m.DiskGB, _ = wholeNumber(l.value("replsetsvr_volume_size"))
			}
			machines = append(machines, m)
		}
	}
	if l.is("enable_plgm") {
		machines = append(machines, Machine{Name: hostOf(prefix, "plgm"), Role: LoadHost, Type: l.text("plgm_type"), Zone: zone(0)})
	}
	if l.is("enable_pmm") {
		gb, _ := wholeNumber(l.value("pmm_volume_size"))
		machines = append(machines, Machine{
			Name: hostOf(prefix, hostLabel(l.text("default_pmm_host"))), Role: Monitoring, Type: l.text("pmm_type"),
			Zone: zone(0), DiskType: l.text("pmm_disk_type"), DiskGB: gb,
		})
	}
	l.checkMachineNames(machines)
	return machines
}

// checkMachineNames looks at the names that are not members': those have been
// judged at their replica set.
func (l *loader) checkMachineNames(machines []Machine) {
	taken := map[string]bool{}
	for _, m := range machines {
		at := l.valueAt("prefix")
		if m.Role == Monitoring && l.sources["default_pmm_host"] != nil {
			at = l.valueAt("default_pmm_host")
		}
		if m.Role == Monitoring || m.Role == LoadHost {
			switch {
			case !hostName.MatchString(m.Name):
				l.problems.refuse(at, "Invalid name", fmt.Sprintf("%q cannot be the name of the %s machine.", m.Name, m.Role), "Use up to 63 letters, digits and hyphens, starting with a letter.")
			case taken[m.Name]:
				l.problems.refuse(at, "Same host names", fmt.Sprintf("The %s machine and another one would both be named %q.", m.Role, m.Name), "Set default_pmm_host to another name.")
			}
		}
		taken[m.Name] = true
	}
}
