package embedded

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Server) notInitiated() error {
	if s.repl == nil {
		return failf(76, "NoReplicationEnabled", "not running with --replSet")
	}
	if s.repl.view.Load().cfg == nil {
		return failf(94, "NotYetInitialized", "no replset config has been received")
	}
	return nil
}

func (s *Server) replSetGetConfig(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only("commitmentStatus"); err != nil {
		return nil, err
	}
	if err := s.notInitiated(); err != nil {
		return nil, err
	}
	view := s.repl.view.Load()
	return bson.D{{Key: "config", Value: view.cfg.document(view.term, s.cfg.Heartbeat)}}, nil
}

// replSetGetStatus shows the members as this one sees them. There is one copy
// of the data, the primary's, and secondaries answer from it: a secondary in
// touch with the primary is never behind, and its optime is the primary's.
func (s *Server) replSetGetStatus(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only("initialSync"); err != nil {
		return nil, err
	}
	if err := s.notInitiated(); err != nil {
		return nil, err
	}
	r := s.repl
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	op := s.lastOp.Load()
	primaryHost := ""
	if r.primary >= 0 {
		primaryHost = r.cfg.Members[r.primary].Host
		if p := r.peers[r.primary]; p != nil {
			op = uint64(p.beat.LastOp)
		}
	}
	members := bson.A{}
	for i := range r.cfg.Members {
		members = append(members, r.memberStatus(i, now, op, primaryHost))
	}
	writable := 0
	for _, m := range r.cfg.Members {
		if m.Votes > 0 && !m.Arbiter {
			writable++
		}
	}
	source := ""
	if r.state == stateSecondary {
		source = primaryHost
	}
	return bson.D{
		{Key: "set", Value: r.cfg.Name}, {Key: "date", Value: now}, {Key: "myState", Value: int32(r.state)},
		{Key: "term", Value: r.term}, {Key: "syncSourceHost", Value: source},
		{Key: "heartbeatIntervalMillis", Value: s.cfg.Heartbeat.Milliseconds()},
		{Key: "majorityVoteCount", Value: int32(r.cfg.majority())},
		{Key: "votingMembersCount", Value: int32(r.cfg.voters())},
		{Key: "writableVotingMembersCount", Value: int32(writable)},
		{Key: "optimes", Value: bson.D{
			{Key: "lastCommittedOpTime", Value: opTime(op, r.term)}, {Key: "lastCommittedWallTime", Value: opDate(op)},
			{Key: "readConcernMajorityOpTime", Value: opTime(op, r.term)},
			{Key: "appliedOpTime", Value: opTime(op, r.term)}, {Key: "durableOpTime", Value: opTime(op, r.term)},
			{Key: "lastAppliedWallTime", Value: opDate(op)}, {Key: "lastDurableWallTime", Value: opDate(op)},
		}},
		{Key: "members", Value: members},
		{Key: "sandboxEmbedded", Value: true},
	}, nil
}

// memberStatus is a member's entry. The caller holds r.mu.
func (r *replica) memberStatus(i int, now time.Time, op uint64, primaryHost string) bson.D {
	m := r.cfg.Members[i]
	p := r.peers[i]
	state, health, since := r.state, 1.0, r.s.started
	electedAt := r.electedAt
	if p != nil {
		state, since, electedAt = p.beat.State, p.upSince, p.beat.ElectedAt
		if !r.up(p, now) {
			state, health = stateDown, 0
			if !p.known {
				state = stateStartup
			}
		}
	}
	uptime := int64(0)
	if health > 0 {
		uptime = int64(now.Sub(since).Seconds())
	}
	d := bson.D{
		{Key: "_id", Value: m.ID}, {Key: "name", Value: m.Host}, {Key: "health", Value: health},
		{Key: "state", Value: int32(state)}, {Key: "stateStr", Value: state.String()}, {Key: "uptime", Value: uptime},
	}
	if !m.Arbiter {
		own, term := op, r.term
		if state == stateDown || state == stateStartup {
			own, term = 0, -1
		}
		at := opTime(own, term)
		if own == 0 {
			at = bson.D{{Key: "ts", Value: bson.Timestamp{}}, {Key: "t", Value: int64(-1)}}
		}
		d = append(d,
			bson.E{Key: "optime", Value: at}, bson.E{Key: "optimeDurable", Value: at},
			bson.E{Key: "optimeDate", Value: opDate(own)}, bson.E{Key: "optimeDurableDate", Value: opDate(own)},
			bson.E{Key: "lastAppliedWallTime", Value: opDate(own)}, bson.E{Key: "lastDurableWallTime", Value: opDate(own)})
	}
	source := ""
	if state == stateSecondary {
		source = primaryHost
	}
	message := ""
	if p != nil {
		message = p.failure
		d = append(d,
			bson.E{Key: "lastHeartbeat", Value: p.last}, bson.E{Key: "lastHeartbeatRecv", Value: p.received},
			bson.E{Key: "pingMs", Value: p.ping.Milliseconds()})
	}
	d = append(d, bson.E{Key: "lastHeartbeatMessage", Value: message}, bson.E{Key: "syncSourceHost", Value: source})
	if state == statePrimary {
		d = append(d,
			bson.E{Key: "electionTime", Value: bson.Timestamp{T: uint32(electedAt.Unix()), I: 1}},
			bson.E{Key: "electionDate", Value: electedAt})
	}
	d = append(d, bson.E{Key: "configVersion", Value: int32(r.cfg.Version)}, bson.E{Key: "configTerm", Value: r.term})
	if p == nil {
		d = append(d, bson.E{Key: "self", Value: true})
	}
	return d
}

// getDefaultRWConcern answers with the implicit defaults (manual, "Implicit
// Default Write Concern"): majority, or 1 when arbiters would make a majority
// depend on every data-bearing voter.
func (s *Server) getDefaultRWConcern(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only("inMemory"); err != nil {
		return nil, err
	}
	if s.repl == nil {
		return nil, failf(20, "IllegalOperation", "'getDefaultRWConcern' is not supported on standalone nodes.")
	}
	if err := s.notInitiated(); err != nil {
		return nil, err
	}
	cfg := s.repl.view.Load().cfg
	arbiters, dataVoters := 0, 0
	for _, m := range cfg.Members {
		switch {
		case m.Arbiter:
			arbiters++
		case m.Votes > 0:
			dataVoters++
		}
	}
	var w any = "majority"
	if arbiters > 0 && dataVoters <= cfg.majority() {
		w = int32(1)
	}
	return bson.D{
		{Key: "defaultReadConcern", Value: bson.D{{Key: "level", Value: "local"}}},
		{Key: "defaultWriteConcern", Value: bson.D{{Key: "w", Value: w}, {Key: "wtimeout", Value: int32(0)}}},
		{Key: "defaultWriteConcernSource", Value: "implicit"},
		{Key: "defaultReadConcernSource", Value: "implicit"},
		{Key: "localUpdateWallClockTime", Value: time.Now()},
	}, nil
}
