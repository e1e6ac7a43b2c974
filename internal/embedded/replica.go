package embedded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// memberState is a member's state, numbered as replSetGetStatus does.
type memberState int32

const (
	stateStartup   memberState = 0
	statePrimary   memberState = 1
	stateSecondary memberState = 2
	stateArbiter   memberState = 7
	stateDown      memberState = 8
)

func (s memberState) String() string {
	switch s {
	case stateStartup:
		return "STARTUP"
	case statePrimary:
		return "PRIMARY"
	case stateSecondary:
		return "SECONDARY"
	case stateArbiter:
		return "ARBITER"
	case stateDown:
		return "(not reachable/healthy)"
	}
	return "UNKNOWN"
}

// replica is this server as a member of its replica set.
//
// Every member sends heartbeats to every other and keeps what it learned.
// From that each decides alone: a primary that does not reach a majority of
// the votes steps down; a secondary that knows of no primary, reaches a
// majority, and is the first in rank among those it reaches asks for votes.
// A member votes once per term, stores that before it answers, and does not
// vote against a primary it still hears, so that two primaries of one term
// cannot be, and the term decides between primaries of different terms.
type replica struct {
	s    *Server
	view atomic.Pointer[replView] // what the hot path and hello look at

	mu          sync.Mutex
	cfg         *replConfig // nil before initiation
	self        int
	state       memberState
	term        int64
	votedTerm   int64
	votedAt     time.Time // when the last vote was given to another member
	primary     int       // index of the member known as primary; -1
	electing    bool
	electedAt   time.Time
	frozenUntil time.Time // not a candidate before
	waiting     time.Time // since when a better candidate has been waited for
	dataTerm    int64     // term of the primary that wrote this member's data; 0: there is none
	peers       []*peer   // by index in cfg.Members; nil at self
	topology    int64
	incoming    *engine.Engine // data being handed over by the primary

	handingTo  *peer         // the member this primary wants to be relieved by
	handingFor time.Duration // how long it will not stand again

	cursors forwardedCursors
}

// replView is an immutable picture of the member.
type replView struct {
	state    memberState
	topology int64
	term     int64
	set      string
	cfg      *replConfig
	self     int
	primary  int
	changed  chan struct{} // closed when there is a newer view
}

func newReplica(s *Server) *replica {
	r := &replica{s: s, primary: -1, self: -1}
	now := s.store.load()
	r.term, r.votedTerm = now.Term, now.VotedTerm
	if now.Config != nil {
		r.adopt(now.Config, now.Self)
	}
	r.publish()
	return r
}

// adopt takes a configuration. The caller holds r.mu or is the only one that
// knows r.
func (r *replica) adopt(cfg *replConfig, self int) {
	r.cfg, r.self, r.primary = cfg, self, -1
	r.state = stateSecondary
	if cfg.Members[self].Arbiter {
		r.state = stateArbiter
	}
	r.peers = make([]*peer, len(cfg.Members))
	for i, m := range cfg.Members {
		if i != self {
			r.peers[i] = &peer{index: i, client: newPeerClient(m.Host, r.s.keys), kick: make(chan struct{}, 1)}
		}
	}
}

// start begins heartbeats with a configuration known from before.
func (r *replica) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg != nil {
		r.s.log.Info("member comes back", "set", r.cfg.Name, "member", r.cfg.Members[r.self].Host, "term", r.term,
			"data", "gone: it was in the memory of the process before")
		r.startPeers()
	}
	r.s.wg.Go(func() {
		ticker := time.NewTicker(r.s.cfg.Heartbeat)
		defer ticker.Stop()
		for {
			r.evaluate()
			select {
			case <-ticker.C:
			case <-r.s.ctx.Done():
				return
			}
		}
	})
}

func (r *replica) startPeers() {
	for _, p := range r.peers {
		if p != nil {
			r.s.wg.Go(func() { r.beatTo(p) })
		}
	}
}

func (r *replica) closePeers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.peers {
		if p != nil {
			p.client.close()
		}
	}
}

func (r *replica) currentTerm() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term
}

// publish makes a new view. The caller holds r.mu.
func (r *replica) publish() {
	r.topology++
	old := r.view.Swap(&replView{
		state: r.state, topology: r.topology, term: r.term, set: r.s.cfg.ReplicaSet,
		cfg: r.cfg, self: r.self, primary: r.primary, changed: make(chan struct{}),
	})
	if old != nil {
		close(old.changed)
	}
}

// await returns the view once it is another than the client knows, or after
// the time.
func (r *replica) await(ctx context.Context, known int64, atMost time.Duration) *replView {
	view := r.view.Load()
	if view.topology != known {
		return view
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-view.changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	return r.view.Load()
}

// unsatisfiable is the writeConcernError for a write concern that the set
// could never satisfy, or nil.
func (r *replica) unsatisfiable(w writeConcern) bson.Raw {
	cfg := r.view.Load().cfg
	var code int32
	var name, msg string
	switch {
	case w.name != "" && w.name != "majority":
		code, name = 79, "UnknownReplWriteConcern"
		msg = fmt.Sprintf("No write concern mode named '%s' found in replica set configuration", w.name)
	case w.name == "" && cfg != nil && w.number > int64(cfg.dataMembers()):
		code, name, msg = 100, "UnsatisfiableWriteConcern", "Not enough data-bearing nodes"
	default:
		return nil
	}
	doc := appendInt32(make([]byte, 4), "code", code)
	doc = appendString(doc, "codeName", name)
	return closeDocument(appendString(doc, "errmsg", msg), 0)
}

// acceptsWrites returns an error unless this server is a standalone or the
// primary.
func (s *Server) acceptsWrites() error {
	if s.repl != nil && s.repl.view.Load().state != statePrimary {
		return notWritablePrimary()
	}
	return nil
}
