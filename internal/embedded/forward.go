package embedded

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// forwardedCursors are the cursors that clients of this secondary have open
// on the primary.
type forwardedCursors struct {
	mu  sync.Mutex
	all map[int64]time.Time // last use
}

func (f *forwardedCursors) known(id int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.all[id]
	return ok
}

func (f *forwardedCursors) keep(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[int64]time.Time{}
	}
	f.all[id] = time.Now()
}

func (f *forwardedCursors) forget(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.all, id)
}

// expire forgets cursors that the primary has long timed out.
func (f *forwardedCursors) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, last := range f.all {
		if now.Sub(last) > sessionTimeout {
			delete(f.all, id)
		}
	}
}

// runElsewhere answers a data command on a member that is not the primary:
// reads that a secondary may serve go to the primary, everything else is
// refused.
func (r *replica) runElsewhere(c *conn, q *request, view *replView) (bson.Raw, error) {
	if q.cmd.kind == kindWrite {
		return nil, notWritablePrimary()
	}
	if view.state != stateSecondary {
		return nil, failf(codeNotPrimaryOrSec, "NotPrimaryOrSecondary", "node is not in primary or recovering state")
	}
	var cursor int64
	switch q.Name {
	case "getMore":
		cursor, _ = q.first.number()
		if !r.cursors.known(cursor) {
			return nil, failf(43, "CursorNotFound", "cursor id %d not found", cursor)
		}
	case "killCursors":
	default:
		if !q.secondaryOk {
			return nil, failf(codeNotPrimaryNoOk, "NotPrimaryNoSecondaryOk", "not primary and secondaryOk=false")
		}
	}
	client := r.primaryClient()
	if client == nil {
		return nil, failf(6, "HostUnreachable", "there is no primary to forward the read to: the data is in the primary's memory")
	}
	reply, err := c.forward(r.s.ctx, client)
	if err != nil {
		if r.s.ctx.Err() != nil {
			return nil, r.s.ctx.Err()
		}
		return nil, failf(6, "HostUnreachable", "forwarding the read to the primary %s: %v", client.host, err)
	}
	r.s.counters.forwardedOps.Add(1)
	if err := replyError(reply); err != nil {
		return nil, err
	}
	r.noteCursors(q, cursor, reply)
	return reply, nil
}

func (r *replica) primaryClient() *peerClient {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.primary < 0 || r.peers[r.primary] == nil {
		return nil
	}
	return r.peers[r.primary].client
}

// forward sends the connection's present message as it came, but for its
// header and checksum. The reply is valid until the next one.
func (c *conn) forward(ctx context.Context, client *peerClient) (bson.Raw, error) {
	msg := c.in
	flags := binary.LittleEndian.Uint32(msg[headerSize:])
	if flags&flagChecksum != 0 {
		msg = msg[:len(msg)-4]
	}
	binary.LittleEndian.PutUint32(msg[headerSize:], 0)
	err := client.exchange(ctx, finishMsg(msg), func(reply []byte) error {
		const body = headerSize + 4 + 1
		if len(reply) < body+5 || reply[body-1] != 0 || int(int32At(reply, body)) != len(reply)-body {
			return errMalformed
		}
		c.forwarded = append(c.forwarded[:0], reply[body:]...)
		return nil
	})
	if cap(c.forwarded) > keepBuffer {
		defer func() { c.forwarded = nil }()
	}
	return c.forwarded, err
}

// noteCursors remembers the cursors that a forwarded read has left open.
func (r *replica) noteCursors(q *request, cursor int64, reply bson.Raw) {
	if q.Name == "killCursors" {
		if e, ok := find(q.Body, "cursors"); ok && e.kind == bson.TypeArray {
			for f := fieldsOf(e.value); ; {
				item, more := f.next()
				if !more {
					return
				}
				if id, isNumber := item.number(); isNumber {
					r.cursors.forget(id)
				}
			}
		}
		return
	}
	e, ok := find(reply, "cursor")
	if !ok || e.kind != bson.TypeEmbeddedDocument {
		return
	}
	e, _ = find(e.value, "id")
	switch id, _ := e.number(); {
	case id != 0:
		r.cursors.keep(id)
	case cursor != 0:
		r.cursors.forget(cursor)
	}
}
