package engine

import (
	"cmp"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Txn is a transaction with snapshot isolation. Its first command takes the
// snapshot; requests that carry the Txn see that and their own writes. A
// record that another transaction has written, or that has changed since the
// snapshot, fails the transaction with WriteConflict, labelled
// TransientTransactionError. Writers outside of a transaction wait for it to
// end. A collection that an insert creates stays, whatever becomes of the
// transaction.
//
// A request that fails inside a transaction aborts it. A Txn serves one
// request at a time.
type Txn struct {
	e    *Engine
	done chan struct{} // closed at the end

	mu          sync.Mutex
	state       txnState
	started     bool
	collections map[string]*txnCollection
}

type txnState uint8

const (
	txnOpen txnState = iota
	txnCommitted
	txnAborted
)

// txnCollection is a transaction's private copy of a collection.
type txnCollection struct {
	c        *collection
	s        *store
	indexes  []string // names when the snapshot was taken
	written  map[int64]struct{}
	reserved []reservation
}

// Begin starts a transaction.
func (e *Engine) Begin() *Txn {
	return &Txn{e: e, done: make(chan struct{}), collections: map[string]*txnCollection{}}
}

// Commit makes the transaction's writes visible to others, all at once. A
// transaction that was aborted answers NoSuchTransaction, one that was
// committed before TransactionCommitted.
func (t *Txn) Commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usable(); err != nil {
		return err
	}
	t.e.commits.Lock()
	defer t.e.commits.Unlock()
	var touched []*txnCollection
	for _, tc := range t.collections {
		if len(tc.written)+len(tc.reserved) > 0 {
			touched = append(touched, tc)
		}
	}
	slices.SortFunc(touched, func(a, b *txnCollection) int { return cmp.Compare(a.c.ns, b.c.ns) })
	for _, tc := range touched {
		tc.c.mu.Lock()
	}
	var err error
	for _, tc := range touched {
		if err == nil {
			err = tc.apply()
		}
		tc.release()
	}
	for _, tc := range touched {
		tc.c.mu.Unlock()
	}
	t.end(txnCommitted)
	return err
}

// apply writes what the transaction has changed. The claims it holds keep
// that from failing.
func (tc *txnCollection) apply() error {
	w := writer{c: tc.c, s: tc.c.data}
	// Removals first: a unique key may have moved from one record to another.
	for rid := range tc.written {
		live := w.s.records.Get(rid)
		if live == nil {
			continue
		}
		if err := w.remove(rid, live); err != nil {
			return err
		}
	}
	scratch := tc.c.keyScratch(w.s)
	for rid := range tc.written {
		doc := tc.s.records.Get(rid)
		if doc == nil {
			continue
		}
		for i, ix := range w.s.indexes {
			if err := ix.pattern.keys(doc, &scratch[i]); err != nil {
				return err
			}
			ix.add(&scratch[i], rid)
		}
		w.s.records.Set(rid, doc)
		w.s.size += int64(len(doc))
	}
	return nil
}

// release gives up the claims. The caller holds the collection's lock.
func (tc *txnCollection) release() {
	for rid := range tc.written {
		delete(tc.c.owners, rid)
	}
	for _, r := range tc.reserved {
		delete(tc.c.reserved, r)
	}
}

// Abort drops the transaction's writes. It does nothing to a transaction that
// has ended.
func (t *Txn) Abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abort()
}

// abort is Abort with mu held.
func (t *Txn) abort() {
	if t.state != txnOpen {
		return
	}
	for _, tc := range t.collections {
		if len(tc.written) == 0 && len(tc.reserved) == 0 {
			continue
		}
		tc.c.mu.Lock()
		tc.release()
		tc.c.mu.Unlock()
	}
	t.end(txnAborted)
}

func (t *Txn) end(state txnState) {
	t.state = state
	t.collections = nil
	close(t.done)
}

// usable returns the error of a transaction that has ended. The caller holds
// mu.
func (t *Txn) usable() error {
	switch t.state {
	case txnCommitted:
		return failure(codeTransactionCommitted, "Transaction has been committed.")
	case txnAborted:
		err := failure(codeNoSuchTransaction, "Transaction has been aborted.")
		err.Labels = []string{labelTransient}
		return err
	}
	return nil
}

// start takes the snapshot of every collection, if that is not done yet. The
// caller holds mu.
func (t *Txn) start() {
	if t.started {
		return
	}
	t.started = true
	t.e.commits.RLock()
	defer t.e.commits.RUnlock()
	for _, c := range t.e.all() {
		c.mu.RLock()
		if !c.dropped {
			t.adopt(c)
		}
		c.mu.RUnlock()
	}
}

func (t *Txn) adopt(c *collection) *txnCollection {
	tc := &txnCollection{c: c, s: c.snapshot(), written: map[int64]struct{}{}}
	for _, ix := range tc.s.indexes {
		tc.indexes = append(tc.indexes, ix.name)
	}
	t.collections[c.ns] = tc
	return tc
}

// forWriting returns the private copy of a collection, whose lock the caller
// holds. A collection that was dropped or has other indexes since the
// snapshot is a conflict.
func (t *Txn) forWriting(c *collection) (*txnCollection, error) {
	tc := t.collections[c.ns]
	if tc == nil {
		if c.data.records.Len() > 0 {
			return nil, writeConflict() // created and filled since
		}
		return t.adopt(c), nil
	}
	if tc.c != c || !slices.EqualFunc(tc.indexes, c.data.indexes, func(name string, ix *index) bool { return name == ix.name }) {
		return nil, writeConflict()
	}
	return tc, nil
}

// runIn runs a command inside the transaction and aborts it on failure.
func (t *Txn) runIn(run func() (bson.Raw, error)) (bson.Raw, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usable(); err != nil {
		return nil, err
	}
	t.start()
	reply, err := run()
	if err != nil {
		t.abort()
		return nil, err
	}
	if !lookup(reply, "writeErrors").missing() {
		t.abort()
	}
	return reply, nil
}
