package computeapi

import (
	"net/http"
	"strings"

	"google.golang.org/api/compute/v1"
)

func (s *Server) insertDisk(r *http.Request) (any, error) {
	d := &compute.Disk{}
	if err := decode(r, d); err != nil {
		return nil, err
	}
	path, err := s.place(r, d.Name)
	if err != nil {
		return nil, err
	}
	if err := s.completeDisk(d, path); err != nil {
		return nil, err
	}
	d.Status = "CREATING"
	s.resources[path] = d
	return s.start("insert", path, func() *compute.OperationErrorErrors {
		d.Status = "READY"
		return nil
	}), nil
}

// completeDisk checks a new disk and fills in what follows from the rest.
func (s *Server) completeDisk(d *compute.Disk, path string) error {
	kind := lastPart(or(d.Type, "pd-standard"))
	if d.Type != "" && !strings.HasSuffix(d.Type, "zones/"+zoneName(path)+"/diskTypes/"+kind) || !isDiskType(kind) {
		return invalid("Invalid value for field 'resource.type': '%s'", d.Type)
	}
	if d.SourceImage != "" {
		image := s.image(d.SourceImage)
		switch {
		case image == nil:
			return notFound(d.SourceImage)
		case d.SizeGb == 0:
			d.SizeGb = image.DiskSizeGb
		case d.SizeGb < image.DiskSizeGb:
			return invalid("Requested disk size cannot be smaller than the image size (%d GB)", image.DiskSizeGb)
		}
		d.SourceImage, d.SourceImageId, d.GuestOsFeatures, d.Architecture = image.SelfLink, "7700000000000000001", image.GuestOsFeatures, image.Architecture
	}
	if d.SizeGb < 4 || d.SizeGb < 10 && strings.HasPrefix(kind, "pd-") || d.SizeGb > 65536 {
		return invalid("Invalid value for field 'resource.sizeGb': '%d'", d.SizeGb)
	}
	if len(d.Users) > 0 {
		return invalid("Invalid value for field 'resource.users': it cannot be given")
	}
	if err := checkLabels(d.Labels); err != nil {
		return err
	}
	d.Kind, d.Id, d.SelfLink, d.CreationTimestamp = "compute#disk", s.newID(), s.link(path), now()
	d.Zone, d.Type = s.link(zonePath(path)), s.link(zonePath(path)+"/diskTypes/"+kind)
	d.PhysicalBlockSizeBytes, d.AccessMode, d.Status = 4096, or(d.AccessMode, "READ_WRITE_SINGLE"), "READY"
	d.LabelFingerprint = fingerprint(d.Labels)
	return nil
}

func (s *Server) setDiskLabels(r *http.Request) (any, error) {
	path := strings.TrimSuffix(pathOf(r), "/setLabels")
	d, ok := s.resources[path].(*compute.Disk)
	if !ok {
		return nil, notFound(path)
	}
	change := &compute.ZoneSetLabelsRequest{}
	if err := decode(r, change); err != nil {
		return nil, err
	}
	if err := matches(change.LabelFingerprint, d.LabelFingerprint, "Labels"); err != nil {
		return nil, err
	}
	if err := checkLabels(change.Labels); err != nil {
		return nil, err
	}
	d.Labels, d.LabelFingerprint = change.Labels, fingerprint(change.Labels)
	return s.start("setLabels", path, done), nil
}
