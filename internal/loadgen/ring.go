package loadgen

import (
	"sync/atomic"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// sample is the result of one command.
type sample struct {
	end time.Duration // since the start
	// service and response time in µs, at most 71 minutes; response is 0 in
	// a closed loop.
	service, response uint32
	outcome           [2]uint32 // see outcomeOf
	op                workload.OpType
	digested          bool
	failure           uint16 // 0: succeeded; else as registered with failures
	digest            uint32 // of what a read returned, if digested
	// attempts that the driver made, the first included; 0 when it was not
	// seen, or none came to its end.
	attempts uint32
}

// lag is how late the command was started; 0 in a closed loop.
func (s *sample) lag() time.Duration {
	return time.Duration(max(s.response, s.service)-s.service) * time.Microsecond
}

// ring carries samples from one worker to the collector without a lock. It
// is full only when the collector has been held up for long.
type ring struct {
	slots []sample // a power of two

	// The worker's side; the padding keeps the two sides off each other's
	// cache line.
	tail     atomic.Uint64 // written by the worker
	seenHead uint64
	_        [48]byte
	head     atomic.Uint64 // written by the collector
	_        [56]byte
}

// newRing makes a ring for one of so many workers. Together they hold at
// least 65,536 samples, 2.5 MiB.
func newRing(workers int) *ring {
	size := 1 << 13
	for size > 1<<6 && size*workers > 1<<16 {
		size >>= 1
	}
	return &ring{slots: make([]sample, size)}
}

// push appends s. It returns false, and does nothing, if the ring is full.
func (r *ring) push(s *sample) bool {
	tail := r.tail.Load()
	if tail-r.seenHead == uint64(len(r.slots)) {
		if r.seenHead = r.head.Load(); tail-r.seenHead == uint64(len(r.slots)) {
			return false
		}
	}
	r.slots[tail&uint64(len(r.slots)-1)] = *s
	r.tail.Store(tail + 1)
	return true
}

// drain hands over what has been pushed so far.
func (r *ring) drain(take func(*sample)) {
	head, tail := r.head.Load(), r.tail.Load()
	for ; head < tail; head++ {
		take(&r.slots[head&uint64(len(r.slots)-1)])
	}
	r.head.Store(head)
}
