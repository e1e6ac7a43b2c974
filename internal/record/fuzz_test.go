package record

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// FuzzReadRun hands arbitrary files to every reader. Whatever they hold, the
// answer is values or an error.
func FuzzReadRun(f *testing.F) {
	h := NewHistogram()
	_ = h.RecordValue(1234)
	histogram, err := EncodeHistogram(h)
	if err != nil {
		f.Fatal(err)
	}
	id := `{"target":"t","size":1000,"variant":"default","iteration":1,"attempt":1,"started":"2026-11-30T12:54:05Z"}`
	cell := `{"target":"t","size":1000,"variant":"default","iteration":1,"attempt":1,"valid":true,"operations":{"find":{"count":1,"histogram":"` + histogram + `"}}}`
	f.Add([]byte(`{"schema_version":1,"id":"r","targets":[{"name":"t","members":[{"name":"m","cloud":{"machine_type":"n2-standard-4","zone":"z-a","disk_gb":80}}]}]}`), []byte(`{"at":"2026-11-30T12:54:05Z","event":"resumed"}`+"\n"),
		[]byte(id), []byte(cell), []byte(`{"start_s":0,"end_s":1,"operations":{"find":{"count":1,"sum_us":5}}}`+"\n"),
		[]byte(`{"every":1000,"workers":[[]],"early_every":10,"early":[["`+strings.Repeat("00", 32)+`"]],"last":[{"commands":12,"state":"`+strings.Repeat("11", 32)+`"}]}`), []byte(`[{"operation":"find","command":{}}]`), histogram)
	f.Add([]byte(`{"schema_version":2}`), []byte("{"), []byte("{}"), []byte("{}"), []byte("\n\n"), []byte("[]"), []byte("{}"), "HISTFAAAAA==")

	f.Fuzz(func(t *testing.T, run, journal, id, cell, lines, checkpoints, explain []byte, histogram string) {
		if b, err := DecodeHistogram(histogram); err == nil && histogram != "" {
			theirs, err := hdrhistogram.Decode([]byte(histogram))
			if err != nil || !dense(b).Equals(theirs) {
				t.Fatalf("the library reads another histogram: %v", err)
			}
			_ = LatencyOf(theirs)
		}
		files := fstest.MapFS{}
		put := func(name string, data []byte) { files[name] = &fstest.MapFile{Data: data} }
		const dir = cellsDir + "/x/"
		put(runFile, run)
		put(journalFile, journal)
		put(dir+idFile, id)
		put(dir+cellFile, cell)
		put(dir+intervalsFile, lines)
		put(dir+windowsFile, lines)
		put(dir+membersFile, lines)
		put(dir+latencyFile, lines)
		put(dir+checkpointsFile, checkpoints)
		put(dir+explainFile, explain)

		r, err := openFS(files)
		if err != nil {
			return
		}
		if _, err := json.Marshal(r.Run()); err != nil {
			t.Fatalf("run does not marshal: %v", err)
		}
		for _, err := range r.Journal() {
			_ = err
		}
		cells, err := r.Cells()
		if err != nil {
			return
		}
		for _, c := range cells {
			if (c.Cell == nil) == c.Finished() {
				t.Fatalf("status %s with outcome %v", c.Status, c.Cell)
			}
			for _, err := range c.Intervals() {
				_ = err
			}
			for _, err := range c.Windows() {
				_ = err
			}
			for _, err := range c.Samples() {
				_ = err
			}
			if log, err := c.LatencyLog(); err == nil {
				_, _ = io.Copy(io.Discard, log)
				_ = log.Close()
			}
			if v, err := c.Checkpoints(); err == nil {
				if len(v.Workers) > maxWorkers {
					t.Fatalf("%d workers", len(v.Workers))
				}
				for _, n := range []int64{-1, 0, 10, v.Every, v.EarlyEvery, 1 << 62} {
					_, _ = v.Fingerprint("x", n)
				}
			}
			_, _ = c.Explains()
			if c.Cell != nil {
				for _, op := range c.Cell.Operations {
					_, _ = DecodeHistogram(op.Histogram)
				}
			}
		}
	})
}
