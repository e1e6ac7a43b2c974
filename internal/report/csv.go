package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// csvHeader names the columns of the CSV form: one row per cell and
// operation type, and one with the operation "all" for each cell. Cells that
// left no numbers have that row alone, with empty numbers. Times are in
// seconds, latencies in milliseconds of service time, CPU in microseconds
// per successful command, low and high the 95 % interval of that from the cell
// alone. throughput_per_s of a row is that of its
// operation, seeded_bytes of the documents as BSON. counted says whether the
// cell is part of the comparison.
// warning repeats the banner of runs that the embedded engine answered.
// timeouts and retries stand in the row of a cell alone, where they were
// counted; error_codes counts failed commands: find/Timeout=3;find/code 112=1.
// iteration counts on through pooled runs: it is not that in run_id then.
var csvHeader = [...]string{
	"run_id", "started", "platform", "engine", "target", "requested_version", "actual_version",
	"size", "variant", "iteration", "attempt", "state", "counted", "valid", "complete",
	"operation", "count", "errors", "duration_s", "throughput_per_s",
	"mean_ms", "p50_ms", "p95_ms", "p99_ms", "p99_9_ms", "max_ms",
	"cpu_us_primary", "cpu_us_secondary",
	"cpu_us_primary_low", "cpu_us_primary_high", "cpu_us_secondary_low", "cpu_us_secondary_high", "fingerprint", "fingerprint_commands", "reason", "warning",
	"timeouts", "retries", "error_codes", "seeded_documents", "seeded_bytes",
}

func renderCSV(w io.Writer, c *Comparison) error {
	out := csv.NewWriter(w)
	if err := out.Write(csvHeader[:]); err != nil {
		return err
	}
	warning := ""
	if banner := c.Banner(); len(banner) > 0 {
		warning = banner[0]
	}
	for i := range c.Cells {
		x := &c.Cells[i]
		var target Target
		if k := c.target(x.Target); k >= 0 {
			target = c.Targets[k]
		}
		run := c.runAt(&x.CellID, &target)
		head := []string{
			run.ID, run.Started.UTC().Format(time.RFC3339), run.Platform, target.Engine, x.Target,
			target.RequestedVersion, target.ActualVersion, strconv.FormatInt(x.Size, 10), x.Variant,
			strconv.Itoa(x.Iteration), strconv.Itoa(x.Attempt), string(x.State), strconv.FormatBool(x.State == StateCounted),
		}
		n := x.Result
		if n == nil {
			row := slices.Concat(head, []string{"", "", AllOperations})
			const after = 7 // reason and what follows
			row = append(row, make([]string, len(csvHeader)-len(row)-after)...)
			if err := writeRow(out, append(row, x.Reason, warning, "", "", "", "", ""), len(csvHeader)); err != nil {
				return err
			}
			continue
		}
		write := func(operation string, count, errs int64, throughput float64, l record.Latency, cpu *record.CPUPerCommand) error {
			row := slices.Concat(head, []string{strconv.FormatBool(n.Valid), strconv.FormatBool(n.Complete),
				operation, strconv.FormatInt(count, 10), strconv.FormatInt(errs, 10), decimal(n.DurationS), decimal(throughput),
				decimal(l.Mean), decimal(l.P50), decimal(l.P95), decimal(l.P99), decimal(l.P999), decimal(l.Max)})
			if cpu != nil {
				row = append(row, decimal(cpu.Primary), decimal(cpu.Secondary))
				for _, v := range []float64{x.CPUInterval.Primary.Low, x.CPUInterval.Primary.High, x.CPUInterval.Secondary.Low, x.CPUInterval.Secondary.High} {
					if v > 0 && !math.IsInf(v, 0) {
						row = append(row, decimal(v))
					} else {
						row = append(row, "")
					}
				}
			} else {
				row = append(row, make([]string, 6)...)
			}
			row = append(row, n.Fingerprint, strconv.FormatInt(n.FingerprintCommands, 10), x.Reason, warning)
			row = append(row, c.troubleFields(x, operation)...)
			return writeRow(out, append(row, strconv.FormatInt(n.Seeding.Documents, 10), strconv.FormatInt(n.Seeding.Bytes, 10)), len(csvHeader))
		}
		if err := write(AllOperations, n.Commands, n.Errors, n.ThroughputPerS, n.LatencyMS, n.CPUUSPerCommand); err != nil {
			return err
		}
		for _, name := range sortedKeys(n.Operations, compareOperations) {
			o := n.Operations[name]
			throughput := 0.0
			if n.DurationS > 0 {
				throughput = float64(o.Count) / n.DurationS
			}
			if err := write(name, o.Count, o.Errors, throughput, o.LatencyMS, nil); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// troubleFields are timeouts, retries and error codes of a row.
func (c *Comparison) troubleFields(x *Cell, operation string) []string {
	n := x.Result
	timeouts, retries := "", ""
	if operation == AllOperations {
		if line := c.timeline(x); line == nil || !line.Trouble.TimeoutsKnown || line.Trouble.RetriesKnown {
			retries = strconv.FormatInt(n.Retries, 10)
		}
		if n.Timeouts != nil {
			timeouts = strconv.FormatInt(*n.Timeouts, 10)
		}
	}
	var codes []string
	for _, code := range sortedKeys(n.ErrorCodes, strings.Compare) {
		if operation == AllOperations || strings.HasPrefix(code, operation+"/") {
			codes = append(codes, fmt.Sprintf("%s=%d", code, n.ErrorCodes[code]))
		}
	}
	return []string{timeouts, retries, strings.Join(codes, ";")}
}

// writeRow keeps text from being run as a formula by a spreadsheet, and
// control characters from a terminal.
func writeRow(out *csv.Writer, row []string, columns int) error {
	if len(row) != columns {
		return fmt.Errorf("csv: %d fields, %d columns", len(row), columns)
	}
	for i, field := range row {
		field = printable(field)
		row[i] = field
		if strings.IndexAny(field, "=+-@") == 0 {
			if _, err := strconv.ParseFloat(field, 64); err != nil {
				row[i] = "'" + field
			}
		}
	}
	return out.Write(row)
}

// decimal writes a measured number with up to six digits after the point.
func decimal(v float64) string {
	s := strconv.FormatFloat(v, 'f', 6, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
