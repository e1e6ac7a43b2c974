package gcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// Preflight is what there is to build with, and what stands in the way.
type Preflight struct {
	Project, Region string
	// Zones are those of the region where everything can be had, in the order
	// they are used.
	Zones []string
	// Image is what the boot image is at the moment.
	Image string
	// CallerRange may connect; empty when the file says who may.
	CallerRange string
	Problems    Problems
}

// Err is the problems as an error, nil if there are none.
func (p *Preflight) Err() error {
	if p == nil {
		return errors.New("plan: there was no preflight")
	}
	if len(p.Problems) == 0 {
		return nil
	}
	return p.Problems
}

func (p *Preflight) problem(summary, fix string) {
	p.Problems = append(p.Problems, &Problem{Summary: summary, Fix: fix})
}

// Preflight asks the API whether what the Spec needs can be had: the project,
// zones with the machine types, CPU platform and disk types, quota, the image.
// It creates nothing. What the user can put right is in Problems; an error is
// everything else, such as the API being out of reach.
func (p *Platform) Preflight(ctx context.Context, spec *environment.Spec) (*Preflight, error) {
	result := &Preflight{Region: spec.Cloud.Region}
	p.localChecks(ctx, spec, result)
	s, err := p.readSettings()
	if err != nil {
		return nil, err
	}
	known := ""
	if s.Created != "" {
		known = s.Project
	}
	c, err := p.connect(ctx, spec.Cloud.Project, known)
	if err != nil {
		return result, result.take(err)
	}
	result.Project = c.project
	if s.Created != "" && s.Project != "" && s.Project != c.project {
		result.problem(fmt.Sprintf("the environment is in the project %s and cannot move to %s", s.Project, c.project), "Run down first, or set project_id back.")
		return result, nil
	}
	if s.Created != "" && s.Region != "" && s.Region != spec.Cloud.Region {
		result.problem(fmt.Sprintf("the environment is in the region %s and cannot move to %s", s.Region, spec.Cloud.Region), "Run down first, or set region back.")
		return result, nil
	}
	p.checkTTL(s, result)
	region, err := c.region(ctx, spec.Cloud.Region)
	if err != nil {
		if isNotFound(err) {
			err = c.missingRegion(ctx, spec.Cloud.Region, err)
		}
		return result, result.take(err)
	}
	sizes := map[string]int{}
	if err := p.chooseZones(ctx, c, spec, s, result, sizes); err != nil {
		return result, result.take(err)
	}
	if err := c.checkImage(ctx, spec.Cloud.Image, result); err != nil {
		return result, result.take(err)
	}
	existing, err := c.list(ctx, p.o.Environment)
	if err != nil {
		return result, result.take(err)
	}
	if problem := foreign(p.o.Environment, c.project, p.owner(s), existing); problem != nil {
		result.Problems = append(result.Problems, problem)
		return result, nil
	}
	project, err := c.projectItself(ctx)
	if err != nil {
		return result, result.take(c.apiProblem("look up the project", err))
	}
	checkQuota(project, region, spec, existing, sizes, result)
	return result, nil
}

// take keeps a problem and passes on any other error.
func (p *Preflight) take(err error) error {
	problem := &Problem{}
	if errors.As(err, &problem) {
		p.Problems = append(p.Problems, problem)
		return nil
	}
	return err
}

// localChecks are those without the API.
func (p *Platform) localChecks(ctx context.Context, spec *environment.Spec, result *Preflight) {
	if _, err := p.program(); err != nil {
		_ = result.take(err) // it is a problem
	}
	if len(spec.Cloud.SourceRanges) > 0 {
		return
	}
	text, err := p.o.CallerAddress(ctx)
	address, parseErr := netip.ParseAddr(text)
	if err = errors.Join(err, parseErr); err != nil {
		result.problem(fmt.Sprintf("this machine's address on the internet is not known (%v)", err), `Set source_ranges to the addresses that may connect, such as "203.0.113.7/32".`)
		return
	}
	result.CallerRange = netip.PrefixFrom(address, address.BitLen()).String()
}

func (c *cloud) region(ctx context.Context, name string) (*computepb.Region, error) {
	client, err := compute.NewRegionsRESTClient(ctx, c.options...)
	if err != nil {
		return nil, err
	}
	defer closeClient(client)
	region, err := client.Get(ctx, &computepb.GetRegionRequest{Project: c.project, Region: name})
	if err != nil && !isNotFound(err) {
		return nil, c.apiProblem("look up the region", err)
	}
	return region, err
}

// missingRegion says whether it is the region or the project that is not
// there.
func (c *cloud) missingRegion(ctx context.Context, name string, notFound error) error {
	_, err := c.projectItself(ctx)
	switch {
	case isNotFound(err):
		return &Problem{Summary: fmt.Sprintf("the project %s is not there", c.project), Fix: "Set project_id to the ID (not the name) of a project that the credentials may use: `gcloud projects list`."}
	case err != nil:
		return c.apiProblem("look up the project", err)
	case notFound != nil:
		return &Problem{Summary: fmt.Sprintf("there is no region %s", name), Fix: "Set region to one of `gcloud compute regions list`."}
	}
	return nil
}

// projectItself looks the project up; the error is the API's.
func (c *cloud) projectItself(ctx context.Context) (*computepb.Project, error) {
	client, err := compute.NewProjectsRESTClient(ctx, c.options...)
	if err != nil {
		return nil, err
	}
	defer closeClient(client)
	return client.Get(ctx, &computepb.GetProjectRequest{Project: c.project})
}

func (c *cloud) zones(ctx context.Context, region string) ([]*computepb.Zone, error) {
	client, err := compute.NewZonesRESTClient(ctx, c.options...)
	if err != nil {
		return nil, err
	}
	defer closeClient(client)
	var zones []*computepb.Zone
	list := client.List(ctx, &computepb.ListZonesRequest{Project: c.project})
	err = collect(list.Next, func(z *computepb.Zone) {
		if path.Base(z.GetRegion()) == region {
			zones = append(zones, z)
		}
	})
	slices.SortFunc(zones, func(a, b *computepb.Zone) int { return strings.Compare(a.GetName(), b.GetName()) })
	if err != nil {
		return nil, c.apiProblem("list zones", err)
	}
	return zones, nil
}

// chooseZones finds the zones that have everything, and notes in sizes the
// CPUs of each machine type. An environment that exists stays where it is.
func (p *Platform) chooseZones(ctx context.Context, c *cloud, spec *environment.Spec, s *settings, result *Preflight, sizes map[string]int) error {
	zones, err := c.zones(ctx, spec.Cloud.Region)
	if err != nil {
		return err
	}
	lacking := map[string][]string{}
	var good []string
	for _, zone := range zones {
		lacks, err := c.lacks(ctx, spec, zone, sizes)
		if err != nil {
			return err
		}
		if len(lacks) == 0 {
			good = append(good, zone.GetName())
		}
		lacking[zone.GetName()] = lacks
	}
	exhausted := p.exhausted()
	slices.SortStableFunc(good, func(a, b string) int {
		return exhausted[a] - exhausted[b]
	})
	wanted := 1
	if spec.Cloud.MultiZone {
		wanted = min(3, zonesUsed(spec))
	}
	if s.Created != "" && len(s.Zones) > 0 {
		for _, zone := range s.Zones[:min(wanted, len(s.Zones))] {
			if lacks := lacking[zone]; len(lacks) > 0 {
				result.problem(fmt.Sprintf("the environment is in the zone %s, where %s cannot be had", zone, strings.Join(lacks, " and ")), "Ask for what the zone has, or run down first: another zone is then chosen.")
			}
		}
		result.Zones = s.Zones
		return nil
	}
	result.Zones = good
	if len(good) >= wanted {
		return nil
	}
	var reasons []string
	for _, zone := range slices.Sorted(maps.Keys(lacking)) {
		if lacks := lacking[zone]; len(lacks) > 0 {
			reasons = append(reasons, zone+" lacks "+strings.Join(lacks, " and "))
		}
	}
	what := "no zone of the region has"
	if wanted > 1 {
		what = fmt.Sprintf("zone_mode \"multi\" needs %d zones, and %d of the region have", wanted, len(good))
	}
	result.problem(fmt.Sprintf("%s everything that is asked for in %s: %s", what, spec.Cloud.Region, strings.Join(reasons, "; ")), "Choose another region, machine type, CPU platform or disk type: `gcloud compute machine-types list --filter=zone:"+spec.Cloud.Region+"` lists what there is.")
	return nil
}

// zonesUsed is how many zones the layout of a Spec has.
func zonesUsed(spec *environment.Spec) int {
	used := map[string]bool{}
	for _, m := range spec.Machines {
		used[m.Zone] = true
	}
	return len(used)
}

// lacks is what a zone does not have, in words.
func (c *cloud) lacks(ctx context.Context, spec *environment.Spec, zone *computepb.Zone, sizes map[string]int) ([]string, error) {
	if zone.GetStatus() != "UP" {
		return []string{"everything, being down"}, nil
	}
	types, disks := map[string]bool{}, map[string]bool{}
	for _, m := range spec.Machines {
		types[m.Type], disks[bootDiskType(m.Type)] = true, true
		if m.DiskType != "" {
			disks[m.DiskType] = true
		}
	}
	var lacks []string
	if platform := spec.Cloud.MinCPUPlatform; platform != "" && !slices.Contains(zone.GetAvailableCpuPlatforms(), platform) {
		lacks = append(lacks, "the CPU platform "+platform)
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		cpus, err := c.machineType(ctx, zone.GetName(), name)
		if isNotFound(err) {
			lacks = append(lacks, "the machine type "+name)
			continue
		}
		if err != nil {
			return nil, c.apiProblem("look up the machine type "+name, err)
		}
		sizes[name] = cpus
	}
	for _, name := range slices.Sorted(maps.Keys(disks)) {
		err := c.diskType(ctx, zone.GetName(), name)
		if isNotFound(err) {
			lacks = append(lacks, "the disk type "+name)
			continue
		}
		if err != nil {
			return nil, c.apiProblem("look up the disk type "+name, err)
		}
	}
	return lacks, nil
}

func (c *cloud) machineType(ctx context.Context, zone, name string) (cpus int, err error) {
	client, err := compute.NewMachineTypesRESTClient(ctx, c.options...)
	if err != nil {
		return 0, err
	}
	defer closeClient(client)
	t, err := client.Get(ctx, &computepb.GetMachineTypeRequest{Project: c.project, Zone: zone, MachineType: name})
	return int(t.GetGuestCpus()), err
}

func (c *cloud) diskType(ctx context.Context, zone, name string) error {
	client, err := compute.NewDiskTypesRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	_, err = client.Get(ctx, &computepb.GetDiskTypeRequest{Project: c.project, Zone: zone, DiskType: name})
	return err
}

// checkImage looks the boot image up. It is written
// [projects/]PROJECT/[global/images/][family/]NAME, or without the project;
// of other forms only Terraform can tell.
func (c *cloud) checkImage(ctx context.Context, reference string, result *Preflight) error {
	client, err := compute.NewImagesRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	project, name, family := c.imageOf(reference)
	var image *computepb.Image
	if !family {
		image, err = client.Get(ctx, &computepb.GetImageRequest{Project: project, Image: name})
	}
	if family || isNotFound(err) && !strings.Contains(reference, "/images/") {
		image, err = client.GetFromFamily(ctx, &computepb.GetFromFamilyImageRequest{Project: project, Family: name})
	}
	switch {
	case isNotFound(err):
		result.problem(fmt.Sprintf("there is no image %s", reference), "Set image to one of `gcloud compute images list`, such as projects/debian-cloud/global/images/family/debian-12.")
		return nil
	case err != nil:
		return c.apiProblem("look up the image", err)
	case image.GetDiskSizeGb() > bootDiskGB:
		result.problem(fmt.Sprintf("the image %s needs a boot disk of %d GB, and the machines have %d", reference, image.GetDiskSizeGb(), bootDiskGB), "Choose a smaller image.")
	case image.GetArchitecture() == "ARM64":
		result.problem(fmt.Sprintf("the image %s is for ARM machines", reference), "Choose an image for x86-64.")
	}
	result.Image = image.GetName()
	return nil
}

// imageOf takes the name of an image apart.
func (c *cloud) imageOf(reference string) (project, name string, family bool) {
	if _, rest, found := strings.Cut(reference, "/compute/v1/"); found {
		reference = rest
	}
	parts := strings.Split(strings.TrimPrefix(reference, "projects/"), "/")
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "global" || part == "images" })
	if n := len(parts); n > 1 && parts[n-2] == "family" {
		family = true
		parts = slices.Delete(parts, n-2, n-1)
	}
	project, name = c.project, parts[len(parts)-1]
	if len(parts) > 1 {
		project = parts[0]
	}
	return project, name, family
}

// allCPUs is a quota of the project itself, for the CPUs of all families in
// all regions. Those of spot machines that have a quota of their own do not
// count.
const allCPUs = "CPUS_ALL_REGIONS"

// checkQuota compares what is to be made with what the region and the project
// have left.
func checkQuota(project *computepb.Project, region *computepb.Region, spec *environment.Spec, existing []Resource, sizes map[string]int, result *Preflight) {
	there := map[string]bool{}
	for _, r := range existing {
		there[r.Kind+" "+r.Name] = true
	}
	need := map[string]float64{}
	for _, m := range spec.Machines {
		if !there[kindMachine+" "+m.Name] {
			need["INSTANCES"]++
			need["IN_USE_ADDRESSES"]++
			quota := cpuQuota(region, m.Type, spec.Cloud.Spot)
			need[quota] += float64(sizes[m.Type])
			if quota != preemptibleCPUs {
				need[allCPUs] += float64(sizes[m.Type])
			}
			need[diskQuota(bootDiskType(m.Type))] += bootDiskGB
		}
		if m.DiskGB > 0 && !there[kindDisk+" "+m.Name+"-data"] {
			need[diskQuota(m.DiskType)] += float64(m.DiskGB)
		}
	}
	compare := func(q *computepb.Quota, of, fix string) {
		wanted, left := need[q.GetMetric()], q.GetLimit()-q.GetUsage()
		if wanted > left {
			result.problem(fmt.Sprintf("the quota %s of %s has %.0f left of %.0f, and %.0f are needed", q.GetMetric(), of, max(left, 0), q.GetLimit(), wanted), fix)
		}
	}
	for _, q := range region.GetQuotas() {
		compare(q, region.GetName(), "Ask for more (https://console.cloud.google.com/iam-admin/quotas), choose another region, or use fewer or smaller machines.")
	}
	for _, q := range project.GetQuotas() {
		if q.GetMetric() == allCPUs {
			compare(q, "the project "+project.GetName(), "Ask for more (https://console.cloud.google.com/iam-admin/quotas), remove machines in any region, or use fewer or smaller ones.")
		}
	}
}

const preemptibleCPUs = "PREEMPTIBLE_CPUS"

// cpuQuota is the quota that a machine's CPUs count against: that of its
// family, but for the oldest ones.
func cpuQuota(region *computepb.Region, machineType string, spot bool) string {
	if spot && slices.ContainsFunc(region.GetQuotas(), func(q *computepb.Quota) bool {
		return q.GetMetric() == preemptibleCPUs && q.GetLimit() > 0
	}) {
		return preemptibleCPUs
	}
	family, _, _ := strings.Cut(machineType, "-")
	if family == "e2" || family == "n1" {
		return "CPUS"
	}
	return strings.ToUpper(family) + "_CPUS" // the newest ones' is not a quota of the region
}

func diskQuota(kind string) string {
	switch kind {
	case "pd-standard":
		return "DISKS_TOTAL_GB"
	case "pd-ssd", "pd-balanced":
		return "SSD_TOTAL_GB"
	}
	return "" // hyperdisks have quotas of their own, elsewhere
}
