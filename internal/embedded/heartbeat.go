package embedded

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// memberCallTimeout bounds a heartbeat or a vote.
const memberCallTimeout = 2 * time.Second

// peer is another member as seen from here. Its fields are guarded by
// replica.mu.
type peer struct {
	index    int
	client   *peerClient
	kick     chan struct{}
	known    bool // an answer, or the lack of one, has been seen
	refused  bool // nothing listens there
	last     time.Time
	received time.Time
	upSince  time.Time
	ping     time.Duration
	beat     beat // its last
	failure  string
}

// beat is what members tell each other, as request and as reply.
type beat struct {
	Set           string        `bson:"set"`
	SetID         bson.ObjectID `bson:"setId"`
	ConfigVersion int64         `bson:"configVersion"`
	From          int           `bson:"from"`
	Term          int64         `bson:"term"`
	State         memberState   `bson:"state"`
	Users         usersVersion  `bson:"users"`
	DataTerm      int64         `bson:"dataTerm"`
	Frozen        bool          `bson:"frozen"`
	LastOp        int64         `bson:"lastOp"`
	ElectedAt     time.Time     `bson:"electedAt"`
}

// kickAll asks for a heartbeat to every member at once. The caller holds
// r.mu.
func (r *replica) kickAll() {
	for _, p := range r.peers {
		if p != nil {
			select {
			case p.kick <- struct{}{}:
			default:
			}
		}
	}
}

// ownBeat is what this member says of itself. The caller holds r.mu.
func (r *replica) ownBeat() beat {
	_, version := r.s.users.list()
	b := beat{
		Set: r.s.cfg.ReplicaSet, From: r.self, Term: r.term, State: r.state, Users: version, DataTerm: r.dataTerm,
		Frozen: time.Now().Before(r.frozenUntil), LastOp: int64(r.s.lastOp.Load()), ElectedAt: r.electedAt,
	}
	if r.cfg != nil {
		b.SetID, b.ConfigVersion = r.cfg.ID, r.cfg.Version
	}
	return b
}

// beatTo sends heartbeats to one member until the server ends.
func (r *replica) beatTo(p *peer) {
	ticker := time.NewTicker(r.s.cfg.Heartbeat)
	defer ticker.Stop()
	for {
		r.beatOnce(p)
		select {
		case <-ticker.C:
		case <-p.kick:
		case <-r.s.ctx.Done():
			return
		}
	}
}

func (r *replica) beatOnce(p *peer) {
	r.mu.Lock()
	own := r.ownBeat()
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.s.ctx, memberCallTimeout)
	defer cancel()
	start := time.Now()
	body := bson.D{{Key: "sandboxHeartbeat", Value: 1}, {Key: "beat", Value: own}}
	reply, err := p.client.call(ctx, body)
	var theirs struct {
		Beat beat `bson:"beat"`
	}
	if err == nil {
		err = bson.Unmarshal(reply, &theirs)
	}
	r.mu.Lock()
	if err == nil {
		p.ping = time.Since(start)
		err = r.learn(p, theirs.Beat)
	}
	if err != nil && r.s.ctx.Err() == nil {
		p.known = true
		p.failure = err.Error()
		if nobodyThere(err) {
			p.refused = true
		}
	}
	cfg, version := r.cfg, own.Users
	stale := err == nil && theirs.Beat.ConfigVersion < cfg.Version
	behind := err == nil && !stale && r.state == statePrimary && !cfg.Members[p.index].Arbiter && theirs.Beat.Users.less(version)
	r.mu.Unlock()
	if stale {
		if err := r.pushConfig(ctx, p.client, cfg, p.index); err == nil {
			select {
			case p.kick <- struct{}{}: // to hear that it has it
			default:
			}
		} else if r.s.ctx.Err() == nil {
			r.s.log.Warn("configuration not taken", "member", p.client.host, "cause", err.Error())
		}
	}
	if behind {
		_ = r.pushUsersTo(ctx, p.client) // the next heartbeat tries again
	}
	r.evaluate()
}

// learn takes in what a member says of itself. The caller holds r.mu.
func (r *replica) learn(p *peer, b beat) error {
	if b.Set != r.s.cfg.ReplicaSet || b.ConfigVersion > 0 && b.SetID != r.cfg.ID {
		return fmt.Errorf("member %s belongs to another replica set", p.client.host)
	}
	now := time.Now()
	if !r.up(p, now) {
		p.upSince = now
	}
	p.known, p.refused, p.failure = true, false, ""
	p.last, p.beat = now, b
	if b.Term > r.term {
		r.term = b.Term
		_ = r.s.store.change(func(s *saved) { s.Term = b.Term }) // a vote stores it for good
		if r.state == statePrimary {
			r.stepDown("another member is in a later term")
		} else {
			r.publish()
		}
	}
	switch {
	case b.State == statePrimary && b.Term == r.term && r.state != statePrimary:
		if r.primary != p.index {
			r.primary = p.index
			r.publish()
			r.s.log.Info("primary is known", "primary", p.client.host, "term", b.Term)
		}
		if r.dataTerm > 0 && r.dataTerm < b.Term {
			r.dataTerm = 0
			r.s.engine.Store(engine.New())
			r.s.log.Info("own data dropped", "cause", "another member is the primary and has the data now")
		}
	case r.primary == p.index && b.State != statePrimary:
		r.primary = -1
		r.publish()
		r.kickAll()
	}
	return nil
}

// up reports whether the member counts as reachable: it has answered within
// the election timeout and its port has not been found closed since. The
// caller holds r.mu.
func (r *replica) up(p *peer, now time.Time) bool {
	return !p.refused && !p.last.IsZero() && now.Sub(p.last) < r.cfg.electionTimeout()
}

// with reports whether the member is reachable and has the configuration.
func (r *replica) with(p *peer, now time.Time) bool {
	return r.up(p, now) && p.beat.ConfigVersion == r.cfg.Version
}

func beatOf(q *request) (b beat, err error) {
	e, _ := find(q.Body, "beat")
	doc, ok := e.document()
	if !ok {
		return b, typeMismatch(q.Name, "beat", e.kind, "object")
	}
	if err := bson.Unmarshal(doc, &b); err != nil {
		return b, badValue("beat: %v", err)
	}
	return b, nil
}

// sender is the peer that a beat came from. The caller holds r.mu.
func (r *replica) sender(b *beat) *peer {
	if r.cfg == nil || b.ConfigVersion != r.cfg.Version || b.SetID != r.cfg.ID || b.From < 0 || b.From >= len(r.peers) {
		return nil
	}
	return r.peers[b.From]
}

func (r *replica) heartbeat(_ context.Context, _ *conn, q *request) (bson.D, error) {
	b, err := beatOf(q)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	evaluate := false
	if p := r.sender(&b); p != nil {
		wasUp := r.up(p, time.Now())
		p.received = time.Now()
		if err := r.learn(p, b); err == nil && !wasUp {
			evaluate = true
		}
	}
	own := r.ownBeat()
	r.mu.Unlock()
	if evaluate {
		r.evaluate()
	}
	return bson.D{{Key: "beat", Value: own}}, nil
}
