package loadgen

import (
	"io"

	"github.com/mongo-sandbox/sandbox/internal/record"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// answers writes down what the server answered to every command; see
// Options.Outcomes. It belongs to the collector.
type answers struct {
	sink     io.Writer
	commands []int64 // by worker: commands seen so far
	lines    []byte
}

// add appends the line of a worker's next command.
func (a *answers) add(worker int, s *sample, failures *failures) {
	o := record.Outcome{Worker: worker, Command: a.commands[worker], Operation: s.op.String(), Documents: int64(s.outcome[0])}
	switch s.op {
	case workload.UpdateOne, workload.UpdateMany:
		o.Modified = int64(s.outcome[1])
	case workload.Find, workload.Aggregate:
		o.Digest, o.Digested = s.digest, s.digested
	}
	if s.failure != 0 {
		o.Error = failures.get(s.failure).name
	}
	a.lines = o.AppendTo(a.lines)
	a.commands[worker]++
}

// flush writes the lines so far. A nil a has none.
func (a *answers) flush() error {
	if a == nil || len(a.lines) == 0 {
		return nil
	}
	_, err := a.sink.Write(a.lines)
	a.lines = a.lines[:0]
	return err
}
