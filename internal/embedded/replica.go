package embedded

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
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

const (
	// memberCallTimeout bounds a heartbeat or a vote.
	memberCallTimeout = 2 * time.Second
	// patience is how long a member that has given its vote waits to hear of
	// the winner before it stands itself.
	patience = time.Second
)

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

// electionID grows with the term, as drivers expect of it.
func (v *replView) electionID() (id bson.ObjectID) {
	binary.BigEndian.PutUint32(id[:], 0x7fffffff)
	binary.BigEndian.PutUint64(id[4:], uint64(v.term))
	return id
}

// hello is the replica set's part of hello.
func (v *replView) hello(primaryField string, lastOp uint64) bson.D {
	if v.cfg == nil {
		return bson.D{
			{Key: primaryField, Value: false}, {Key: "secondary", Value: false},
			{Key: "info", Value: "Does not have a valid replica set config"}, {Key: "isreplicaset", Value: true},
		}
	}
	hosts, passives, arbiters := bson.A{}, bson.A{}, bson.A{}
	for _, m := range v.cfg.Members {
		switch {
		case m.Hidden:
		case m.Arbiter:
			arbiters = append(arbiters, m.Host)
		case m.Priority == 0:
			passives = append(passives, m.Host)
		default:
			hosts = append(hosts, m.Host)
		}
	}
	self := v.cfg.Members[v.self]
	d := bson.D{{Key: "hosts", Value: hosts}}
	if len(passives) > 0 {
		d = append(d, bson.E{Key: "passives", Value: passives})
	}
	if len(arbiters) > 0 {
		d = append(d, bson.E{Key: "arbiters", Value: arbiters})
	}
	d = append(d,
		bson.E{Key: "setName", Value: v.set},
		bson.E{Key: "setVersion", Value: int32(v.cfg.Version)},
		bson.E{Key: primaryField, Value: v.state == statePrimary},
		bson.E{Key: "secondary", Value: v.state == stateSecondary},
	)
	if v.primary >= 0 {
		d = append(d, bson.E{Key: "primary", Value: v.cfg.Members[v.primary].Host})
	}
	if self.Arbiter {
		d = append(d, bson.E{Key: "arbiterOnly", Value: true})
	}
	if self.Priority == 0 && !self.Arbiter {
		d = append(d, bson.E{Key: "passive", Value: true})
	}
	if self.Hidden {
		d = append(d, bson.E{Key: "hidden", Value: true})
	}
	if len(self.Tags) > 0 {
		d = append(d, bson.E{Key: "tags", Value: self.tags()})
	}
	d = append(d, bson.E{Key: "me", Value: self.Host})
	if v.state == statePrimary {
		d = append(d, bson.E{Key: "electionId", Value: v.electionID()})
	}
	if !self.Arbiter {
		d = append(d, bson.E{Key: "lastWrite", Value: bson.D{
			{Key: "opTime", Value: opTime(lastOp, v.term)}, {Key: "lastWriteDate", Value: opDate(lastOp)},
			{Key: "majorityOpTime", Value: opTime(lastOp, v.term)}, {Key: "majorityWriteDate", Value: opDate(lastOp)},
		}})
	}
	return d
}

func opTime(op uint64, term int64) bson.D {
	return bson.D{
		{Key: "ts", Value: bson.Timestamp{T: uint32(op >> 32), I: max(uint32(op), 1)}}, {Key: "t", Value: term},
	}
}

func opDate(op uint64) time.Time { return time.Unix(int64(op>>32), 0) }

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

// pushConfig brings a configuration to a member.
func (r *replica) pushConfig(ctx context.Context, client *peerClient, cfg *replConfig, index int) error {
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	_, err = client.call(ctx, bson.D{{Key: "sandboxConfig", Value: string(text)}, {Key: "self", Value: int32(index)}})
	return err
}

func (r *replica) pushUsersTo(ctx context.Context, client *peerClient) error {
	all, version := r.s.users.list()
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = client.call(ctx, bson.D{{Key: "sandboxUsers", Value: string(text)}, {Key: "version", Value: version}})
	return err
}

// pushUsers brings the users to every data-bearing member in reach. Members
// out of reach get them with a later heartbeat.
func (r *replica) pushUsers(ctx context.Context) {
	r.mu.Lock()
	now := time.Now()
	var clients []*peerClient
	for i, p := range r.peers {
		if p != nil && r.with(p, now) && !r.cfg.Members[i].Arbiter {
			clients = append(clients, p.client)
		}
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, memberCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, client := range clients {
		wg.Go(func() {
			if err := r.pushUsersTo(ctx, client); err != nil {
				r.s.log.Warn("users not taken", "member", client.host, "cause", err.Error())
			}
		})
	}
	wg.Wait()
}

// memberCommands are what members say to each other.
func (r *replica) memberCommands() []*command {
	return []*command{
		{name: "sandboxWho", adminOnly: true, privilege: privMember, run: r.who},
		{name: "sandboxHeartbeat", adminOnly: true, privilege: privMember, run: r.heartbeat},
		{name: "sandboxVote", adminOnly: true, privilege: privMember, run: r.vote},
		{name: "sandboxConfig", adminOnly: true, privilege: privMember, run: r.takeConfig},
		{name: "sandboxUsers", adminOnly: true, privilege: privMember, run: r.takeUsers},
		{name: "sandboxReceive", adminOnly: true, privilege: privMember, run: r.receive},
	}
}

// who lets a member find out which of the hosts in a configuration is which
// process.
func (r *replica) who(context.Context, *conn, *request) (bson.D, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bson.D{{Key: "process", Value: r.s.processID}, {Key: "beat", Value: r.ownBeat()}}, nil
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

// takeConfig takes the first or a newer configuration of the set.
func (r *replica) takeConfig(_ context.Context, _ *conn, q *request) (bson.D, error) {
	text, ok := q.first.text()
	self, _ := find(q.Body, "self")
	index, isNumber := self.number()
	if !ok || !isNumber {
		return nil, badValue("%s needs a configuration and a member", q.Name)
	}
	cfg := &replConfig{}
	if err := json.Unmarshal([]byte(text), cfg); err != nil {
		return nil, badValue("configuration: %v", err)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if index < 0 || index >= int64(len(cfg.Members)) {
		return nil, badValue("member %d is not in the configuration", index)
	}
	return bson.D{}, r.install(cfg, int(index))
}

// install stores the first configuration and starts to live by it.
func (r *replica) install(cfg *replConfig, self int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cfg.Name != r.s.cfg.ReplicaSet {
		return invalidConfig("Attempting to initiate a replica set with name %s, but command line reports %s; rejecting",
			cfg.Name, r.s.cfg.ReplicaSet)
	}
	if r.cfg != nil {
		if r.cfg.ID == cfg.ID && r.cfg.Version == cfg.Version {
			return nil
		}
		return failf(23, "AlreadyInitialized", "already initialized")
	}
	if err := r.s.store.change(func(s *saved) { s.Config, s.Self = cfg, self }); err != nil {
		return err
	}
	r.adopt(cfg, self)
	r.publish()
	r.startPeers()
	r.s.log.Info("member of a replica set", "set", cfg.Name, "member", cfg.Members[self].Host, "members", len(cfg.Members))
	return nil
}

func (r *replica) takeUsers(_ context.Context, _ *conn, q *request) (bson.D, error) {
	text, ok := q.first.text()
	e, _ := find(q.Body, "version")
	doc, isDoc := e.document()
	if !ok || !isDoc {
		return nil, badValue("%s needs users and a version", q.Name)
	}
	var all []user
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, badValue("users: %v", err)
	}
	var version usersVersion
	if err := bson.Unmarshal(doc, &version); err != nil {
		return nil, badValue("version: %v", err)
	}
	return bson.D{}, r.s.users.replace(all, version)
}

// replSetInitiate makes the set. Every member must answer, have the set's
// name and no configuration yet.
func (s *Server) replSetInitiate(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	if s.repl == nil {
		return nil, failf(76, "NoReplicationEnabled", "This node was not started with replication enabled.")
	}
	if err := q.only("force"); err != nil {
		return nil, err
	}
	var cfg *replConfig
	doc, isDoc := q.first.document()
	switch {
	case isDoc && count(doc) > 0:
		var err error
		if cfg, err = parseConfig(doc); err != nil {
			return nil, err
		}
	default:
		cfg = s.repl.aloneConfig(s.hostPort())
	}
	return bson.D{}, s.repl.initiate(ctx, cfg)
}

func (r *replica) aloneConfig(host string) *replConfig {
	return &replConfig{Name: r.s.cfg.ReplicaSet, ID: bson.NewObjectID(), Version: 1, ElectionTimeout: 10_000,
		Members: []memberConfig{{Host: host, Priority: 1, Votes: 1}}}
}

func (r *replica) initiate(ctx context.Context, cfg *replConfig) error {
	if cfg.Name != r.s.cfg.ReplicaSet {
		return invalidConfig("Attempting to initiate a replica set with name %s, but command line reports %s; rejecting",
			cfg.Name, r.s.cfg.ReplicaSet)
	}
	if r.view.Load().cfg != nil {
		return failf(23, "AlreadyInitialized", "already initialized")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	clients := make([]*peerClient, len(cfg.Members))
	processes := make([]bson.ObjectID, len(cfg.Members))
	failures := make([]error, len(cfg.Members))
	var wg sync.WaitGroup
	for i, m := range cfg.Members {
		clients[i] = newPeerClient(m.Host, r.s.keys)
		wg.Go(func() { processes[i], failures[i] = r.ask(ctx, clients[i], cfg) })
	}
	wg.Wait()
	defer func() {
		for _, client := range clients {
			client.close()
		}
	}()
	self := -1
	for i, m := range cfg.Members {
		var e *engine.Error
		switch {
		case errors.As(failures[i], &e) && e.Code == 93:
			return e
		case failures[i] != nil:
			return failf(74, "NodeNotFound", "replSetInitiate quorum check failed because not all proposed set members responded "+
				"affirmatively: %s failed with %v", m.Host, failures[i])
		case processes[i] == r.s.processID:
			self = i
		}
	}
	if self < 0 {
		return invalidConfig("No host described in new configuration with {version: %d} for replica set %s maps to this node", cfg.Version, cfg.Name)
	}
	if cfg.Members[self].Priority <= 0 {
		return failf(93, "InvalidReplicaSetConfig", "This node, %s, with _id %d is not electable under the new configuration",
			cfg.Members[self].Host, cfg.Members[self].ID)
	}
	if err := r.install(cfg, self); err != nil {
		return err
	}
	for i, client := range clients {
		if i != self {
			// A member that misses it now gets it with the first heartbeat.
			wg.Go(func() { _ = r.pushConfig(ctx, client, cfg, i) })
		}
	}
	wg.Wait()
	r.mu.Lock()
	r.kickAll()
	r.mu.Unlock()
	r.evaluate()
	return nil
}

// ask finds out which process a host is, and whether it is free to join.
func (r *replica) ask(ctx context.Context, client *peerClient, cfg *replConfig) (id bson.ObjectID, err error) {
	reply, err := client.call(ctx, bson.D{{Key: "sandboxWho", Value: 1}})
	if err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Code == 59 {
			return id, fmt.Errorf("%s is not a sandbox embedded server with replication enabled", client.host)
		}
		return id, err
	}
	var answer struct {
		Process bson.ObjectID `bson:"process"`
		Beat    beat          `bson:"beat"`
	}
	if err := bson.Unmarshal(reply, &answer); err != nil {
		return id, err
	}
	if answer.Beat.Set != cfg.Name {
		return id, invalidConfig("Our set name did not match that of %s: it is %q there", client.host, answer.Beat.Set)
	}
	if answer.Beat.ConfigVersion > 0 {
		return id, invalidConfig("'%s' has data already, cannot initiate set.", client.host)
	}
	return answer.Process, nil
}

// initiateAlone makes this server the primary of a set of its own.
func (r *replica) initiateAlone(ctx context.Context) error {
	if r.view.Load().cfg == nil {
		cfg := r.aloneConfig(r.s.addr)
		if err := r.install(cfg, 0); err != nil {
			return err
		}
	}
	r.evaluate()
	for {
		view := r.view.Load()
		if view.state == statePrimary {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("initiate replica set: %w", err)
		}
		r.await(ctx, view.topology, time.Second)
	}
}
