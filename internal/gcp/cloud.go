package gcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	httptransport "google.golang.org/api/transport/http"
	"google.golang.org/protobuf/proto"
)

// scope is what the API asks for.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// environMap makes a map of os.Environ's form. What would change Terraform's
// arguments or variables behind our back is left out: variables come from the
// Spec.
func environMap(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "TF_VAR_") || strings.HasPrefix(name, "TF_CLI_ARGS") || strings.HasPrefix(name, "TF_LOG") ||
			slices.Contains([]string{"", "TF_INPUT", "TF_IN_AUTOMATION", "TF_REATTACH_PROVIDERS", "TF_APPEND_USER_AGENT", "TF_WORKSPACE", "TF_DISABLE_PLUGIN_TLS", "TF_SKIP_PROVIDER_VERIFY", "TF_DATA_DIR"}, name) {
			continue
		}
		env[name] = value
	}
	return env
}

// firstOf is the first variable of the names that is set.
func firstOf(env map[string]string, names ...string) string {
	for _, name := range names {
		if env[name] != "" {
			return env[name]
		}
	}
	return ""
}

const credentialsFix = "Run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the path of a service account's key."

// access is how we come into Google Cloud. The provider reads the same
// variables.
type access struct {
	options  []option.ClientOption
	auth     *auth.Credentials // nil with a token
	project  string            // that the environment variables name
	endpoint string            // of the API, when it is not Google's
}

// NamesProject reports whether an environment in os.Environ's form names a
// project.
func NamesProject(environ []string) bool { return projectOf(environMap(environ)) != "" }

// projectOf is the project that environment variables name, or "".
func projectOf(env map[string]string) string {
	return firstOf(env, "GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
}

func newAccess(env map[string]string) (*access, error) {
	a := &access{project: projectOf(env)}
	// The provider's has the API's path at its end, ours has not.
	a.endpoint = strings.TrimSuffix(strings.TrimSuffix(env["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"], "/"), "/compute/v1")
	if token := env["GOOGLE_OAUTH_ACCESS_TOKEN"]; token != "" {
		a.options = append(a.options, option.WithAuthCredentials(auth.NewCredentials(&auth.CredentialsOptions{TokenProvider: staticToken(token)})))
		return a, nil
	}
	found, err := detectCredentials(env)
	if err != nil {
		return nil, err
	}
	a.auth = found
	a.options = append(a.options, option.WithAuthCredentials(found))
	return a, nil
}

// detectCredentials takes those of the variables, as a path or as text, or
// else Google's defaults.
func detectCredentials(env map[string]string) (*auth.Credentials, error) {
	given := firstOf(env, "GOOGLE_CREDENTIALS", "GOOGLE_CLOUD_KEYFILE_JSON", "GCLOUD_KEYFILE_JSON", "GOOGLE_APPLICATION_CREDENTIALS")
	o := &credentials.DetectOptions{Scopes: []string{scope}}
	if given == "" {
		found, err := credentials.DetectDefault(o)
		if err != nil {
			return nil, &Problem{Summary: "there are no usable Google credentials (" + oneLine(err) + ")", Fix: credentialsFix}
		}
		return found, nil
	}
	text := []byte(given)
	if !strings.HasPrefix(strings.TrimSpace(given), "{") {
		var err error
		if text, err = os.ReadFile(given); err != nil {
			return nil, &Problem{Summary: fmt.Sprintf("the file of Google credentials cannot be read (%v)", err), Fix: "Correct GOOGLE_APPLICATION_CREDENTIALS, or unset it and run `gcloud auth application-default login`."}
		}
	}
	// They are the user's own, of whatever type they say.
	var kind struct {
		Type credentials.CredType `json:"type"`
	}
	err := json.Unmarshal(text, &kind)
	if err == nil {
		var found *auth.Credentials
		if found, err = credentials.NewCredentialsFromJSON(kind.Type, text, o); err == nil {
			return found, nil
		}
	}
	return nil, &Problem{Summary: "the Google credentials that are given are not valid (" + oneLine(err) + ")", Fix: credentialsFix}
}

// oneLine is an error's text without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

type staticToken string

func (t staticToken) Token(context.Context) (*auth.Token, error) {
	return &auth.Token{Value: string(t), Type: "Bearer"}, nil
}

// projectOf chooses the project: what the variables say, what was used before,
// what the options and the environment say, and what the credentials name.
func (a *access) projectOf(ctx context.Context, wanted ...string) (string, error) {
	for _, project := range append(wanted, a.project) {
		if project != "" {
			return project, nil
		}
	}
	if a.auth != nil {
		if project, err := a.auth.ProjectID(ctx); err == nil && project != "" {
			return project, nil
		}
		if project, err := a.auth.QuotaProjectID(ctx); err == nil && project != "" {
			return project, nil
		}
	}
	return "", &Problem{Summary: "no Google Cloud project is named", Fix: "Set project_id in the environment file, or GOOGLE_PROJECT."}
}

// cloud is the API for one project.
type cloud struct {
	project string
	options []option.ClientOption
}

// connect finds credentials and project.
func (p *Platform) connect(ctx context.Context, wanted ...string) (*cloud, error) {
	return connect(ctx, p.env, append(wanted, p.o.Project)...)
}

func connect(ctx context.Context, env map[string]string, wanted ...string) (*cloud, error) {
	a, err := newAccess(env)
	if err != nil {
		return nil, err
	}
	project, err := a.projectOf(ctx, wanted...)
	if err != nil {
		return nil, err
	}
	// One client for all calls: one connection, one token.
	client, _, err := httptransport.NewClient(ctx, append(a.options, option.WithScopes(scope))...)
	if err != nil {
		return nil, fmt.Errorf("connect to the Compute Engine API: %w", err)
	}
	options := []option.ClientOption{option.WithHTTPClient(client)}
	if a.endpoint != "" {
		options = append(options, option.WithEndpoint(a.endpoint))
	}
	return &cloud{project: project, options: options}, nil
}

// apiProblem turns an answer of the API into a problem where it says what is
// wrong with the caller rather than with the call.
func (c *cloud) apiProblem(doing string, err error) error {
	answer := &googleapi.Error{}
	text := err.Error()
	if errors.As(err, &answer) {
		text = answer.Message
	}
	switch {
	case answer.Code == http.StatusUnauthorized:
		return &Problem{Summary: fmt.Sprintf("%s: Google does not accept the credentials (%s)", doing, text), Fix: credentialsFix}
	case answer.Code == http.StatusForbidden && (strings.Contains(text, "has not been used") || strings.Contains(text, "is disabled")):
		return &Problem{Summary: fmt.Sprintf("%s: the Compute Engine API is off in the project %s", doing, c.project), Fix: fmt.Sprintf("Run `gcloud services enable compute.googleapis.com --project=%s` and wait a minute.", c.project)}
	case answer.Code == http.StatusForbidden:
		return &Problem{Summary: fmt.Sprintf("%s: the credentials may not do that in the project %s (%s)", doing, c.project, text), Fix: fmt.Sprintf("Ask for the role Compute Admin (roles/compute.admin) in %s.", c.project)}
	case strings.Contains(text, "reauth") || strings.Contains(text, "invalid_grant") || strings.Contains(text, "cannot fetch token"):
		return &Problem{Summary: fmt.Sprintf("%s: the Google credentials have expired or are wrong (%s)", doing, text), Fix: credentialsFix}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isNotFound reports whether the API says that something is not there.
func isNotFound(err error) bool {
	answer := &googleapi.Error{}
	return errors.As(err, &answer) && answer.Code == http.StatusNotFound
}

// Resource is something that exists in a project.
type Resource struct {
	// Kind is "machine", "disk", "firewall rule", "placement policy",
	// "subnet" or "network".
	Kind string
	Name string
	// Location is its zone or region, or "global".
	Location    string
	Project     string
	Environment string
	Labels      map[string]string // of those that have any
	// What says more of it: type, size.
	What string
	// InUse is set for a disk that goes away with its machine.
	InUse bool
}

// The kinds, in the order they can be removed.
const (
	kindMachine  = "machine"
	kindDisk     = "disk"
	kindFirewall = "firewall rule"
	kindPolicy   = "placement policy"
	kindSubnet   = "subnet"
	kindNetwork  = "network"
)

func removalOrder() []string {
	return []string{kindMachine, kindDisk, kindFirewall, kindPolicy, kindSubnet, kindNetwork}
}

// collect reads an iterator of the API to its end.
func collect[T any](next func() (T, error), each func(T)) error {
	for {
		item, err := next()
		if errors.Is(err, iterator.Done) {
			return nil
		}
		if err != nil {
			return err
		}
		each(item)
	}
}

// close ends a client of the API; that of REST keeps nothing open.
func closeClient(c interface{ Close() error }) { _ = c.Close() }

// list returns everything in the project that is ours: of one environment, or
// of all when that is empty.
func (c *cloud) list(ctx context.Context, environment string) ([]Resource, error) {
	var all []Resource
	for _, part := range []func(context.Context, func(Resource)) error{c.listMachines, c.listDisks, c.listFirewalls, c.listPolicies, c.listSubnets, c.listNetworks} {
		err := part(ctx, func(r Resource) {
			if r.Environment != "" && (environment == "" || r.Environment == environment) {
				r.Project = c.project
				all = append(all, r)
			}
		})
		if err != nil {
			return nil, c.apiProblem("list what exists", err)
		}
	}
	order := removalOrder()
	slices.SortFunc(all, func(a, b Resource) int {
		return cmp.Or(slices.Index(order, a.Kind)-slices.Index(order, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// labelled is the environment of something with labels, or "" when it is none
// of ours: another tool's label "environment" means nothing.
func labelled(labels map[string]string) string {
	if labels[labelManagedBy] != managedBy {
		return ""
	}
	return labels[labelEnvironment]
}

// described is the environment of something without labels.
func described(description string) string {
	if match := descriptionPattern.FindStringSubmatch(description); match != nil {
		return match[1]
	}
	return ""
}

// ours selects what labelled will accept.
func ours() *string { return proto.String(fmt.Sprintf("labels.%s = %q", labelManagedBy, managedBy)) }

func (c *cloud) listMachines(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewInstancesRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	scopes := client.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{Project: c.project, Filter: ours()})
	return collect(scopes.Next, func(in compute.InstancesScopedListPair) {
		for _, i := range in.Value.GetInstances() {
			each(Resource{
				Kind: kindMachine, Name: i.GetName(), Location: path.Base(i.GetZone()), Labels: i.GetLabels(),
				Environment: labelled(i.GetLabels()), What: path.Base(i.GetMachineType()),
			})
		}
	})
}

func (c *cloud) listDisks(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewDisksRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	scopes := client.AggregatedList(ctx, &computepb.AggregatedListDisksRequest{Project: c.project, Filter: ours()})
	return collect(scopes.Next, func(in compute.DisksScopedListPair) {
		for _, d := range in.Value.GetDisks() {
			each(Resource{
				Kind: kindDisk, Name: d.GetName(), Location: path.Base(d.GetZone()), Labels: d.GetLabels(),
				Environment: labelled(d.GetLabels()), What: diskText(path.Base(d.GetType()), int(d.GetSizeGb())),
				InUse: len(d.GetUsers()) > 0,
			})
		}
	})
}

func (c *cloud) listFirewalls(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewFirewallsRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	rules := client.List(ctx, &computepb.ListFirewallsRequest{Project: c.project})
	return collect(rules.Next, func(f *computepb.Firewall) {
		each(Resource{Kind: kindFirewall, Name: f.GetName(), Location: "global", Environment: described(f.GetDescription())})
	})
}

func (c *cloud) listPolicies(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewResourcePoliciesRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	scopes := client.AggregatedList(ctx, &computepb.AggregatedListResourcePoliciesRequest{Project: c.project})
	return collect(scopes.Next, func(in compute.ResourcePoliciesScopedListPair) {
		for _, r := range in.Value.GetResourcePolicies() {
			each(Resource{Kind: kindPolicy, Name: r.GetName(), Location: path.Base(r.GetRegion()), Environment: described(r.GetDescription())})
		}
	})
}

func (c *cloud) listSubnets(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewSubnetworksRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	scopes := client.AggregatedList(ctx, &computepb.AggregatedListSubnetworksRequest{Project: c.project})
	return collect(scopes.Next, func(in compute.SubnetworksScopedListPair) {
		for _, s := range in.Value.GetSubnetworks() {
			each(Resource{Kind: kindSubnet, Name: s.GetName(), Location: path.Base(s.GetRegion()), Environment: described(s.GetDescription()), What: s.GetIpCidrRange()})
		}
	})
}

func (c *cloud) listNetworks(ctx context.Context, each func(Resource)) error {
	client, err := compute.NewNetworksRESTClient(ctx, c.options...)
	if err != nil {
		return err
	}
	defer closeClient(client)
	networks := client.List(ctx, &computepb.ListNetworksRequest{Project: c.project})
	return collect(networks.Next, func(n *computepb.Network) {
		each(Resource{Kind: kindNetwork, Name: n.GetName(), Location: "global", Environment: described(n.GetDescription())})
	})
}

// remove deletes a resource and waits until it is gone. One that is not there
// is no error.
func (c *cloud) remove(ctx context.Context, r Resource) error {
	if err := c.removeNow(ctx, r); err != nil && !isNotFound(err) {
		return c.apiProblem(fmt.Sprintf("remove %s %s", r.Kind, r.Name), err)
	}
	return nil
}

// finish waits for an operation that was begun. Its client must still be open.
func finish(ctx context.Context, operation *compute.Operation, err error) error {
	if err != nil {
		return err
	}
	return operation.Wait(ctx)
}

func (c *cloud) removeNow(ctx context.Context, r Resource) error {
	switch r.Kind {
	case kindMachine:
		client, err := compute.NewInstancesRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteInstanceRequest{Project: c.project, Zone: r.Location, Instance: r.Name})
		return finish(ctx, operation, err)
	case kindDisk:
		client, err := compute.NewDisksRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteDiskRequest{Project: c.project, Zone: r.Location, Disk: r.Name})
		return finish(ctx, operation, err)
	case kindFirewall:
		client, err := compute.NewFirewallsRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteFirewallRequest{Project: c.project, Firewall: r.Name})
		return finish(ctx, operation, err)
	case kindPolicy:
		client, err := compute.NewResourcePoliciesRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteResourcePolicyRequest{Project: c.project, Region: r.Location, ResourcePolicy: r.Name})
		return finish(ctx, operation, err)
	case kindSubnet:
		client, err := compute.NewSubnetworksRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteSubnetworkRequest{Project: c.project, Region: r.Location, Subnetwork: r.Name})
		return finish(ctx, operation, err)
	case kindNetwork:
		client, err := compute.NewNetworksRESTClient(ctx, c.options...)
		if err != nil {
			return err
		}
		defer closeClient(client)
		operation, err := client.Delete(ctx, &computepb.DeleteNetworkRequest{Project: c.project, Network: r.Name})
		return finish(ctx, operation, err)
	}
	return fmt.Errorf("a %s cannot be removed", r.Kind)
}

func diskText(kind string, gb int) string { return fmt.Sprintf("%s %d GB", kind, gb) }

// expiry is when what has these labels should be gone; ok is false when they
// do not say.
func expiry(labels map[string]string) (created, expires time.Time, ok bool) {
	created, err := time.ParseInLocation(createdLayout, labels[labelCreated], time.UTC)
	if err != nil {
		return time.Time{}, time.Time{}, false
	}
	ttl, err := time.ParseDuration(labels[labelTTL])
	if err != nil || ttl <= 0 {
		return created, time.Time{}, false
	}
	return created, created.Add(ttl), true
}

// environmentsOf groups resources by environment, by name.
func environmentsOf(resources []Resource) (names []string, of map[string][]Resource) {
	of = map[string][]Resource{}
	for _, r := range resources {
		of[r.Environment] = append(of[r.Environment], r)
	}
	return slices.Sorted(maps.Keys(of)), of
}
