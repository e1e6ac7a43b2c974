package computeapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"
)

// insertInstance makes a machine, its boot disk and its attachments at once;
// the machine runs when the operation is done. If that fails, all of it is
// undone.
func (s *Server) insertInstance(r *http.Request) (any, error) {
	i := &compute.Instance{}
	if err := decode(r, i); err != nil {
		return nil, err
	}
	path, err := s.place(r, i.Name)
	if err != nil {
		return nil, err
	}
	t, f, err := s.completeMachine(i, path)
	if err != nil {
		return nil, err
	}
	if err := s.completePlacement(i, path, t, f); err != nil {
		return nil, err
	}
	if err := s.completeNetwork(i, path); err != nil {
		return nil, err
	}
	if err := s.attachAll(i, path, f); err != nil {
		s.rollback(i, path)
		return nil, err
	}
	i.Status = "PROVISIONING"
	s.resources[path] = i

	code := ""
	if s.failInsert--; s.failInsert == 0 {
		code = s.failCode
	}
	var work func() error
	if code == "" {
		work = s.boot(i)
	}
	return s.startWork("insert", path, work, func(err error) *compute.OperationErrorErrors {
		switch {
		case code != "":
			s.rollback(i, path)
			return &compute.OperationErrorErrors{Code: code, Message: fmt.Sprintf("The zone '%s' does not have enough resources available to fulfill the request.", zonePath(path))}
		case err != nil:
			s.rollback(i, path)
			return internalError(err)
		}
		i.Status, i.LastStartTimestamp = "RUNNING", now()
		return nil
	}), nil
}

// completeMachine checks what a machine is by itself.
func (s *Server) completeMachine(i *compute.Instance, path string) (*compute.MachineType, family, error) {
	name := lastPart(i.MachineType)
	t, f := machineType(name)
	if t == nil || !strings.HasSuffix(i.MachineType, "zones/"+zoneName(path)+"/machineTypes/"+name) {
		return nil, f, invalid("Invalid value for field 'resource.machineType': '%s'", i.MachineType)
	}
	i.MachineType = s.link(zonePath(path) + "/machineTypes/" + name)
	if i.MinCpuPlatform != "" && !slices.Contains(f.platforms, i.MinCpuPlatform) {
		return nil, f, invalid("The selected machine type %s does not support the minimum CPU platform '%s'", name, i.MinCpuPlatform)
	}
	i.CpuPlatform = or(i.MinCpuPlatform, cpuPlatforms[0])
	if err := checkLabels(i.Labels); err != nil {
		return nil, f, err
	}
	if i.Tags == nil {
		i.Tags = &compute.Tags{}
	}
	if err := checkTags(i.Tags.Items); err != nil {
		return nil, f, err
	}
	if i.Metadata == nil {
		i.Metadata = &compute.Metadata{}
	}
	keys := map[string]bool{}
	for _, item := range i.Metadata.Items {
		if item.Key == "" || item.Value == nil || keys[item.Key] {
			return nil, f, invalid("Invalid value for field 'resource.metadata.items': '%s'", item.Key)
		}
		keys[item.Key] = true
	}
	i.Kind, i.Id, i.SelfLink, i.CreationTimestamp = "compute#instance", s.newID(), s.link(path), now()
	i.Zone = s.link(zonePath(path))
	i.Metadata.Kind, i.Metadata.Fingerprint = "compute#metadata", fingerprint(i.Metadata.Items)
	i.Tags.Fingerprint, i.LabelFingerprint = fingerprint(i.Tags.Items), fingerprint(i.Labels)
	i.Fingerprint = fingerprint(i.Id)
	i.ShieldedInstanceConfig = &compute.ShieldedInstanceConfig{EnableVtpm: true, EnableIntegrityMonitoring: true}
	i.ShieldedInstanceIntegrityPolicy = &compute.ShieldedInstanceIntegrityPolicy{UpdateAutoLearnPolicy: true}
	return t, f, nil
}

// completePlacement checks where a machine may be and what happens to it
// there.
func (s *Server) completePlacement(i *compute.Instance, path string, t *compute.MachineType, f family) error {
	if i.Scheduling == nil {
		i.Scheduling = &compute.Scheduling{}
	}
	sched := i.Scheduling
	spot := sched.ProvisioningModel == "SPOT"
	sched.ProvisioningModel = or(sched.ProvisioningModel, "STANDARD")
	sched.OnHostMaintenance = or(sched.OnHostMaintenance, "MIGRATE")
	if sched.AutomaticRestart == nil {
		restart := !spot
		sched.AutomaticRestart = &restart
	}
	stays := sched.OnHostMaintenance == "TERMINATE" && !*sched.AutomaticRestart
	switch {
	case !slices.Contains([]string{"STANDARD", "SPOT"}, sched.ProvisioningModel), !slices.Contains([]string{"MIGRATE", "TERMINATE"}, sched.OnHostMaintenance):
		return invalid("Invalid value for field 'resource.scheduling'")
	case spot && !stays, sched.Preemptible && !stays:
		return invalid("Scheduling must have automaticRestart off and onHostMaintenance TERMINATE for spot machines")
	case spot != sched.Preemptible:
		return invalid("Invalid value for field 'resource.scheduling.preemptible': '%v'", sched.Preemptible)
	case !spot && sched.InstanceTerminationAction != "":
		return invalid("Invalid value for field 'resource.scheduling.instanceTerminationAction': '%s'", sched.InstanceTerminationAction)
	}
	for n, reference := range i.ResourcePolicies {
		policy, p, err := find[compute.ResourcePolicy](s, reference)
		if err != nil {
			return err
		}
		i.ResourcePolicies[n] = s.link(policy)
		members := int64(0)
		for other, resource := range s.resources {
			if o, ok := resource.(*compute.Instance); ok && slices.Contains(o.ResourcePolicies, s.link(policy)) {
				members++
				if zonePath(other) != zonePath(path) {
					return invalid("Compact placement: machines of %s are in another zone", p.Name)
				}
			}
		}
		switch {
		case !inRegion(policy, zoneName(path)):
			return invalid("Compact placement: %s is in another region", p.Name)
		case !f.compact:
			return invalid("Compact placement is not supported for machine type %s", t.Name)
		case !stays:
			return invalid("Compact placement needs onHostMaintenance TERMINATE and automaticRestart off")
		case p.GroupPlacementPolicy.VmCount > 0 && members >= p.GroupPlacementPolicy.VmCount:
			return invalid("Compact placement: %s has all its %d machines", p.Name, members)
		}
	}
	return nil
}

func (s *Server) completeNetwork(i *compute.Instance, path string) error {
	if len(i.NetworkInterfaces) != 1 {
		return invalid("Invalid value for field 'resource.networkInterfaces': one is needed")
	}
	nic := i.NetworkInterfaces[0]
	subnet, n, err := find[compute.Subnetwork](s, nic.Subnetwork)
	if err != nil {
		return err
	}
	switch {
	case !inRegion(subnet, zoneName(path)):
		return invalid("Invalid value for field 'resource.networkInterfaces[0].subnetwork': '%s' is in another region", subnet)
	case nic.NetworkIP != "":
		return s.unknown("choice of an address")
	case nic.NicType != "" && nic.NicType != "GVNIC" && nic.NicType != "VIRTIO_NET":
		return invalid("Invalid value for field 'resource.networkInterfaces[0].nicType': '%s'", nic.NicType)
	case len(nic.AccessConfigs) > 1:
		return invalid("Invalid value for field 'resource.networkInterfaces[0].accessConfigs': at most one")
	}
	taken := map[string]bool{}
	for _, resource := range s.resources {
		if other, ok := resource.(*compute.Instance); ok {
			taken[other.NetworkInterfaces[0].NetworkIP] = true
		}
	}
	address := netip.MustParseAddr(n.GatewayAddress).Next()
	for taken[address.String()] {
		address = address.Next()
	}
	nic.Kind, nic.Name, nic.StackType = "compute#networkInterface", "nic0", or(nic.StackType, "IPV4_ONLY")
	nic.Subnetwork, nic.Network, nic.NetworkIP = s.link(subnet), n.Network, address.String()
	for _, access := range nic.AccessConfigs {
		if access.NatIP != "" {
			return s.unknown("choice of an address")
		}
		access.Kind, access.Name = "compute#accessConfig", or(access.Name, "external-nat")
		access.Type, access.NetworkTier = or(access.Type, "ONE_TO_ONE_NAT"), or(access.NetworkTier, "PREMIUM")
	}
	nic.Fingerprint = fingerprint(nic)
	return nil
}

// attachAll makes the boot disk and attaches the others.
func (s *Server) attachAll(i *compute.Instance, path string, f family) error {
	names := map[string]bool{}
	for n, a := range i.Disks {
		a.Kind, a.Index, a.Interface = "compute#attachedDisk", int64(n), "SCSI"
		a.Type, a.Mode, a.DeviceName = or(a.Type, "PERSISTENT"), or(a.Mode, "READ_WRITE"), or(a.DeviceName, "persistent-disk-"+strconv.Itoa(n))
		if a.Boot != (n == 0) || names[a.DeviceName] || a.Type != "PERSISTENT" {
			return invalid("Invalid value for field 'resource.disks[%d]'", n)
		}
		names[a.DeviceName] = true
		init := a.InitializeParams
		if init != nil {
			source := zonePath(path) + "/disks/" + or(init.DiskName, i.Name)
			if _, taken := s.resources[source]; taken || a.Source != "" {
				return &apiError{http.StatusConflict, "alreadyExists", fmt.Sprintf("The resource '%s' already exists", source)}
			}
			d := &compute.Disk{Name: lastPart(source), Type: init.DiskType, SizeGb: init.DiskSizeGb, SourceImage: init.SourceImage, Labels: init.Labels, Description: init.Description}
			if err := s.completeDisk(d, source); err != nil {
				return err
			}
			d.Users = []string{s.link(path)}
			s.resources[source] = d
			a.Source, a.InitializeParams = source, nil
		}
		source, d, err := find[compute.Disk](s, a.Source)
		switch {
		case err != nil:
			return err
		case a.Boot && d.SourceImage == "":
			return invalid("Invalid value for field 'resource.disks[%d].boot': the disk has no image", n)
		case zonePath(source) != zonePath(path):
			return invalid("Invalid value for field 'resource.disks[%d].source': '%s' is in another zone", n, source)
		case d.Status != "READY":
			return &apiError{http.StatusBadRequest, "resourceNotReady", fmt.Sprintf("The resource '%s' is not ready", source)}
		case len(d.Users) > 0 && init == nil:
			return &apiError{http.StatusBadRequest, "resourceInUseByAnotherResource", fmt.Sprintf("The disk resource '%s' is already being used by '%s'", source, d.Users[0])}
		case !slices.Contains(f.disks, lastPart(d.Type)):
			return invalid("[%s] features and [machine type: %s] are not compatible", lastPart(d.Type), lastPart(i.MachineType))
		}
		a.Source, a.DiskSizeGb, a.Architecture, a.GuestOsFeatures = s.link(source), d.SizeGb, d.Architecture, d.GuestOsFeatures
		d.Users, d.LastAttachTimestamp = []string{s.link(path)}, now()
	}
	if len(i.Disks) == 0 {
		return invalid("Invalid value for field 'resource.disks': a boot disk is needed")
	}
	return nil
}

// rollback undoes an insert: the machine, its attachments and the disks that
// were made for it.
func (s *Server) rollback(i *compute.Instance, path string) {
	s.detach(i, path)
	delete(s.resources, path)
}

// detachAll detaches the disks of what is deleted, if it is a machine.
func (s *Server) detachAll(path string) {
	if i, ok := s.resources[path].(*compute.Instance); ok {
		s.detach(i, path)
	}
}

// detach frees the disks that a machine has, and deletes those that go with
// it.
func (s *Server) detach(i *compute.Instance, path string) {
	for _, a := range i.Disks {
		source, d, err := find[compute.Disk](s, a.Source)
		if err != nil || !slices.Contains(d.Users, s.link(path)) {
			continue // never got it
		}
		if a.AutoDelete {
			delete(s.resources, source)
			continue
		}
		d.Users, d.LastDetachTimestamp = nil, now()
	}
}

// giveAddresses gives a machine its external address if it should have one.
func (s *Server) giveAddresses(i *compute.Instance) {
	for _, access := range i.NetworkInterfaces[0].AccessConfigs {
		s.lastExternal++
		access.NatIP = netip.AddrFrom4([4]byte{198, 18, byte(s.lastExternal >> 8), byte(s.lastExternal)}).String()
	}
}

// Preempt stops a machine as Google does when it wants it for others.
func (s *Server) Preempt(name string) error {
	if err := s.preempt(name); err != nil {
		return fmt.Errorf("preempt %s: %w", name, err)
	}
	if s.options.Machines != nil {
		return s.options.Machines.Stop(name)
	}
	return nil
}

func (s *Server) preempt(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for path, resource := range s.resources {
		if i, ok := resource.(*compute.Instance); ok && lastPart(path) == name && i.Scheduling.Preemptible {
			i.Status, i.LastStopTimestamp = "TERMINATED", now()
			for _, access := range i.NetworkInterfaces[0].AccessConfigs {
				access.NatIP = ""
			}
			return nil
		}
	}
	return errors.New("there is no such spot machine")
}

func (s *Server) instance(r *http.Request, verb string) (string, *compute.Instance, error) {
	path := strings.TrimSuffix(pathOf(r), "/"+verb)
	i, ok := s.resources[path].(*compute.Instance)
	if !ok {
		return "", nil, notFound(path)
	}
	return path, i, nil
}

func (s *Server) startInstance(r *http.Request) (any, error) {
	path, i, err := s.instance(r, "start")
	if err != nil {
		return nil, err
	}
	switch i.Status {
	case "RUNNING": // nothing to do, and no error
		return s.start("start", path, done), nil
	case "TERMINATED":
	default:
		return nil, invalid("Machine %s is %s", i.Name, i.Status)
	}
	i.Status = "STAGING"
	return s.startWork("start", path, s.boot(i), func(err error) *compute.OperationErrorErrors {
		if err != nil {
			i.Status = "TERMINATED"
			return internalError(err)
		}
		i.Status, i.LastStartTimestamp = "RUNNING", now()
		return nil
	}), nil
}

func (s *Server) setInstanceLabels(r *http.Request) (any, error) {
	path, i, err := s.instance(r, "setLabels")
	if err != nil {
		return nil, err
	}
	change := &compute.InstancesSetLabelsRequest{}
	if err := decode(r, change); err != nil {
		return nil, err
	}
	if err := matches(change.LabelFingerprint, i.LabelFingerprint, "Labels"); err != nil {
		return nil, err
	}
	if err := checkLabels(change.Labels); err != nil {
		return nil, err
	}
	i.Labels, i.LabelFingerprint = change.Labels, fingerprint(change.Labels)
	return s.start("setLabels", path, done), nil
}
