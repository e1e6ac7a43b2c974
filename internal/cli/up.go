package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/local"
	"github.com/mongo-sandbox/sandbox/internal/record"
)

type upOptions struct {
	environment environmentOptions
	mongodDir   string
	json        bool
}

func newUp(a *app) *cobra.Command {
	o := &upOptions{}
	cmd := &cobra.Command{
		Use:   "up -var-file FILE",
		Short: "Create the environment, or repair it; ends when every deployment is healthy",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runUp(cmd.Context(), a, o) },
	}
	o.environment.addDescription(cmd)
	addMongodDir(cmd, &o.mongodDir)
	cmd.Flags().Bool("auto-approve", false, "do not ask before anything that costs money (the local platform costs none)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the inventory as JSON")
	return cmd
}

func runUp(ctx context.Context, a *app, o *upOptions) error {
	spec, warnings, err := o.environment.load(a)
	if err != nil {
		return err
	}
	showWarnings(a, warnings)
	if err := needLocal(spec.Platform); err != nil {
		return err
	}
	if len(spec.NotApplied) > 0 {
		names := make([]string, len(spec.NotApplied))
		for i, s := range spec.NotApplied {
			names[i] = s.Name
		}
		a.console.Notef("not applied on platform %s (`sandbox plan` says why): %s", spec.Platform, strings.Join(names, ", "))
	}
	started := time.Now()
	progress := newDeploymentProgress(a.console.NewProgress(), spec)
	inventory, err := a.platform(spec.Name, o.mongodDir, progress.event).Up(ctx, spec)
	progress.close()
	if errors.Is(err, local.ErrChanged) {
		return fail(exitUsage, err, "`sandbox down` first, then `sandbox up`")
	}
	if err != nil {
		return fail(upCode(err), err, "`sandbox up` again goes on from here; `sandbox down` removes what there is")
	}
	if engineOf(inventory.Deployments, func(d environment.DeploymentState) string { return d.Engine }) == record.EngineEmbedded {
		a.console.Notef("NOTE: %s", embeddedNotice)
	}
	a.console.Notef("up in %s", console.Duration(time.Since(started)))
	if o.json {
		return a.printJSON(inventory)
	}
	t := a.newTable("deployment", "engine", "requested", "actual", "connection string")
	for _, d := range inventory.Deployments {
		t.AppendRow(table.Row{d.Name, d.Engine, orDash(d.Version), d.ActualVersion, d.DisplayURI(inventory.Username)})
	}
	t.Render()
	return nil
}

// upCode tells servers that did not become healthy from everything that went
// wrong before there were any.
func upCode(err error) int {
	var deployment *local.DeploymentError
	if errors.As(err, &deployment) {
		return exitTarget
	}
	return exitCode(err)
}
