package engine

import (
	"container/heap"
	"context"
	"slices"
	"strings"

	"github.com/tidwall/btree"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// checkEvery is how many steps a scan takes between looks at its context.
const checkEvery = 1024

// scan runs an access path over a store. It counts what it does.
type scan struct {
	ctx     context.Context
	s       *store
	a       *access
	tree    *btree.BTreeG[entry]
	lookups bool // every range is one key of a unique index

	records tableIter
	keys    btree.IterG[entry]
	at      int  // the range that is scanned, in the order of the scan
	within  bool // keys stands in that range
	pending bool // keys stands on a key that was counted but not used
	started bool
	seen    map[int64]struct{} // records given out, when several keys lead to one
	rid     int64              // the current record
	eof     bool

	keysExamined, seeks, docsExamined int
	fromIndex                         int // records that the index gave
	returned                          int // documents that passed the residual filter
}

func newScan(ctx context.Context, s *store, a *access) *scan {
	sc := &scan{ctx: ctx, s: s, a: a}
	sc.open()
	return sc
}

func (sc *scan) open() {
	if sc.a.kind == collectionScan {
		sc.records = sc.s.records.Iter()
		return
	}
	ix := sc.s.index(sc.a.index.name)
	sc.tree = ix.tree
	sc.lookups = sc.a.kind == idLookup || ix.unique && !sc.a.fullRange && len(sc.a.bounds) == len(ix.pattern) && sc.a.points()
	if !sc.lookups {
		sc.keys = sc.tree.Iter()
	}
	if ix.multikey != 0 && sc.seen == nil {
		sc.seen = map[int64]struct{}{}
	}
}

// points reports whether the bounds are single values only.
func (a *access) points() bool {
	for _, iv := range a.bounds {
		if slices.ContainsFunc(iv, func(iv interval) bool { return !iv.single }) {
			return false
		}
	}
	return true
}

// rebase moves the scan to a snapshot of its store, taken before the store
// changed, and to an equal access path.
func (sc *scan) rebase(ctx context.Context, s *store, a *access) {
	key := sc.keys.Item()
	sc.ctx, sc.s, sc.a = ctx, s, a
	sc.open()
	switch {
	case !sc.started || sc.eof:
	case a.kind == collectionScan:
		sc.records.GoTo(sc.rid)
	case !sc.lookups && (sc.within || sc.pending):
		sc.keys.Seek(key)
	}
}

// next returns the next document that satisfies the query.
func (sc *scan) next() (rid int64, doc bson.Raw, ok bool, err error) {
	for steps := 1; ; steps++ {
		if steps%checkEvery == 0 {
			if err := interrupted(sc.ctx); err != nil {
				return 0, nil, false, err
			}
		}
		if !sc.advance() {
			sc.eof = true
			return 0, nil, false, nil
		}
		doc := sc.document()
		sc.docsExamined++
		if sc.a.residual.matches(doc) {
			sc.returned++
			return sc.rid, doc, true, nil
		}
	}
}

// advance moves to the next record.
func (sc *scan) advance() bool {
	if sc.eof {
		return false
	}
	if sc.a.kind == collectionScan {
		return sc.advanceCollection()
	}
	for {
		if !sc.advanceIndex() {
			return false
		}
		if sc.seen != nil {
			if _, double := sc.seen[sc.rid]; double {
				continue
			}
			sc.seen[sc.rid] = struct{}{}
		}
		sc.fromIndex++
		return true
	}
}

func (sc *scan) document() bson.Raw {
	if sc.a.kind == collectionScan {
		return sc.records.Value()
	}
	return sc.s.records.Get(sc.rid)
}

func (sc *scan) advanceCollection() bool {
	ok := false
	switch {
	case !sc.started && sc.a.backward:
		ok = sc.records.Last()
	case !sc.started:
		ok = sc.records.First()
	case sc.a.backward:
		ok = sc.records.Prev()
	default:
		ok = sc.records.Next()
	}
	sc.started = true
	if ok {
		sc.rid = sc.records.Key()
	}
	return ok
}

// advanceIndex moves to the next key within the ranges. A key past the end of
// one range is used for the next one if it lies there; it counts as examined
// unless it ends the scan, as in MongoDB.
func (sc *scan) advanceIndex() bool {
	if sc.lookups {
		return sc.advanceLookup()
	}
	for sc.at < len(sc.a.ranges) {
		r := sc.a.ranges[sc.at]
		if sc.a.backward {
			r = sc.a.ranges[len(sc.a.ranges)-1-sc.at]
		}
		if !sc.position(r) {
			return false
		}
		sc.started = true
		key := sc.keys.Item()
		if sc.a.backward && !key.before(r.start) || !sc.a.backward && key.before(r.end) {
			if !sc.pending {
				sc.keysExamined++
			}
			sc.pending, sc.within = false, true
			sc.rid = key.rid
			return true
		}
		sc.at++
		if !sc.pending && sc.at < len(sc.a.ranges) {
			sc.keysExamined++
		}
		sc.within, sc.pending = false, true
	}
	return false
}

// position moves the iterator to the next key that may lie in r; false when
// no keys are left.
func (sc *scan) position(r keyRange) bool {
	if sc.within {
		if sc.a.backward {
			return sc.keys.Prev()
		}
		return sc.keys.Next()
	}
	if sc.pending {
		if key := sc.keys.Item(); sc.a.backward && key.before(r.end) || !sc.a.backward && !key.before(r.start) {
			return true
		}
		sc.pending = false
	}
	sc.seeks++
	if !sc.a.backward {
		return sc.keys.Seek(r.start)
	}
	if sc.keys.Seek(r.end) {
		return sc.keys.Prev()
	}
	return sc.keys.Last()
}

// advanceLookup finds the one key that each range can hold.
func (sc *scan) advanceLookup() bool {
	for sc.at < len(sc.a.ranges) {
		i := sc.at
		if sc.a.backward {
			i = len(sc.a.ranges) - 1 - i
		}
		r := &sc.a.ranges[i]
		sc.at++
		sc.seeks++
		found := false
		sc.tree.Ascend(r.start, func(key entry) bool {
			if found = key.before(r.end); found {
				sc.rid = key.rid
			}
			return false
		})
		if found {
			sc.started = true
			sc.keysExamined++
			return true
		}
	}
	return false
}

// results is what a find returns, in order: the scan, sorted if it must be,
// without what is skipped and what is beyond the limit.
type results struct {
	sc         *scan
	sort       keyPattern // nil when the scan comes in order
	skip       int64
	limit      int64 // 0 is none
	projection *projection
	early      bool // the projection is applied before the sort
	scratch    keyList

	sorted   []sortItem
	isSorted bool
	skipped  int64
	returned int64
}

type sortItem struct {
	key string
	seq int // keeps equal keys in the order of the scan
	rid int64
	doc bson.Raw
}

func (i sortItem) compare(j sortItem) int {
	if c := strings.Compare(i.key, j.key); c != 0 {
		return c
	}
	return i.seq - j.seq
}

// done reports whether it is known that nothing is left.
func (r *results) done() bool {
	return r.limit > 0 && r.returned >= r.limit || r.sc.eof && len(r.sorted) == 0
}

// next returns the next document, not yet projected unless early is set.
func (r *results) next() (rid int64, doc bson.Raw, ok bool, err error) {
	for {
		if r.limit > 0 && r.returned >= r.limit {
			return 0, nil, false, nil
		}
		rid, doc, ok, err = r.input()
		if !ok || err != nil {
			return 0, nil, false, err
		}
		if r.skipped < r.skip {
			r.skipped++
			continue
		}
		r.returned++
		return rid, doc, true, nil
	}
}

func (r *results) input() (int64, bson.Raw, bool, error) {
	if r.sort == nil {
		return r.sc.next()
	}
	if !r.isSorted {
		if err := r.sortAll(); err != nil {
			return 0, nil, false, err
		}
	}
	if len(r.sorted) == 0 {
		return 0, nil, false, nil
	}
	item := r.sorted[0]
	r.sorted = r.sorted[1:]
	return item.rid, item.doc, true, nil
}

// sortAll reads the scan to its end. With a limit it keeps no more than that
// many documents.
func (r *results) sortAll() error {
	r.isSorted = true
	keep := 0
	if r.limit > 0 && r.skip+r.limit < 1<<20 {
		keep = int(r.skip + r.limit)
	}
	var top sortHeap
	for {
		rid, doc, ok, err := r.sc.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		key, err := r.sort.sortKey(doc, &r.scratch)
		if err != nil {
			return err
		}
		item := sortItem{key: key, seq: r.sc.returned, rid: rid, doc: doc}
		if keep > 0 && len(top) == keep {
			if item.compare(top[0]) >= 0 {
				continue
			}
			top[0] = item
			heap.Fix(&top, 0)
			continue
		}
		if keep > 0 {
			heap.Push(&top, item)
		} else {
			top = append(top, item)
		}
	}
	slices.SortFunc(top, sortItem.compare)
	if r.early {
		for i := range top {
			top[i].doc = r.projection.appendTo(nil, top[i].doc)
		}
	}
	r.sorted = top
	return nil
}

// appendNext appends the next document, projected, as the i-th element of an
// array.
func (r *results) appendNext(dst []byte, i int) ([]byte, bool, error) {
	_, doc, ok, err := r.next()
	if !ok || err != nil {
		return dst, false, err
	}
	dst = appendIndexHeader(dst, bson.TypeEmbeddedDocument, i)
	if r.projection == nil || r.early {
		return append(dst, doc...), true, nil
	}
	return r.projection.appendTo(dst, doc), true, nil
}

// sortHeap keeps the last document of the order at the top.
type sortHeap []sortItem

func (h sortHeap) Len() int           { return len(h) }
func (h sortHeap) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h sortHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *sortHeap) Push(x any) { *h = append(*h, x.(sortItem)) }

// Pop implements heap.Interface.
func (h *sortHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
