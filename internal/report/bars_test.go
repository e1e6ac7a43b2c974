package report

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// forge27 forges the record that the bars are for: 3 targets, 3 sizes, 3
// iterations of 30 minutes each, with a histogram of so many buckets per
// minute and operation type.
func forge27(t testing.TB, buckets int) Input {
	var f *forge
	var targets []record.Target
	for _, name := range []string{"mongo9", "psmdb80", "psmdb83"} {
		targets = append(targets, f.target(name, "psmdb", "psmdb-80", "8.0.34-15"))
	}
	f = newForge(t, targets, []record.Size{
		{Documents: 1_000_000, Label: "1M", Iterations: 3}, {Documents: 4_000_000, Label: "4M", Iterations: 3}, {Documents: 8_000_000, Label: "8M", Iterations: 3},
	}, 30*time.Minute)
	f.grid = buckets
	for size, v := range map[int64]float64{1_000_000: 3600, 4_000_000: 2700, 8_000_000: 1500} {
		f.throughput[size] = map[string]float64{"mongo9": v, "psmdb80": v * 0.97, "psmdb83": v * 0.93}
	}
	f.cpu = map[string]float64{"mongo9": 512, "psmdb80": 540, "psmdb83": 571}
	in := f.input()
	load := memberLoad{processCPU: 0.7, machineCPU: 0.8, diskBusy: 0.6, inFlight: 3, readsPerS: 900, readMS: 2, writesPerS: 300, pagesPerS: 1e5, hits: 0.98}
	for i := range in.Cells {
		in.Cells[i].Samples = f.readings(&in.Cells[i], 10, []memberLoad{load, load, load})
	}
	return in
}

// The page of 27 cells is under 3 MB, all figures in it.
func TestPageOf27Cells(t *testing.T) {
	c := build(t, forge27(t, 20))
	page := render(t, FormatHTML, c)
	if len(page) >= 3_000_000 {
		t.Errorf("the page has %d bytes", len(page))
	}
	for _, f := range newPage(c).figures() {
		if !bytes.Contains(page, []byte(`<figure id="`+f.ID+`"`)) {
			t.Errorf("the page lacks %s", f.ID)
		}
	}
	if n := strings.Count(string(page), "The numbers behind this figure"); n != 2 {
		t.Errorf("the numbers stand behind %d figures, want both courses", n)
	}
}

const recordVariable = "REPORT_BENCHMARK_RECORD"

// TestReportOf is the process that BenchmarkReport27Cells measures.
func TestReportOf(t *testing.T) {
	dir := os.Getenv(recordVariable)
	if dir == "" {
		t.Skip("run by BenchmarkReport27Cells")
	}
	c, err := Load(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+".html", render(t, FormatHTML, c), 0o600); err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReport27Cells is the time and the memory of a process that reads
// the record from disk, compares it and writes the page. A histogram has as
// many buckets in use as a real server fills.
func BenchmarkReport27Cells(b *testing.B) {
	dir := write(b, forge27(b, 4000))
	var cpu time.Duration
	var peak float64
	for b.Loop() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestReportOf$")
		cmd.Env = append(os.Environ(), recordVariable+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			unit := 1024.0 // bytes, but on darwin
			if runtime.GOOS == "darwin" {
				unit = 1
			}
			peak = max(peak, float64(usage.Maxrss)*unit)
		}
	}
	info, err := os.Stat(dir + ".html")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(peak/(1<<20), "MiB-RSS")
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB-page")
}
