package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/gcp"
)

type sweepOptions struct {
	project string
	all     bool
	remove  bool
	cloud   cloudOptions
	json    bool
}

// sweptEnvironment is one environment that a project has, and in JSON its
// form.
type sweptEnvironment struct {
	Environment string         `json:"environment"`
	Project     string         `json:"project"`
	Owner       string         `json:"owner"`
	Created     *time.Time     `json:"created"`
	Expires     *time.Time     `json:"expires"` // null: it has no time to live
	Expired     bool           `json:"expired"`
	Resources   map[string]int `json:"resources"` // by kind
}

func newSweep(a *app) *cobra.Command {
	o := &sweepOptions{}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Find environments in a Google Cloud project that are past their time to live",
		Long: `Finds environments by the labels on their resources, whoever made them and
wherever their state is. What is past its --ttl is listed, and removed with
--remove, after asking.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSweep(cmd.Context(), a, o) },
	}
	cmd.Flags().StringVar(&o.project, "project", "", "`project` to look in (default: the one that the Google credentials name)")
	cmd.Flags().BoolVar(&o.all, "all", false, "list those that are not past their time to live as well; they are never removed")
	cmd.Flags().BoolVar(&o.remove, "remove", false, "remove what is past its time to live")
	cmd.Flags().BoolVar(&o.cloud.autoApprove, "auto-approve", false, "do not ask before removing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runSweep(ctx context.Context, a *app, o *sweepOptions) error {
	now := a.now()
	found, err := gcp.Sweep(ctx, gcp.SweepOptions{Project: o.project, Environ: a.environ, Now: now, All: o.all})
	if err != nil {
		return cloudError(err, "")
	}
	swept := make([]sweptEnvironment, len(found))
	for i, e := range found {
		swept[i] = sweptEnvironment{
			Environment: e.Environment, Project: e.Project, Owner: e.Owner, Created: orNil(e.Created), Expires: orNil(e.Expires),
			Expired: e.Expired(now), Resources: map[string]int{},
		}
		for _, r := range e.Resources {
			swept[i].Resources[r.Kind]++
		}
	}
	if o.json {
		if err := a.printJSON(map[string]any{"schema_version": 1, "environments": swept}); err != nil {
			return err
		}
	} else {
		printSwept(a, swept)
	}
	if !o.remove {
		return nil
	}
	found = slices.DeleteFunc(found, func(e gcp.Expired) bool { return !e.Expired(now) })
	var failures []error
	var kept []string // in spite of having been tried
	for i, e := range found {
		showResources(a, e.Resources)
		if err := approve(a.console, o.cloud.autoApprove, fmt.Sprintf("Remove the environment %s of %s?", e.Environment, e.Owner)); err != nil {
			if errors.Is(err, errDeclined) {
				continue
			}
			return err
		}
		progress := newStepProgress(a.console)
		left := slices.Clone(kept)
		for _, e := range found[i:] {
			left = append(left, e.Environment)
		}
		over := a.risk.of(func() string { return sweepRisk(left, e.Project, progress.unfinished()) })
		err := a.cloud(e.Environment, o.cloud, 0, e.Project, progress.resource).Remove(ctx, e.Resources)
		over()
		progress.close()
		if err != nil {
			failures, kept = append(failures, err), append(kept, e.Environment)
		}
	}
	return cloudError(errors.Join(failures...), "`sandbox sweep --remove` again goes on from here")
}

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func printSwept(a *app, swept []sweptEnvironment) {
	if len(swept) == 0 {
		a.console.Notef("no environment is past its time to live")
		return
	}
	day := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.UTC().Format("2006-01-02 15:04")
	}
	t := a.newTable("environment", "project", "owner", "created (UTC)", "expires (UTC)", "resources")
	for _, e := range swept {
		total := 0
		for _, n := range e.Resources {
			total += n
		}
		t.AppendRow(table.Row{e.Environment, e.Project, orDash(e.Owner), day(e.Created), day(e.Expires), total})
	}
	t.Render()
}
