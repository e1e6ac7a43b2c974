package engine

import (
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"
)

// index is a B-tree of encoded keys with record numbers.
type index struct {
	name     string
	pattern  keyPattern
	keys     []byte // the key pattern's document, as the client sent it
	unique   bool
	tree     *btree.BTreeG[entry]
	size     int64  // bytes of all keys
	multikey uint32 // bit i: field i goes through an array in some document
}

// entry is a key in the tree with its record number. The key's first 24 bytes
// lie in the entry itself, so that most comparisons stay within the tree's
// nodes and most keys need no memory of their own; the rest is a string.
// Shorter keys are filled up with zeros, which keeps the order: no complete
// key is the beginning of another one, and the part of a key that bounds a
// range comes before every key that begins with it.
type entry struct {
	a, b, c uint64
	rest    string
	rid     int64
}

func newEntry(key []byte, rid int64) entry {
	e := entry{rid: rid}
	if len(key) >= 24 {
		e.a = binary.BigEndian.Uint64(key)
		e.b = binary.BigEndian.Uint64(key[8:])
		e.c = binary.BigEndian.Uint64(key[16:])
		if len(key) > 24 {
			e.rest = string(key[24:])
		}
		return e
	}
	var padded [24]byte
	copy(padded[:], key)
	e.a = binary.BigEndian.Uint64(padded[:])
	e.b = binary.BigEndian.Uint64(padded[8:])
	e.c = binary.BigEndian.Uint64(padded[16:])
	return e
}

// before orders entries by key alone.
func (x entry) before(y entry) bool {
	switch {
	case x.a != y.a:
		return x.a < y.a
	case x.b != y.b:
		return x.b < y.b
	case x.c != y.c:
		return x.c < y.c
	}
	return x.rest < y.rest
}

func (x entry) sameKey(y entry) bool {
	return x.a == y.a && x.b == y.b && x.c == y.c && x.rest == y.rest
}

// lessEntry orders entries by key, equal keys by record number.
func lessEntry(x, y entry) bool {
	switch {
	case x.a != y.a:
		return x.a < y.a
	case x.b != y.b:
		return x.b < y.b
	case x.c != y.c:
		return x.c < y.c
	}
	if x.rest != y.rest {
		return x.rest < y.rest
	}
	return x.rid < y.rid
}

func newTree() *btree.BTreeG[entry] {
	return btree.NewBTreeGOptions(lessEntry, btree.Options{NoLocks: true})
}

const idIndexName = "_id_"

func newIDIndex() *index {
	start, keys := openDoc(nil)
	keys = closeDoc(appendInt32(keys, "_id", 1), start)
	return &index{
		name:    idIndexName,
		pattern: keyPattern{{path: path{name: "_id", parts: []string{"_id"}}}},
		keys:    keys,
		unique:  true,
		tree:    newTree(),
	}
}

func (ix *index) isMultikey(field int) bool { return ix.multikey&(1<<field) != 0 }

// copy returns a snapshot of the index. It shares its nodes with the
// original until one of them is written to.
func (ix *index) copy() *index {
	c := *ix
	c.tree = ix.tree.Copy()
	return &c
}

const ridSize = 8 // bytes of a record number, for the index's size

func (ix *index) add(keys *keyList, rid int64) {
	for i := range keys.len() {
		ix.tree.Set(newEntry(keys.at(i), rid))
		ix.size += int64(len(keys.at(i))) + ridSize
	}
	ix.multikey |= keys.arrays
}

func (ix *index) remove(keys *keyList, rid int64) {
	for i := range keys.len() {
		ix.tree.Delete(newEntry(keys.at(i), rid))
		ix.size -= int64(len(keys.at(i))) + ridSize
	}
}

// holder returns the first record that holds a key.
func (ix *index) holder(key []byte) (rid int64, ok bool) {
	want := newEntry(key, 0)
	ix.tree.Ascend(want, func(e entry) bool {
		if ok = e.sameKey(want); ok {
			rid = e.rid
		}
		return false
	})
	return rid, ok
}

// touchedBy reports whether a change of one of the paths can change a key.
func (ix *index) touchedBy(paths []path) bool {
	return slices.ContainsFunc(ix.pattern, func(f keyField) bool {
		return slices.ContainsFunc(paths, f.path.overlaps)
	})
}
