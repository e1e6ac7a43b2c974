package embedded

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// patience is how long a member that has given its vote waits to hear of the
// winner before it stands itself.
const patience = time.Second

// evaluate draws the consequences of what is known.
func (r *replica) evaluate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cfg == nil {
		return
	}
	now := time.Now()
	votes, allKnown := r.cfg.Members[r.self].Votes, true
	for i, p := range r.peers {
		if p == nil {
			continue
		}
		allKnown = allKnown && p.known
		if r.with(p, now) {
			votes += r.cfg.Members[i].Votes
		}
	}
	majority := votes >= r.cfg.majority()
	if r.state == statePrimary {
		if !majority {
			r.stepDown("a majority of the votes is out of reach")
		}
		return
	}
	if i := r.primary; i >= 0 {
		if r.up(r.peers[i], now) {
			return
		}
		r.primary = -1
		r.publish()
		r.s.log.Warn("primary is gone", "primary", r.cfg.Members[i].Host, "cause", r.peers[i].failure)
	}
	if r.state != stateSecondary || !majority || !allKnown || r.electing || now.Before(r.frozenUntil) || now.Sub(r.votedAt) < patience || r.cfg.Members[r.self].Priority <= 0 {
		return
	}
	if best := r.best(now, false); best != r.self {
		// The other one may have its reasons not to stand: do not wait for ever.
		if r.waiting.IsZero() {
			r.waiting = now
		}
		if now.Sub(r.waiting) < r.cfg.electionTimeout() {
			return
		}
	}
	r.waiting = time.Time{}
	r.stand(-1)
}

// best is the first in rank among the members that could be elected, this
// one included: the newest users, the newest data, the highest priority, the
// lowest index. Members that are not to stand for a time count if frozenToo.
// The caller holds r.mu.
func (r *replica) best(now time.Time, frozenToo bool) int {
	best := -1
	var first beat
	for i, m := range r.cfg.Members {
		b := beat{}
		if i == r.self {
			b = r.ownBeat()
		} else if p := r.peers[i]; r.with(p, now) {
			b = p.beat
		} else {
			continue
		}
		if m.Priority <= 0 || i == r.self && r.state == statePrimary || b.Frozen && !frozenToo || i != r.self && b.State != stateSecondary && b.State != statePrimary {
			continue
		}
		if best < 0 || outranks(&b, m.Priority, &first, r.cfg.Members[best].Priority) {
			best, first = i, b
		}
	}
	return best
}

func outranks(a *beat, aPriority float64, b *beat, bPriority float64) bool {
	switch {
	case a.Users != b.Users:
		return b.Users.less(a.Users)
	case a.DataTerm != b.DataTerm:
		return a.DataTerm > b.DataTerm
	default:
		return aPriority > bPriority
	}
}

// stand begins an election with this member as candidate. relieves is the
// index of a primary that has asked for it, or -1. The channel is closed when
// the election is over. The caller holds r.mu.
func (r *replica) stand(relieves int) <-chan struct{} {
	term := r.term + 1
	done := make(chan struct{})
	if err := r.s.store.change(func(s *saved) { s.Term, s.VotedTerm = term, term }); err != nil {
		r.s.log.Error("cannot stand for election", "cause", err.Error())
		close(done)
		return done
	}
	r.term, r.votedTerm, r.electing = term, term, true
	r.s.wg.Go(func() {
		defer close(done)
		r.elect(term, relieves)
	})
	return done
}

// elect collects the votes.
func (r *replica) elect(term int64, relieves int) {
	r.mu.Lock()
	cfg := r.cfg
	own := r.ownBeat()
	votes := cfg.Members[r.self].Votes
	answers := make(chan int, len(r.peers))
	asked := 0
	ctx, cancel := context.WithTimeout(r.s.ctx, memberCallTimeout)
	defer cancel()
	for i, p := range r.peers {
		if p == nil || cfg.Members[i].Votes == 0 {
			continue
		}
		asked++
		r.s.wg.Go(func() {
			reply, err := p.client.call(ctx, bson.D{
				{Key: "sandboxVote", Value: 1}, {Key: "beat", Value: own}, {Key: "relieves", Value: int32(relieves)},
			})
			granted := 0
			if err == nil {
				if e, ok := find(reply, "granted"); ok {
					if yes, _ := e.truth(); yes {
						granted = cfg.Members[i].Votes
					}
				}
			}
			answers <- granted
		})
	}
	r.mu.Unlock()
	for ; asked > 0 && votes < cfg.majority(); asked-- {
		votes += <-answers
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.electing = false
	if r.s.ctx.Err() != nil || r.term != term || r.state != stateSecondary {
		return
	}
	if votes < cfg.majority() {
		r.s.log.Warn("election lost", "term", term, "votes", votes, "needed", cfg.majority())
		return
	}
	r.state, r.primary, r.electedAt = statePrimary, r.self, time.Now()
	note := "kept"
	if r.dataTerm == 0 {
		note = "empty: none was handed over by a primary before"
	}
	r.dataTerm = term
	r.s.tick()
	r.publish()
	r.kickAll()
	r.s.log.Info("elected primary", "set", cfg.Name, "member", cfg.Members[r.self].Host, "term", term, "votes", votes, "data", note)
}

// stepDown makes the primary a secondary. The caller holds r.mu.
func (r *replica) stepDown(cause string) {
	r.state, r.primary = stateSecondary, -1
	r.publish()
	r.kickAll()
	r.s.log.Info("stepped down", "set", r.cfg.Name, "member", r.cfg.Members[r.self].Host, "term", r.term, "cause", cause)
	r.s.wg.Go(func() { r.s.counters.txnAborted.Add(r.s.sessions.abortAll()) })
}

// vote decides about a candidate.
func (r *replica) vote(_ context.Context, _ *conn, q *request) (bson.D, error) {
	b, err := beatOf(q)
	if err != nil {
		return nil, err
	}
	relieves := int64(-1)
	if e, ok := find(q.Body, "relieves"); ok {
		relieves, _ = e.number()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, version := r.s.users.list()
	p := r.sender(&b)
	reason := ""
	switch {
	case p == nil:
		reason = "another configuration"
	case b.Term < r.term:
		reason = "an old term"
	case b.Term <= r.votedTerm:
		reason = "the vote of this term is given"
	case b.Users.less(version):
		reason = "older users"
	case r.state == statePrimary && (r.handingTo != p || relieves != int64(r.self)):
		reason = "this member is the primary"
	case r.state != statePrimary && r.primary >= 0 && int64(r.primary) != relieves && r.primary != p.index && r.up(r.peers[r.primary], time.Now()):
		reason = "there is a primary"
	}
	if reason == "" {
		if err := r.s.store.change(func(s *saved) { s.Term, s.VotedTerm = b.Term, b.Term }); err != nil {
			reason = err.Error()
		} else {
			r.term, r.votedTerm = b.Term, b.Term
			r.votedAt = time.Now()
			if r.state == statePrimary {
				r.frozenUntil = r.votedAt.Add(r.handingFor)
				r.stepDown("handed over")
			}
		}
	}
	return bson.D{{Key: "granted", Value: reason == ""}, {Key: "reason", Value: reason}, {Key: "term", Value: r.term}}, nil
}
