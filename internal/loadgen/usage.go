package loadgen

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// clientBoundPercent is the share of the CPUs above which the load generator
// itself may be what limits a cell.
const clientBoundPercent = 70

// usage is what this process has used so far.
type usage struct {
	cpu    time.Duration
	maxRSS int64 // bytes
}

// readUsage returns zeros where the system does not tell.
func readUsage() usage {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return usage{}
	}
	rss := int64(ru.Maxrss)
	if runtime.GOOS != "darwin" {
		rss *= 1024 // getrusage(2): kilobytes on Linux, bytes on macOS
	}
	return usage{cpu: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), maxRSS: rss}
}

// clientUsage is what was used between two readings that lie elapsed apart.
// The CPUs are those the process may use (GOMAXPROCS).
func clientUsage(before, after usage, elapsed time.Duration) record.ClientUsage {
	cpu := after.cpu - before.cpu
	u := record.ClientUsage{CPUS: cpu.Seconds(), MaxRSSBytes: after.maxRSS}
	if elapsed > 0 {
		u.CPUPercent = 100 * cpu.Seconds() / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0))
		u.ClientBound = u.CPUPercent > clientBoundPercent
	}
	return u
}
