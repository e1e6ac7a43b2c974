package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Sample is one reading of a member.
type Sample struct {
	// State is PRIMARY, SECONDARY, ARBITER, …, or STANDALONE.
	State string
	// Values are the numbers the member reports, by the names of
	// sampledValues; what a version, an engine or a role does not have is
	// absent, never 0.
	Values map[string]float64
}

// Names of the values that are computed with. CPU times are counters since
// the start of the process.
const (
	CPUUser      = "cpu.user_us"
	CPUSystem    = "cpu.system_us"
	ProcessID    = "process.pid" // changes when the member restarts
	Uptime       = "process.uptime_s"
	ElectionTerm = "repl.election_term" // changes with every election

	replLag = "repl.lag_s" // s behind the primary; secondaries only
)

// sampledValues is where serverStatus has each value; of several paths the
// first that exists counts, because names move between versions.
var sampledValues = [...]struct {
	name  string
	paths [][]string
}{
	{CPUUser, [][]string{{"extra_info", "user_time_us"}}},
	{CPUSystem, [][]string{{"extra_info", "system_time_us"}}},
	{ProcessID, [][]string{{"pid"}}},
	{Uptime, [][]string{{"uptimeMillis"}, {"uptime"}}},
	{"process.resident_mib", [][]string{{"mem", "resident"}}},
	{"process.page_faults", [][]string{{"extra_info", "page_faults"}}},
	{"process.input_blocks", [][]string{{"extra_info", "input_blocks"}}},   // 512-byte blocks read from disk
	{"process.output_blocks", [][]string{{"extra_info", "output_blocks"}}}, // 512-byte blocks written
	{"process.voluntary_switches", [][]string{{"extra_info", "voluntary_context_switches"}}},
	{"process.involuntary_switches", [][]string{{"extra_info", "involuntary_context_switches"}}},

	{"opcounters.insert", [][]string{{"opcounters", "insert"}}},
	{"opcounters.query", [][]string{{"opcounters", "query"}}},
	{"opcounters.update", [][]string{{"opcounters", "update"}}},
	{"opcounters.delete", [][]string{{"opcounters", "delete"}}},
	{"opcounters.getmore", [][]string{{"opcounters", "getmore"}}},
	{"opcounters.command", [][]string{{"opcounters", "command"}}},
	{"opcounters_repl.insert", [][]string{{"opcountersRepl", "insert"}}}, // applied from the oplog
	{"opcounters_repl.update", [][]string{{"opcountersRepl", "update"}}},
	{"opcounters_repl.delete", [][]string{{"opcountersRepl", "delete"}}},
	{"connections.current", [][]string{{"connections", "current"}}}, // open now
	{"connections.created", [][]string{{"connections", "totalCreated"}}},
	{"network.bytes_in", [][]string{{"network", "bytesIn"}}},
	{"network.bytes_out", [][]string{{"network", "bytesOut"}}},
	{"network.requests", [][]string{{"network", "numRequests"}}},

	{"cache.bytes", [][]string{{"wiredTiger", "cache", "bytes currently in the cache"}}},           // now
	{"cache.max_bytes", [][]string{{"wiredTiger", "cache", "maximum bytes configured"}}},           // configured
	{"cache.dirty_bytes", [][]string{{"wiredTiger", "cache", "tracked dirty bytes in the cache"}}}, // not yet written
	{"cache.pages_requested", [][]string{{"wiredTiger", "cache", "pages requested from the cache"}}},
	{"cache.pages_read", [][]string{{"wiredTiger", "cache", "pages read into cache"}}},       // into the cache
	{"cache.pages_written", [][]string{{"wiredTiger", "cache", "pages written from cache"}}}, // out of the cache
	{"cache.bytes_read", [][]string{{"wiredTiger", "cache", "bytes read into cache"}}},       // uncompressed
	{"cache.bytes_written", [][]string{{"wiredTiger", "cache", "bytes written from cache"}}}, // uncompressed
	// Application threads are all that are not the engine's own: those that
	// serve clients, and on secondaries those that apply the oplog.
	{"cache.application_reads", [][]string{{"wiredTiger", "cache", "application threads page read from disk to cache count"}}},
	{"cache.application_read_us", [][]string{{"wiredTiger", "cache", "application threads page read from disk to cache time (usecs)"}}},
	{"cache.application_writes", [][]string{{"wiredTiger", "cache", "application threads page write from cache to disk count"}}},
	{"cache.application_write_us", [][]string{{"wiredTiger", "cache", "application threads page write from cache to disk time (usecs)"}}},
	{"cache.application_evictions", [][]string{ // since 8.0 those that failed are counted too
		{"wiredTiger", "cache", "page evict attempts by application threads"},
		{"wiredTiger", "cache", "pages evicted by application threads"}}},
	{"cache.application_eviction_us", cacheWaitPaths("application thread time evicting (usecs)")},
	// For room in the cache, which is made by evicting: that is part of it.
	{"cache.application_wait_us", cacheWaitPaths("application thread time waiting for cache (usecs)")},
	// What the block manager asked the operating system for, whose page cache
	// may have answered.
	{"disk.reads", [][]string{{"wiredTiger", "block-manager", "blocks read"}}},
	{"disk.writes", [][]string{{"wiredTiger", "block-manager", "blocks written"}}},
	{"disk.bytes_read", [][]string{{"wiredTiger", "block-manager", "bytes read"}}},
	{"disk.bytes_written", [][]string{{"wiredTiger", "block-manager", "bytes written"}}},
	{"journal.bytes_written", [][]string{{"wiredTiger", "log", "log bytes written"}}},
	{"checkpoint.count", [][]string{ // completed or started, as the version counts; its own section since 8.0
		{"wiredTiger", "checkpoint", "total succeed number of checkpoints"},
		{"wiredTiger", "checkpoint", "number of checkpoints started by api"},
		{"wiredTiger", "transaction", "transaction checkpoints"}}},
	{"checkpoint.total_ms", [][]string{
		{"wiredTiger", "checkpoint", "total time (msecs)"},
		{"wiredTiger", "transaction", "transaction checkpoint total time (msecs)"}}},
	{"checkpoint.last_ms", [][]string{
		{"wiredTiger", "checkpoint", "most recent time (msecs)"},
		{"wiredTiger", "transaction", "transaction checkpoint most recent time (msecs)"}}},
	{"checkpoint.running", [][]string{
		{"wiredTiger", "checkpoint", "currently running"},
		{"wiredTiger", "transaction", "transaction checkpoint currently running"}}},

	{"flowcontrol.enabled", [][]string{{"flowControl", "enabled"}}},
	{"flowcontrol.target_rate", [][]string{{"flowControl", "targetRateLimit"}}},     // tickets per second; 1e9 is no limit
	{"flowcontrol.waited_us", [][]string{{"flowControl", "timeAcquiringMicros"}}},   // by writers, summed
	{"flowcontrol.lagged", [][]string{{"flowControl", "isLaggedCount"}}},            // how often it began to hold writers back
	{"flowcontrol.lagged_us", [][]string{{"flowControl", "isLaggedTimeMicros"}}},    // how long
	{"writeconcern.waits", [][]string{{"metrics", "getLastError", "wtime", "num"}}}, // for acknowledgement by other members
	{"writeconcern.wait_ms", [][]string{{"metrics", "getLastError", "wtime", "totalMillis"}}},
	// Tickets moved out of wiredTiger in 8.0. The queue is that of operations
	// of normal priority, in a section of its own since 7.0.
	{"tickets.read_out", ticketPaths("read", "out")},
	{"tickets.read_available", ticketPaths("read", "available")},
	{"tickets.read_total", ticketPaths("read", "totalTickets")},
	{"tickets.read_queue", ticketPaths("read", "normalPriority", "queueLength")},
	{"tickets.read_queued_us", ticketPaths("read", "normalPriority", "totalTimeQueuedMicros")},
	{"tickets.write_out", ticketPaths("write", "out")},
	{"tickets.write_available", ticketPaths("write", "available")},
	{"tickets.write_total", ticketPaths("write", "totalTickets")},
	{"tickets.write_queue", ticketPaths("write", "normalPriority", "queueLength")},
	{"tickets.write_queued_us", ticketPaths("write", "normalPriority", "totalTimeQueuedMicros")},
	{"queue.readers", [][]string{{"globalLock", "currentQueue", "readers"}}},
	{"queue.writers", [][]string{{"globalLock", "currentQueue", "writers"}}},
	{"document.returned", [][]string{{"metrics", "document", "returned"}}},
	{"document.scanned", [][]string{{"metrics", "queryExecutor", "scannedObjects"}}},
	{"keys.scanned", [][]string{{"metrics", "queryExecutor", "scanned"}}},
}

// cacheWaitPaths are the places of a time that threads spent making room in
// the cache: it was one of their yields before it was one of the cache.
func cacheWaitPaths(name string) [][]string {
	return [][]string{{"wiredTiger", "cache", name}, {"wiredTiger", "thread-yield", name}}
}

// ticketPaths are the places of a value of the tickets that operations hold
// while they are in the storage engine.
func ticketPaths(path ...string) [][]string {
	return [][]string{
		append([]string{"queues", "execution"}, path...),
		append([]string{"wiredTiger", "concurrentTransactions"}, path...),
	}
}

// systemValues is where getDiagnosticData has the state of the machine, below
// systemMetrics; the server takes it once a second from Linux's /proc. Times
// and counts are counters since the machine started.
var systemValues = [...]struct {
	name, section, field string
}{
	{"system.cpu.user_ms", "cpu", "user_ms"},
	{"system.cpu.nice_ms", "cpu", "nice_ms"},
	{"system.cpu.system_ms", "cpu", "system_ms"},
	{"system.cpu.idle_ms", "cpu", "idle_ms"},
	{"system.cpu.iowait_ms", "cpu", "iowait_ms"},
	{"system.cpu.irq_ms", "cpu", "irq_ms"},
	{"system.cpu.softirq_ms", "cpu", "softirq_ms"},
	{"system.cpu.steal_ms", "cpu", "steal_ms"}, // taken by the hypervisor
	{"system.cpu.context_switches", "cpu", "ctxt"},
	{"system.cpu.running", "cpu", "procs_running"}, // now
	{"system.cpu.blocked", "cpu", "procs_blocked"}, // now, waiting for I/O

	{"system.memory.total_kib", "memory", "MemTotal_kb"},
	{"system.memory.available_kib", "memory", "MemAvailable_kb"},
	{"system.memory.free_kib", "memory", "MemFree_kb"},
	{"system.memory.cached_kib", "memory", "Cached_kb"},
	{"system.memory.dirty_kib", "memory", "Dirty_kb"},
	{"system.memory.huge_pages_kib", "memory", "AnonHugePages_kb"}, // transparent ones

	{"system.net.in_bytes", "netstat", "IpExt:InOctets"},
	{"system.net.out_bytes", "netstat", "IpExt:OutOctets"},
	{"system.net.in_segments", "netstat", "Tcp:InSegs"},
	{"system.net.out_segments", "netstat", "Tcp:OutSegs"},
	{"system.net.retransmitted_segments", "netstat", "Tcp:RetransSegs"},
	{"system.net.timeouts", "netstat", "TcpExt:TCPTimeouts"},
	{"system.net.listen_drops", "netstat", "TcpExt:ListenDrops"},

	{"system.vm.page_faults", "vmstat", "pgfault"},
	{"system.vm.major_page_faults", "vmstat", "pgmajfault"},
	{"system.vm.swapped_in_pages", "vmstat", "pswpin"},
	{"system.vm.swapped_out_pages", "vmstat", "pswpout"},
}

// diskValues are the values of every disk, "system.disk.<device>.<name>".
var diskValues = [...]struct {
	name, field string
	factor      float64
}{
	{"reads", "reads", 1},
	{"read_bytes", "read_sectors", sectorBytes},
	{"read_ms", "read_time_ms", 1}, // sum over the reads
	{"writes", "writes", 1},
	{"write_bytes", "write_sectors", sectorBytes},
	{"write_ms", "write_time_ms", 1},
	{"in_progress", "io_in_progress", 1}, // now
	{"busy_ms", "io_time_ms", 1},
	{"queued_ms", "io_queued_ms", 1}, // times the number of operations waiting
}

// sectorBytes is the unit of /proc/diskstats, whatever the disk's own is.
const sectorBytes = 512

// Sample reads serverStatus, replSetGetStatus and what getDiagnosticData says
// of the machine, of the member of a direct connection. A member without
// replication is a STANDALONE. One that does not tell of its machine is no
// error: Facts names it in Missing.
func (c *Client) Sample(ctx context.Context) (Sample, error) {
	var status bson.Raw
	if err := c.run(ctx, bson.D{{Key: "serverStatus", Value: 1}}, &status); err != nil {
		return Sample{}, err
	}
	s := Sample{State: "STANDALONE", Values: serverValues(status)}
	var diagnostic bson.Raw
	if err := c.run(ctx, diagnosticCommand(), &diagnostic); err == nil {
		addSystemValues(s.Values, diagnostic)
	}
	set, err := c.ReplicaSetStatus(ctx)
	if hasCode(err, codeNoReplicationEnabled, codeCommandNotFound) {
		return s, nil
	}
	if err != nil {
		return Sample{}, err
	}
	s.State, err = replicationValues(set, s.Values)
	if err != nil {
		return Sample{}, fmt.Errorf("sample %s: %w", c.subject, err)
	}
	return s, nil
}

func serverValues(status bson.Raw) map[string]float64 {
	values := make(map[string]float64, len(sampledValues))
	for _, v := range sampledValues {
		for _, path := range v.paths {
			n, ok := number(status.Lookup(path...))
			if !ok {
				continue
			}
			if path[0] == "uptimeMillis" {
				n /= 1000
			}
			values[v.name] = n
			break
		}
	}
	return values
}

// diagnosticCommand asks for the last sample of the server's own diagnostic
// data. The command is the server's own affair, but of long standing: its
// support tools rest on it.
func diagnosticCommand() bson.D { return bson.D{{Key: "getDiagnosticData", Value: 1}} }

// systemMetrics is the machine's part of an answer to it; nil when there is
// none, as on other systems than Linux. Where a process serves several roles
// it is in a section that they share.
func systemMetrics(diagnostic bson.Raw) bson.Raw {
	for _, path := range [][]string{{"data", "systemMetrics"}, {"data", "common", "systemMetrics"}} {
		if metrics, ok := diagnostic.Lookup(path...).DocumentOK(); ok {
			return metrics
		}
	}
	return nil
}

func addSystemValues(values map[string]float64, diagnostic bson.Raw) {
	metrics := systemMetrics(diagnostic)
	if metrics == nil {
		return
	}
	for _, v := range systemValues {
		if n, ok := number(metrics.Lookup(v.section, v.field)); ok {
			values[v.name] = n
		}
	}
	disks, _ := metrics.Lookup("disks").DocumentOK()
	elements, _ := disks.Elements()
	for _, disk := range elements {
		stats, ok := disk.Value().DocumentOK()
		if !ok {
			continue
		}
		for _, v := range diskValues {
			if n, ok := number(stats.Lookup(v.field)); ok {
				values["system.disk."+disk.Key()+"."+v.name] = n * v.factor
			}
		}
	}
}

// replicationValues adds the member's own numbers and returns its state.
func replicationValues(set ReplicaSetStatus, values map[string]float64) (string, error) {
	values[ElectionTerm] = float64(set.Term)
	for _, m := range set.Members {
		if !m.Self {
			continue
		}
		if primary, ok := set.Primary(); ok && m.StateName == "SECONDARY" {
			// The view of the primary is a heartbeat old and may be behind.
			values[replLag] = max(0, primary.OpTimeDate.Sub(m.OpTimeDate).Seconds())
		}
		return m.StateName, nil
	}
	return "", errors.New("replSetGetStatus does not list the member itself")
}
