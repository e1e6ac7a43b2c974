package cli

import (
	"context"
	"errors"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

type statusOptions struct {
	environment environmentOptions
	showSecrets bool
	json        bool
}

// statusOutput is what `status` says, and with --json its form.
type statusOutput struct {
	SchemaVersion int `json:"schema_version"`
	*environment.Status
	Engine string `json:"engine"`
	// ConnectionStrings by deployment, the password hidden unless asked for.
	ConnectionStrings map[string]string `json:"connection_strings"`
}

func newStatus(a *app) *cobra.Command {
	o := &statusOptions{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show members, their states and versions, and connection strings",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runStatus(cmd.Context(), a, o) },
	}
	o.environment.addName(cmd)
	cmd.Flags().BoolVar(&o.showSecrets, "show-secrets", false, "show passwords in connection strings")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

var errUnhealthy = errors.New("the environment is not healthy")

func runStatus(ctx context.Context, a *app, o *statusOptions) error {
	name, err := o.environment.existingName(ctx, a)
	if err != nil {
		return err
	}
	if a.platformOf(name) == environment.GCP {
		return statusCloud(ctx, a, o, name)
	}
	platform := a.platform(name, "", nil)
	inventory, err := platform.Inventory()
	if err != nil {
		return notUp(name, err)
	}
	status, err := platform.Status(ctx)
	if err != nil {
		return err
	}
	password, err := platform.Password()
	if err != nil {
		return err
	}
	out := statusOutput{SchemaVersion: 1, Status: status, ConnectionStrings: map[string]string{},
		Engine: engineOf(status.Deployments, func(d environment.DeploymentStatus) string { return d.Engine })}
	for _, d := range inventory.Deployments {
		out.ConnectionStrings[d.Name] = connectionString(d, inventory.Username, password, o.showSecrets)
	}
	if o.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		printStatus(a, inventory, out)
	}
	if !status.Healthy {
		return fail(exitTarget, errUnhealthy, "`sandbox up` again repairs it")
	}
	return nil
}

func connectionString(d environment.DeploymentState, user string, password secret.Text, show bool) string {
	if show {
		return d.URIWithPassword(user, password).Reveal()
	}
	return d.DisplayURI(user)
}

func printStatus(a *app, inventory *environment.Inventory, out statusOutput) {
	c := a.console
	c.Printf("Environment %s on platform %s\n\n", out.Environment, inventory.Platform)
	t := a.newTable("deployment", "member", "state", "address", "pid", "version", "")
	for _, d := range out.Deployments {
		for _, m := range d.Members {
			t.AppendRow(table.Row{d.Name, m.Name, orDash(m.State), address(m), m.PID, orDash(m.Version), oneLine(m.Error)})
		}
	}
	t.Render()
	c.Printf("\n")
	t = a.newTable("deployment", "engine", "requested", "connection string")
	for _, d := range out.Deployments {
		t.AppendRow(table.Row{d.Name, d.Engine, orDash(d.RequestedVersion), out.ConnectionStrings[d.Name]})
	}
	t.Render()
	if out.Engine == record.EngineEmbedded {
		c.Printf("\nNOTE: %s.\n", embeddedNotice)
	}
}
