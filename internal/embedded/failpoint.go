package embedded

import (
	"context"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// failPoint is the fail point "failCommand", as the drivers' own tests
// configure it (specifications, "fail-point" in the unified test format).
type failPoint struct {
	mu   sync.Mutex
	skip int64 // commands still let through
	left int64 // commands still to fail; -1 is always

	commands          map[string]bool
	errorCode         int32
	hasErrorCode      bool
	closeConnection   bool
	blocks            bool
	block             time.Duration
	errorLabels       []string
	hasLabels         bool
	writeConcernError bson.Raw
	appName           string
	internal          bool // internal connections' commands too
}

// takes reports whether the command meets the fail point, and counts it.
func (p *failPoint) takes(c *conn, name string) bool {
	if !p.commands[name] || p.appName != "" && p.appName != c.appName || c.internal && !p.internal {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.skip > 0 {
		p.skip--
		return false
	}
	if p.left == 0 {
		return false
	}
	if p.left > 0 {
		p.left--
	}
	return true
}

// wait blocks for the fail point's time, at most until the server ends.
func (p *failPoint) wait(ctx context.Context) {
	if !p.blocks || p.block <= 0 {
		return
	}
	timer := time.NewTimer(p.block)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// parseFailPoint reads the arguments of configureFailPoint. A nil fail point
// turns it off.
func parseFailPoint(body []byte) (*failPoint, error) {
	p := &failPoint{commands: map[string]bool{}}
	mode, ok := find(body, "mode")
	if !ok {
		return nil, failf(40414, "IDLFailedToParse", "BSON field 'configureFailPoint.mode' is missing but a required field")
	}
	off, err := p.readMode(mode)
	if err != nil || off {
		return nil, err
	}
	e, ok := find(body, "data")
	if !ok {
		return nil, badValue("failCommand needs data.failCommands")
	}
	data, ok := e.document()
	if !ok {
		return nil, typeMismatch("configureFailPoint", "data", e.kind, "object")
	}
	for f := fieldsOf(data); ; {
		e, more := f.next()
		if !more {
			break
		}
		if err := p.readData(e); err != nil {
			return nil, err
		}
	}
	if len(p.commands) == 0 {
		return nil, badValue("failCommand needs data.failCommands")
	}
	return p, nil
}

func (p *failPoint) readMode(mode element) (off bool, err error) {
	if text, ok := mode.text(); ok {
		switch text {
		case "off":
			return true, nil
		case "alwaysOn":
			p.left = -1
			return false, nil
		}
		return false, badValue("unknown mode: %s", text)
	}
	doc, ok := mode.document()
	if !ok {
		return false, typeMismatch("configureFailPoint", "mode", mode.kind, "string or object")
	}
	f := fieldsOf(doc)
	e, ok := f.next()
	if !ok {
		return false, badValue("mode object must have one field")
	}
	n, isNumber := e.number()
	if !isNumber || n < 0 {
		return false, badValue("'%s' option to 'mode' must be a non-negative number", e.key)
	}
	switch string(e.key) {
	case "times":
		p.left = n
	case "skip":
		p.skip, p.left = n, -1
	default:
		return false, badValue("'mode' must have one of the fields 'times' and 'skip', not '%s'", e.key)
	}
	if _, more := f.next(); more {
		return false, badValue("mode object must have one field")
	}
	return false, nil
}

func (p *failPoint) readData(e element) error {
	var ok bool
	var n int64
	switch string(e.key) {
	case "failCommands":
		var names []string
		names, ok = e.texts()
		for _, name := range names {
			p.commands[name] = true
		}
	case "errorCode":
		n, ok = e.number()
		p.errorCode, p.hasErrorCode = int32(n), true
	case "closeConnection":
		p.closeConnection, ok = e.truth()
	case "blockConnection":
		p.blocks, ok = e.truth()
	case "blockTimeMS":
		n, ok = e.number()
		if n < 0 || n > int64(time.Hour/time.Millisecond) {
			return badValue("blockTimeMS must be between 0 and an hour")
		}
		p.block = time.Duration(n) * time.Millisecond
	case "errorLabels":
		p.errorLabels, ok = e.texts()
		p.hasLabels = true
	case "writeConcernError":
		var doc bson.Raw
		doc, ok = e.document()
		p.writeConcernError = append(bson.Raw(nil), doc...)
	case "appName":
		p.appName, ok = e.text()
	case "failInternalCommands":
		p.internal, ok = e.truth()
	default:
		return unknownField("failCommand", string(e.key))
	}
	if !ok {
		return typeMismatch("failCommand", string(e.key), e.kind, "another type")
	}
	return nil
}

// configureFailPoint is the command.
func (s *Server) configureFailPoint(_ context.Context, _ *conn, q *request) (bson.D, error) {
	name, ok := q.first.text()
	if !ok {
		return nil, typeMismatch(q.Name, q.Name, q.first.kind, "string")
	}
	if name != "failCommand" {
		return nil, failf(259, "FailPointSetFailed", "%s not found", name)
	}
	if err := q.only("mode", "data"); err != nil {
		return nil, err
	}
	p, err := parseFailPoint(q.Body)
	if err != nil {
		return nil, err
	}
	s.failPoint.Store(p)
	return bson.D{}, nil
}
