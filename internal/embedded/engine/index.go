package engine

import (
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"
)

// index is a B-tree from encoded keys to record numbers. A key of an index
// that is not unique ends with the record number, so that equal keys stay
// apart.
type index struct {
	name     string
	pattern  keyPattern
	keys     []byte // the key pattern's document, as the client sent it
	unique   bool
	tree     btree.Map[string, int64]
	size     int64  // bytes of all keys
	multikey uint32 // bit i: field i goes through an array in some document
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
	}
}

func (ix *index) isMultikey(field int) bool { return ix.multikey&(1<<field) != 0 }

// copy returns a snapshot of the index. It shares its nodes with the
// original until one of them is written to.
func (ix *index) copy() *index {
	c := *ix
	c.tree = *ix.tree.Copy()
	return &c
}

// treeKey completes a key for the tree.
func (ix *index) treeKey(key []byte, rid int64) string {
	if ix.unique {
		return string(key)
	}
	b := make([]byte, 0, 64)
	b = append(b, key...)
	return string(binary.BigEndian.AppendUint64(b, uint64(rid))) //nolint:gosec // record numbers are positive
}

func (ix *index) add(keys *keyList, rid int64) {
	for i := range keys.len() {
		k := ix.treeKey(keys.at(i), rid)
		ix.tree.Set(k, rid)
		ix.size += int64(len(k))
	}
	ix.multikey |= keys.arrays
}

func (ix *index) remove(keys *keyList, rid int64) {
	for i := range keys.len() {
		k := ix.treeKey(keys.at(i), rid)
		ix.tree.Delete(k)
		ix.size -= int64(len(k))
	}
}

// holder returns the record that holds a key of a unique index.
func (ix *index) holder(key []byte) (int64, bool) { return ix.tree.Get(string(key)) }

// touchedBy reports whether a change of one of the paths can change a key.
func (ix *index) touchedBy(paths []path) bool {
	return slices.ContainsFunc(ix.pattern, func(f keyField) bool {
		return slices.ContainsFunc(paths, f.path.overlaps)
	})
}
