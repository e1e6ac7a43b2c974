package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// handoverBatch is how many documents go in one message.
const handoverBatch = 1000

// replSetStepDown makes the primary a secondary for a time. Its data goes to
// the member that follows, so that a planned change of the primary loses
// nothing; commands wait meanwhile.
func (s *Server) replSetStepDown(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	if s.repl == nil {
		return nil, failf(76, "NoReplicationEnabled", "not running with --replSet")
	}
	if err := q.only("secondaryCatchUpPeriodSecs", "force"); err != nil {
		return nil, err
	}
	period := int64(60)
	if n, ok := q.first.number(); ok && q.first.kind != bson.TypeBoolean && n != 0 {
		period = n
	}
	force := false
	if e, ok := find(q.Body, "force"); ok {
		if force, ok = e.truth(); !ok {
			return nil, typeMismatch(q.Name, "force", e.kind, "bool")
		}
	}
	catchUp := int64(10)
	if force {
		catchUp = 0
	}
	if e, ok := find(q.Body, "secondaryCatchUpPeriodSecs"); ok {
		if catchUp, ok = e.number(); !ok {
			return nil, typeMismatch(q.Name, "secondaryCatchUpPeriodSecs", e.kind, "int")
		}
	} else if catchUp > period {
		catchUp = period
	}
	switch {
	case period < 0 || period > 1<<31:
		return nil, badValue("stepdown period must be a positive integer")
	case catchUp < 0:
		return nil, badValue("secondaryCatchUpPeriodSecs period must be a positive or absent")
	case period < catchUp:
		return nil, badValue("stepdown period must be longer than secondaryCatchUpPeriodSecs")
	}
	return bson.D{}, s.repl.handOver(ctx, time.Duration(period)*time.Second, time.Duration(catchUp)*time.Second, force)
}

// handOverBeforeEnd is the shutdown command's part: a primary with other
// members hands over first.
func (r *replica) handOverBeforeEnd(ctx context.Context, timeout time.Duration) error {
	view := r.view.Load()
	if view.state != statePrimary || view.cfg.dataMembers() == 1 {
		return nil
	}
	return r.handOver(ctx, time.Minute, timeout, false)
}

func (r *replica) handOver(ctx context.Context, period, catchUp time.Duration, force bool) error {
	r.mu.Lock()
	if r.state != statePrimary {
		r.mu.Unlock()
		return notWritablePrimary()
	}
	var follower *peer
	// Rather one that has not stepped down itself a moment ago.
	i := r.best(time.Now(), false)
	if i < 0 {
		i = r.best(time.Now(), true)
	}
	if i >= 0 {
		follower = r.peers[i]
	}
	term := r.term
	r.mu.Unlock()
	if follower == nil && !force {
		return failf(262, "ExceededTimeLimit", "No electable secondaries caught up. Please use the replSetStepDown command "+
			"with the argument {force: true} to force node to step down.")
	}
	r.s.gate.Lock()
	defer r.s.gate.Unlock()
	if r.view.Load().state != statePrimary {
		return notWritablePrimary() // somebody else's stepdown came first
	}
	if follower != nil {
		sendCtx, cancel := context.WithTimeout(ctx, max(catchUp, time.Second))
		defer cancel()
		err := r.sendData(sendCtx, follower.client, term)
		if err == nil {
			err = r.relieve(sendCtx, follower, term, period)
		}
		if err != nil {
			r.s.log.Warn("data not handed over", "member", follower.client.host, "cause", err.Error())
			if !force {
				return failf(262, "ExceededTimeLimit", "%s did not take over: %v", follower.client.host, err)
			}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == statePrimary {
		r.frozenUntil = time.Now().Add(period)
		r.stepDown("asked to")
	}
	return nil
}

// relieve has the follower elected while this member is still the primary,
// so that nobody else can step in between: this member steps down with the
// vote it gives.
func (r *replica) relieve(ctx context.Context, follower *peer, term int64, period time.Duration) error {
	r.mu.Lock()
	r.handingTo, r.handingFor = follower, period
	self := r.self
	r.mu.Unlock()
	_, err := follower.client.call(ctx, bson.D{
		{Key: "sandboxReceive", Value: "end"}, {Key: "term", Value: term}, {Key: "relieves", Value: int32(self)},
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handingTo = nil
	return err
}

// sendData copies every collection to a member. The caller holds the gate.
func (r *replica) sendData(ctx context.Context, client *peerClient, term int64) error {
	if _, err := client.call(ctx, bson.D{{Key: "sandboxReceive", Value: "begin"}, {Key: "term", Value: term}}); err != nil {
		return err
	}
	databases, err := r.local(ctx, "admin", bson.D{{Key: "listDatabases", Value: 1}, {Key: "nameOnly", Value: true}})
	if err != nil {
		return err
	}
	e, _ := find(databases, "databases")
	for f := fieldsOf(e.value); len(e.value) > 0; {
		item, more := f.next()
		if !more {
			break
		}
		name, _ := find(item.value, "name")
		db, _ := name.text()
		if err := r.sendDatabase(ctx, client, db); err != nil {
			return fmt.Errorf("database %s: %w", db, err)
		}
	}
	return nil
}

func (r *replica) sendDatabase(ctx context.Context, client *peerClient, db string) error {
	return r.each(ctx, db, bson.D{{Key: "listCollections", Value: 1}}, func(batch []bson.Raw) error {
		for _, collection := range batch {
			e, _ := find(collection, "name")
			name, _ := e.text()
			create := bson.D{{Key: "create", Value: name}}
			if e, ok := find(collection, "options"); ok && e.kind == bson.TypeEmbeddedDocument {
				for f := fieldsOf(e.value); ; {
					option, more := f.next()
					if !more {
						break
					}
					create = append(create, bson.E{Key: string(option.key), Value: bson.RawValue{Type: option.kind, Value: option.value}})
				}
			}
			if err := r.sendCommand(ctx, client, db, create); err != nil {
				return err
			}
			indexes := bson.A{}
			err := r.each(ctx, db, bson.D{{Key: "listIndexes", Value: name}}, func(batch []bson.Raw) error {
				for _, index := range batch {
					if e, _ := find(index, "name"); string(e.value) != string(idIndexName()) {
						indexes = append(indexes, index)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(indexes) > 0 {
				if err := r.sendCommand(ctx, client, db, bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: indexes}}); err != nil {
					return err
				}
			}
			err = r.each(ctx, db, bson.D{{Key: "find", Value: name}, {Key: "batchSize", Value: handoverBatch}}, func(batch []bson.Raw) error {
				return r.sendCommand(ctx, client, db, bson.D{{Key: "insert", Value: name}}, batch...)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// idIndexName is the value of the string "_id_".
func idIndexName() []byte {
	return append(binary.LittleEndian.AppendUint32(nil, 5), "_id_\x00"...)
}

func (r *replica) sendCommand(ctx context.Context, client *peerClient, db string, command bson.D, docs ...bson.Raw) error {
	if len(docs) == 0 && command[0].Key == "insert" {
		return nil
	}
	raw, err := bson.Marshal(command)
	if err != nil {
		return err
	}
	_, err = client.call(ctx, bson.D{{Key: "sandboxReceive", Value: "run"}, {Key: "db", Value: db}, {Key: "command", Value: bson.Raw(raw)}}, docs...)
	return err
}

// local runs a command on this member's own data.
func (r *replica) local(ctx context.Context, db string, command bson.D) (bson.Raw, error) {
	raw, err := bson.Marshal(append(command, bson.E{Key: "$db", Value: db}))
	if err != nil {
		return nil, err
	}
	return r.s.engine.Load().Run(ctx, &engine.Request{Database: db, Name: command[0].Key, Body: raw})
}

// each runs a command that answers with a cursor, and hands out its batches.
func (r *replica) each(ctx context.Context, db string, command bson.D, use func([]bson.Raw) error) error {
	reply, err := r.local(ctx, db, command)
	field := "firstBatch"
	for {
		if err != nil {
			return err
		}
		e, _ := find(reply, "cursor")
		cursor, ok := e.document()
		if !ok {
			return errors.New("reply without a cursor")
		}
		list, _ := find(cursor, field)
		var batch []bson.Raw
		for f := fieldsOf(list.value); len(list.value) > 0; {
			item, more := f.next()
			if !more {
				break
			}
			batch = append(batch, item.value)
		}
		if len(batch) > 0 {
			if err := use(batch); err != nil {
				return err
			}
		}
		idField, _ := find(cursor, "id")
		id, _ := idField.number()
		if id == 0 {
			return nil
		}
		nsField, _ := find(cursor, "ns")
		ns, _ := nsField.text()
		if len(ns) <= len(db)+1 {
			return errors.New("reply without a namespace")
		}
		reply, err = r.local(ctx, db, bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: ns[len(db)+1:]},
			{Key: "batchSize", Value: handoverBatch}})
		field = "nextBatch"
	}
}

// receive takes over the data of a primary that steps down: "begin", then
// commands to "run", then "end", after which this member stands for election.
func (r *replica) receive(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	phase, _ := q.first.text()
	e, _ := find(q.Body, "term")
	term, _ := e.number()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state != stateSecondary {
		return nil, failf(codeNotPrimaryOrSec, "NotPrimaryOrSecondary", "this member is no secondary")
	}
	if phase == "begin" {
		r.incoming = engine.New()
		return bson.D{}, nil
	}
	incoming := r.incoming
	if incoming == nil {
		return nil, badValue("nothing is being handed over")
	}
	switch phase {
	case "run":
		r.mu.Unlock() // heartbeats go on
		err := runIncoming(ctx, incoming, q)
		r.mu.Lock()
		return bson.D{}, err
	case "end":
		if term != r.term || r.electing {
			return nil, badValue("nothing is being handed over in term %d", term)
		}
		e, _ := find(q.Body, "relieves")
		relieves, _ := e.number()
		r.s.engine.Store(incoming)
		r.incoming, r.dataTerm = nil, term
		done := r.stand(int(relieves))
		r.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
		}
		r.mu.Lock()
		if r.state != statePrimary {
			return nil, failf(1, "InternalError", "this member was not elected")
		}
		return bson.D{}, nil
	}
	return nil, badValue("unknown phase %q", phase)
}

func runIncoming(ctx context.Context, incoming *engine.Engine, q *request) error {
	dbField, _ := find(q.Body, "db")
	db, _ := dbField.text()
	e, _ := find(q.Body, "command")
	command, ok := e.document()
	if !ok || db == "" {
		return badValue("run needs db and command")
	}
	f := fieldsOf(command)
	first, ok := f.next()
	if !ok {
		return badValue("run needs a command")
	}
	body := extend(command, appendString(nil, "$db", db))
	reply, err := incoming.Run(ctx, &engine.Request{Database: db, Name: string(first.key), Body: body, Sequences: q.Sequences})
	if err != nil {
		return err
	}
	if _, failed := find(reply, "writeErrors"); failed {
		return badValue("documents were refused: %s", reply.String())
	}
	return nil
}
