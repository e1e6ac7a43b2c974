package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/gcp"
	"github.com/mongo-sandbox/sandbox/internal/local"
)

// environmentOptions are the flags that name or describe an environment.
type environmentOptions struct {
	args     []environment.Arg // -var and -var-file in the order given
	platform string
	name     string
}

// addDescription adds the flags that describe an environment.
func (o *environmentOptions) addDescription(cmd *cobra.Command) {
	o.addName(cmd)
	cmd.Flags().Var(&orderedArg{o, environment.Var}, "var", "set a variable, `name=value`; may be repeated")
	cmd.Flags().StringVar(&o.platform, "platform", "", "where members run: gcp or local (default: the file's platform, else gcp)")
}

// addName adds the flags that name an environment which exists.
func (o *environmentOptions) addName(cmd *cobra.Command) {
	cmd.Flags().Var(&orderedArg{o, environment.VarFile}, "var-file", "variable `file` in Terraform syntax; may be repeated")
	cmd.Flags().StringVar(&o.name, "env", "", "`name` of the environment (default: the first variable file's base name)")
}

// orderedArg is a flag value that keeps -var and -var-file in one list,
// since the later one wins whatever its kind.
type orderedArg struct {
	options *environmentOptions
	kind    environment.ArgKind
}

func (v *orderedArg) String() string { return "" }
func (v *orderedArg) Type() string   { return "string" }
func (v *orderedArg) Set(value string) error {
	v.options.args = append(v.options.args, environment.Arg{Kind: v.kind, Value: value})
	return nil
}

// load reads the variable files into a Spec. The problems are warnings; they
// may be nil.
func (o *environmentOptions) load(a *app) (*environment.Spec, *environment.Problems, error) {
	spec, problems := environment.Load(environment.Options{
		Dir: a.dir, Args: o.args, Environ: a.environ, Platform: o.platform, Name: o.name,
	})
	if err := problems.Err(); err != nil {
		return nil, nil, err
	}
	return spec, problems, nil
}

// showWarnings prints what is doubtful in the files.
func showWarnings(a *app, problems *environment.Problems) {
	if len(problems.Warnings()) > 0 {
		printError(a.console, problems)
	}
}

// problemsAsJSON prints the problems of the files for a script and returns
// the error.
func problemsAsJSON(a *app, err error) error {
	var problems *environment.Problems
	if errors.As(err, &problems) {
		if err := a.printJSON(map[string]any{"schema_version": 1, "problems": problems}); err != nil {
			return err
		}
	}
	return err
}

// existingName finds the environment that a command is about: the one named,
// else the only one there is.
func (o *environmentOptions) existingName(ctx context.Context, a *app) (string, error) {
	name, named := o.name, o.name != ""
	for _, arg := range o.args {
		if !named && arg.Kind == environment.VarFile {
			name, named = environment.NameOf(arg.Value), true
		}
	}
	if named {
		if !environment.ValidName(name) { // it becomes the name of a folder
			return "", usagef("%q cannot be the name of an environment", name)
		}
		return name, nil
	}
	names, err := local.Environments(ctx, a.stateRoot())
	if err != nil {
		return "", err
	}
	switch len(names) {
	case 0:
		return "", fail(exitUsage, errNoEnvironment, "run `sandbox up -var-file FILE` first")
	case 1:
		return names[0], nil
	}
	return "", fail(exitUsage, fmt.Errorf("there are several environments: %s", strings.Join(names, ", ")), "name one with --env")
}

// platformOf is where an environment was brought up, complete or not; "" when
// nothing of it is here.
func (a *app) platformOf(name string) environment.Platform {
	dir := a.stateDir(name)
	if gcp.Exists(dir) {
		return environment.GCP
	}
	for _, local := range []string{inventoryName, "members"} {
		if _, err := os.Stat(filepath.Join(dir, local)); err == nil {
			return environment.Local
		}
	}
	return ""
}

var errNoEnvironment = errors.New("there is no environment in this directory")
