package loadgen

import (
	"math"
	"time"
)

// due is when command n of all workers, counted from 0, is to be started in
// an open loop: n/rate seconds after the start. Exact to the nanosecond for
// a hundred days. Worker w's i-th command is number i*workers + w.
func due(n int64, rate float64) time.Duration {
	at := float64(n) / rate * float64(time.Second)
	if at >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(at)
}

// dueBefore counts the commands that are due before end.
func dueBefore(end time.Duration, rate float64) int64 {
	n := int64(math.Ceil(end.Seconds() * rate))
	// The product is rounded; due decides.
	for n > 0 && due(n-1, rate) >= end {
		n--
	}
	for due(n, rate) < end {
		n++
	}
	return n
}

// windowLength is the length of a window: whole minutes, so that the
// server's checkpoints weigh equally on each, where there is room for ten of
// them; else a tenth of the run in whole seconds, but at least one. Runs
// without a set duration have windows of one second.
func windowLength(duration time.Duration) time.Duration {
	if duration >= 10*time.Minute {
		return time.Minute
	}
	return max((duration / 10).Truncate(time.Second), time.Second)
}
