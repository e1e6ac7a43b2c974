package loadgen

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/record"
)

// clientBoundPercent is the share of the CPUs above which the load generator
// itself may be what limits a cell.
const clientBoundPercent = 70

// usage is what this process has used so far, and the whole machine since it
// was started.
type usage struct {
	cpu    time.Duration
	maxRSS int64 // bytes
	// machineBusy and machineAll are CPU seconds: those in which anything ran
	// here, or in a neighbour of a virtual machine at its expense (steal),
	// and all.
	machineBusy, machineAll float64
}

// readUsage returns zeros where the system does not tell.
func readUsage() usage {
	var ru unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &ru); err != nil {
		return usage{}
	}
	u := usage{cpu: time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), maxRSS: peakRSS(&ru)}
	if times, err := cpu.Times(false); err == nil && len(times) == 1 {
		t := times[0] // the time of guests is in that of users
		u.machineBusy = t.User + t.Nice + t.System + t.Irq + t.Softirq + t.Steal
		u.machineAll = u.machineBusy + t.Idle + t.Iowait
	}
	return u
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
	own := (after.cpu - before.cpu).Seconds()
	u := record.ClientUsage{CPUS: own, MaxRSSBytes: after.maxRSS}
	if all := after.machineAll - before.machineAll; before.machineAll > 0 && all > 0 {
		// Seconds since the start, added up, round to more than all of them.
		u.MachineCPUPercent = min(100*(after.machineBusy-before.machineBusy)/all, 100)
	}
	if elapsed > 0 {
		u.CPUPercent = 100 * own / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0))
		u.ClientBound = u.CPUPercent > clientBoundPercent
	}
	return u
}
