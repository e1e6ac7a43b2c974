package computeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
)

const (
	inZone   = "projects/p/zones/us-central1-a"
	zoneOf   = "us-central1-a"
	regional = "us-central1"
)

type client struct {
	*compute.Service
	t      *testing.T
	server *Server
}

func newClient(t *testing.T) *client {
	t.Helper()
	s := New(Options{Project: "p", Token: "token", Delay: 5 * time.Millisecond})
	t.Cleanup(s.Close)
	service, err := compute.NewService(context.Background(), option.WithEndpoint(s.Endpoint()), option.WithHTTPClient(&http.Client{Transport: bearer{}}))
	if err != nil {
		t.Fatal(err)
	}
	return &client{service, t, s}
}

type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer token")
	return http.DefaultTransport.RoundTrip(r)
}

// done waits for an operation and returns the code that it failed with.
func (c *client) done(op *compute.Operation, err error) string {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	if op.Status != "RUNNING" {
		c.t.Errorf("the answer's operation is %s", op.Status)
	}
	for deadline := time.Now().Add(10 * time.Second); op.Status != "DONE"; {
		if time.Now().After(deadline) {
			c.t.Fatal("the operation does not end")
		}
		switch {
		case op.Zone != "":
			op, err = c.ZoneOperations.Get("p", lastPart(op.Zone), op.Name).Do()
		case op.Region != "":
			op, err = c.RegionOperations.Get("p", lastPart(op.Region), op.Name).Do()
		default:
			op, err = c.GlobalOperations.Get("p", op.Name).Do()
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	if op.Error != nil {
		return op.Error.Errors[0].Code
	}
	return ""
}

func (c *client) ok(op *compute.Operation, err error) {
	c.t.Helper()
	if code := c.done(op, err); code != "" {
		c.t.Fatal(code)
	}
}

func (c *client) network() {
	c.t.Helper()
	c.ok(c.Networks.Insert("p", &compute.Network{Name: "n"}).Do())
	c.ok(c.Subnetworks.Insert("p", regional, &compute.Subnetwork{Name: "s", Network: "global/networks/n", IpCidrRange: "10.0.0.0/24"}).Do())
}

// refused checks that an error is the API's, with a code and a part of its
// message.
func refused(t *testing.T, err error, code int, part string) {
	t.Helper()
	failure := &googleapi.Error{}
	if !errors.As(err, &failure) || failure.Code != code || !strings.Contains(failure.Message, part) {
		t.Errorf("got %v, want %d with %q", err, code, part)
	}
}

func machine(name string, changes ...func(*compute.Instance)) *compute.Instance {
	restart := false
	i := &compute.Instance{
		Name: name, MachineType: "zones/us-central1-a/machineTypes/n2-standard-4", MinCpuPlatform: "Intel Ice Lake",
		Scheduling:        &compute.Scheduling{OnHostMaintenance: "TERMINATE", AutomaticRestart: &restart},
		NetworkInterfaces: []*compute.NetworkInterface{{Subnetwork: "regions/us-central1/subnetworks/s", AccessConfigs: []*compute.AccessConfig{{}}}},
		Disks: []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{
			SourceImage: "projects/debian-cloud/global/images/family/debian-12", DiskType: inZone + "/diskTypes/pd-balanced",
		}}},
	}
	for _, change := range changes {
		change(i)
	}
	return i
}

func TestLifeOfAMachine(t *testing.T) {
	c := newClient(t)
	c.network()
	c.ok(c.Disks.Insert("p", zoneOf, &compute.Disk{Name: "d", SizeGb: 50, Type: inZone + "/diskTypes/pd-ssd"}).Do())
	c.ok(c.Instances.Insert("p", zoneOf, machine("m", func(i *compute.Instance) {
		i.Disks = append(i.Disks, &compute.AttachedDisk{Source: inZone + "/disks/d", DeviceName: "data"})
	})).Do())

	m := All[compute.Instance](c.server)["m"]
	if m.Status != "RUNNING" || m.CpuPlatform != "Intel Ice Lake" || m.NetworkInterfaces[0].AccessConfigs[0].NatIP == "" {
		t.Errorf("the machine is %+v", m)
	}
	boot := All[compute.Disk](c.server)["m"]
	if boot.SizeGb != 10 || !strings.Contains(boot.SourceImage, "/images/debian-12-v") {
		t.Errorf("the boot disk is %+v", boot)
	}
	for name, err := range map[string]error{
		"disk":   second(c.Disks.Delete("p", zoneOf, "d").Do()),
		"subnet": second(c.Subnetworks.Delete("p", regional, "s").Do()),
		"net":    second(c.Networks.Delete("p", "n").Do()),
	} {
		t.Log(name)
		refused(t, err, http.StatusBadRequest, "already being used")
	}
	c.ok(c.Instances.Delete("p", zoneOf, "m").Do())
	if _, there := All[compute.Disk](c.server)["m"]; there {
		t.Error("the boot disk is left")
	}
	c.ok(c.Disks.Delete("p", zoneOf, "d").Do())
	c.ok(c.Subnetworks.Delete("p", regional, "s").Do())
	c.ok(c.Networks.Delete("p", "n").Do())
	if left := c.server.Resources(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func second(_ *compute.Operation, err error) error { return err }

func TestFailedInsertLeavesNothing(t *testing.T) {
	c := newClient(t)
	c.network()
	c.ok(c.Disks.Insert("p", zoneOf, &compute.Disk{Name: "d", SizeGb: 50, Type: inZone + "/diskTypes/pd-ssd"}).Do())
	withData := func(i *compute.Instance) {
		i.Disks = append(i.Disks, &compute.AttachedDisk{Source: inZone + "/disks/d"})
	}
	before := c.server.Resources()

	c.server.FailInsert(2, "ZONE_RESOURCE_POOL_EXHAUSTED")
	c.ok(c.Instances.Insert("p", zoneOf, machine("first")).Do())
	if code := c.done(c.Instances.Insert("p", zoneOf, machine("second", withData)).Do()); code != "ZONE_RESOURCE_POOL_EXHAUSTED" {
		t.Errorf("the second insert ended with %q", code)
	}
	c.ok(c.Instances.Delete("p", zoneOf, "first").Do())
	if after := c.server.Resources(); !slices.Equal(before, after) {
		t.Errorf("left: %v", after)
	}
	// The same when it is refused halfway, after the boot disk was made.
	_, err := c.Instances.Insert("p", zoneOf, machine("third", withData, func(i *compute.Instance) {
		i.Disks = append(i.Disks, &compute.AttachedDisk{Source: inZone + "/disks/none", DeviceName: "none"})
	})).Do()
	refused(t, err, http.StatusNotFound, "none")
	if after := c.server.Resources(); !slices.Equal(before, after) {
		t.Errorf("left: %v", after)
	}
	c.ok(c.Instances.Insert("p", zoneOf, machine("second", withData)).Do())
}

func TestRefusals(t *testing.T) {
	c := newClient(t)
	c.network()
	c.ok(c.ResourcePolicies.Insert("p", regional, &compute.ResourcePolicy{Name: "compact", GroupPlacementPolicy: &compute.ResourcePolicyGroupPlacementPolicy{Collocation: "COLLOCATED"}}).Do())
	placed := func(i *compute.Instance) {
		i.ResourcePolicies = []string{"projects/p/regions/us-central1/resourcePolicies/compact"}
	}
	typed := func(name string) func(*compute.Instance) {
		return func(i *compute.Instance) {
			i.MachineType, i.MinCpuPlatform = "zones/us-central1-a/machineTypes/"+name, ""
		}
	}
	before := c.server.Resources()
	for part, i := range map[string]*compute.Instance{
		"machineType":          machine("m", typed("n2-standard-5")),
		"minimum CPU platform": machine("m", func(i *compute.Instance) { i.MinCpuPlatform = "Intel Sandy Bridge" }),
		"not compatible":       machine("m", typed("n4-standard-4")),
		"not supported for":    machine("m", typed("e2-standard-4"), placed),
		"needs onHost":         machine("m", placed, func(i *compute.Instance) { i.Scheduling.OnHostMaintenance = "MIGRATE" }),
		"for spot": machine("m", func(i *compute.Instance) {
			i.Scheduling = &compute.Scheduling{ProvisioningModel: "SPOT", OnHostMaintenance: "MIGRATE"}
		}),
		"resource.type":         machine("m", func(i *compute.Instance) { i.Disks[0].InitializeParams.DiskType = inZone + "/diskTypes/pd-fast" }),
		"smaller than the imag": machine("m", func(i *compute.Instance) { i.Disks[0].InitializeParams.DiskSizeGb = 5 }),
		"resource.labels":       machine("m", func(i *compute.Instance) { i.Labels = map[string]string{"role": "load host"} }),
		"resource.name":         machine("M"),
		"a boot disk is needed": machine("m", func(i *compute.Instance) { i.Disks = nil }),
	} {
		_, err := c.Instances.Insert("p", zoneOf, i).Do()
		refused(t, err, http.StatusBadRequest, part)
	}
	if after := c.server.Resources(); !slices.Equal(before, after) {
		t.Errorf("left: %v", after)
	}
	_, err := c.Subnetworks.Insert("p", regional, &compute.Subnetwork{Name: "t", Network: "global/networks/n", IpCidrRange: "10.0.0.128/25"}).Do()
	refused(t, err, http.StatusBadRequest, "conflicts")
	_, err = c.Networks.Insert("p", &compute.Network{Name: "n"}).Do()
	refused(t, err, http.StatusConflict, "exists")
	_, err = c.Networks.Get("other", "n").Do()
	refused(t, err, http.StatusNotFound, "other")
	if got := c.server.Unexpected(); len(got) > 0 {
		t.Errorf("unexpected: %v", got)
	}
	_, err = c.Routes.List("p").Do()
	refused(t, err, http.StatusNotImplemented, "does not know")
	if got := c.server.Unexpected(); len(got) != 1 || !strings.Contains(got[0], "/routes") {
		t.Errorf("unexpected: %v", got)
	}
}

// Bodies as Terraform's provider writes them: nulls, and numbers both ways.
func TestBodies(t *testing.T) {
	c := newClient(t)
	post := func(path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.server.Endpoint()+path, bytes.NewBufferString(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := bearer{}.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	for body, want := range map[string]int{
		`{"name":"a","sizeGb":10}`:                           http.StatusOK,
		`{"name":"b","sizeGb":"10","labels":null}`:           http.StatusOK,
		`{"name":"c","sizeGb":10,"guestOsFeatures":[null]}`:  http.StatusOK,
		`{"name":"d","sizeGb":10,"size":10}`:                 http.StatusBadRequest,
		`{"name":"e","sizeGb":10,"params":{"colour":"red"}}`: http.StatusBadRequest,
		`{"name":"f","sizeGb":[10]}`:                         http.StatusBadRequest,
		`{"name":"g"`:                                        http.StatusBadRequest,
	} {
		if code, text := post(inZone+"/disks", body); code != want {
			t.Errorf("%s: %d %s", body, code, text)
		}
	}
}

func TestProxyRefuses(t *testing.T) {
	c := newClient(t)
	proxy, err := url.Parse(c.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(proxy)}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://www.example.com/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := transport.RoundTrip(r); err == nil {
		_ = answer.Body.Close()
		t.Error("the proxy let a connection through")
	}
	if got := c.server.Refused(); !slices.Equal(got, []string{"www.example.com:443"}) {
		t.Errorf("refused %v", got)
	}
}

// recorder is a Machines that keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	started []Machine
	calls   []string
	fail    error
}

func (r *recorder) Start(_ context.Context, m Machine) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, m)
	r.calls = append(r.calls, "start "+m.Name)
	return r.fail
}

func (r *recorder) note(call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	return nil
}

func (r *recorder) Stop(name string) error   { return r.note("stop " + name) }
func (r *recorder) Delete(name string) error { return r.note("delete " + name) }

func TestMachinesAreTold(t *testing.T) {
	machines := &recorder{}
	c := newClient(t)
	c.server.options.Machines = machines
	c.network()
	c.ok(c.Disks.Insert("p", zoneOf, &compute.Disk{Name: "d", SizeGb: 50, Type: inZone + "/diskTypes/pd-ssd"}).Do())
	keys := "one:ssh-ed25519 AAAA a\ntwo:ssh-ed25519 BBBB b"
	spot := func(i *compute.Instance) {
		i.Scheduling.ProvisioningModel, i.Scheduling.Preemptible = "SPOT", true
		i.Disks = append(i.Disks, &compute.AttachedDisk{Source: inZone + "/disks/d", DeviceName: "data"})
		i.Metadata = &compute.Metadata{Items: []*compute.MetadataItems{{Key: "ssh-keys", Value: &keys}}}
	}
	c.ok(c.Instances.Insert("p", zoneOf, machine("m", spot)).Do())
	nic := All[compute.Instance](c.server)["m"].NetworkInterfaces[0]
	want := Machine{
		Name: "m", InternalIP: nic.NetworkIP, ExternalIP: nic.AccessConfigs[0].NatIP, Image: "debian-12-v20260801",
		SSHKeys: strings.Split(keys, "\n"), MachineType: "n2-standard-4",
		Disks: []Disk{{DeviceName: "persistent-disk-0", Name: "m", GB: 10, Boot: true}, {DeviceName: "data", Name: "d", GB: 50}},
	}
	if got := machines.started[0]; !reflect.DeepEqual(got, want) || got.ExternalIP == "" {
		t.Errorf("started %+v, want %+v", got, want)
	}
	if err := c.server.Preempt("m"); err != nil {
		t.Fatal(err)
	}
	c.ok(c.Instances.Start("p", zoneOf, "m").Do())
	c.ok(c.Instances.Delete("p", zoneOf, "m").Do())
	if want := []string{"start m", "stop m", "start m", "delete m"}; !slices.Equal(machines.calls, want) {
		t.Errorf("told %v, want %v", machines.calls, want)
	}
	machines.fail = errors.New("no such image")
	before := c.server.Resources()
	if code := c.done(c.Instances.Insert("p", zoneOf, machine("n", spot)).Do()); code != "INTERNAL_ERROR" {
		t.Errorf("the insert ended with %q", code)
	}
	if after := c.server.Resources(); !slices.Equal(before, after) {
		t.Errorf("left: %v", after)
	}
}

func TestLists(t *testing.T) {
	c := newClient(t)
	c.network()
	var want []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		disk := &compute.Disk{Name: name, SizeGb: 50, Labels: map[string]string{"environment": "x"}}
		if name == "c" {
			disk.Labels = nil
		} else {
			want = append(want, name)
		}
		zone := []string{"us-central1-a", "us-central1-b", "europe-west1-b"}[len(want)%3]
		c.ok(c.Disks.Insert("p", zone, disk).Do())
	}
	var got []string
	pages := 0
	err := c.Disks.AggregatedList("p").Filter(`labels.environment = "x"`).Pages(t.Context(), func(page *compute.DiskAggregatedList) error {
		pages++
		for _, scope := range page.Items {
			for _, d := range scope.Disks {
				got = append(got, d.Name)
			}
		}
		return nil
	})
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) || pages != 2 {
		t.Errorf("listed %v on %d pages (%v), want %v", got, pages, err, want)
	}
	networks, err := c.Networks.List("p").Do()
	if err != nil || len(networks.Items) != 1 || networks.Items[0].Name != "n" {
		t.Errorf("networks %+v, %v", networks, err)
	}
	_, err = c.Disks.AggregatedList("p").Filter("name != a").Do()
	refused(t, err, http.StatusNotImplemented, "filter")
	c.server.SetQuota("SSD_TOTAL_GB", 500)
	region, err := c.Regions.Get("p", regional).Do()
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range region.Quotas {
		if q.Metric == "DISKS_TOTAL_GB" && q.Usage != 250 || q.Metric == "SSD_TOTAL_GB" && q.Limit != 500 {
			t.Errorf("quota %+v", q)
		}
	}
}
