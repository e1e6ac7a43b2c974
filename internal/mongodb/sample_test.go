package mongodb

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSystemValues(t *testing.T) {
	const metrics = `{"start": {"$date": {"$numberLong": "0"}}, "cpu": {"user_ms": {"$numberLong": "4180"}, "steal_ms": {"$numberLong": "7"}},
		"memory": {"MemTotal_kb": {"$numberLong": "16384"}}, "netstat": {"Tcp:RetransSegs": {"$numberLong": "3"}},
		"disks": {"sda": {"reads": {"$numberLong": "5"}, "write_sectors": {"$numberLong": "4"}, "io_time_ms": {"$numberLong": "9"}}, "odd": "x"},
		"vmstat": {"pgmajfault": {"$numberLong": "2"}}}`
	want := map[string]float64{
		"system.cpu.user_ms": 4180, "system.cpu.steal_ms": 7, "system.memory.total_kib": 16384, "system.net.retransmitted_segments": 3,
		"system.disk.sda.reads": 5, "system.disk.sda.write_bytes": 2048, "system.disk.sda.busy_ms": 9, "system.vm.major_page_faults": 2,
	}
	for _, form := range []string{`{"data": {"systemMetrics": METRICS}}`, `{"data": {"common": {"systemMetrics": METRICS}}}`} {
		got := map[string]float64{}
		addSystemValues(got, document(t, strings.Replace(form, "METRICS", metrics, 1)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	got := map[string]float64{}
	for _, none := range []string{`{"data": {}}`, `{"data": {"systemMetrics": 3}}`, `{"data": {"systemMetrics": {"disks": 3}}}`} {
		addSystemValues(got, document(t, none))
	}
	if len(got) != 0 {
		t.Errorf("out of nothing: %v", got)
	}
}
