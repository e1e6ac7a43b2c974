package computeapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"
)

// What there is to choose from: a small part of what Google has, with the
// rules that hold between its parts.

var zonesOf = map[string][]string{
	"europe-west1":            {"b", "c", "d"},
	"northamerica-northeast1": {"a", "b", "c"},
	"us-central1":             {"a", "b", "c", "f"},
}

var cpuPlatforms = []string{"Intel Cascade Lake", "Intel Ice Lake", "Intel Sapphire Rapids"}

type family struct {
	platforms []string       // that can be asked for
	compact   bool           // may be placed compactly
	disks     []string       // types that can be attached
	memory    map[string]int // MB per CPU by the middle part of the type
	cpus      []int
}

var (
	persistent = []string{"pd-standard", "pd-balanced", "pd-ssd"}
	hyperdisks = []string{"hyperdisk-balanced", "hyperdisk-extreme", "hyperdisk-throughput"}
	families   = map[string]family{
		"e2": {disks: persistent, memory: map[string]int{"standard": 4096, "highmem": 8192, "highcpu": 1024}, cpus: []int{2, 4, 8, 16, 32}},
		"n2": {
			platforms: []string{"Intel Cascade Lake", "Intel Ice Lake"}, compact: true, disks: append([]string{"hyperdisk-throughput"}, persistent...),
			memory: map[string]int{"standard": 4096, "highmem": 8192, "highcpu": 1024}, cpus: []int{2, 4, 8, 16, 32, 48, 64, 80, 96},
		},
		"c3": {
			platforms: []string{"Intel Sapphire Rapids"}, compact: true, disks: append([]string{"pd-balanced", "pd-ssd"}, hyperdisks...),
			memory: map[string]int{"standard": 4096, "highmem": 8192, "highcpu": 2048}, cpus: []int{4, 8, 22, 44, 88, 176},
		},
		"n4": {compact: true, disks: hyperdisks, memory: map[string]int{"standard": 4096, "highmem": 8192, "highcpu": 2048}, cpus: []int{2, 4, 8, 16, 32, 48, 64, 80}},
	}
	shared = map[string]int{"e2-micro": 1024, "e2-small": 2048, "e2-medium": 4096}
)

// images by project and family, with the size in GB.
var images = map[string]int64{
	"centos-cloud/centos-stream-9":          20,
	"debian-cloud/debian-12":                10,
	"ubuntu-os-cloud/ubuntu-2404-lts-amd64": 10,
}

// regionOf is the region of a zone, "" if there is no such zone.
func regionOf(zone string) string {
	i := strings.LastIndex(zone, "-")
	if i < 0 || !slices.Contains(zonesOf[zone[:i]], zone[i+1:]) {
		return ""
	}
	return zone[:i]
}

func (s *Server) zone(name string) *compute.Zone {
	return &compute.Zone{
		Kind: "compute#zone", Name: name, Status: "UP", AvailableCpuPlatforms: cpuPlatforms,
		Region:   s.link("projects/" + s.options.Project + "/regions/" + regionOf(name)),
		SelfLink: s.link("projects/" + s.options.Project + "/zones/" + name),
	}
}

func (s *Server) listZones(*http.Request) (any, error) {
	list := &compute.ZoneList{Kind: "compute#zoneList"}
	for region, letters := range zonesOf {
		for _, letter := range letters {
			list.Items = append(list.Items, s.zone(region+"-"+letter))
		}
	}
	return list, nil // in no order that could be relied upon
}

func (s *Server) getZone(r *http.Request) (any, error) { return s.zone(r.PathValue("zone")), nil }

// machineType is a type by its name, nil if there is none, and its family.
func machineType(name string) (*compute.MachineType, family) {
	parts := strings.Split(name, "-")
	f := families[parts[0]]
	t := &compute.MachineType{Kind: "compute#machineType", Name: name, Architecture: "X86_64"}
	if memory, ok := shared[name]; ok {
		t.GuestCpus, t.MemoryMb, t.IsSharedCpu = 2, int64(memory), true
		return t, f
	}
	if len(parts) != 3 {
		return nil, f
	}
	cpus, err := strconv.Atoi(parts[2])
	if err != nil || f.memory[parts[1]] == 0 || !slices.Contains(f.cpus, cpus) {
		return nil, f
	}
	t.GuestCpus, t.MemoryMb = int64(cpus), int64(cpus*f.memory[parts[1]])
	return t, f
}

func (s *Server) getMachineType(r *http.Request) (any, error) {
	t, _ := machineType(r.PathValue("name"))
	if t == nil {
		return nil, notFound(pathOf(r))
	}
	t.Zone, t.SelfLink = r.PathValue("zone"), s.link(pathOf(r))
	return t, nil
}

func isDiskType(name string) bool {
	return slices.Contains(persistent, name) || slices.Contains(hyperdisks, name)
}

func (s *Server) getDiskType(r *http.Request) (any, error) {
	if !isDiskType(r.PathValue("name")) {
		return nil, notFound(pathOf(r))
	}
	return &compute.DiskType{Kind: "compute#diskType", Name: r.PathValue("name"), Zone: s.link(zonePath(pathOf(r))), SelfLink: s.link(pathOf(r))}, nil
}

// zonePath is the zone's part of the path of something in it.
func zonePath(path string) string { return strings.Join(strings.Split(path, "/")[:4], "/") }

// zoneName is the zone of something in it.
func zoneName(path string) string { return strings.Split(path, "/")[3] }

// lastPart is the name at the end of a path or a link.
func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// image is what a reference to an image or to a family refers to, nil if to
// nothing.
func (s *Server) image(reference string) *compute.Image {
	parts := strings.Split(s.path(reference), "/") // projects/P/global/images/[family/]NAME
	if len(parts) < 5 || parts[2] != "global" || parts[3] != "images" {
		return nil
	}
	name := parts[len(parts)-1]
	isFamily := len(parts) == 6 && parts[4] == "family"
	if !isFamily {
		i := strings.LastIndex(name, "-v")
		if len(parts) != 5 || i < 0 {
			return nil
		}
		name = name[:i] // an old version is still there
	}
	size, ok := images[parts[1]+"/"+name]
	if !ok {
		return nil
	}
	i := &compute.Image{Kind: "compute#image", Id: s.newID(), Family: name, Name: name + "-" + s.imageVersion, Status: "READY", DiskSizeGb: size, Architecture: "X86_64"}
	if !isFamily {
		i.Name = parts[4]
	}
	for _, feature := range []string{"GVNIC", "UEFI_COMPATIBLE", "VIRTIO_SCSI_MULTIQUEUE"} {
		i.GuestOsFeatures = append(i.GuestOsFeatures, &compute.GuestOsFeature{Type: feature})
	}
	// Of all links these have Google's own host: the provider knows an image
	// of a family by it.
	i.SelfLink = "https://www.googleapis.com" + basePath + "projects/" + parts[1] + "/global/images/" + i.Name
	return i
}

func (s *Server) getImage(r *http.Request) (any, error) {
	if i := s.image(pathOf(r)); i != nil {
		return i, nil
	}
	return nil, notFound(pathOf(r))
}

func (s *Server) getImageOfFamily(r *http.Request) (any, error) { return s.getImage(r) }
