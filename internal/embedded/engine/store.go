package engine

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// store is the content of a collection: the documents by record number, which
// is the order of insertion, and the indexes, the one of _id first. Stored
// documents are never written to: an update stores a new slice.
type store struct {
	records table
	indexes []*index
	size    int64 // bytes of all documents
}

func newStore() *store { return &store{indexes: []*index{newIDIndex()}} }

// copy returns a snapshot at the cost of a few words: nodes are shared until
// written to.
func (s *store) copy() *store {
	c := &store{records: s.records.copy(), size: s.size, indexes: make([]*index, len(s.indexes))}
	for i, ix := range s.indexes {
		c.indexes[i] = ix.copy()
	}
	return c
}

func (s *store) index(name string) *index {
	for _, ix := range s.indexes {
		if ix.name == name {
			return ix
		}
	}
	return nil
}

// collection is a namespace with its content. mu guards everything in it;
// what a store holds may be read under the read lock.
type collection struct {
	ns   string // "database.collection"
	uuid [16]byte

	mu      sync.RWMutex
	snapMu  sync.Mutex // copying marks the trees: one at a time under the read lock
	dropped bool
	data    *store
	nextRID int64
	// Records and unique keys that open transactions have written.
	owners   map[int64]*Txn
	reserved map[reservation]*Txn
	scratch  []keyList // one for each index; for the writer
	previous keyList
}

// reservation is a key of a unique index that a transaction has inserted.
type reservation struct{ index, key string }

func newCollection(ns string) *collection {
	c := &collection{ns: ns, data: newStore(), owners: map[int64]*Txn{}, reserved: map[reservation]*Txn{}}
	id := bson.NewObjectID()
	copy(c.uuid[:], id[:])
	copy(c.uuid[12:], id[4:8])
	c.uuid[6] = c.uuid[6]&0x0F | 0x40
	c.uuid[8] = c.uuid[8]&0x3F | 0x80
	return c
}

// snapshot copies the content. The caller holds mu, for reading at least.
func (c *collection) snapshot() *store {
	c.snapMu.Lock()
	defer c.snapMu.Unlock()
	return c.data.copy()
}

// keyScratch returns buffers for the keys of every index of s.
func (c *collection) keyScratch(s *store) []keyList {
	if len(c.scratch) < len(s.indexes) {
		c.scratch = make([]keyList, len(s.indexes))
	}
	return c.scratch[:len(s.indexes)]
}

// duplicate is a violation of a unique index.
type duplicate struct {
	err          *Error
	pattern, key []byte // documents
}

func (d *duplicate) Error() string { return d.err.Error() }

// Unwrap makes errors.As find the *Error.
func (d *duplicate) Unwrap() error { return d.err }

func (c *collection) duplicateKey(ix *index, doc []byte) error {
	start, key := openDoc(nil)
	for _, f := range ix.pattern {
		v, _ := get(doc, f.path.parts)
		if v.missing() {
			v = nullValue()
		}
		key = appendField(key, f.path.name, v)
	}
	key = closeDoc(key, start)
	return &duplicate{
		err:     failure(codeDuplicateKey, "E11000 duplicate key error collection: %s index: %s dup key: %s", c.ns, ix.name, shellText(documentValue(key))),
		pattern: ix.keys,
		key:     key,
	}
}

// writer changes a collection, directly or inside a transaction. The caller
// holds the collection's write lock, and has claimed the records.
type writer struct {
	c   *collection
	s   *store
	txn *Txn
	tc  *txnCollection
}

// blocked is returned to wait for a transaction that has written the same
// record. It never leaves the package.
type blocked struct{ done <-chan struct{} }

func (blocked) Error() string { return "waiting for a transaction" }

// claim makes sure that a record may be written. Inside a transaction it is
// written by no other one and unchanged since the snapshot, or else the
// transaction fails; outside, the caller waits.
func (w *writer) claim(rid int64) error {
	owner := w.c.owners[rid]
	if w.txn == nil {
		if owner != nil {
			return blocked{owner.done}
		}
		return nil
	}
	if owner == w.txn {
		return nil
	}
	if owner != nil {
		return writeConflict()
	}
	mine, live := w.s.records.Get(rid), w.c.data.records.Get(rid)
	if mine == nil || live == nil || &mine[0] != &live[0] {
		return writeConflict()
	}
	w.c.owners[rid] = w.txn
	w.tc.written[rid] = struct{}{}
	return nil
}

// claimKey makes sure that a unique index has room for a key.
func (w *writer) claimKey(ix *index, key []byte, rid int64, doc []byte) error {
	if holder, taken := ix.holder(key); taken && holder != rid {
		if owner := w.c.owners[holder]; owner != nil && w.txn == nil {
			return blocked{owner.done}
		}
		return w.c.duplicateKey(ix, doc)
	}
	if len(w.c.reserved) == 0 && w.txn == nil {
		return nil
	}
	r := reservation{ix.name, string(key)}
	owner := w.c.reserved[r]
	switch {
	case owner == nil && w.txn == nil:
		return nil
	case owner != nil && w.txn == nil:
		return blocked{owner.done}
	case owner != nil && owner != w.txn:
		return writeConflict()
	}
	// The snapshot may not show a key that was inserted since.
	if live := w.c.data.index(ix.name); live != nil {
		if holder, taken := live.holder(key); taken && holder != rid && w.c.owners[holder] != w.txn {
			return writeConflict()
		}
	}
	w.c.reserved[r] = w.txn
	w.tc.reserved = append(w.tc.reserved, r)
	return nil
}

// insert stores a document under a new record number.
func (w *writer) insert(doc bson.Raw) error {
	scratch := w.c.keyScratch(w.s)
	rid := w.c.nextRID + 1
	for i, ix := range w.s.indexes {
		if err := ix.pattern.keys(doc, &scratch[i]); err != nil {
			return err
		}
		if !ix.unique {
			continue
		}
		for k := range scratch[i].len() {
			if err := w.claimKey(ix, scratch[i].at(k), rid, doc); err != nil {
				return err
			}
		}
	}
	w.c.nextRID = rid
	if w.txn != nil {
		w.c.owners[rid] = w.txn
		w.tc.written[rid] = struct{}{}
	}
	for i, ix := range w.s.indexes {
		ix.add(&scratch[i], rid)
	}
	w.s.records.Set(rid, doc)
	w.s.size += int64(len(doc))
	return nil
}

// update replaces a record's document. When changed is not nil, only these
// paths differ.
func (w *writer) update(rid int64, old, doc bson.Raw, changed []path) error {
	scratch := w.c.keyScratch(w.s)
	for i, ix := range w.s.indexes {
		scratch[i].reset()
		if changed != nil && !ix.touchedBy(changed) {
			continue
		}
		if err := ix.pattern.keys(doc, &scratch[i]); err != nil {
			return err
		}
		if !ix.unique {
			continue
		}
		for k := range scratch[i].len() {
			if err := w.claimKey(ix, scratch[i].at(k), rid, doc); err != nil {
				return err
			}
		}
	}
	for i, ix := range w.s.indexes {
		if scratch[i].len() == 0 {
			continue
		}
		if err := ix.pattern.keys(old, &w.c.previous); err != nil {
			return err
		}
		if w.c.previous.equal(&scratch[i]) {
			continue
		}
		ix.remove(&w.c.previous, rid)
		ix.add(&scratch[i], rid)
	}
	w.s.records.Set(rid, doc)
	w.s.size += int64(len(doc) - len(old))
	return nil
}

// remove deletes a record.
func (w *writer) remove(rid int64, doc bson.Raw) error {
	for _, ix := range w.s.indexes {
		if err := ix.pattern.keys(doc, &w.c.previous); err != nil {
			return err
		}
		ix.remove(&w.c.previous, rid)
	}
	w.s.records.Delete(rid)
	w.s.size -= int64(len(doc))
	return nil
}
