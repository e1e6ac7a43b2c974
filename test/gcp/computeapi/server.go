// Package computeapi is a stand-in for Google's Compute Engine API: it keeps
// networks, disks and machines in memory and answers as the real one does, as
// far as the Terraform provider and this project's tests look.
//
// It is strict where the real one is: request bodies are decoded into the
// API's own types and unknown fields refused, references must exist, machine
// types, CPU platforms, disk types and placement must fit each other, what is
// in use cannot be deleted. A request that it does not know is an error that
// Unexpected reports. No machine is started, unless Options.Machines does it.
//
// It answers as an HTTPS proxy, too: it refuses every connection and keeps
// its target for Refused, so that a test sees what else was asked for.
package computeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/api/compute/v1"
)

// Options of a Server.
type Options struct {
	Project string        // the one project that there is
	Token   string        // what requests must bear
	Delay   time.Duration // how long operations run
	// Machines is told what happens to instances; nil: nothing is started.
	Machines Machines
	// DeleteDisk is called when a disk is deleted that is not its machine's
	// boot disk; nil: nothing more happens.
	DeleteDisk func(name string) error
}

// Server is the API at work. Its methods may be called at any time.
type Server struct {
	options Options
	http    *httptest.Server
	ctx     context.Context // of what Machines does
	cancel  context.CancelFunc
	working sync.WaitGroup

	mu           sync.Mutex
	resources    map[string]any // by path, such as projects/p/zones/z/disks/d
	operations   map[string]*operation
	pending      []*operation // in the order they were started
	lastID       uint64
	lastExternal uint32
	imageVersion string
	failInsert   int // inserts of machines until one fails
	failCode     string
	quotas       map[string]float64
	refused      []string
	unexpected   []string
}

// New starts a server on the loopback interface.
func New(options Options) *Server {
	s := &Server{
		options:      options,
		resources:    map[string]any{},
		operations:   map[string]*operation{},
		imageVersion: "v20260801",
		quotas:       map[string]float64{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	mux := s.routes()
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect || r.URL.IsAbs() {
			s.mu.Lock()
			s.refused = append(s.refused, r.Host)
			s.mu.Unlock()
			http.Error(w, "nothing is forwarded", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return s
}

// Close stops the server and waits for what Machines is busy with.
func (s *Server) Close() {
	s.http.Close()
	s.cancel()
	s.working.Wait()
}

// URL is where the server answers, as an API and as a proxy.
func (s *Server) URL() string { return s.http.URL }

// Endpoint is the base of the API's paths.
func (s *Server) Endpoint() string { return s.http.URL + basePath }

// Refused is the hosts that connections were asked for, and not made to.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Unexpected is the requests that the server does not know.
func (s *Server) Unexpected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.unexpected)
}

// Resources is the paths of everything that exists, sorted.
func (s *Server) Resources() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	return slices.Sorted(func(yield func(string) bool) {
		for path := range s.resources {
			if !yield(path) {
				return
			}
		}
	})
}

// All is what exists of a type of the API, such as compute.Disk, by name.
func All[T any](s *Server) map[string]T {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	found := map[string]T{}
	for path, resource := range s.resources {
		if r, ok := resource.(*T); ok {
			found[path[strings.LastIndex(path, "/")+1:]] = *r
		}
	}
	return found
}

// FailInsert makes the n-th insert of a machine from now fail, with the code
// in its operation's error: ZONE_RESOURCE_POOL_EXHAUSTED is a zone without a
// machine to give.
func (s *Server) FailInsert(n int, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failInsert, s.failCode = n, code
}

// PublishImages makes the families' images be those of another version.
func (s *Server) PublishImages(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.imageVersion = version
}

const (
	basePath = "/compute/v1/"
	project  = basePath + "projects/{project}"
	global   = project + "/global"
	region   = project + "/regions/{region}"
	zone     = project + "/zones/{zone}"
)

// handler answers a request while the server is locked.
type handler func(*http.Request) (any, error)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET " + project:                               s.getProject,
		"GET " + region:                                s.getRegion,
		"GET " + project + "/zones":                    s.listZones,
		"GET " + zone:                                  s.getZone,
		"GET " + zone + "/machineTypes/{name}":         s.getMachineType,
		"GET " + zone + "/diskTypes/{name}":            s.getDiskType,
		"GET " + global + "/images/family/{name}":      s.getImageOfFamily,
		"GET " + global + "/images/{name}":             s.getImage,
		"GET " + global + "/operations/{name}":         s.getOperation,
		"GET " + region + "/operations/{name}":         s.getOperation,
		"GET " + zone + "/operations/{name}":           s.getOperation,
		"POST " + global + "/networks":                 s.insertNetwork,
		"POST " + region + "/subnetworks":              s.insertSubnetwork,
		"POST " + global + "/firewalls":                s.insertFirewall,
		"PATCH " + global + "/firewalls/{name}":        s.patchFirewall,
		"POST " + region + "/resourcePolicies":         s.insertResourcePolicy,
		"POST " + zone + "/disks":                      s.insertDisk,
		"POST " + zone + "/disks/{name}/setLabels":     s.setDiskLabels,
		"POST " + zone + "/instances":                  s.insertInstance,
		"POST " + zone + "/instances/{name}/setLabels": s.setInstanceLabels,
		"POST " + zone + "/instances/{name}/start":     s.startInstance,
	} {
		mux.Handle(pattern, s.answer(h))
	}
	for _, collection := range []string{global + "/networks", region + "/subnetworks", global + "/firewalls", region + "/resourcePolicies", zone + "/disks", zone + "/instances"} {
		mux.Handle("GET "+collection+"/{name}", s.answer(s.get))
		mux.Handle("DELETE "+collection+"/{name}", s.answer(s.delete))
	}
	for _, collection := range []string{"networks", "firewalls"} {
		mux.Handle("GET "+global+"/"+collection, s.answer(s.list(collection)))
	}
	for _, collection := range []string{"instances", "disks", "subnetworks", "resourcePolicies"} {
		mux.Handle("GET "+project+"/aggregated/"+collection, s.answer(s.aggregate(collection)))
	}
	mux.Handle("/", s.answer(func(r *http.Request) (any, error) {
		return nil, s.unknown("path")
	}))
	return mux
}

// answer makes an HTTP handler of h: it lets operations end whose time has
// come, checks what all requests have in common and turns errors into the
// API's form.
func (s *Server) answer(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.settle()
		result, err := s.checked(h, r)
		code := http.StatusOK
		if err != nil {
			failure := &apiError{}
			if !errors.As(err, &failure) {
				failure = invalid("%v", err)
			}
			if failure.code == http.StatusNotImplemented {
				s.unexpected = append(s.unexpected, r.Method+" "+r.URL.RequestURI()+": "+failure.message)
			}
			code = failure.code
			result = map[string]any{"error": map[string]any{
				"code": failure.code, "message": failure.message,
				"errors": []any{map[string]any{"domain": "global", "reason": failure.reason, "message": failure.message}},
			}}
		}
		w.Header().Set("Content-Type", "application/json; charset=UTF-8")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(result) // the client may be gone
	})
}

func (s *Server) checked(h handler, r *http.Request) (any, error) {
	if r.Header.Get("Authorization") != "Bearer "+s.options.Token {
		return nil, &apiError{http.StatusUnauthorized, "authError", "Invalid Credentials"}
	}
	for key := range r.URL.Query() {
		listing := r.Method == http.MethodGet && (key == "filter" || key == "pageToken")
		if key != "alt" && key != "prettyPrint" && !listing {
			return nil, s.unknown("parameter " + key)
		}
	}
	if p := r.PathValue("project"); p != "" && p != s.options.Project && !strings.Contains(r.URL.Path, "/global/images/") {
		return nil, notFound("projects/" + p)
	}
	if z := r.PathValue("zone"); z != "" && regionOf(z) == "" {
		return nil, notFound(pathOf(r)[:strings.Index(pathOf(r), z)+len(z)])
	}
	return h(r)
}

// pathOf is the path of a request as resources are named.
func pathOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, basePath) }

func (s *Server) get(r *http.Request) (any, error) {
	resource, ok := s.resources[pathOf(r)]
	if !ok {
		return nil, notFound(pathOf(r))
	}
	return resource, nil
}

func (s *Server) delete(r *http.Request) (any, error) {
	path := pathOf(r)
	if _, ok := s.resources[path]; !ok {
		return nil, notFound(path)
	}
	if user := s.userOf(path); user != "" {
		return nil, &apiError{http.StatusBadRequest, "resourceInUseByAnotherResource", fmt.Sprintf("The resource '%s' is already being used by '%s'", path, user)}
	}
	var work func() error
	switch s.resources[path].(type) {
	case *compute.Instance:
		if s.options.Machines != nil {
			work = func() error { return s.options.Machines.Delete(lastPart(path)) }
		}
	case *compute.Disk:
		if s.options.DeleteDisk != nil {
			work = func() error { return s.options.DeleteDisk(lastPart(path)) }
		}
	}
	return s.startWork("delete", path, work, func(err error) *compute.OperationErrorErrors {
		if err != nil {
			return internalError(err)
		}
		s.detachAll(path)
		delete(s.resources, path)
		return nil
	}), nil
}

// link is the full address of a resource.
func (s *Server) link(path string) string { return s.Endpoint() + path }

// path is what a reference in a request refers to, or "" if it refers to
// nothing that can be.
func (s *Server) path(reference string) string {
	for _, base := range []string{s.Endpoint(), "https://www.googleapis.com" + basePath, "https://compute.googleapis.com" + basePath} {
		reference = strings.TrimPrefix(reference, base)
	}
	switch {
	case strings.HasPrefix(reference, "projects/"):
		return reference
	case strings.HasPrefix(reference, "global/"), strings.HasPrefix(reference, "regions/"), strings.HasPrefix(reference, "zones/"):
		return "projects/" + s.options.Project + "/" + reference
	}
	return ""
}

// find is the resource that a reference refers to, which must be a T.
func find[T any](s *Server, reference string) (path string, resource *T, err error) {
	path = s.path(reference)
	resource, ok := s.resources[path].(*T)
	if !ok {
		return "", nil, notFound(reference)
	}
	return path, resource, nil
}

// place gives a new resource its path, after checking its name.
func (s *Server) place(r *http.Request, name string) (path string, err error) {
	if !resourceName.MatchString(name) {
		return "", invalid("Invalid value for field 'resource.name': '%s'", name)
	}
	path = pathOf(r) + "/" + name
	if _, taken := s.resources[path]; taken {
		return "", &apiError{http.StatusConflict, "alreadyExists", fmt.Sprintf("The resource '%s' already exists", path)}
	}
	return path, nil
}

func (s *Server) newID() uint64 {
	s.lastID++
	return 4_200_000_000_000_000_000 + s.lastID
}

func now() string { return time.Now().Format("2006-01-02T15:04:05.000-07:00") }

// apiError is an error as the API answers it.
type apiError struct {
	code    int
	reason  string
	message string
}

func (e *apiError) Error() string { return e.message }

func invalid(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "invalid", fmt.Sprintf(format, args...)}
}

func notFound(path string) *apiError {
	return &apiError{http.StatusNotFound, "notFound", fmt.Sprintf("The resource '%s' was not found", path)}
}

func (s *Server) unknown(what string) *apiError {
	return &apiError{http.StatusNotImplemented, "notImplemented", "the stand-in does not know this " + what}
}
