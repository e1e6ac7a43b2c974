package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/console"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

func newWorkload(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "The load generator on its own: run it against any URI, or look at what it sends",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkloadRun(a), newWorkloadDescribe(a), newWorkloadPrint(a), newWorkloadFingerprint(a))
	return cmd
}

// sizedWorkload are the flags of a workload with its size.
type sizedWorkload struct {
	workloadFlags
	size string
}

func (f *sizedWorkload) add(cmd *cobra.Command) {
	f.workloadFlags.add(cmd)
	addSize(cmd, &f.size)
}

func addSize(cmd *cobra.Command, size *string) {
	cmd.Flags().StringVar(size, "size", "1M", "documents seeded; k and M are thousands and millions")
}

func (f *sizedWorkload) make() (*workload.Workload, error) {
	size, err := workload.ParseSize(f.size)
	if err != nil {
		return nil, fail(exitUsage, fmt.Errorf("--size: %w", err), "")
	}
	return f.workload(size)
}

type describeOptions struct {
	workload sizedWorkload
	json     bool
}

func newWorkloadDescribe(a *app) *cobra.Command {
	o := &describeOptions{}
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show the mix, the query shapes with an example each, and the sizes of documents",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return runDescribe(a, o) },
	}
	o.workload.add(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runDescribe(a *app, o *describeOptions) error {
	w, err := o.workload.make()
	if err != nil {
		return err
	}
	d, err := w.Describe()
	if err != nil {
		return err
	}
	if o.json {
		return a.printJSON(d)
	}
	c := a.console
	c.Printf("Workload %s: seed %d, %s documents, %d workers, %s commands each in a pass\n", d.Workload, d.Seed,
		console.Count(d.Size), d.Workers, console.Count(d.OpsPerWorker))
	c.Printf("Sequence %s (iteration 1)\n\nMix, exact in every %s commands of every worker\n\n", d.SequenceID, console.Count(d.Block))
	t := a.newTable("operation", "share", "in a pass", "documents at most")
	for _, op := range d.Operations {
		t.AppendRow(table.Row{op.Operation, fmt.Sprintf("%.1f %%", op.Percent), console.Count(op.PerPass), console.Count(op.Documents)})
	}
	t.Render()
	size := d.DocumentBytes
	c.Printf("\nSeeded documents: %s to %s, mean %s, p50 %s, p95 %s (sample of %s); about %s in all\n",
		console.Bytes(size.Min), console.Bytes(size.Max), console.Bytes(size.Mean), console.Bytes(size.P50), console.Bytes(size.P95),
		console.Count(size.Sample), console.Bytes(d.SeededBytes))
	c.Printf("In 1,000 commands %.0f documents are inserted and %.0f deleted: the collection grows by %.0f\n", d.InsertedPer1000, d.DeletedPer1000, d.GrowthPer1000)
	for _, collection := range w.Collections() {
		c.Printf("\nIndexes of %s.%s\n\n", collection.Database, collection.Name)
		for _, index := range collection.Indexes {
			c.Printf("  %s\n", index.Name)
		}
	}
	c.Printf("\nQuery shapes\n")
	for _, shape := range d.Shapes {
		c.Printf("\n  %s\n    %s\n", shape.Shape, clip(string(shape.Example), 600))
	}
	return nil
}

// clip shortens a text for a person; --json has it whole.
func clip(text string, limit int) string {
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}

type printOptions struct {
	workload  sizedWorkload
	iteration int
	worker    int
	op        int64
	count     int64
	document  int64
}

func newWorkloadPrint(a *app) *cobra.Command {
	o := &printOptions{}
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print any command, or seeded document, as extended JSON, one a line",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runPrint(cmd.Context(), a, o) },
	}
	o.workload.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.iteration, "iteration", 1, "iteration, from 1")
	flags.IntVar(&o.worker, "worker", 0, "worker, from 0")
	flags.Int64Var(&o.op, "op", 0, "number of the worker's command, from 0")
	flags.Int64Var(&o.count, "count", 1, "how many commands from there, or documents")
	flags.Int64Var(&o.document, "document", -1, "print seeded document `N`, from 0, in place of commands")
	return cmd
}

func runPrint(ctx context.Context, a *app, o *printOptions) error {
	w, err := o.workload.make()
	if err != nil {
		return err
	}
	settings := w.Settings()
	switch {
	case o.document >= 0 && o.op != 0:
		return usagef("--document and --op exclude each other")
	case o.worker < 0 || o.worker >= settings.Workers:
		return usagef("--worker %d: want 0 to %d", o.worker, settings.Workers-1)
	case o.iteration < 1:
		return usagef("--iteration %d: want 1 or more", o.iteration)
	case o.op < 0 || o.count < 1:
		return usagef("--op must not be negative, --count must be 1 or more")
	case o.document < -1 || o.document >= settings.Size || o.document >= 0 && o.document+o.count > settings.Size:
		return usagef("--document %d: there are documents 0 to %d", o.document, settings.Size-1)
	}
	generator := w.Generator(o.iteration, o.worker)
	for i := range o.count {
		if err := ctx.Err(); err != nil {
			return err
		}
		var text []byte
		if o.document >= 0 {
			text, err = bson.MarshalExtJSON(bson.Raw(w.AppendDocument(nil, o.document+i)), true, false)
		} else {
			text, err = generator.Command(o.op + i).ExtJSON()
		}
		if err != nil {
			return fmt.Errorf("print as extended JSON: %w", err)
		}
		a.console.Printf("%s\n", text)
	}
	return nil
}

type fingerprintOptions struct {
	workload  sizedWorkload
	iteration int
	commands  int64
	json      bool
}

// fingerprintOutput uses the names of the report's JSON.
type fingerprintOutput struct {
	SchemaVersion int    `json:"schema_version"`
	Iteration     int    `json:"iteration"`
	Size          int64  `json:"size"`
	SequenceID    string `json:"sequence_id"`
	Fingerprint   string `json:"fingerprint"`
	// FingerprintCommands of every worker are what Fingerprint covers.
	FingerprintCommands int64 `json:"fingerprint_commands"`
	// Commands are those of all workers together.
	Commands int64 `json:"commands"`
}

func newWorkloadFingerprint(a *app) *cobra.Command {
	o := &fingerprintOptions{}
	cmd := &cobra.Command{
		Use:   "fingerprint",
		Short: "Compute the fingerprint of a pass, or of its first commands, without a server",
		Long: `fingerprint computes, from the settings alone, the fingerprint that a record
has of a cell: that of the whole pass or, with --commands, of the first so many
commands of every worker. A report says which of them it proves.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runFingerprint(cmd.Context(), a, o) },
	}
	o.workload.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&o.iteration, "iteration", 1, "iteration, from 1")
	flags.Int64Var(&o.commands, "commands", 0, "only the first `N` commands of every worker; 0 is the pass")
	flags.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runFingerprint(ctx context.Context, a *app, o *fingerprintOptions) error {
	w, err := o.workload.make()
	if err != nil {
		return err
	}
	if o.iteration < 1 {
		return usagef("--iteration %d: want 1 or more", o.iteration)
	}
	settings := w.Settings()
	perWorker := settings.OpsPerWorker
	if o.commands < 0 || o.commands > perWorker {
		return usagef("--commands %d: want 1 to the %d of --ops-per-worker, or 0 for all of them", o.commands, perWorker)
	}
	if o.commands > 0 {
		perWorker = o.commands
	}
	progress := a.console.NewProgress()
	task := progress.Task("fingerprint")
	began := time.Now()
	fingerprint, err := w.PrefixFingerprint(ctx, o.iteration, perWorker, func(done, total int64) {
		task.Update(console.State{Done: done, Total: total,
			Detail: fmt.Sprintf("%s of %s commands", console.Count(done), console.Count(total))})
	})
	commands := perWorker * int64(settings.Workers)
	if err != nil {
		task.Fail("stopped")
	} else {
		task.Done(fmt.Sprintf("%s commands in %s", console.Count(commands), console.Duration(time.Since(began))))
	}
	progress.Close()
	if err != nil {
		return err
	}
	out := fingerprintOutput{1, o.iteration, settings.Size, w.SequenceID(o.iteration), fingerprint, perWorker, commands}
	if o.json {
		return a.printJSON(out)
	}
	a.console.Printf("%s\n", out.Fingerprint)
	return nil
}
