package mirror

import (
	"slices"
	"strings"
)

// FaultKind is how a request goes wrong.
type FaultKind string

// The kinds of faults.
const (
	Refuse      FaultKind = "refuse"      // the connection is closed without an answer
	Stall       FaultKind = "stall"       // no answer, ever
	Unavailable FaultKind = "unavailable" // status 503
	Corrupt     FaultKind = "corrupt"     // one bit of the answer is another
	Unsigned    FaultKind = "unsigned"    // apt: no signature; yum: packages that nobody signed
	Replace     FaultKind = "replace"     // Dir is served instead of Path
)

// Fault is what goes wrong at a host.
type Fault struct {
	Kind FaultKind
	Host string
	// Path limits it to paths that start with it, "" to none.
	Path string
	// Suffix limits it to paths that end with it, "" to none.
	Suffix string
	// Times limits it to that many requests; 0 is until it is removed.
	Times int
	// Dir is a folder on disk (Replace).
	Dir string
}

// Inject makes requests go wrong until the returned function is called. The
// fault injected last wins.
func (s *Server) Inject(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := &f
	s.faults = append(s.faults, fault)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(other *Fault) bool { return other == fault })
	}
}

// Unreachable makes a host close every connection until the returned function
// is called.
func (s *Server) Unreachable(host string) (remove func()) {
	return s.Inject(Fault{Kind: Refuse, Host: host})
}

// fault returns the one that a request meets, or nil.
func (s *Server) fault(host, name string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range slices.Backward(s.faults) {
		if f.Host != host || !strings.HasPrefix(name, f.Path) || !strings.HasSuffix(name, f.Suffix) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.DeleteFunc(s.faults, func(other *Fault) bool { return other == f })
			}
		}
		return f
	}
	return nil
}
