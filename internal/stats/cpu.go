package stats

// Reading is what the servers' counters of CPU time said at one time.
type Reading struct {
	AtS float64 // seconds since the measured start, may be below 0
	CPU float64 // µs, of all servers together; only its differences count
}

// Progress is how far the commands had come at one time.
type Progress struct {
	AtS      float64 // seconds since the measured start
	Commands int64   // that had succeeded by then
}

// CPUWindows joins readings of CPU time with the commands of the same time,
// in windows of about so many seconds. Both are in the order of time.
//
// Readings are not taken where the other metrics' windows end, so one of two
// counts has to be read between the points where it is known. CPU time is
// known at the readings only, every ten seconds as a rule, commands at every
// second. So windows end at readings, where CPU time needs no interpolation,
// and commands are interpolated within a second. The other way round, CPU time
// would be spread evenly over ten seconds in which a stall or a checkpoint
// may lie, while the commands show it: what both have in common, which is
// most of their variation, would no longer cancel in their ratio.
//
// An error at a border is in two neighbouring windows with opposite signs, so
// it is not in their sum. What is left after the last window joins it unless
// it is half as long as one: all CPU time between the first and the last
// reading is in some window. There is none for fewer than two readings, or
// when a counter was set back.
func CPUWindows(readings []Reading, progress []Progress, seconds float64) []Window {
	if len(readings) < 2 || len(progress) == 0 || !(seconds > 0) {
		return nil
	}
	var out []Window
	last := len(readings) - 1
	begin := 0
	for end := 1; end <= last; end++ {
		if readings[end].AtS < readings[end-1].AtS || readings[end].CPU < readings[end-1].CPU {
			return nil
		}
		left := readings[last].AtS - readings[end].AtS
		// The nearest reading to where the window should end, unless the
		// rest is too short to stand alone.
		span := readings[end].AtS - readings[begin].AtS
		next := span
		if end < last {
			next = readings[end+1].AtS - readings[begin].AtS
		}
		if end < last && (left < seconds/2 || seconds-span > next-seconds) {
			continue
		}
		out = append(out, Window{
			Seconds: span,
			Count:   commandsAt(progress, readings[end].AtS) - commandsAt(progress, readings[begin].AtS),
			CPU:     readings[end].CPU - readings[begin].CPU,
		})
		begin = end
	}
	return out
}

// commandsAt reads progress between its points; nothing had been done before
// the measured start, and nothing was after the last point.
func commandsAt(progress []Progress, at float64) int64 {
	if at <= 0 {
		return 0
	}
	before := Progress{}
	low, high := 0, len(progress)
	for low < high {
		if mid := (low + high) / 2; progress[mid].AtS < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low > 0 {
		before = progress[low-1]
	}
	if low == len(progress) {
		return before.Commands
	}
	after := progress[low]
	if !(after.AtS > before.AtS) {
		return after.Commands
	}
	share := (at - before.AtS) / (after.AtS - before.AtS)
	return before.Commands + int64(share*float64(after.Commands-before.Commands)+0.5)
}
