package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
	"github.com/mongo-sandbox/sandbox/internal/local"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

type planOptions struct {
	environment environmentOptions
	mongodDir   string
	json        bool
}

// planOutput is what `plan` says, and with --json its form.
type planOutput struct {
	SchemaVersion int `json:"schema_version"`
	*environment.Spec
	// Engine is set on the local platform: "mongod", or "embedded" when the
	// embedded engine serves at least one deployment.
	Engine  string                 `json:"engine,omitempty"`
	Serving []local.DeploymentPlan `json:"serving,omitempty"`
	// Estimate is what the environment costs, on the gcp platform.
	Estimate *estimateOutput       `json:"estimate,omitempty"`
	Warnings []environment.Problem `json:"warnings"`
}

func newPlan(a *app) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan -var-file FILE",
		Short: "Show what would be created; create nothing",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runPlan(cmd.Context(), a, o) },
	}
	o.environment.addDescription(cmd)
	addMongodDir(cmd, &o.mongodDir)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func addMongodDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "mongod-dir", "", "`folder` of real servers, DIR/<version>/bin/mongod (local platform)")
}

func runPlan(ctx context.Context, a *app, o *planOptions) error {
	spec, warnings, err := o.environment.load(a)
	if err != nil {
		if o.json {
			return problemsAsJSON(a, err)
		}
		return err
	}
	out := planOutput{SchemaVersion: 1, Spec: spec, Warnings: warnings.Warnings()}
	if spec.Platform == environment.Local {
		if out.Serving, err = a.platform(spec.Name, o.mongodDir, nil).Plan(ctx, spec); err != nil {
			return err
		}
		out.Engine = engineOf(out.Serving, func(d local.DeploymentPlan) string { return d.Engine })
	}
	if spec.Platform == environment.GCP {
		out.Estimate = newEstimate(gcp.EstimateOf(spec))
	}
	if o.json {
		return a.printJSON(out)
	}
	showWarnings(a, warnings)
	printPlan(a, out)
	return nil
}

func printPlan(a *app, out planOutput) {
	c := a.console
	c.Printf("Environment %s on platform %s\n\n", out.Name, out.Platform)
	t := a.newTable("deployment", "distribution", "version", "members", "hosts")
	for _, d := range out.Deployments {
		t.AppendRow(table.Row{d.Name, d.Distribution, versionOf(d), memberCount(d), hostNames(d)})
	}
	t.Render()
	if len(out.Machines) > 0 {
		c.Printf("\nMachines\n\n")
		t := a.newTable("machine", "role", "type", "zone", "disk")
		for _, m := range out.Machines {
			t.AppendRow(table.Row{m.Name, m.Role, m.Type, m.Zone, disk(m)})
		}
		t.Render()
	}
	if len(out.Serving) > 0 {
		c.Printf("\nServed by\n\n")
		t := a.newTable("deployment", "engine", "requested", "actual", "why")
		for _, s := range out.Serving {
			t.AppendRow(table.Row{s.Name, s.Engine, orDash(s.RequestedVersion), orDash(s.ActualVersion), s.Reason})
		}
		t.Render()
	}
	if out.Estimate != nil {
		printEstimate(a, out.Estimate)
	}
	printSettings(a, "Settings", out.Settings)
	printSettings(a, "Not applied on platform "+string(out.Platform), out.NotApplied)
	if out.Engine == record.EngineEmbedded {
		c.Printf("\nNOTE: %s.\n", embeddedNotice)
	}
}

func printSettings(a *app, title string, settings []environment.Setting) {
	if len(settings) == 0 {
		return
	}
	a.console.Printf("\n%s\n\n", title)
	t := a.newTable("setting", "value", "")
	for _, s := range settings {
		t.AppendRow(table.Row{s.Name, oneLine(s.Value), s.Reason})
	}
	t.Render()
}

func versionOf(d environment.Deployment) string {
	if d.Version == "" {
		return d.Series + " (newest)"
	}
	return d.Version
}

func memberCount(d environment.Deployment) string {
	var data, arbiters int
	for _, m := range d.Members {
		if m.Role == environment.Arbiter {
			arbiters++
		} else {
			data++
		}
	}
	if arbiters == 0 {
		return plural(data, "data")
	}
	return plural(data, "data") + " + " + plural(arbiters, "arbiter")
}

func hostNames(d environment.Deployment) string {
	names := make([]string, len(d.Members))
	for i, m := range d.Members {
		names[i] = m.Name
	}
	return strings.Join(names, " ")
}
