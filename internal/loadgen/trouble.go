package loadgen

import (
	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// trouble counts what went wrong in a stretch of time.
type trouble struct {
	retries  int64
	timeouts int64
	failed   map[failedKey]int64 // nil until needed
}

type failedKey struct {
	op     workload.OpType
	number uint16
}

func (t *trouble) fail(s *sample, timeout bool) {
	if t.failed == nil {
		t.failed = map[failedKey]int64{}
	}
	t.failed[failedKey{s.op, s.failure}]++
	if timeout {
		t.timeouts++
	}
}

func (t *trouble) merge(from *trouble) {
	t.retries += from.retries
	t.timeouts += from.timeouts
	for key, n := range from.failed {
		if t.failed == nil {
			t.failed = map[failedKey]int64{}
		}
		t.failed[key] += n
	}
}

func (t *trouble) reset() {
	t.retries, t.timeouts = 0, 0
	clear(t.failed)
}

// unobserved tells that the client has no monitor: commands succeeded, and no
// attempt was seen.
func (c *collector) unobserved() bool { return c.succeeded && !c.observed }

// recorded is t in the record's terms.
func (c *collector) recorded(t *trouble) record.Trouble {
	timeouts, retries := t.timeouts, t.retries // t is used again
	v := record.Trouble{Timeouts: &timeouts}
	if !c.unobserved() {
		v.Retries = &retries
	}
	for key, n := range t.failed {
		if v.ErrorCodes == nil {
			v.ErrorCodes = map[string]int64{}
		}
		v.ErrorCodes[key.op.String()+"/"+c.phase.failures.get(key.number).name] += n
	}
	return v
}
