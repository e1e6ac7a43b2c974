package loadgen

import (
	"io"
	"strconv"

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
	a.lines = strconv.AppendInt(a.lines, int64(worker), 10)
	a.lines = append(a.lines, ',')
	a.lines = strconv.AppendInt(a.lines, a.commands[worker], 10)
	a.lines = append(a.lines, ',')
	a.lines = append(a.lines, s.op.String()...)
	a.lines = append(a.lines, ',')
	if s.failure != 0 {
		a.lines = append(a.lines, failures.get(s.failure).name...)
	}
	a.lines = append(a.lines, ',')
	a.lines = strconv.AppendUint(a.lines, uint64(s.outcome[0]), 10)
	a.lines = append(a.lines, ',')
	if s.op == workload.UpdateOne || s.op == workload.UpdateMany {
		a.lines = strconv.AppendUint(a.lines, uint64(s.outcome[1]), 10)
	}
	a.lines = append(a.lines, '\n')
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
