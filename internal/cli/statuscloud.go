package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/install"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// cloudStatusOutput is what `status` says of machines, and with --json its
// form.
type cloudStatusOutput struct {
	SchemaVersion int `json:"schema_version"`
	*environment.Status
	// ConnectionStrings by deployment, as seen from the machines; the password
	// hidden unless asked for.
	ConnectionStrings map[string]string `json:"connection_strings"`
	SSHConfig         string            `json:"ssh_config"`
}

// cloudInventory reads what is known of an environment's machines.
func (a *app) cloudInventory(name string) (*environment.Inventory, error) {
	inventory, err := environment.ReadInventory(filepath.Join(a.stateDir(name), inventoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitUsage, fmt.Errorf("environment %s is not up: its machines were not all made", name), "`sandbox up -var-file FILE` goes on from here")
	}
	return inventory, err
}

// statusCloud asks the machines and shows what they say.
func statusCloud(ctx context.Context, a *app, o *statusOptions, name string) error {
	inventory, err := a.cloudInventory(name)
	if err != nil {
		return err
	}
	dir := a.stateDir(name)
	status, err := install.Status(ctx, install.StatusOptions{Dir: dir, Inventory: inventory})
	if err != nil {
		return cloudError(err, "")
	}
	out := cloudStatusOutput{SchemaVersion: 1, Status: status, ConnectionStrings: map[string]string{}, SSHConfig: filepath.Join(dir, sshConfigName)}
	password, err := secret.Read(filepath.Join(dir, install.AdminPasswordFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the password: %w", err)
	}
	for _, d := range inventory.Deployments {
		out.ConnectionStrings[d.Name] = connectionString(d, install.AdminUser, password, o.showSecrets && err == nil)
	}
	if o.json {
		if err := a.printJSON(out); err != nil {
			return err
		}
	} else {
		printCloudStatus(a, out)
	}
	if !status.Healthy {
		return fail(exitTarget, errUnhealthy, "`sandbox up` again repairs it")
	}
	return nil
}

func printCloudStatus(a *app, out cloudStatusOutput) {
	c := a.console
	c.Printf("Environment %s on platform %s\n\n", out.Environment, environment.GCP)
	t := a.newTable("machine", "role", "state", "up for", "")
	for _, m := range out.Machines {
		state, up := "unreachable", "-"
		if m.Reachable {
			state, up = orDash(m.Service), console.Duration(time.Duration(m.UptimeS)*time.Second)
		}
		t.AppendRow(table.Row{m.Name, m.Role, state, up, oneLine(m.Error)})
	}
	t.Render()
	c.Printf("\n")
	t = a.newTable("deployment", "member", "state", "version", "")
	for _, d := range out.Deployments {
		for _, m := range d.Members {
			t.AppendRow(table.Row{d.Name, m.Name, orDash(m.State), orDash(m.Version), oneLine(m.Error)})
		}
	}
	t.Render()
	c.Printf("\n")
	t = a.newTable("deployment", "engine", "requested", "connection string (from the machines)")
	for _, d := range out.Deployments {
		t.AppendRow(table.Row{d.Name, d.Engine, orDash(d.RequestedVersion), out.ConnectionStrings[d.Name]})
	}
	t.Render()
	c.Printf("\n`sandbox ssh HOST` logs in; ssh -F %s does the same.\n", a.relative(out.SSHConfig))
}
