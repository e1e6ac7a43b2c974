package report

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The data of a size stands beside the cache: once for all targets, and
// target by target where they differ.
func TestDataset(t *testing.T) {
	rows := func(in Input) (out []string) {
		for _, r := range build(t, bare(in)).datasetTable().Rows {
			var texts []string
			for _, x := range r.Cells {
				texts = append(texts, x.Text)
			}
			out = append(out, strings.Join(texts, " "))
		}
		return out
	}
	in := published(t)
	want := []string{
		"1M all 1,000,000 2.3 GiB 2,487 7.2 GiB 0.321 x", "4M all 4,000,000 9.3 GiB 2,487 7.2 GiB 1.28 x", "8M all 8,000,000 18.5 GiB 2,487 7.2 GiB 2.57 x",
	}
	if got := rows(in); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// One member of psmdb83 has a smaller cache, one of psmdb80 does not tell.
	in.Run.Targets = slices.Clone(in.Run.Targets)
	for i, value := range map[int]string{1: "", 2: "2000000000"} {
		x := &in.Run.Targets[i]
		x.Members = slices.Clone(x.Members)
		x.Members[2].Settings = maps.Clone(x.Members[2].Settings)
		x.Members[2].Settings[cacheSetting] = value
	}
	in.find(t, "mongo9", 8_000_000, 1).Cell.Seeding.Bytes = 0
	want = []string{
		"4M mongo9 4,000,000 9.3 GiB 2,487 7.2 GiB 1.28 x", "4M psmdb80 4,000,000 9.3 GiB 2,487 - -", "4M psmdb83 4,000,000 9.3 GiB 2,487 1.9 GiB 4.97 x",
		"8M psmdb80 8,000,000 18.5 GiB 2,487 - -", "8M psmdb83 8,000,000 18.5 GiB 2,487 1.9 GiB 9.95 x",
	}
	if got := rows(in); len(got) != 8 || !slices.Equal(got[3:], want) {
		t.Errorf("%q, want %q", got, want)
	}
	var doc struct {
		Summaries []struct {
			Documents int64 `json:"dataset_documents"`
			Bytes     int64 `json:"dataset_bytes"`
			Cache     int64 `json:"cache_bytes"`
		}
	}
	if err := json.Unmarshal(render(t, FormatJSON, build(t, in)), &doc); err != nil {
		t.Fatal(err)
	}
	if x := doc.Summaries[8]; x.Documents != 8_000_000 || x.Bytes < 19e9 || x.Cache != 2_000_000_000 || doc.Summaries[7].Cache != 0 {
		t.Errorf("%+v", doc.Summaries)
	}
	if c := build(t, standIn(t)); c.Targets[0].CacheBytes() != 0 || len(c.datasetTable().Rows) == 0 {
		t.Error("the embedded engine has no cache, and data")
	}
}
