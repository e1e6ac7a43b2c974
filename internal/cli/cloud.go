package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
	"github.com/mongo-sandbox/sandbox/internal/install"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

// cloudOptions are the flags of commands that change something in the cloud.
type cloudOptions struct {
	terraformBin string
	autoApprove  bool
	owner        string
}

func (o *cloudOptions) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.terraformBin, "terraform-bin", "", "`program` to run: OpenTofu or Terraform (default: tofu, else terraform, from PATH)")
	cmd.Flags().BoolVar(&o.autoApprove, "auto-approve", false, "do not ask before what costs money or removes something")
	cmd.Flags().StringVar(&o.owner, "owner", "", "`name` of whom the environment belongs to, as a label in the cloud (default: as before, else the user of this machine)")
}

// stateDir is the folder of an environment's state.
func (a *app) stateDir(name string) string { return filepath.Join(a.stateRoot(), name) }

// cloud opens the gcp platform's state of an environment. The project counts
// where the state names none.
func (a *app) cloud(name string, o cloudOptions, ttl time.Duration, project string, progress func(gcp.Event)) *gcp.Platform {
	me := ""
	if u, err := user.Current(); err == nil {
		me = u.Username
	}
	return gcp.New(gcp.Options{
		Dir: a.stateDir(name), Environment: name, TerraformBin: o.terraformBin, Owner: o.owner, User: me, TTL: ttl,
		Project: project, Environ: a.environ, Progress: progress, Now: a.now,
	})
}

// dial connects to a machine of an environment.
func (a *app) dial(inventory *environment.Inventory) dialer {
	return func(ctx context.Context, machine string) (*remote.Conn, error) {
		return install.Dial(ctx, inventory, a.stateDir(inventory.Environment), machine)
	}
}

// writeSSHConfig puts an ssh_config into the environment's folder, with every
// machine under its name and, where that is longer, its name without the
// environment's prefix.
func (a *app) writeSSHConfig(inventory *environment.Inventory, prefix string) error {
	dir := a.stateDir(inventory.Environment)
	inDir := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	config := remote.Config{IdentityFile: inDir(inventory.SSH.KeyFile), KnownHosts: inDir(inventory.SSH.KnownHosts)}
	for _, m := range inventory.Machines {
		target, err := install.Target(inventory, m.Name)
		if err != nil {
			return err
		}
		host := remote.ConfigHost{Names: []string{m.Name}, Machine: target, Comment: strings.TrimSpace(m.Role + " " + m.Deployment)}
		if short, cut := strings.CutPrefix(m.Name, prefix+"-"); cut && prefix != "" {
			host.Names = append(host.Names, short)
		}
		if pmm := inventory.PMM; pmm != nil && pmm.Machine == m.Name {
			host.Forwards = []remote.ConfigForward{{
				Listen: fmt.Sprintf("127.0.0.1:%d", pmm.ForwardPort), Target: fmt.Sprintf("127.0.0.1:%d", pmm.Port),
			}}
			host.Comment += fmt.Sprintf("; while you are logged in, PMM is at https://127.0.0.1:%d", pmm.ForwardPort)
		}
		config.Hosts = append(config.Hosts, host)
	}
	return config.Write(filepath.Join(dir, sshConfigName))
}

const sshConfigName = "ssh_config"

// cloudError gives what the cloud, SSH and the servers refuse their exit
// codes.
func cloudError(err error, hint string) error {
	var (
		problem    *gcp.Problem
		problems   gcp.Problems
		terraform  *gcp.TerraformError
		deployment *install.DeploymentError
		version    *install.VersionError
		machine    *install.MachineError
		ssh        *remote.Error
	)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fail(exitInterrupted, err, hint)
	case errors.As(err, &problem), errors.As(err, &problems), errors.As(err, &terraform):
		return fail(exitCloud, err, hint)
	case errors.As(err, &version):
		return fail(exitUsage, err, "set mongo_version to one of those, then `sandbox up` again")
	case errors.As(err, &machine), errors.As(err, &ssh):
		return fail(exitRemote, err, hint)
	case errors.As(err, &deployment):
		return fail(exitTarget, err, hint)
	}
	return fail(exitCode(err), err, hint)
}

// stepProgress shows one line per named thing that is being worked on.
type stepProgress struct {
	progress *console.Progress

	mu        sync.Mutex
	tasks     map[string]*console.Task
	began     map[string]time.Time
	over      map[string]bool
	resources []string // the tasks that are things in the cloud, as they began
}

func newStepProgress(c *console.Console) *stepProgress {
	return &stepProgress{progress: c.NewProgress(), tasks: map[string]*console.Task{}, began: map[string]time.Time{}, over: map[string]bool{}}
}

// task is the line of name, which a step after its end begins anew.
func (s *stepProgress) task(name string) *console.Task {
	if s.tasks[name] == nil || s.over[name] {
		s.tasks[name], s.began[name], s.over[name] = s.progress.Task(name), time.Now(), false
	}
	return s.tasks[name]
}

func (s *stepProgress) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, task := range s.tasks {
		if !s.over[name] {
			task.Fail("not finished")
		}
	}
	s.progress.Close()
}

// resource shows what happens in the cloud.
func (s *stepProgress) resource(e gcp.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := "terraform " + string(e.Stage)
	if e.Stage == gcp.StageRemove {
		name = "remove"
	}
	if e.Name != "" {
		name = e.Kind + " " + e.Name
		if !slices.Contains(s.resources, name) {
			s.resources = append(s.resources, name)
		}
	}
	if s.tasks[name] != nil && s.over[name] && e.Phase != gcp.Started {
		return
	}
	task := s.task(name)
	switch e.Phase {
	case gcp.Done:
		s.over[name] = true
		text := doneText(e.Action)
		if e.Elapsed > 0 {
			text += " in " + console.Duration(e.Elapsed)
		}
		task.Done(text)
	case gcp.Failed:
		s.over[name] = true
		task.Fail("failed")
	default:
		task.Update(console.State{Done: int64(e.Done), Total: int64(e.Total), Detail: workingText(e.Action)})
	}
}

// unfinished are the things in the cloud that were begun and are not done.
func (s *stepProgress) unfinished() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.resources), func(name string) bool { return s.over[name] })
}

func doneText(action gcp.Action) string {
	switch action {
	case gcp.Create:
		return "created"
	case gcp.Adopt:
		return "adopted"
	case gcp.Update:
		return "updated"
	case gcp.Replace:
		return "made anew"
	case gcp.Delete:
		return "removed"
	}
	return "done"
}

func workingText(action gcp.Action) string {
	switch action {
	case gcp.Create, gcp.Replace:
		return "being created"
	case gcp.Adopt:
		return "being adopted"
	case gcp.Update:
		return "being updated"
	case gcp.Delete:
		return "being removed"
	}
	return "working"
}

// machine shows what happens on machines and to deployments.
func (s *stepProgress) machine(e install.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := e.Machine
	if name == "" {
		name = "deployment " + e.Deployment
	}
	task := s.task(name)
	detail := strings.TrimSpace(string(e.Stage) + " " + e.Detail)
	switch e.Stage {
	case install.Installed, install.Healthy:
		s.over[name] = true
		task.Done(detail + " in " + console.Duration(time.Since(s.began[name])))
	case install.Failed:
		s.over[name] = true
		task.Fail(e.Err.Error())
	default:
		task.Update(console.State{Detail: detail})
	}
}

// estimateOutput is what an environment costs, and in JSON its form.
type estimateOutput struct {
	Region       string       `json:"region"`
	Spot         bool         `json:"spot"`
	PricesOf     string       `json:"prices_of"` // the day of the price table
	PricesFrom   string       `json:"prices_from"`
	USDPerHour   float64      `json:"usd_per_hour"` // of what has a known price
	UpperBound   bool         `json:"upper_bound"`  // of it: some of the costs are
	UnknownPrice []string     `json:"unknown_price"`
	Costs        []costOutput `json:"costs"`
}

type costOutput struct {
	Kind       string   `json:"kind"`
	What       string   `json:"what"`
	For        string   `json:"for,omitempty"`
	Count      int      `json:"count"`
	USDPerHour *float64 `json:"usd_per_hour"` // of all of them; null when unknown
	// UpperBound: spot machines, which are counted at the price of standard
	// ones and cost that at most.
	UpperBound bool `json:"upper_bound"`
}

func newEstimate(e gcp.Estimate) *estimateOutput {
	out := &estimateOutput{
		Region: e.Region, Spot: e.Spot, PricesOf: e.Date, PricesFrom: e.Source, USDPerHour: e.Hourly, UnknownPrice: append([]string{}, e.Unknown...),
	}
	for _, c := range e.Costs {
		row := costOutput{Kind: c.Kind, What: c.What, For: c.For, Count: len(c.Names), UpperBound: c.UpperBound}
		out.UpperBound = out.UpperBound || c.UpperBound
		if price := c.Hourly(); price.Known {
			row.USDPerHour = &price.USD
		}
		out.Costs = append(out.Costs, row)
	}
	return out
}

func printEstimate(a *app, e *estimateOutput) {
	c := a.console
	c.Printf("\nEstimated price\n\n")
	t := a.newTable("count", "kind", "what", "for", "USD per hour")
	for _, row := range e.Costs {
		price := "unknown"
		if row.USDPerHour != nil {
			price = fmt.Sprintf("%.3f", *row.USDPerHour)
		}
		if row.UpperBound {
			price = "at most " + price
		}
		t.AppendRow(table.Row{row.Count, row.Kind, row.What, row.For, price})
	}
	t.Render()
	c.Printf("\n%s\n", priceText(e))
}

// priceText is the sum and what it is worth.
func priceText(e *estimateOutput) string {
	text, about := "", "About"
	if e.UpperBound {
		if len(e.UnknownPrice) == 0 {
			about = "At most about"
		}
		text = " Spot machines are counted at the price of standard ones; they cost less, by how much changes."
	}
	text = fmt.Sprintf("%s %.2f USD per hour in %s by list prices of %s, without traffic and taxes.", about, e.USDPerHour, e.Region, e.PricesOf) + text
	if len(e.UnknownPrice) > 0 {
		text += fmt.Sprintf(" Not counted, for want of a price: %s.", strings.Join(e.UnknownPrice, ", "))
	}
	return text
}

// upCloud makes or continues an environment on Google Cloud.
func upCloud(ctx context.Context, a *app, o *upOptions, spec *environment.Spec) error {
	const again = "`sandbox up` again goes on from here; `sandbox down` removes what there is"
	c, started := a.console, a.now()
	asked, err := a.refuseBusy(ctx, spec.Name, o.dial)
	if err != nil {
		return err
	}
	progress := newStepProgress(c)
	closed := false
	closeProgress := func() {
		if !closed {
			closed = true
			progress.close()
		}
	}
	defer closeProgress()

	platform := a.cloud(spec.Name, o.cloud, o.ttl, spec.Cloud.Project, progress.resource)
	preflight, err := platform.Preflight(ctx, spec)
	if err == nil {
		err = preflight.Err()
	}
	if err != nil {
		return cloudError(err, "")
	}
	plan, err := platform.Plan(ctx, spec, preflight)
	if err != nil {
		return cloudError(err, "")
	}
	closeProgress()
	showNotWanted(a, plan.Unknown)
	if !plan.Empty() {
		showChanges(a, spec, plan)
		if err := approve(c, o.cloud.autoApprove, fmt.Sprintf("Do this in project %s?", preflight.Project)); err != nil {
			return err
		}
	}
	if asked { // the plan, and who approved of it, took their time
		if _, err := a.refuseBusy(ctx, spec.Name, o.dial); err != nil {
			return err
		}
	}
	progress, closed = newStepProgress(c), false
	making := progress
	defer a.risk.of(func() string { return makingRisk(spec.Name, making.unfinished()) })()
	platform = a.cloud(spec.Name, o.cloud, o.ttl, spec.Cloud.Project, progress.resource)
	inventory, err := platform.Apply(ctx, plan)
	closeProgress()
	if err != nil {
		return cloudError(err, again)
	}
	if err := a.writeSSHConfig(inventory, spec.Cloud.Prefix); err != nil {
		return err
	}
	progress, closed = newStepProgress(c), false
	inventory, err = install.Run(ctx, install.Options{Dir: a.stateDir(spec.Name), Spec: spec, Inventory: inventory, Progress: progress.machine})
	closeProgress()
	if inventory != nil {
		if err := inventory.Write(filepath.Join(a.stateDir(spec.Name), inventoryName)); err != nil {
			return err
		}
	}
	if err != nil {
		return cloudError(err, again)
	}
	var form any
	if o.json {
		form = newUpOutput(inventory, plan.Unknown)
	}
	return showUp(a, inventory, a.now().Sub(started), form)
}

const inventoryName = "inventory.json"

// showChanges prints what would be done, and its price, as progress: stdout
// is for what exists in the end.
func showChanges(a *app, spec *environment.Spec, plan *gcp.Plan) {
	c := a.console
	c.Notef("")
	t := a.newTable("", "kind", "name", "what")
	t.SetOutputMirror(c.Err)
	for _, change := range plan.Changes {
		what := change.What
		if len(change.Attributes) > 0 {
			what = strings.TrimSpace(what + " (" + strings.Join(change.Attributes, ", ") + ")")
		}
		t.AppendRow(table.Row{string(change.Action), change.Kind, change.Name, what})
	}
	t.Render()
	c.Notef("")
	var counts []string
	for _, action := range []gcp.Action{gcp.Create, gcp.Adopt, gcp.Update, gcp.Replace, gcp.Delete} {
		if n := plan.Count(action); n > 0 {
			counts = append(counts, fmt.Sprintf("%d to %s", n, action))
		}
	}
	c.Notef("%s. %s", strings.Join(counts, ", "), priceText(newEstimate(gcp.EstimateOf(spec))))
}

var errDeclined = errors.New("not approved: nothing was changed")

// approve asks, unless that has been answered on the command line.
func approve(c *console.Console, already bool, question string) error {
	if already {
		return nil
	}
	yes, err := c.Confirm(question)
	if err != nil {
		return fail(exitUsage, err, "add --auto-approve where nobody can be asked")
	}
	if !yes {
		return fail(exitFailure, errDeclined, "")
	}
	return nil
}

// stopsDown reports whether what could not be destroyed by Terraform is not to
// be removed by other means: the user interrupts, or somebody works on it.
func stopsDown(err error) bool {
	var terraform *gcp.TerraformError
	return errors.Is(err, context.Canceled) || errors.As(err, &terraform) && terraform.Lock != nil && !terraform.Lock.Stale
}

// downCloud removes an environment from Google Cloud, and then whatever else
// bears its name.
func downCloud(ctx context.Context, a *app, o *downOptions, name, project string) error {
	const again = "`sandbox down` again goes on from here"
	c := a.console
	progress := newStepProgress(c)
	platform := a.cloud(name, o.cloud, 0, project, progress.resource)
	if err := a.bringHome(ctx, o, name, platform); err != nil {
		return err
	}
	over := a.risk.of(func() string { return removalRisk(name, project, progress.unfinished()) })
	removed, err := platform.Destroy(ctx)
	over()
	progress.close()
	why := "These bear the environment's name and are not in its state."
	if err != nil {
		if stopsDown(err) {
			return cloudError(err, again)
		}
		// The API can do without Terraform.
		c.Notef("warning: %v", err)
		why = "Terraform could not remove the environment. These bear its name."
	}
	if removed == nil {
		removed = gcp.Removed{}
	}
	left, err := removeLeftovers(ctx, a, o, name, project, removed, why)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		showResources(a, left)
		return fail(exitCloud, fmt.Errorf("%s: %s left", name, plural(len(left), "resource")), again)
	}
	if err := os.RemoveAll(a.stateDir(name)); err != nil {
		return fmt.Errorf("remove the state of %s: %w", name, err)
	}
	_ = os.Remove(a.stateRoot()) // if it was the last
	if o.json {
		return a.printJSON(map[string]any{"schema_version": 1, "environment": name, "removed": removed, "left": []gcp.Resource{}})
	}
	if removed.Total() == 0 {
		c.Printf("%s: nothing to remove; the API lists nothing of it\n", name)
		return nil
	}
	c.Printf("%s: removed %s; the API lists nothing of it any more\n", name, plural(removed.Total(), "resource"))
	return nil
}

// bringHome fetches what an unfinished run has measured on the load host, which
// is about to go.
func (a *app) bringHome(ctx context.Context, o *downOptions, name string, platform *gcp.Platform) error {
	dir, err := record.Newest(a.runsDir(), func(r record.Run) bool {
		return r.Environment == name && r.Platform == string(environment.GCP) && r.Finished == nil
	})
	if errors.Is(err, record.ErrNoRun) {
		return nil
	}
	inventory, inventoryErr := platform.Inventory()
	if errors.Is(inventoryErr, fs.ErrNotExist) {
		return nil // nor is there a load host
	}
	if err = errors.Join(err, inventoryErr); err == nil {
		a.console.Notef("run %s is not finished: stopping it on the load host and bringing home what it measured", filepath.Base(dir))
		var host bench.Remote
		if host, err = a.remoteBench(inventory, a.dial(inventory)); err == nil {
			err = bench.BringHome(ctx, dir, host)
		}
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return err
	}
	a.console.Notef("warning: what an unfinished run has measured on the load host is not here: %v", err)
	return approve(a.console, o.cloud.autoApprove, "Remove the environment, and those measurements with it?")
}
