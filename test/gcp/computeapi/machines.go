package computeapi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/api/compute/v1"
)

// Machines is told what happens to instances, so that something real can
// happen as well. Its methods are called concurrently, for different machines;
// an operation is not done before they return.
type Machines interface {
	// Start starts a machine, which may have been there before.
	Start(ctx context.Context, m Machine) error
	// Stop stops a machine that stays.
	Stop(name string) error
	// Delete removes a machine, running or not. One that is not there is no
	// error.
	Delete(name string) error
}

// Machine is an instance as it is to be started.
type Machine struct {
	Name                   string
	InternalIP, ExternalIP string
	// Image is the name that the family stood for, such as
	// centos-stream-9-v20260801.
	Image       string
	SSHKeys     []string // of the metadata, each USER:KEY
	Disks       []Disk   // the boot disk first
	MachineType string
}

// Disk is a disk of a Machine. The data disk's content outlives the machine.
type Disk struct {
	DeviceName string // the machine sees it as /dev/disk/by-id/google-DEVICENAME
	Name       string
	GB         int64
	Boot       bool
}

// machineOf describes an instance.
func (s *Server) machineOf(i *compute.Instance) Machine {
	m := Machine{Name: i.Name, MachineType: lastPart(i.MachineType)}
	for _, nic := range i.NetworkInterfaces[:1] {
		m.InternalIP = nic.NetworkIP
		for _, access := range nic.AccessConfigs {
			m.ExternalIP = access.NatIP
		}
	}
	for _, item := range i.Metadata.Items {
		if item.Key == "ssh-keys" {
			m.SSHKeys = slices.Collect(strings.SplitSeq(strings.TrimSpace(*item.Value), "\n"))
		}
	}
	for _, a := range i.Disks {
		source, d, err := find[compute.Disk](s, a.Source)
		if err != nil {
			continue // was checked when it was attached
		}
		if a.Boot {
			m.Image = lastPart(d.SourceImage)
		}
		m.Disks = append(m.Disks, Disk{DeviceName: a.DeviceName, Name: lastPart(source), GB: d.SizeGb, Boot: a.Boot})
	}
	return m
}

// boot gives a machine its addresses and returns the work of starting it.
func (s *Server) boot(i *compute.Instance) func() error {
	s.giveAddresses(i)
	if s.options.Machines == nil {
		return nil
	}
	m := s.machineOf(i)
	return func() error { return s.options.Machines.Start(s.ctx, m) }
}
