package engine

import (
	"bytes"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const maxKeyFields = 32 // in an index or a sort, as in MongoDB

// keyField is one field of an index's key pattern or of a sort.
type keyField struct {
	path       path
	descending bool
}

type keyPattern []keyField

// keyList collects the encoded keys of a document in one buffer.
type keyList struct {
	buf    []byte
	ends   []int
	arrays uint32 // bit i: field i went through an array
}

func (l *keyList) reset() {
	l.buf, l.ends, l.arrays = l.buf[:0], l.ends[:0], 0
}

func (l *keyList) len() int { return len(l.ends) }

func (l *keyList) at(i int) []byte {
	start := 0
	if i > 0 {
		start = l.ends[i-1]
	}
	return l.buf[start:l.ends[i]]
}

// sorted puts the keys in order and drops doubles.
func (l *keyList) sorted() {
	if len(l.ends) < 2 {
		return
	}
	all := make([][]byte, l.len())
	for i := range all {
		all[i] = l.at(i)
	}
	slices.SortFunc(all, bytes.Compare)
	all = slices.CompactFunc(all, bytes.Equal)
	buf := make([]byte, 0, len(l.buf))
	l.ends = l.ends[:0]
	for _, k := range all {
		buf = append(buf, k...)
		l.ends = append(l.ends, len(buf))
	}
	l.buf = buf
}

func (l *keyList) equal(m *keyList) bool {
	return slices.Equal(l.ends, m.ends) && bytes.Equal(l.buf, m.buf)
}

// keys fills out with the document's keys, in order and without doubles: one,
// or one for each element of an array that the pattern goes through.
func (p keyPattern) keys(doc []byte, out *keyList) error {
	out.reset()
	for _, f := range p {
		v, _ := get(doc, f.path.parts)
		if v.isArray() {
			return p.expandedKeys(doc, out)
		}
		out.buf = appendKeyIn(out.buf, v, f.descending)
	}
	out.buf = append(out.buf, endOfKey)
	out.ends = append(out.ends, len(out.buf))
	return nil
}

func (p keyPattern) expandedKeys(doc []byte, out *keyList) error {
	out.reset()
	if len(p) > maxKeyFields {
		return failure(codeBadValue, "too many compound keys")
	}
	pending := make([][]string, len(p))
	for i, f := range p {
		pending[i] = f.path.parts
	}
	if err := p.expand(doc, pending, make([]value, len(p)), out); err != nil {
		return err
	}
	out.sorted()
	return nil
}

// expand resolves the fields that are pending in doc. Those that meet an
// array, which must be the same one, go on in each of its elements.
func (p keyPattern) expand(doc []byte, pending [][]string, fixed []value, out *keyList) error {
	pending, fixed = slices.Clone(pending), slices.Clone(fixed)
	var arr []byte
	first := 0
	for i, parts := range pending {
		if parts == nil {
			continue
		}
		v, rest := getPositional(doc, parts)
		if !v.isArray() {
			fixed[i], pending[i] = v, nil
			continue
		}
		if arr != nil && &arr[0] != &v.b[0] {
			return failure(codeParallelArrays, "cannot index parallel arrays [%s] [%s]", p[i].path.parts[0], p[first].path.parts[0])
		}
		if arr == nil {
			arr, first = v.b, i
		}
		out.arrays |= 1 << i
		pending[i] = append([]string{}, rest...)
	}
	if arr == nil {
		p.emit(fixed, out)
		return nil
	}
	if isEmptyDocument(arr) {
		for i, rest := range pending {
			if rest != nil && len(rest) == 0 {
				fixed[i] = value{t: bson.TypeUndefined}
			}
		}
		p.emit(fixed, out)
		return nil
	}
	it := fieldsOf(arr)
	var e element
	deeper := make([][]string, len(p))
	for it.next(&e) {
		further := false
		for i, rest := range pending {
			deeper[i] = nil
			switch {
			case rest == nil:
			case len(rest) == 0:
				fixed[i] = e.value
			case e.isDocument():
				deeper[i], further = rest, true
			default:
				fixed[i] = value{}
			}
		}
		if !further {
			p.emit(fixed, out)
			continue
		}
		if err := p.expand(e.b, deeper, fixed, out); err != nil {
			return err
		}
	}
	return nil
}

// getPositional is get, but a number in the path picks an array's element.
func getPositional(doc []byte, parts []string) (value, []string) {
	v, rest := get(doc, parts)
	for v.isArray() && len(rest) > 0 {
		i, ok := arrayIndex(rest[0])
		if !ok {
			break
		}
		v, rest = arrayAt(v.b, i), rest[1:]
		switch {
		case len(rest) == 0 || v.isArray():
		case v.isDocument():
			v, rest = get(v.b, rest)
		default:
			return value{}, nil
		}
	}
	return v, rest
}

func (p keyPattern) emit(fixed []value, out *keyList) {
	for i, f := range p {
		out.buf = appendKeyIn(out.buf, fixed[i], f.descending)
	}
	out.buf = append(out.buf, endOfKey)
	out.ends = append(out.ends, len(out.buf))
}

// parseSort reads a sort document. A nil result keeps the order.
func parseSort(doc []byte) (keyPattern, error) {
	var out keyPattern
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		name := string(e.key)
		if name == "$natural" {
			return nil, notImplemented("a $natural sort")
		}
		if e.isDocument() {
			return nil, notImplemented("a $meta sort")
		}
		if !e.isNumber() {
			return nil, failure(15974, "Illegal key in $sort specification: %s", name)
		}
		n, ok := e.integer()
		if !ok || n != 1 && n != -1 {
			return nil, failure(15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)")
		}
		if err := checkSortedName(name); err != nil {
			return nil, err
		}
		p, err := parsePath(name)
		if err != nil {
			return nil, err
		}
		out = append(out, keyField{p, n < 0})
	}
	if len(out) > maxKeyFields {
		return nil, failure(codeBadValue, "too many compound keys")
	}
	return out, nil
}

func checkSortedName(name string) error {
	switch {
	case name == "":
		return failure(40352, "FieldPath cannot be constructed with empty string")
	case name[0] == '$':
		return failure(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
	}
	return nil
}

// sortKey returns the key that decides a document's place: the least of its
// keys, which takes the smallest element of an array when ascending and the
// largest when descending.
func (p keyPattern) sortKey(doc []byte, scratch *keyList) (string, error) {
	if err := p.keys(doc, scratch); err != nil {
		if asError(err).Code == codeParallelArrays {
			return "", failure(codeBadValue, "cannot sort with keys that are parallel arrays")
		}
		return "", err
	}
	return string(scratch.at(0)), nil
}
