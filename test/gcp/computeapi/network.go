package computeapi

import (
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"
)

func (s *Server) insertNetwork(r *http.Request) (any, error) {
	n := &compute.Network{}
	if err := decode(r, n); err != nil {
		return nil, err
	}
	path, err := s.place(r, n.Name)
	if err != nil {
		return nil, err
	}
	if n.AutoCreateSubnetworks || n.IPv4Range != "" {
		return nil, s.unknown("mode of a network")
	}
	n.Kind, n.Id, n.SelfLink, n.CreationTimestamp = "compute#network", s.newID(), s.link(path), now()
	n.SelfLinkWithId = s.link("projects/" + s.options.Project + "/global/networks/" + strconv.FormatUint(n.Id, 10))
	if n.RoutingConfig == nil {
		n.RoutingConfig = &compute.NetworkRoutingConfig{}
	}
	n.RoutingConfig.RoutingMode = or(n.RoutingConfig.RoutingMode, "REGIONAL")
	n.RoutingConfig.BgpBestPathSelectionMode = or(n.RoutingConfig.BgpBestPathSelectionMode, "LEGACY")
	n.NetworkFirewallPolicyEnforcementOrder = or(n.NetworkFirewallPolicyEnforcementOrder, "AFTER_CLASSIC_FIREWALL")
	n.ForceSendFields = []string{"AutoCreateSubnetworks"}
	s.resources[path] = n
	return s.start("insert", path, done), nil
}

func (s *Server) insertSubnetwork(r *http.Request) (any, error) {
	n := &compute.Subnetwork{}
	if err := decode(r, n); err != nil {
		return nil, err
	}
	path, err := s.place(r, n.Name)
	if err != nil {
		return nil, err
	}
	network, _, err := find[compute.Network](s, n.Network)
	if err != nil {
		return nil, err
	}
	addresses, err := netip.ParsePrefix(n.IpCidrRange)
	if err != nil || addresses != addresses.Masked() || addresses.Bits() > 29 || !addresses.Addr().IsPrivate() {
		return nil, invalid("Invalid value for field 'resource.ipCidrRange': '%s'", n.IpCidrRange)
	}
	for _, other := range s.resources {
		if o, ok := other.(*compute.Subnetwork); ok && o.Network == s.link(network) && netip.MustParsePrefix(o.IpCidrRange).Overlaps(addresses) {
			return nil, invalid("Invalid IPCidrRange: %s conflicts with existing subnetwork '%s'", n.IpCidrRange, o.Name)
		}
	}
	n.Kind, n.Id, n.SelfLink, n.CreationTimestamp = "compute#subnetwork", s.newID(), s.link(path), now()
	n.Network, n.Region = s.link(network), s.link("projects/"+s.options.Project+"/regions/"+r.PathValue("region"))
	n.GatewayAddress = addresses.Addr().Next().String()
	n.PrivateIpv6GoogleAccess = or(n.PrivateIpv6GoogleAccess, "DISABLE_GOOGLE_ACCESS")
	n.Purpose, n.StackType = or(n.Purpose, "PRIVATE"), or(n.StackType, "IPV4_ONLY")
	n.Fingerprint = fingerprint(n)
	s.resources[path] = n
	return s.start("insert", path, done), nil
}

func (s *Server) insertFirewall(r *http.Request) (any, error) {
	f := &compute.Firewall{}
	if err := decode(r, f); err != nil {
		return nil, err
	}
	path, err := s.place(r, f.Name)
	if err != nil {
		return nil, err
	}
	f.Kind, f.Id, f.SelfLink, f.CreationTimestamp = "compute#firewall", s.newID(), s.link(path), now()
	f.Direction = or(f.Direction, "INGRESS")
	if f.Priority == 0 {
		f.Priority = 1000
	}
	if f.LogConfig == nil {
		f.LogConfig = &compute.FirewallLogConfig{}
	}
	if err := s.checkFirewall(f); err != nil {
		return nil, err
	}
	s.resources[path] = f
	return s.start("insert", path, done), nil
}

func (s *Server) patchFirewall(r *http.Request) (any, error) {
	path := pathOf(r)
	current, ok := s.resources[path].(*compute.Firewall)
	if !ok {
		return nil, notFound(path)
	}
	changed := *current
	if err := decode(r, &changed); err != nil {
		return nil, err
	}
	if changed.Name != current.Name {
		return nil, invalid("The name of a firewall cannot change")
	}
	if err := s.checkFirewall(&changed); err != nil {
		return nil, err
	}
	s.resources[path] = &changed
	return s.start("patch", path, done), nil
}

var ports = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?$`)

func (s *Server) checkFirewall(f *compute.Firewall) error {
	network, _, err := find[compute.Network](s, f.Network)
	if err != nil {
		return err
	}
	f.Network = s.link(network)
	if f.Direction != "INGRESS" || len(f.Denied) > 0 {
		return s.unknown("kind of a firewall")
	}
	if len(f.Allowed) == 0 {
		return invalid("Invalid value for field 'resource.allowed': nothing is allowed")
	}
	for _, allowed := range f.Allowed {
		if !slices.Contains([]string{"tcp", "udp", "icmp"}, allowed.IPProtocol) || allowed.IPProtocol == "icmp" && len(allowed.Ports) > 0 {
			return invalid("Invalid value for field 'resource.allowed': %s %v", allowed.IPProtocol, allowed.Ports)
		}
		for _, port := range allowed.Ports {
			if !ports.MatchString(port) {
				return invalid("Invalid value for field 'resource.allowed.ports': '%s'", port)
			}
		}
	}
	for _, source := range f.SourceRanges {
		if p, err := netip.ParsePrefix(source); err != nil || p != p.Masked() {
			return invalid("Invalid value for field 'resource.sourceRanges': '%s'", source)
		}
	}
	return checkTags(f.TargetTags)
}

func checkTags(tags []string) error {
	for _, tag := range tags {
		if !resourceName.MatchString(tag) {
			return invalid("Invalid value for field 'resource.tags': '%s'", tag)
		}
	}
	return nil
}

func (s *Server) insertResourcePolicy(r *http.Request) (any, error) {
	p := &compute.ResourcePolicy{}
	if err := decode(r, p); err != nil {
		return nil, err
	}
	path, err := s.place(r, p.Name)
	if err != nil {
		return nil, err
	}
	group := p.GroupPlacementPolicy
	if group == nil || group.Collocation != "COLLOCATED" || group.AvailabilityDomainCount != 0 {
		return nil, s.unknown("kind of a resource policy")
	}
	if group.VmCount < 0 || group.VmCount > 1500 {
		return nil, invalid("Invalid value for field 'resource.groupPlacementPolicy.vmCount': '%d'", group.VmCount)
	}
	p.Kind, p.Id, p.SelfLink, p.CreationTimestamp = "compute#resourcePolicy", s.newID(), s.link(path), now()
	p.Region, p.Status = s.link("projects/"+s.options.Project+"/regions/"+r.PathValue("region")), "READY"
	s.resources[path] = p
	return s.start("insert", path, done), nil
}

// userOf is a resource that uses another one, which cannot be deleted before,
// or "".
func (s *Server) userOf(path string) string {
	link := s.link(path)
	for user, resource := range s.resources {
		uses := false
		switch r := resource.(type) {
		case *compute.Subnetwork:
			uses = r.Network == link
		case *compute.Firewall:
			uses = r.Network == link
		case *compute.Instance:
			uses = slices.Contains(r.ResourcePolicies, link)
			for _, nic := range r.NetworkInterfaces {
				uses = uses || nic.Subnetwork == link
			}
			for _, disk := range r.Disks {
				uses = uses || disk.Source == link
			}
		}
		if uses {
			return user
		}
	}
	return ""
}

// or is text, or what stands for it when it is empty.
func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// inRegion reports whether something regional is in a zone's region.
func inRegion(path, zone string) bool {
	return strings.Split(path, "/")[3] == regionOf(zone)
}
