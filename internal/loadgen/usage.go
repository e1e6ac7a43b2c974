package loadgen

import (
	"os"
	"runtime"
	"strconv"
	"strings"
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
	return usage{cpu: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), maxRSS: peakRSS(&ru)}
}

// peakRSS is the most memory that was resident, in bytes. On Linux ru_maxrss
// would not do: it starts at what the parent had when it started us. VmHWM
// in proc(5) does not.
func peakRSS(ru *unix.Rusage) int64 {
	if runtime.GOOS != "linux" {
		return int64(ru.Maxrss) //nolint:unconvert // bytes on macOS; the type is int32 on 32-bit systems
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kb * 1024
		}
	}
	return 0
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
