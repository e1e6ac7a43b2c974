package computeapi

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/api/compute/v1"
)

// operation is a change under way. Its answer is that it runs; once the delay
// is over and the work done, finish makes the change or says why it failed.
type operation struct {
	compute.Operation
	end    time.Time
	worked chan error // nil when there is no work beside
	finish func(error) *compute.OperationErrorErrors
}

// start begins an operation on a resource.
func (s *Server) start(kind, target string, finish func() *compute.OperationErrorErrors) *compute.Operation {
	return s.startWork(kind, target, nil, func(error) *compute.OperationErrorErrors { return finish() })
}

// startWork begins an operation with work that is done beside, unless it is
// nil, while the server goes on; finish gets its error.
func (s *Server) startWork(kind, target string, work func() error, finish func(error) *compute.OperationErrorErrors) *compute.Operation {
	id := s.newID()
	op := &operation{end: time.Now().Add(s.options.Delay), finish: finish}
	if work != nil {
		op.worked = make(chan error, 1)
		s.working.Go(func() { op.worked <- work() })
	}
	op.Operation = compute.Operation{
		Kind: "compute#operation", Id: id, Name: fmt.Sprintf("operation-%d", id), OperationType: kind,
		TargetLink: s.link(target), Status: "RUNNING", InsertTime: now(), StartTime: now(), User: "test@example.com",
	}
	// The collection that an operation is asked for in is its target's.
	scope := strings.Split(target, "/")[:3] // projects/p/global
	switch scope[2] {
	case "zones":
		scope = strings.Split(target, "/")[:4]
		op.Zone = s.link(strings.Join(scope, "/"))
	case "regions":
		scope = strings.Split(target, "/")[:4]
		op.Region = s.link(strings.Join(scope, "/"))
	}
	path := strings.Join(scope, "/") + "/operations/" + op.Name
	op.SelfLink = s.link(path)
	s.operations[path] = op
	s.pending = append(s.pending, op)
	answer := op.Operation
	return &answer
}

// settle ends the operations whose time has come, in their order.
func (s *Server) settle() {
	pending := s.pending
	s.pending = nil
	for _, op := range pending {
		if time.Now().Before(op.end) || !s.end(op) {
			s.pending = append(s.pending, op)
		}
	}
}

// end ends an operation unless it is still being worked on.
func (s *Server) end(op *operation) bool {
	var worked error
	if op.worked != nil {
		select {
		case worked = <-op.worked:
		default:
			return false
		}
	}
	op.Status, op.Progress, op.EndTime = "DONE", 100, now()
	if failure := op.finish(worked); failure != nil {
		op.Error = &compute.OperationError{Errors: []*compute.OperationErrorErrors{failure}}
		op.HttpErrorStatusCode, op.HttpErrorMessage = http.StatusServiceUnavailable, "SERVICE UNAVAILABLE"
	}
	return true
}

// internalError is how an operation ends whose work failed.
func internalError(err error) *compute.OperationErrorErrors {
	return &compute.OperationErrorErrors{Code: "INTERNAL_ERROR", Message: err.Error()}
}

func (s *Server) getOperation(r *http.Request) (any, error) {
	op, ok := s.operations[pathOf(r)]
	if !ok {
		return nil, notFound(pathOf(r))
	}
	return &op.Operation, nil
}

// done is the end of a change that was made when it was asked for.
func done() *compute.OperationErrorErrors { return nil }
