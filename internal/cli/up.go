package cli

import (
	"context"
	"errors"
	"fmt"
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
	cloud       cloudOptions
	ttl         time.Duration
	mongodDir   string
	json        bool
	// dial connects to the machines of an environment that has some; nil is
	// the environment's own way.
	dial dialer
}

func newUp(a *app) *cobra.Command { return upCommand(a, &upOptions{}) }

func upCommand(a *app, o *upOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "up -var-file FILE",
		Short: "Create the environment, or repair it; ends when every deployment is healthy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("ttl") {
				if o.ttl < 0 {
					return usagef("--ttl %s: an environment cannot live for less than no time", o.ttl)
				}
				if o.ttl == 0 {
					o.ttl = forEver
				}
			}
			return runUp(cmd.Context(), a, o)
		},
	}
	o.environment.addDescription(cmd)
	addMongodDir(cmd, &o.mongodDir)
	o.cloud.add(cmd)
	cmd.Flags().DurationVar(&o.ttl, "ttl", 0, "how `long` the environment is meant to live, from when it was made, such as 8h: `sandbox sweep` finds it afterwards (0: for ever; default: as said before, else for ever)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the inventory as JSON")
	return cmd
}

// forEver is --ttl 0, which is something else than no --ttl: that leaves the
// time to live as it is.
const forEver time.Duration = -1

func runUp(ctx context.Context, a *app, o *upOptions) error {
	spec, warnings, err := o.environment.load(a)
	if err != nil {
		return err
	}
	showWarnings(a, warnings)
	if len(spec.NotApplied) > 0 {
		names := make([]string, len(spec.NotApplied))
		for i, s := range spec.NotApplied {
			names[i] = s.Name
		}
		a.console.Notef("not applied on platform %s (`sandbox plan` says why): %s", spec.Platform, strings.Join(names, ", "))
	}
	if exists := a.platformOf(spec.Name); exists != "" && exists != spec.Platform {
		return fail(exitUsage, fmt.Errorf("there is an environment %s on platform %s", spec.Name, exists), "`sandbox down` first, or give this one a name with --env")
	}
	if spec.Platform == environment.GCP {
		return upCloud(ctx, a, o, spec)
	}
	started := time.Now()
	progress := newDeploymentProgress(a.console.NewProgress(), spec)
	inventory, err := a.platform(spec.Name, o.mongodDir, progress.event).Up(ctx, spec)
	progress.close()
	if errors.Is(err, local.ErrBusy) {
		return fail(exitUsage, err, "wait for its end, or interrupt it and go on later with `sandbox bench --resume`")
	}
	if errors.Is(err, local.ErrWorking) {
		return fail(exitUsage, err, "wait for its end")
	}
	if errors.Is(err, local.ErrChanged) {
		return fail(exitUsage, err, "`sandbox down` first, then `sandbox up`")
	}
	if err != nil {
		return fail(upCode(err), err, "`sandbox up` again goes on from here; `sandbox down` removes what there is")
	}
	var form any
	if o.json {
		form = inventory
	}
	return showUp(a, inventory, time.Since(started), form)
}

// showUp prints what exists and how to connect to it, or form as JSON if there
// is one.
func showUp(a *app, inventory *environment.Inventory, took time.Duration, form any) error {
	if engineOf(inventory.Deployments, func(d environment.DeploymentState) string { return d.Engine }) == record.EngineEmbedded {
		a.console.Notef("NOTE: %s", embeddedNotice)
	}
	a.console.Notef("up in %s", console.Duration(took))
	if form != nil {
		return a.printJSON(form)
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
