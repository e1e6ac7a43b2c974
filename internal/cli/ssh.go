package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

type sshOptions struct {
	environment environmentOptions
}

func newSSH(a *app) *cobra.Command {
	o := &sshOptions{}
	cmd := &cobra.Command{
		Use:   "ssh HOST [-- COMMAND...]",
		Short: "Log in to a machine of the environment, or run a command there",
		Long: `Logs in to a machine through the environment's ssh_config, with the ssh of
this machine. HOST is a machine's name, with or without the environment's
prefix. To the monitoring machine the connection carries a tunnel as well:
while it lasts, PMM answers on this machine.

A command's exit code becomes that of this program, unless it is one of those
that mean something here (see sandbox --help): it is 1 then.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runSSH(cmd.Context(), a, o, args[0], args[1:]) },
	}
	o.environment.addName(cmd)
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func runSSH(ctx context.Context, a *app, o *sshOptions, host string, command []string) error {
	name, err := o.environment.existingName(ctx, a)
	if err != nil {
		return err
	}
	if a.platformOf(name) == environment.Local {
		return fail(exitUsage, fmt.Errorf("environment %s has no machines: its members are processes here", name), "see `sandbox status`")
	}
	inventory, err := a.cloudInventory(name)
	if err != nil {
		return err
	}
	names, err := sshHosts(filepath.Join(a.stateDir(inventory.Environment), sshConfigName))
	if err != nil {
		return fail(exitFailure, err, "`sandbox up -var-file FILE` writes it")
	}
	if !slices.Contains(names, host) {
		return fail(exitUsage, fmt.Errorf("there is no machine %q in environment %s", host, name), "use one of "+strings.Join(names, ", "))
	}
	// The bare name of the file, in its folder: OpenSSH hands it on to the
	// ssh of a jump host unquoted.
	args := []string{"-F", sshConfigName, "--", host}
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) > 0 {
		line, err := remote.Quote(command...)
		if err != nil {
			return fail(exitUsage, err, "")
		}
		args = append(args, line)
	}
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Dir = a.stateDir(name)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.console.In, a.console.Out, a.console.Err
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 255:
		return fail(exitRemote, fmt.Errorf("ssh to %s failed", host), "see `sandbox status`")
	case errors.As(err, &exit):
		return fail(remoteCode(exit.ExitCode()), fmt.Errorf("the command on %s ended with exit code %d", host, exit.ExitCode()), "")
	case err != nil:
		return fail(exitFailure, fmt.Errorf("run ssh: %w", err), "install OpenSSH's client")
	}
	return nil
}

// sshHosts are the names of hosts in an ssh_config of ours.
func sshHosts(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("find the machines: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "Host" {
			names = append(names, words[1:]...)
		}
	}
	return names, nil
}
