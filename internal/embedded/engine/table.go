package engine

import "go.mongodb.org/mongo-driver/v2/bson"

const pageSize = 128 // records in a page

// table holds documents by record number. Record numbers are given out in
// ascending order, so that pages of consecutive ones stay well filled, and
// finding one takes two steps whatever the table's size. Copies share pages
// until one of them writes to it.
type table struct {
	pages  []*page // by record number / pageSize; nil without records
	owner  *owner
	shared bool // pages belongs to a copy, too
	count  int
}

// owner marks the pages that a table may write to.
type owner struct{ _ byte }

type page struct {
	owner *owner
	used  int
	docs  [pageSize]bson.Raw
}

// Len returns the number of records.
func (t *table) Len() int { return t.count }

// Get returns a record's document, or nil.
func (t *table) Get(rid int64) bson.Raw {
	i := rid / pageSize
	if i >= int64(len(t.pages)) || t.pages[i] == nil {
		return nil
	}
	return t.pages[i].docs[rid%pageSize]
}

// Set stores a record's document.
func (t *table) Set(rid int64, doc bson.Raw) {
	p := t.writable(int(rid / pageSize))
	if p.docs[rid%pageSize] == nil {
		p.used++
		t.count++
	}
	p.docs[rid%pageSize] = doc
}

// Delete removes a record.
func (t *table) Delete(rid int64) {
	if t.Get(rid) == nil {
		return
	}
	i := int(rid / pageSize)
	p := t.writable(i)
	p.docs[rid%pageSize] = nil
	t.count--
	if p.used--; p.used == 0 {
		t.pages[i] = nil
	}
}

// writable returns the page at i, which it makes or copies if need be.
func (t *table) writable(i int) *page {
	if t.owner == nil {
		t.owner = new(owner)
	}
	if t.shared {
		t.pages = append(make([]*page, 0, len(t.pages)+1), t.pages...)
		t.shared = false
	}
	for len(t.pages) <= i {
		t.pages = append(t.pages, nil)
	}
	p := t.pages[i]
	switch {
	case p == nil:
		p = &page{owner: t.owner}
	case p.owner != t.owner:
		c := *p
		c.owner = t.owner
		p = &c
	default:
		return p
	}
	t.pages[i] = p
	return p
}

// copy returns a copy. Neither it nor the original can write to the pages
// that are there any more.
func (t *table) copy() table {
	t.owner, t.shared = new(owner), true
	c := *t
	c.owner = new(owner)
	return c
}

// tableIter walks a table.
type tableIter struct {
	t   *table
	rid int64
	doc bson.Raw
}

// Iter returns an iterator that stands nowhere.
func (t *table) Iter() tableIter { return tableIter{t: t, rid: -1} }

// First moves to the first record.
func (it *tableIter) First() bool {
	it.rid = -1
	return it.Next()
}

// Last moves to the last record.
func (it *tableIter) Last() bool {
	it.rid = int64(len(it.t.pages)) * pageSize
	return it.Prev()
}

// GoTo moves to a record; false when it does not exist.
func (it *tableIter) GoTo(rid int64) bool {
	it.rid, it.doc = rid, it.t.Get(rid)
	return it.doc != nil
}

// Next moves to the next record; false at the end.
func (it *tableIter) Next() bool {
	for rid := it.rid + 1; rid < int64(len(it.t.pages))*pageSize; rid++ {
		p := it.t.pages[rid/pageSize]
		if p == nil {
			rid += pageSize - 1 - rid%pageSize
			continue
		}
		if doc := p.docs[rid%pageSize]; doc != nil {
			it.rid, it.doc = rid, doc
			return true
		}
	}
	return false
}

// Prev moves to the record before; false at the beginning.
func (it *tableIter) Prev() bool {
	for rid := it.rid - 1; rid >= 0; rid-- {
		p := it.t.pages[rid/pageSize]
		if p == nil {
			rid -= rid % pageSize
			continue
		}
		if doc := p.docs[rid%pageSize]; doc != nil {
			it.rid, it.doc = rid, doc
			return true
		}
	}
	return false
}

// Key returns the number of the current record.
func (it *tableIter) Key() int64 { return it.rid }

// Value returns the document of the current record.
func (it *tableIter) Value() bson.Raw { return it.doc }
