package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	defaultBatch  = 101             // documents in a first batch without batchSize, as in MongoDB
	maxBatchBytes = 8 * 1024 * 1024 // a batch ends when it is this long
	cursorTimeout = 10 * time.Minute
)

// source gives a cursor's documents one after the other.
type source interface {
	// appendNext appends the next document as the i-th element of an array;
	// false at the end.
	appendNext(dst []byte, i int) ([]byte, bool, error)
	// done reports whether it is known that nothing is left.
	done() bool
	// resume continues under the context of another command.
	resume(ctx context.Context)
}

func (r *results) resume(ctx context.Context) { r.sc.ctx = ctx }

// list is a source of documents that are there already.
type list struct{ docs []bson.Raw }

func (l *list) appendNext(dst []byte, i int) ([]byte, bool, error) {
	if len(l.docs) == 0 {
		return dst, false, nil
	}
	dst = append(appendIndexHeader(dst, bson.TypeEmbeddedDocument, i), l.docs[0]...)
	l.docs = l.docs[1:]
	return dst, true, nil
}

func (l *list) done() bool             { return len(l.docs) == 0 }
func (l *list) resume(context.Context) {}

// appendBatch appends an array's elements: at most size documents (all of
// them when negative).
func appendBatch(dst []byte, src source, size int64) (out []byte, more bool, err error) {
	start := len(dst)
	for i := 0; size < 0 || int64(i) < size; i++ {
		var ok bool
		if dst, ok, err = src.appendNext(dst, i); err != nil {
			return nil, false, err
		}
		if !ok {
			return dst, false, nil
		}
		if len(dst)-start > maxBatchBytes {
			break
		}
	}
	return dst, !src.done(), nil
}

// cursor is a result that a client reads in batches.
type cursor struct {
	id      int64
	ns      string
	src     source
	noTime  bool // noCursorTimeout
	used    time.Time
	serving bool
}

// cursors are the open ones. Those that were not used for cursorTimeout are
// dropped when another one is opened or asked for.
type cursors struct {
	mu   sync.Mutex
	open map[int64]*cursor
	now  func() time.Time
}

func (cs *cursors) add(c *cursor) int64 {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.expire()
	for c.id == 0 || cs.open[c.id] != nil {
		c.id = rand.Int64()
	}
	c.used = cs.now()
	cs.open[c.id] = c
	return c.id
}

func (cs *cursors) expire() {
	limit := cs.now().Add(-cursorTimeout)
	for id, c := range cs.open {
		if !c.noTime && !c.serving && c.used.Before(limit) {
			delete(cs.open, id)
		}
	}
}

// take reserves a cursor for one getMore.
func (cs *cursors) take(id int64, ns string) (*cursor, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.expire()
	c := cs.open[id]
	switch {
	case c == nil:
		return nil, failure(codeCursorNotFound, "cursor id %d not found", id)
	case c.ns != ns:
		return nil, failure(codeUnauthorized, "Requested getMore on namespace '%s', but cursor belongs to a different namespace %s", ns, c.ns)
	case c.serving:
		return nil, &Error{Code: 12051, Name: "CursorInUse", Message: "query already in progress"}
	}
	c.serving = true
	return c, nil
}

// release gives a cursor back, or drops it when it has nothing left.
func (cs *cursors) release(c *cursor, more bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.serving = false
	c.used = cs.now()
	if !more {
		delete(cs.open, c.id)
	}
}

// appendCursor appends the field cursor of a reply.
func appendCursor(dst []byte, batchName, ns string, id int64, batch []byte) []byte {
	start, dst := openSub(dst, bson.TypeEmbeddedDocument, "cursor")
	arr, dst := openSub(dst, bson.TypeArray, batchName)
	dst = closeDoc(append(dst, batch...), arr)
	dst = appendInt64(dst, "id", id)
	dst = appendString(dst, "ns", ns)
	return closeDoc(dst, start)
}

// reply returns the first batch of a source that needs no snapshot, and opens
// a cursor for the rest.
func (e *Engine) reply(ns string, src source, size int64, single bool) (bson.Raw, error) {
	batch, more, err := appendBatch(nil, src, size)
	if err != nil {
		return nil, err
	}
	var id int64
	if more && !single {
		id = e.cursors.add(&cursor{ns: ns, src: src})
	}
	start, b := openDoc(make([]byte, 0, len(batch)+len(ns)+64))
	b = appendCursor(b, "firstBatch", ns, id, batch)
	return closeDoc(appendOK(b), start), nil
}

func (e *Engine) getMore(ctx context.Context, req *Request) (bson.Raw, error) {
	id := firstValue(req.Body)
	if id.t != bson.TypeInt64 {
		return nil, wrongType("getMore.getMore", id, "long")
	}
	var name string
	size := int64(-1)
	err := eachOption("getMore", req.Body, func(option string, v value) (known bool, err error) {
		switch option {
		case "collection":
			name, err = wantString("getMore.collection", v)
		case "batchSize":
			if size, err = wantCount("getMore.batchSize", v); size == 0 {
				size = -1
			}
		case "term", "lastKnownCommittedOpTime":
			return true, notImplemented("the option " + option)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, failure(codeMissingField, "BSON field 'getMore.collection' is missing but a required field")
	}
	ns := req.Database + "." + name
	c, err := e.cursors.take(id.i64(), ns)
	if err != nil {
		return nil, err
	}
	c.src.resume(ctx)
	batch, more, err := appendBatch(nil, c.src, size)
	if err != nil {
		more = false
	}
	e.cursors.release(c, more)
	if err != nil {
		return nil, err
	}
	left := c.id
	if !more {
		left = 0
	}
	start, b := openDoc(make([]byte, 0, len(batch)+len(ns)+64))
	b = appendCursor(b, "nextBatch", ns, left, batch)
	return closeDoc(appendOK(b), start), nil
}

func (e *Engine) killCursors(_ context.Context, req *Request) (bson.Raw, error) {
	ns, err := namespace(req)
	if err != nil {
		// The cursors of listCollections live in "$cmd.listCollections".
		if v := firstValue(req.Body); v.t != bson.TypeString || !bytes.HasPrefix(v.str(), []byte("$cmd.")) {
			return nil, err
		}
		ns = req.Database + "." + string(firstValue(req.Body).str())
	}
	var ids []value
	given := false
	err = eachOption("killCursors", req.Body, func(option string, v value) (bool, error) {
		if option != "cursors" {
			return false, nil
		}
		given = true
		arr, err := wantArray("killCursors.cursors", v)
		if err != nil {
			return true, err
		}
		it := fieldsOf(arr)
		var el element
		for it.next(&el) {
			if el.t != bson.TypeInt64 {
				return true, wrongType("killCursors.cursors", el.value, "long")
			}
			ids = append(ids, el.value)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, failure(codeMissingField, "BSON field 'killCursors.cursors' is missing but a required field")
	}
	var killed, unknown []value
	e.cursors.mu.Lock()
	for _, id := range ids {
		if c := e.cursors.open[id.i64()]; c != nil && c.ns == ns {
			delete(e.cursors.open, c.id)
			killed = append(killed, id)
		} else {
			unknown = append(unknown, id)
		}
	}
	e.cursors.mu.Unlock()
	start, b := openDoc(nil)
	b = appendField(b, "cursorsKilled", arrayValue(killed))
	b = appendField(b, "cursorsNotFound", arrayValue(unknown))
	b = appendField(b, "cursorsAlive", arrayValue(nil))
	b = appendField(b, "cursorsUnknown", arrayValue(nil))
	return closeDoc(appendOK(b), start), nil
}
