package loadgen

import (
	"math"
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
)

// failures gives the errors of a run numbers, so that a sample can carry
// one. Only failed commands come here.
type failures struct {
	mu    sync.Mutex
	known []failure // number n is at n-1
}

type failure struct {
	name string
	text string // of the first error with that name
	// at is when the command of that error ended, since the measured start.
	at time.Duration
	// unreachable: the error says that the target could not be reached.
	unreachable bool
	// timeout: the time that the command was given ran out.
	timeout bool
}

// number returns the number of an error's name, 1 or more. at is when the
// command ended, since the measured start.
func (f *failures) number(err error, at time.Duration) uint16 {
	name := mongodb.ErrorName(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.known {
		if f.known[i].name == name {
			return uint16(i + 1)
		}
	}
	if len(f.known) == math.MaxUint16 {
		return math.MaxUint16 // servers have a few hundred codes
	}
	unreachable := name == mongodb.NameNetwork || name == mongodb.NameServerSelection
	f.known = append(f.known, failure{name, brief(err).Error(), at, unreachable, mongodb.IsTimeout(err)})
	return uint16(len(f.known))
}

func (f *failures) get(number uint16) failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[number-1]
}

// first is the first error; the zero value when there was none.
func (f *failures) first() failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) == 0 {
		return failure{}
	}
	return f.known[0]
}
