package embedded

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/disk"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// getDiagnosticData answers with what MongoDB's full-time diagnostic data
// capture would have collected last, as far as there is anything: the server's
// state and, on Linux, the machine's. Names and units of the latter are those
// of the server's procparser.
func (s *Server) getDiagnosticData(ctx context.Context, c *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	start := time.Now()
	status, err := s.serverStatus(ctx, c, &request{})
	if err != nil {
		return nil, err
	}
	data := bson.D{
		{Key: "start", Value: start},
		{Key: "serverStatus", Value: timed(start, status)},
	}
	if s.repl != nil {
		if set, err := s.replSetGetStatus(ctx, c, &request{}); err == nil {
			data = append(data, bson.E{Key: "replSetGetStatus", Value: timed(start, set)})
		}
	}
	if system := systemMetrics("/"); len(system) > 0 {
		data = append(data, bson.E{Key: "systemMetrics", Value: timed(start, system)})
	}
	return bson.D{{Key: "data", Value: append(data, bson.E{Key: "end", Value: time.Now()})}}, nil
}

func timed(start time.Time, section bson.D) bson.D {
	return slices.Concat(bson.D{{Key: "start", Value: start}}, section, bson.D{{Key: "end", Value: time.Now()}})
}

// systemMetrics reads the proc file system below root; without one there are
// none.
func systemMetrics(root string) bson.D {
	var d bson.D
	add := func(name string, section bson.D) {
		if len(section) > 0 {
			d = append(d, bson.E{Key: name, Value: section})
		}
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return string(data)
	}
	add("cpu", parseStat(read("proc/stat")))
	add("memory", parseMemory(read("proc/meminfo")))
	add("netstat", append(parseNetstat(read("proc/net/netstat"), "TcpExt:", "IpExt:"), parseNetstat(read("proc/net/snmp"), "Tcp:", "Ip:")...))
	add("disks", parseDisks(read("proc/diskstats"), physicalDisks(filepath.Join(root, "sys/block"))))
	add("vmstat", parseVMStat(read("proc/vmstat")))
	add("mounts", mountSizes(root, parseMounts(read("proc/self/mountinfo"))))
	return d
}

// ticksPerSecond is the kernel's unit of CPU times, USER_HZ; it is 100 on
// every architecture that we build for.
const ticksPerSecond = 100

// parseStat reads /proc/stat.
func parseStat(text string) bson.D {
	var d bson.D
	cores := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch name := fields[0]; name {
		case "cpu":
			for i, field := range []string{
				"user_ms", "nice_ms", "system_ms", "idle_ms", "iowait_ms", "irq_ms", "softirq_ms", "steal_ms", "guest_ms", "guest_nice_ms",
			} {
				if i+1 < len(fields) {
					d = appendNumber(d, field, fields[i+1], 1000/ticksPerSecond)
				}
			}
		case "ctxt", "btime", "processes", "procs_running", "procs_blocked":
			d = appendNumber(d, name, fields[1], 1)
		default:
			if strings.HasPrefix(name, "cpu") {
				cores++
			}
		}
	}
	if len(d) == 0 {
		return nil
	}
	return append(bson.D{{Key: "num_logical_cores", Value: int32(cores)}}, d...)
}

func appendNumber(d bson.D, name, text string, factor int64) bson.D {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return d
	}
	return append(d, bson.E{Key: name, Value: n * factor})
}

// parseMemory reads /proc/meminfo.
func parseMemory(text string) bson.D {
	var d bson.D
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[2] != "kB" {
			continue
		}
		d = appendNumber(d, strings.TrimSuffix(fields[0], ":")+"_kb", fields[1], 1)
	}
	return d
}

// parseNetstat reads pairs of lines, names and values, that begin with one of
// the prefixes.
func parseNetstat(text string, prefixes ...string) bson.D {
	var d bson.D
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !slices.Contains(prefixes, fields[0]) {
			names = nil
			continue
		}
		if names == nil || names[0] != fields[0] {
			names = fields
			continue
		}
		for i := 1; i < min(len(names), len(fields)); i++ {
			d = appendNumber(d, names[0]+names[i], fields[i], 1)
		}
		names = nil
	}
	return d
}

// physicalDisks are the block devices that are no part or mapping of another.
func physicalDisks(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if _, err := os.Stat(filepath.Join(dir, entry.Name(), "device")); err == nil {
			names = append(names, entry.Name())
		}
	}
	return names
}

// parseDisks reads /proc/diskstats. A disk that has never done anything is
// left out.
func parseDisks(text string, disks []string) bson.D {
	var d bson.D
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 14 || !slices.Contains(disks, fields[2]) {
			continue
		}
		var stats bson.D
		active := false
		for i, name := range []string{
			"reads", "reads_merged", "read_sectors", "read_time_ms", "writes", "writes_merged", "write_sectors", "write_time_ms",
			"io_in_progress", "io_time_ms", "io_queued_ms",
		} {
			stats = appendNumber(stats, name, fields[3+i], 1)
			active = active || fields[3+i] != "0"
		}
		if active {
			d = append(d, bson.E{Key: fields[2], Value: stats})
		}
	}
	return d
}

// kernelFacts are what hostInfo's extra says of a Linux kernel's memory and of
// the mounts, read below root.
func kernelFacts(root string) bson.D {
	var d bson.D
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	add := func(name, value string) {
		if value != "" {
			d = append(d, bson.E{Key: name, Value: value})
		}
	}
	chosen := func(text string) string { // "always [madvise] never"
		_, text, _ = strings.Cut(text, "[")
		text, _, _ = strings.Cut(text, "]")
		return text
	}
	const pages = "sys/kernel/mm/transparent_hugepage/"
	add("thp_enabled", chosen(read(pages+"enabled")))
	add("thp_defrag", chosen(read(pages+"defrag")))
	add("thp_max_ptes_none", read(pages+"khugepaged/max_ptes_none"))
	add("overcommit_memory", read("proc/sys/vm/overcommit_memory"))
	mounts := bson.A{}
	for _, m := range parseMounts(read("proc/self/mountinfo")) {
		mounts = append(mounts, bson.D{
			{Key: "mountPoint", Value: m.point}, {Key: "options", Value: m.options}, {Key: "type", Value: m.kind}, {Key: "source", Value: m.source},
		})
	}
	if len(mounts) > 0 {
		d = append(d, bson.E{Key: "mountInfo", Value: mounts})
	}
	return d
}

// mount is a line of /proc/self/mountinfo, as far as it tells how a folder is
// stored.
type mount struct{ point, options, kind, source string }

// parseMounts reads /proc/self/mountinfo (proc(5)).
func parseMounts(text string) []mount {
	var mounts []mount
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(text) {
		head, tail, found := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(head), strings.Fields(tail)
		if !found || len(fields) < 6 || len(kinds) < 2 {
			continue
		}
		mounts = append(mounts, mount{unescape.Replace(fields[4]), fields[5], kinds[0], unescape.Replace(kinds[1])})
	}
	return mounts
}

// mountSizes is how large the file systems are that are on a device, in bytes.
func mountSizes(root string, mounts []mount) bson.D {
	var d bson.D
	for _, m := range mounts {
		if !strings.HasPrefix(m.source, "/dev/") {
			continue
		}
		if usage, err := disk.Usage(filepath.Join(root, m.point)); err == nil && usage.Total > 0 {
			d = append(d, bson.E{Key: m.point, Value: bson.D{{Key: "capacity", Value: int64(usage.Total)}, {Key: "free", Value: int64(usage.Free)}}})
		}
	}
	return d
}

// parseVMStat reads /proc/vmstat, of which the server keeps what tells of
// paging and swapping.
func parseVMStat(text string) bson.D {
	var d bson.D
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "balloon_deflate", "balloon_inflate", "nr_mlock", "numa_pages_migrated", "pgfault", "pgmajfault", "pswpin", "pswpout":
			d = appendNumber(d, name, value, 1)
		}
	}
	return d
}
