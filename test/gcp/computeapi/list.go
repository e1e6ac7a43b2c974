package computeapi

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/api/compute/v1"
)

// pageSize is small, so that whoever lists has to ask for further pages.
const pageSize = 4

// labelFilter is the one form of filters that is known: labels.KEY = "VALUE".
var labelFilter = regexp.MustCompile(`^labels\.([a-z][a-z0-9_-]*) = "([a-z0-9_-]*)"$`)

// listed is a page of the resources whose path has a collection, after the
// project and perhaps a zone or a region.
func (s *Server) listed(r *http.Request, collection string, everywhere bool) (paths []string, next string, err error) {
	query := r.URL.Query()
	key, value := "", ""
	if filter := query.Get("filter"); filter != "" {
		match := labelFilter.FindStringSubmatch(filter)
		if match == nil {
			return nil, "", s.unknown("filter " + filter)
		}
		key, value = match[1], match[2]
	}
	for path, resource := range s.resources {
		scope, name, _ := strings.Cut(path, "/"+collection+"/")
		if name == "" || !everywhere && scope+"/"+collection != pathOf(r) {
			continue
		}
		if key != "" && labelsOf(resource)[key] != value {
			continue
		}
		paths = append(paths, path)
	}
	slices.Sort(paths)
	start := 0
	if token := query.Get("pageToken"); token != "" {
		if start, err = strconv.Atoi(token); err != nil || start > len(paths) {
			return nil, "", invalid("Invalid value for field 'pageToken': '%s'", token)
		}
	}
	end := min(start+pageSize, len(paths))
	if end < len(paths) {
		next = strconv.Itoa(end)
	}
	return paths[start:end], next, nil
}

func labelsOf(resource any) map[string]string {
	switch r := resource.(type) {
	case *compute.Instance:
		return r.Labels
	case *compute.Disk:
		return r.Labels
	}
	return nil
}

// list answers for a global collection.
func (s *Server) list(collection string) handler {
	return func(r *http.Request) (any, error) {
		paths, next, err := s.listed(r, collection, false)
		if err != nil {
			return nil, err
		}
		items := []any{}
		for _, path := range paths {
			items = append(items, s.resources[path])
		}
		return page(map[string]any{"kind": "compute#" + strings.TrimSuffix(collection, "s") + "List", "items": items}, next), nil
	}
}

// aggregate answers for a collection of all zones or regions: by scope, and
// scopes without any have a warning.
func (s *Server) aggregate(collection string) handler {
	return func(r *http.Request) (any, error) {
		paths, next, err := s.listed(r, collection, true)
		if err != nil {
			return nil, err
		}
		scopes := map[string]map[string]any{}
		for region, letters := range zonesOf {
			scopes["regions/"+region] = nothing("regions/" + region)
			for _, letter := range letters {
				scopes["zones/"+region+"-"+letter] = nothing("zones/" + region + "-" + letter)
			}
		}
		for _, path := range paths {
			scope := strings.Join(strings.Split(path, "/")[2:4], "/")
			items, _ := scopes[scope][collection].([]any)
			scopes[scope] = map[string]any{collection: append(items, s.resources[path])}
		}
		return page(map[string]any{"kind": "compute#aggregatedList", "items": scopes}, next), nil
	}
}

func nothing(scope string) map[string]any {
	return map[string]any{"warning": map[string]any{
		"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope '" + scope + "' on this page.",
	}}
}

func page(answer map[string]any, next string) map[string]any {
	if next != "" {
		answer["nextPageToken"] = next
	}
	return answer
}

// getProject answers with the one quota that is not a region's.
func (s *Server) getProject(r *http.Request) (any, error) {
	const metric = "CPUS_ALL_REGIONS"
	limit, set := s.quotas[metric]
	if !set {
		limit = 10_000
	}
	used := 0.0
	for region := range zonesOf {
		for of, n := range s.usage(region) {
			if strings.HasSuffix(of, "CPUS") {
				used += n
			}
		}
	}
	return &compute.Project{
		Kind: "compute#project", Id: 1, Name: r.PathValue("project"), SelfLink: s.link(pathOf(r)),
		Quotas: []*compute.Quota{{Metric: metric, Limit: limit, Usage: used}},
	}, nil
}

// getRegion answers with the quotas, what is used of them counted.
func (s *Server) getRegion(r *http.Request) (any, error) {
	name := r.PathValue("region")
	letters, ok := zonesOf[name]
	if !ok {
		return nil, notFound(pathOf(r))
	}
	answer := &compute.Region{Kind: "compute#region", Name: name, Status: "UP", SelfLink: s.link(pathOf(r))}
	for _, letter := range letters {
		answer.Zones = append(answer.Zones, s.link("projects/"+s.options.Project+"/zones/"+name+"-"+letter))
	}
	usage := s.usage(name)
	for _, metric := range []string{"CPUS", "N2_CPUS", "C3_CPUS", "PREEMPTIBLE_CPUS", "DISKS_TOTAL_GB", "SSD_TOTAL_GB", "INSTANCES", "IN_USE_ADDRESSES"} {
		limit, set := s.quotas[metric]
		if !set && metric != "PREEMPTIBLE_CPUS" {
			limit = 10_000
		}
		answer.Quotas = append(answer.Quotas, &compute.Quota{Metric: metric, Limit: limit, Usage: usage[metric]})
	}
	return answer, nil
}

// usage counts what is used of a region's quotas.
func (s *Server) usage(region string) map[string]float64 {
	usage := map[string]float64{}
	for path, resource := range s.resources {
		if !strings.Contains(path, "/zones/") || regionOf(zoneName(path)) != region {
			continue
		}
		switch r := resource.(type) {
		case *compute.Instance:
			usage["INSTANCES"]++
			usage["IN_USE_ADDRESSES"]++
			t, _ := machineType(lastPart(r.MachineType))
			metric := "CPUS"
			if family, _, _ := strings.Cut(t.Name, "-"); family != "e2" {
				metric = strings.ToUpper(family) + "_CPUS"
			}
			usage[metric] += float64(t.GuestCpus)
		case *compute.Disk:
			switch lastPart(r.Type) {
			case "pd-standard":
				usage["DISKS_TOTAL_GB"] += float64(r.SizeGb)
			case "pd-ssd", "pd-balanced":
				usage["SSD_TOTAL_GB"] += float64(r.SizeGb)
			}
		}
	}
	return usage
}

// SetQuota limits a region's resource, such as N2_CPUS, or the project's
// CPUS_ALL_REGIONS. It is reported only:
// nothing is refused because of it.
func (s *Server) SetQuota(metric string, limit float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas[metric] = limit
}
