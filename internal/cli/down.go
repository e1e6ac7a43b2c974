package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
	"github.com/mongo-sandbox/sandbox/internal/local"
)

type downOptions struct {
	environment environmentOptions
	cloud       cloudOptions
	project     string
	json        bool
}

func newDown(a *app) *cobra.Command {
	o := &downOptions{}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Remove the environment and prove it; run records stay",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runDown(cmd.Context(), a, o) },
	}
	o.environment.addName(cmd)
	o.cloud.add(cmd)
	cmd.Flags().StringVar(&o.project, "project", "", "Google Cloud `project` to look in for an environment whose state is lost")
	cmd.Flags().BoolVar(&o.json, "json", false, "print what was removed as JSON")
	return cmd
}

func runDown(ctx context.Context, a *app, o *downOptions) error {
	name, err := o.environment.existingName(ctx, a)
	if errors.Is(err, errNoEnvironment) {
		a.console.Notef("there is no environment in this directory: nothing to remove")
		return nil
	}
	if err != nil {
		return err
	}
	if a.platformOf(name) == environment.GCP || o.project != "" {
		return downCloud(ctx, a, o, name, o.project)
	}
	here := a.platformOf(name) != ""
	removed, err := a.platform(name, "", nil).Down(ctx)
	if errors.Is(err, local.ErrWorking) {
		return fail(exitUsage, err, "wait for its end")
	}
	if err != nil {
		return fail(exitCode(err), err, "`sandbox down` again goes on from here")
	}
	if !here && removed.Nothing() {
		// Its state may be lost, or in another directory.
		if gcp.NamesProject(a.environ) {
			return downCloud(ctx, a, o, name, "")
		}
		a.console.Notef("Google Cloud was not asked for %s: name a project with --project, or set GOOGLE_PROJECT, should it be there", name)
	}
	if o.json {
		return a.printJSON(removed)
	}
	c := a.console
	for _, left := range removed.LeftAlone {
		c.Notef("left alone: %s", left)
	}
	switch {
	case removed.Folder != "":
		c.Printf("%s: ended %s, removed %s; nothing is left\n", name, processes(len(removed.Ended)), a.relative(removed.Folder))
	case len(removed.Ended) > 0:
		c.Printf("%s: ended %s, whose state folder was gone; nothing is left\n", name, processes(len(removed.Ended)))
	default:
		c.Printf("%s: nothing to remove\n", name)
	}
	return nil
}
