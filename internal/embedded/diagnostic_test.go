package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestSystemMetrics(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/stat": "cpu  10 2 30 400 5 0 6 7 0 0\ncpu0 5 1 15 200 3 0 3 4 0 0\ncpu1 5 1 15 200 2 0 3 3 0 0\nintr 5 1 2\n" +
			"ctxt 190305514\nbtime 1463584038\nprocesses 47438\nprocs_running 1\nprocs_blocked 0\n",
		"proc/meminfo":         "MemTotal:       16384 kB\nActive(anon):      12 kB\nHugePages_Total:       0\n",
		"proc/net/netstat":     "TcpExt: TCPTimeouts ListenDrops\nTcpExt: 4 5\nMPTcpExt: x\nMPTcpExt: 1\nIpExt: InOctets OutOctets\nIpExt: 600 x\n",
		"proc/net/snmp":        "Ip: InReceives\nIp: 9\nTcp: InSegs RetransSegs\nTcp: 7 8 9\nUdp: InErrors\nUdp: 1\n",
		"proc/diskstats":       "   8       0 sda 1 2 3 4 5 6 7 8 9 10 11 0 0\n   8  1 sda1 1 2 3 4 5 6 7 8 9 10 11\n   8 16 sdb 0 0 0 0 0 0 0 0 0 0 0\n  11 0 sr0 1 2\n",
		"proc/vmstat":          "nr_free_pages 1\npgfault 20\npgmajfault 3\npswpin 0\n",
		"sys/block/sda/device": "", "sys/block/sdb/device": "", "sys/block/dm-0/size": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n := func(pairs ...any) bson.D {
		var d bson.D
		for i := 0; i < len(pairs); i += 2 {
			value := pairs[i+1]
			if number, ok := value.(int); ok {
				value = int64(number)
			}
			d = append(d, bson.E{Key: pairs[i].(string), Value: value})
		}
		return d
	}
	want := bson.D{
		{Key: "cpu", Value: n("num_logical_cores", int32(2), "user_ms", 100, "nice_ms", 20, "system_ms", 300, "idle_ms", 4000, "iowait_ms", 50,
			"irq_ms", 0, "softirq_ms", 60, "steal_ms", 70, "guest_ms", 0, "guest_nice_ms", 0,
			"ctxt", 190305514, "btime", 1463584038, "processes", 47438, "procs_running", 1, "procs_blocked", 0)},
		{Key: "memory", Value: n("MemTotal_kb", 16384, "Active(anon)_kb", 12)},
		{Key: "netstat", Value: n("TcpExt:TCPTimeouts", 4, "TcpExt:ListenDrops", 5, "IpExt:InOctets", 600, "Ip:InReceives", 9, "Tcp:InSegs", 7, "Tcp:RetransSegs", 8)},
		{Key: "disks", Value: bson.D{{Key: "sda", Value: n("reads", 1, "reads_merged", 2, "read_sectors", 3, "read_time_ms", 4, "writes", 5,
			"writes_merged", 6, "write_sectors", 7, "write_time_ms", 8, "io_in_progress", 9, "io_time_ms", 10, "io_queued_ms", 11)}}},
		{Key: "vmstat", Value: n("pgfault", 20, "pgmajfault", 3, "pswpin", 0)},
	}
	if diff := cmp.Diff(want, systemMetrics(root)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, text := range map[string]string{
		"proc/self/mountinfo": "26 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n31 26 0:5 / /dev rw - devtmpfs udev rw\n" +
			"bad line\n90 26 8:16 / /my\\040data rw,noatime shared:9 - xfs /dev/sdb rw,attr2\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                  "[always] madvise never\n",
		"sys/kernel/mm/transparent_hugepage/defrag":                   "always defer [defer+madvise] madvise never\n",
		"sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none": "0\n",
		"my data/x": "",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mountOf := func(point, options, kind, source string) bson.D {
		return bson.D{{Key: "mountPoint", Value: point}, {Key: "options", Value: options}, {Key: "type", Value: kind}, {Key: "source", Value: source}}
	}
	facts := bson.D{
		{Key: "thp_enabled", Value: "always"}, {Key: "thp_defrag", Value: "defer+madvise"}, {Key: "thp_max_ptes_none", Value: "0"},
		{Key: "mountInfo", Value: bson.A{
			mountOf("/", "rw,relatime", "ext4", "/dev/sda1"), mountOf("/dev", "rw", "devtmpfs", "udev"), mountOf("/my data", "rw,noatime", "xfs", "/dev/sdb"),
		}},
	}
	if diff := cmp.Diff(facts, kernelFacts(root)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	metrics := systemMetrics(root)
	sizes, _ := metrics[len(metrics)-1].Value.(bson.D)
	if metrics[len(metrics)-1].Key != "mounts" || len(sizes) != 2 || sizes[0].Key != "/" || sizes[1].Key != "/my data" {
		t.Errorf("%v", metrics[len(metrics)-1])
	}
	if got := kernelFacts(t.TempDir()); len(got) != 0 {
		t.Errorf("another kernel: %v", got)
	}
	if got := systemMetrics(t.TempDir()); len(got) != 0 {
		t.Errorf("without a proc file system: %v", got)
	}
}
