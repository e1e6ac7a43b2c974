package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

// Action is what is done with a resource.
type Action string

// The actions.
const (
	Create  Action = "create"
	Adopt   Action = "adopt" // it exists, and Terraform did not know
	Update  Action = "update"
	Replace Action = "replace" // removed and made anew: what is on it is lost
	Delete  Action = "delete"
)

// Change is one resource that is to change.
type Change struct {
	Action Action
	Kind   string // "machine", "disk", …
	Name   string
	// What says more of it: type and zone, size.
	What string
	// Attributes are those that change, of an update or a replacement.
	Attributes []string

	address string
	created bool // it does not exist for Terraform
}

// Plan is what Apply would do.
type Plan struct {
	Changes []Change
	// Unknown exists, is of this environment, and is neither in Terraform's
	// state nor wanted: Remove takes it.
	Unknown []Resource

	spec      *environment.Spec
	login     login
	settings  *settings
	terraform *terraform
	// known are the resources that Terraform has or will have, by kind and
	// name.
	known map[string]bool
	// outputs is set when nothing but addresses and the like has changed.
	outputs bool
}

// Empty reports whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 }

// Count is how many resources have an action.
func (p *Plan) Count(action Action) int {
	n := 0
	for _, c := range p.Changes {
		if c.Action == action {
			n++
		}
	}
	return n
}

// Plan compares what exists with what the Spec asks for. It writes files into
// the environment's folder, a key among them if there is none, and changes
// nothing in the cloud. The preflight must have found no problems.
func (p *Platform) Plan(ctx context.Context, spec *environment.Spec, preflight *Preflight) (*Plan, error) {
	if err := preflight.Err(); err != nil {
		return nil, err
	}
	s, err := p.readSettings()
	if err != nil {
		return nil, err
	}
	// From here on the folder is known to be one of this platform. That the
	// environment exists is for Apply to write: the plan may be declined.
	s.Project, s.Region = preflight.Project, preflight.Region
	if err := p.writeSettings(s); err != nil {
		return nil, err
	}
	plan := &Plan{spec: spec}
	if plan.login, err = p.login(spec.Cloud.SSH); err != nil {
		return nil, err
	}
	t, err := p.terraform(preflight.Project, preflight.Region)
	if err != nil {
		return nil, err
	}
	plan.terraform = t
	p.endOrphans(ctx)
	if err := errors.Join(t.prepare(ctx, s, stateBucket(spec)), p.writeSettings(s)); err != nil {
		return nil, err
	}
	plan.settings = p.planned(s, preflight)
	if err := p.writeGenerated(plan, preflight.CallerRange); err != nil {
		return nil, err
	}
	if err := p.planOnce(ctx, plan); err != nil {
		return nil, err
	}
	adopted, err := p.adopt(ctx, plan)
	if err != nil {
		return nil, err
	}
	if adopted {
		if err := p.planOnce(ctx, plan); err != nil {
			return nil, err
		}
	}
	return plan, nil
}

// planned are the settings of the environment once the plan is applied.
func (p *Platform) planned(s *settings, preflight *Preflight) *settings {
	next := *s
	if next.Created == "" {
		next.Created = p.o.Now().UTC().Format(createdLayout)
	}
	next.Zones, next.Owner, next.TTL = preflight.Zones, p.owner(s), p.ttl(s)
	return &next
}

// stateBucket is the bucket that the state is kept in, or "".
func stateBucket(spec *environment.Spec) string {
	for _, s := range spec.Settings {
		if s.Name == "state_bucket" {
			return strings.Trim(s.Value, `"`)
		}
	}
	return ""
}

// login is who logs in to the machines and with which key.
type login struct {
	user      string
	keyFile   string // as in the inventory
	publicKey string
}

// sandboxUser logs in when the file names nobody.
const (
	sandboxUser = "sandbox"
	keyName     = "id_ed25519"
)

// login finds the user's key, or makes one.
func (p *Platform) login(ssh environment.SSHLogin) (login, error) {
	if ssh.User == "" {
		key, err := remote.LoadOrCreateKey(filepath.Join(p.o.Dir, keyName), "sandbox "+p.o.Environment)
		if err != nil {
			return login{}, fmt.Errorf("make the key: %w", err)
		}
		return login{user: sandboxUser, keyFile: keyName, publicKey: key.AuthorizedKey()}, nil
	}
	home := p.env["HOME"]
	files := []string{filepath.Join(home, ".ssh", keyName), filepath.Join(home, ".ssh", "id_ecdsa"), filepath.Join(home, ".ssh", "id_rsa")}
	if ssh.KeyFile != "" {
		file := ssh.KeyFile
		if rest, ok := strings.CutPrefix(file, "~/"); ok {
			file = filepath.Join(home, rest)
		}
		files = []string{file}
	}
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		file, err := filepath.Abs(file)
		if err != nil {
			return login{}, fmt.Errorf("find the key: %w", err)
		}
		key, err := remote.LoadKey(file, p.env["SSH_AUTH_SOCK"])
		if err != nil {
			return login{}, &Problem{Summary: fmt.Sprintf("the SSH key of %s cannot be used (%v)", ssh.User, err), Fix: "Set ssh_private_key_path to a key without a passphrase or with one that the SSH agent holds, or leave out my_ssh_user: a user and a key are then made."}
		}
		return login{user: ssh.User, keyFile: file, publicKey: key.AuthorizedKey()}, nil
	}
	return login{}, &Problem{Summary: fmt.Sprintf("there is no SSH key of %s in %s", ssh.User, strings.Join(files, ", ")), Fix: "Set ssh_private_key_path, or leave out my_ssh_user: a user and a key are then made."}
}

// writeGenerated writes what generated.tf declares.
func (p *Platform) writeGenerated(plan *Plan, callerRange string) error {
	generated := map[string]any{
		"environment": p.o.Environment, "owner": plan.settings.Owner, "created": plan.settings.Created, "ttl": plan.settings.TTL,
		"zones": plan.settings.Zones, "caller_range": callerRange,
		"ssh_user": plan.login.user, "ssh_public_key": strings.TrimSpace(plan.login.publicKey), "base_folder": baseFolder(plan.spec.Variables),
	}
	if callerRange == "" {
		generated["caller_range"] = nil
	}
	text, err := json.MarshalIndent(generated, "", "  ")
	if err != nil {
		return fmt.Errorf("write the variables: %w", err)
	}
	return plan.terraform.write(generatedFile, append(text, '\n'))
}

// baseFolder is where relative paths in the variables start: at the first
// file.
func baseFolder(v environment.Variables) string {
	for _, arg := range v.Args {
		if arg.Kind == environment.VarFile {
			return filepath.Dir(arg.Value)
		}
	}
	if len(v.Files) > 0 {
		return filepath.Dir(v.Files[0])
	}
	folder, err := os.Getwd()
	if err != nil {
		return "."
	}
	return folder
}

// planOnce runs Terraform's plan and reads it.
func (p *Platform) planOnce(ctx context.Context, plan *Plan) error {
	t := plan.terraform
	changes, err := t.plan(ctx, plan.spec.Variables)
	if err != nil {
		return p.explainLock(ctx, t, err)
	}
	content, err := t.tf.ShowPlanFile(ctx, planFile)
	if err != nil {
		if canceled(ctx, err) {
			return &InterruptedError{Stage: StagePlan}
		}
		return &TerraformError{Command: "show", Err: err}
	}
	plan.Changes, plan.known = changesOf(content)
	plan.outputs = changes && len(plan.Changes) == 0
	return p.writeApplied(t, content)
}

// changesOf are the changes in a plan, in the order they are best read, and
// all resources that it is about, by kind and name.
func changesOf(content *tfjson.Plan) (changes []Change, known map[string]bool) {
	known = map[string]bool{}
	for _, r := range content.ResourceChanges {
		if r.Mode != tfjson.ManagedResourceMode {
			continue
		}
		c := Change{Kind: kindOf(r.Type), address: r.Address}
		before, _ := r.Change.Before.(map[string]any)
		after, _ := r.Change.After.(map[string]any)
		shown := after
		for _, values := range []map[string]any{before, after} {
			known[kindOf(r.Type)+" "+textOf(values["name"])] = true
		}
		actions := r.Change.Actions
		switch {
		case actions.Create():
			c.Action, c.created = Create, true
		case actions.Replace():
			c.Action = Replace
		case actions.Update():
			c.Action = Update
		case actions.Delete():
			c.Action, shown = Delete, before
		case r.Change.Importing != nil:
			c.Action = Adopt
		default:
			continue
		}
		if r.Change.Importing != nil && c.Action == Update {
			c.Action = Adopt
		}
		if c.Action == Update || c.Action == Replace {
			unknown, _ := r.Change.AfterUnknown.(map[string]any)
			c.Attributes = differing(before, after, unknown)
		}
		c.Name, c.What = textOf(shown["name"]), whatOf(r.Type, shown)
		changes = append(changes, c)
	}
	order := removalOrder()
	slices.SortStableFunc(changes, func(a, b Change) int {
		return slices.Index(order, a.Kind) - slices.Index(order, b.Kind)
	})
	return changes, known
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

func whatOf(resourceType string, values map[string]any) string {
	zone := textOf(values["zone"])
	switch resourceType {
	case "google_compute_instance":
		return textOf(values["machine_type"]) + " in " + zone
	case "google_compute_disk":
		return fmt.Sprintf("%s %v GB in %s", textOf(values["type"]), values["size"], zone)
	case "google_compute_subnetwork":
		return textOf(values["ip_cidr_range"])
	case "google_compute_firewall":
		ranges, _ := values["source_ranges"].([]any)
		return fmt.Sprintf("from %s", strings.Trim(fmt.Sprint(ranges), "[]"))
	}
	return ""
}

// differing are the names of attributes that differ or will be known later.
func differing(before, after, unknown map[string]any) []string {
	var names []string
	for name, value := range after {
		was, _ := json.Marshal(before[name])
		is, _ := json.Marshal(value)
		if string(was) != string(is) {
			names = append(names, name)
		}
	}
	for name, value := range unknown {
		if value == true {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// writeApplied keeps the variables for destroy, which then needs none of the
// user's files.
func (p *Platform) writeApplied(t *terraform, content *tfjson.Plan) error {
	values := map[string]any{}
	for name, variable := range content.Variables {
		// Keys and their files are of no use then, and LDAP servers are not
		// made: their passwords are not to be stored.
		if variable != nil && variable.Value != nil && !slices.Contains([]string{"gce_ssh_users", "ldap_servers"}, name) {
			values[name] = variable.Value
		}
	}
	text, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return fmt.Errorf("keep the variables: %w", err)
	}
	return t.write(appliedFile, append(text, '\n'))
}

// creating is the change that would make a resource which is there already.
func (p *Plan) creating(r Resource) (Change, bool) {
	for _, c := range p.Changes {
		if c.created && c.Kind == r.Kind && c.Name == r.Name {
			return c, true
		}
	}
	return Change{}, false
}

// adopt looks for what exists of the environment without Terraform knowing:
// a run was killed, or the state was lost. What is about to be made is
// imported instead; it reports whether there is any of that.
func (p *Platform) adopt(ctx context.Context, plan *Plan) (bool, error) {
	c, err := p.connect(ctx, plan.settings.Project)
	if err != nil {
		return false, err
	}
	existing, err := c.list(ctx, p.o.Environment)
	if err != nil {
		return false, err
	}
	if problem := foreign(p.o.Environment, c.project, plan.settings.Owner, existing); problem != nil {
		return false, problem // it was made since the preflight
	}
	var text strings.Builder
	for _, r := range existing {
		change, wanted := plan.creating(r)
		switch {
		case wanted:
			fmt.Fprintf(&text, "import {\n  to = %s\n  id = %q\n}\n", change.address, importID(r))
		case r.Kind == kindDisk && r.InUse && !strings.HasSuffix(r.Name, "-data"):
			// A boot disk, which belongs to its machine.
		case !plan.known[r.Kind+" "+r.Name]:
			plan.Unknown = append(plan.Unknown, r)
		}
	}
	if text.Len() == 0 {
		return false, nil
	}
	return true, plan.terraform.write(adoptFile, []byte(text.String()))
}

// importID is how the provider names what it is to import.
func importID(r Resource) string {
	collection := map[string]string{
		kindMachine: "instances", kindDisk: "disks", kindFirewall: "firewalls", kindPolicy: "resourcePolicies", kindSubnet: "subnetworks", kindNetwork: "networks",
	}[r.Kind]
	scope := map[string]string{kindMachine: "zones/", kindDisk: "zones/", kindPolicy: "regions/", kindSubnet: "regions/"}[r.Kind] + r.Location
	return "projects/" + r.Project + "/" + scope + "/" + collection + "/" + r.Name
}

// Apply makes what was planned and returns what exists then, which it keeps as
// the environment's inventory. When ctx ends, Terraform is interrupted and may
// take minutes to stop in good order; the error is then an *InterruptedError.
func (p *Platform) Apply(ctx context.Context, plan *Plan) (*environment.Inventory, error) {
	t := plan.terraform
	if err := p.writeSettings(plan.settings); err != nil {
		return nil, err
	}
	if !plan.Empty() || plan.outputs {
		if err := p.applyPlan(ctx, t, plan); err != nil {
			return nil, err
		}
	}
	if plan.mayMove() {
		// A machine that was started again has another address than before.
		if err := t.tf.Refresh(ctx, tfexec.VarFile(appliedFile)); err != nil {
			if canceled(ctx, err) {
				return nil, &InterruptedError{Stage: StageApply}
			}
			return nil, &TerraformError{Command: "refresh", Err: err}
		}
	}
	inventory, err := p.readInventory(ctx, t, plan)
	if err != nil {
		return nil, err
	}
	return inventory, inventory.Write(p.inventoryFile())
}

// mayMove reports whether a machine is changed where it stands.
func (p *Plan) mayMove() bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool {
		return c.Kind == kindMachine && (c.Action == Update || c.Action == Adopt)
	})
}

func (p *Platform) applyPlan(ctx context.Context, t *terraform, plan *Plan) error {
	names := map[string]string{}
	for _, c := range plan.Changes {
		names[c.address] = c.Name
	}
	log := &jsonLog{report: p.report, stage: StageApply, total: len(plan.Changes), nameOf: nameIn(names)}
	p.report(Event{Stage: StageApply, Phase: Started, Total: log.total})
	err := t.tf.ApplyJSON(ctx, log, tfexec.DirOrPlan(planFile), tfexec.Parallelism(parallelism))
	// It would be taken for a plan that can still be applied.
	_ = os.Remove(filepath.Join(p.workDir(), planFile))
	if err == nil {
		p.report(Event{Stage: StageApply, Phase: Done, Done: log.total, Total: log.total})
		return nil
	}
	if canceled(ctx, err) {
		return &InterruptedError{Stage: StageApply, Unfinished: log.unfinished()}
	}
	failure := p.explainLock(ctx, t, log.failure("apply", err, ""))
	if isStockout(failure.Error()) {
		p.noteExhausted(failure.Error())
	}
	return failure
}

// nameIn looks names up by address, and makes do with the address.
func nameIn(names map[string]string) func(string) string {
	return func(address string) string {
		if name := names[address]; name != "" {
			return name
		}
		return address
	}
}

// readInventory makes the inventory of Terraform's output.
func (p *Platform) readInventory(ctx context.Context, t *terraform, plan *Plan) (*environment.Inventory, error) {
	outputs, err := t.tf.Output(ctx)
	if err != nil {
		if canceled(ctx, err) {
			return nil, &InterruptedError{Stage: StageApply}
		}
		return nil, &TerraformError{Command: "output", Err: err}
	}
	inventory := &environment.Inventory{
		Environment: p.o.Environment, Platform: environment.GCP, Files: plan.spec.Files,
		SSH: &environment.SSH{User: plan.login.user, KeyFile: plan.login.keyFile, KnownHosts: "known_hosts"},
		PMM: plan.spec.Cloud.PMM,
	}
	if err := json.Unmarshal(outputs["inventory"].Value, &inventory.Machines); err != nil {
		return nil, fmt.Errorf("read terraform's output inventory: %w", err)
	}
	addDisks(inventory.Machines, plan.spec.Machines)
	for _, d := range plan.spec.Deployments {
		state := environment.DeploymentState{Deployment: d}
		for _, m := range d.Members {
			state.Endpoints = append(state.Endpoints, environment.MemberState{Name: m.Name, Role: m.Role, Host: m.Name, Port: databasePort})
		}
		inventory.Deployments = append(inventory.Deployments, state)
	}
	return inventory, nil
}

// addDisks describes the machines' disks, of which Terraform's output says only
// that they are there: they have just been made as the spec says.
func addDisks(machines []environment.MachineState, asked []environment.Machine) {
	for i := range machines {
		m := &machines[i]
		if k := slices.IndexFunc(asked, func(a environment.Machine) bool { return a.Name == m.Name }); k >= 0 && m.Disk {
			m.DiskType, m.DiskGB = asked[k].DiskType, asked[k].DiskGB
		}
	}
}

// databasePort is the one that terraform/gcp opens inside the network.
const databasePort = 27017
