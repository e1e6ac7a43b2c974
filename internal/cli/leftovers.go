package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
)

// removeLeftovers removes, after asking, what the API lists of an environment,
// and returns what it lists afterwards. What belongs to somebody else is a
// question of its own, which --auto-approve does not answer. Why says what
// they are.
func removeLeftovers(ctx context.Context, a *app, o *downOptions, name, project string, removed gcp.Removed, why string) ([]gcp.Resource, error) {
	const again = "`sandbox down` again goes on from here"
	platform := a.cloud(name, o.cloud, 0, project, nil)
	left, err := platform.Leftovers(ctx)
	if err != nil || len(left) == 0 {
		return nil, cloudError(err, again)
	}
	showResources(a, left)
	ours, theirs, others, err := platform.Split(left)
	if err != nil {
		return nil, cloudError(err, again)
	}
	remove := func(resources []gcp.Resource) error {
		progress := newStepProgress(a.console)
		over := a.risk.of(func() string { return removalRisk(name, project, progress.unfinished()) })
		err := a.cloud(name, o.cloud, 0, project, progress.resource).Remove(ctx, resources)
		over()
		progress.close()
		if err != nil {
			return cloudError(err, again)
		}
		for _, r := range resources {
			removed[r.Kind]++
		}
		return nil
	}
	if len(ours) > 0 {
		meant := ""
		if len(theirs) > 0 {
			meant = " of " + ours[0].Owner()
		}
		if err := approve(a.console, o.cloud.autoApprove, fmt.Sprintf("%s Remove all %d%s?", why, len(ours), meant)); err != nil {
			return nil, err
		}
		if err := remove(ours); err != nil {
			return nil, err
		}
	}
	if len(theirs) > 0 {
		owners := strings.Join(others, " and ")
		if o.cloud.autoApprove || !a.console.InTerminal {
			return nil, fail(exitUsage, fmt.Errorf("%s of that name may be those of %s and were left alone", plural(len(theirs), "resource"), owners), "add --owner "+others[0]+" if they are yours as well, or leave them to "+owners)
		}
		if err := approve(a.console, false, fmt.Sprintf("The environment of that name belongs to %s. Remove its %s all the same?", owners, plural(len(theirs), "resource"))); err != nil {
			return nil, err
		}
		if err := remove(theirs); err != nil {
			return nil, err
		}
	}
	left, err = platform.Leftovers(ctx)
	return left, cloudError(err, again)
}

// showResources lists what exists in the cloud, as progress.
func showResources(a *app, resources []gcp.Resource) {
	t := a.newTable("kind", "name", "where", "what", "owner")
	t.SetOutputMirror(a.console.Err)
	for _, r := range resources {
		t.AppendRow(table.Row{r.Kind, r.Name, r.Location, r.What, orDash(r.Owner())})
	}
	t.Render()
}

// showNotWanted lists what exists and is neither known to Terraform nor wanted
// any more, which up leaves alone.
func showNotWanted(a *app, resources []gcp.Resource) {
	if len(resources) == 0 {
		return
	}
	a.console.Notef("\nNot wanted any more, and left alone; `sandbox down` removes it with all the rest:\n")
	showResources(a, resources)
}

// upOutput is the form in JSON of what `up` made in the cloud.
type upOutput struct {
	*environment.Inventory
	// NotWanted exists beside it, costs money, and was left alone.
	NotWanted []notWanted `json:"not_wanted"`
}

type notWanted struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Location string `json:"location"` // zone, region or "global"
}

func newUpOutput(inventory *environment.Inventory, unknown []gcp.Resource) upOutput {
	out := upOutput{Inventory: inventory, NotWanted: []notWanted{}}
	for _, r := range unknown {
		out.NotWanted = append(out.NotWanted, notWanted{r.Kind, r.Name, r.Location})
	}
	return out
}
