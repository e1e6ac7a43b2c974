package embedded

import (
	"context"
	"encoding/binary"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Server) ping(_ context.Context, _ *conn, q *request) (bson.D, error) {
	return bson.D{}, q.only()
}

func (s *Server) whatsMyURI(_ context.Context, c *conn, q *request) (bson.D, error) {
	return bson.D{{Key: "you", Value: c.nc.RemoteAddr().String()}}, q.only()
}

// helloRequest are the arguments of hello.
type helloRequest struct {
	helloOk     bool
	mechsFor    string // saslSupportedMechs
	speculative bson.Raw
	topology    int64 // topologyVersion.counter of this process, -1 when absent or another's
	await       time.Duration
	hasAwait    bool
}

func (s *Server) parseHello(c *conn, q *request) (h helloRequest, err error) {
	h.topology = -1
	if e, ok := find(q.Body, "saslSupportedMechs"); ok {
		if h.mechsFor, ok = e.text(); !ok {
			return h, typeMismatch(q.Name, "saslSupportedMechs", e.kind, "string")
		}
	}
	if e, ok := find(q.Body, "helloOk"); ok {
		if h.helloOk, ok = e.truth(); !ok {
			return h, typeMismatch(q.Name, "helloOk", e.kind, "bool")
		}
	}
	if e, ok := find(q.Body, "speculativeAuthenticate"); ok {
		if h.speculative, ok = e.document(); !ok {
			return h, typeMismatch(q.Name, "speculativeAuthenticate", e.kind, "object")
		}
	}
	if e, ok := find(q.Body, "client"); ok {
		doc, isDoc := e.document()
		if !isDoc {
			return h, typeMismatch(q.Name, "client", e.kind, "object")
		}
		if app, ok := find(doc, "application"); ok && app.kind == bson.TypeEmbeddedDocument {
			if name, ok := find(app.value, "name"); ok {
				c.appName, _ = name.text()
			}
		}
	}
	version, hasVersion := find(q.Body, "topologyVersion")
	await, hasAwait := find(q.Body, "maxAwaitTimeMS")
	if hasVersion != hasAwait {
		return h, failf(31368, "Location31368", "A request with a 'topologyVersion' must include 'maxAwaitTimeMS', and the other way round")
	}
	if hasAwait {
		n, ok := await.number()
		doc, isDoc := version.document()
		if !ok || n < 0 || n > 1<<31-1 || !isDoc {
			return h, badValue("topologyVersion must be an object and maxAwaitTimeMS a non-negative integer")
		}
		process, _ := find(doc, "processId")
		counter, _ := find(doc, "counter")
		if process.kind == bson.TypeObjectID && bson.ObjectID(process.value) == s.processID {
			if h.topology, ok = counter.number(); !ok {
				h.topology = -1
			}
		}
		h.hasAwait, h.await = true, time.Duration(n)*time.Millisecond
	}
	return h, q.only("helloOk", "saslSupportedMechs", "speculativeAuthenticate", "client", "compression",
		"topologyVersion", "maxAwaitTimeMS", "loadBalanced", "hostInfo", "internalClient", "backpressure")
}

// hello answers hello and its older names. With topologyVersion and
// maxAwaitTimeMS it answers when the topology is no longer the one the client
// knows, or the time is over.
func (s *Server) hello(ctx context.Context, c *conn, q *request) (bson.D, error) {
	h, err := s.parseHello(c, q)
	if err != nil {
		return nil, err
	}
	var view *replView
	if s.repl != nil {
		view = s.repl.view.Load()
		if h.hasAwait {
			view = s.repl.await(ctx, h.topology, h.await)
		}
	}
	legacy := q.Name != "hello"
	d := bson.D{}
	if h.helloOk {
		d = append(d, bson.E{Key: "helloOk", Value: true})
	}
	d = append(d, topologyField(s.processID, view))
	primaryField := "isWritablePrimary"
	if legacy {
		primaryField = "ismaster"
	}
	if view == nil {
		d = append(d, bson.E{Key: primaryField, Value: true})
	} else {
		d = append(d, view.hello(primaryField, s.lastOp.Load())...)
	}
	d = append(d,
		bson.E{Key: "maxBsonObjectSize", Value: int32(maxDocumentSize)},
		bson.E{Key: "maxMessageSizeBytes", Value: int32(maxMessageSize)},
		bson.E{Key: "maxWriteBatchSize", Value: int32(maxWriteBatchSize)},
		bson.E{Key: "localTime", Value: time.Now()},
	)
	if view == nil || view.state != stateArbiter {
		d = append(d, bson.E{Key: "logicalSessionTimeoutMinutes", Value: int32(sessionTimeout / time.Minute)})
	}
	d = append(d,
		bson.E{Key: "connectionId", Value: int32(c.id)},
		bson.E{Key: "minWireVersion", Value: int32(0)},
		bson.E{Key: "maxWireVersion", Value: int32(maxWireVersion)},
		bson.E{Key: "readOnly", Value: false},
		bson.E{Key: "sandboxEmbedded", Value: true},
	)
	if h.mechsFor != "" {
		// The same for a user that does not exist, who is none of the client's
		// business.
		d = append(d, bson.E{Key: "saslSupportedMechs", Value: bson.A{mechanism}})
	}
	if h.speculative != nil {
		// A failure is not told here: the client will authenticate again.
		if first, err := s.startSASL(c, h.speculative, q.Database, true); err == nil {
			d = append(d, bson.E{Key: "speculativeAuthenticate", Value: first})
		}
	}
	return d, nil
}

func topologyField(process bson.ObjectID, view *replView) bson.E {
	counter := int64(0)
	if view != nil {
		counter = view.topology
	}
	return bson.E{Key: "topologyVersion", Value: bson.D{
		{Key: "processId", Value: process}, {Key: "counter", Value: counter},
	}}
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
