package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mongo-sandbox/sandbox/internal/bench"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/secret"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

type workloadRunOptions struct {
	load    loadFlags
	size    string
	uri     string
	uriFile string
	target  string
	out     string
	json    bool
}

func newWorkloadRun(a *app) *cobra.Command {
	o := &workloadRunOptions{}
	cmd := &cobra.Command{
		Use:   "run --uri URI",
		Short: "Seed and run the workload against any deployment; drops the workload's collection first",
		Long: `run drops the workload's collection on the deployment, seeds it and runs the
workload: one cell, written as it goes to a run record of its own, which
sandbox report reads.

A password belongs in a file (--uri-file, mode 0600) or in the environment
variable SANDBOX_URI; in --uri other users of this machine can see it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorkloadRun(cmd.Context(), a, o) },
	}
	o.load.add(cmd)
	addSize(cmd, &o.size)
	flags := cmd.Flags()
	flags.StringVar(&o.uri, "uri", "", "connection string (default: $SANDBOX_URI)")
	flags.StringVar(&o.uriFile, "uri-file", "", "`file` that holds the connection string, mode 0600")
	flags.StringVar(&o.target, "target", "target", "`name` of the deployment in the record")
	flags.StringVar(&o.out, "out", "", "`folder` to put the run record in (default: runs)")
	flags.BoolVar(&o.json, "json", false, "print the result as JSON")
	return cmd
}

func runWorkloadRun(ctx context.Context, a *app, o *workloadRunOptions) error {
	size, err := workload.ParseSize(o.size)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--size: %w", err), "")
	}
	sizes := []record.Size{{Documents: size, Label: o.size, Iterations: 1}}
	settings, err := o.load.record(sizes)
	if err != nil {
		return err
	}
	uri, err := o.connectionString()
	if err != nil {
		return err
	}
	target, err := targetAt(ctx, o.target, uri)
	if err != nil {
		return err
	}
	options := bench.Options{
		Platform: string(environment.Existing), Tool: a.tool(), CommandLine: append([]string{"sandbox"}, a.args...),
		Settings: settings, Sizes: sizes, Order: bench.Sequential, Targets: []bench.Target{target},
		RunsDir: a.runsDir(), Runner: &bench.InProcess{AppName: "sandbox workload run"}, Now: a.now,
	}
	if o.out != "" {
		options.RunsDir = o.out
	}
	return a.runBench(ctx, options, o.json)
}

// connectionString takes the URI from where the user put it.
func (o *workloadRunOptions) connectionString() (secret.Text, error) {
	if o.uri != "" && o.uriFile != "" {
		return secret.Text{}, usagef("--uri and --uri-file exclude each other")
	}
	uri := secret.New(o.uri)
	if o.uriFile != "" {
		var err error
		if uri, err = secret.Read(o.uriFile); err != nil {
			return uri, fail(exitUsage, err, "the file must exist and belong to you alone: chmod 600")
		}
	}
	if uri.IsEmpty() {
		uri = secret.New(os.Getenv("SANDBOX_URI"))
	}
	if uri.IsEmpty() {
		return uri, fail(exitUsage, errors.New("--uri is missing"), "give --uri, --uri-file or SANDBOX_URI")
	}
	return uri, nil
}

// targetAt asks the deployment behind a connection string for its members.
func targetAt(ctx context.Context, name string, uri secret.Text) (bench.Target, error) {
	clean, user, password, err := mongodb.SplitURI(uri.Reveal())
	if err != nil {
		return bench.Target{}, fail(exitUsage, err, "")
	}
	target := bench.Target{Name: name, URI: clean, Username: user, Password: password}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client, err := mongodb.Connect(ctx, mongodb.Options{URI: clean, Username: user, Password: password, AppName: "sandbox workload run"})
	if err != nil {
		return target, fail(exitUsage, err, "")
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }() // it was only asked
	hello, err := client.Hello(ctx)
	if err != nil {
		return target, fail(exitTarget, fmt.Errorf("connect to %s: %w", name, err), "")
	}
	target.ReplicaSet = hello.SetName
	if hello.SetName == "" { // a server of its own, or mongos
		hello.Hosts = mongodb.Hosts(clean)
	}
	for _, address := range hello.Hosts {
		target.Members = append(target.Members, bench.Member{Name: address, Address: address})
	}
	for _, address := range hello.Arbiters {
		target.Members = append(target.Members, bench.Member{Name: address, Address: address, Arbiter: true})
	}
	info, err := client.BuildInfo(ctx)
	if err != nil {
		return target, fail(exitTarget, fmt.Errorf("ask %s for its version: %w", name, err), "")
	}
	target.RequestedVersion = info.Version // nobody asked for another
	return target, nil
}
