package engine

import (
	"bytes"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// projection says which fields of a document to return.
type projection struct {
	spec      []byte
	inclusion bool
	root      projectionNode
	computed  []computedField // appended at the end
	dotted    bool            // a path goes below the top level
}

// projectionNode is a field that is included or excluded as a whole (a leaf),
// or whose fields are.
type projectionNode struct {
	name     []byte
	children []projectionNode
	byName   map[string]int // position in children, when they are many
}

// manyFields is the number of fields from which a map finds one faster than
// a look at each.
const manyFields = 16

type computedField struct {
	name string
	expr *expression
}

// simple reports whether the projection is PROJECTION_SIMPLE to MongoDB:
// whole top-level fields only.
func (p *projection) simple() bool { return !p.dotted && len(p.computed) == 0 }

// parseProjection reads a projection document. A nil result returns documents
// whole.
func parseProjection(spec []byte) (*projection, error) {
	if isEmptyDocument(spec) {
		return nil, nil
	}
	b := projectionBuilder{p: &projection{spec: spec}, id: undecided, rest: undecided}
	b.p.root.children = make([]projectionNode, 0, countElements(spec)+1)
	if err := b.add(nil, spec); err != nil {
		return nil, err
	}
	p := b.p
	p.inclusion = b.rest == include || b.rest == undecided && b.id == include
	switch {
	case p.inclusion && b.id != exclude:
		p.root.add([]byte("_id"))
	case !p.inclusion && b.id == exclude:
		p.root.add([]byte("_id"))
	}
	return p, nil
}

type decision uint8

const (
	undecided decision = iota
	include
	exclude
)

type projectionBuilder struct {
	p    *projection
	id   decision // of _id, which may differ
	rest decision
}

func (b *projectionBuilder) add(prefix, spec []byte) error {
	it := fieldsOf(spec)
	var e element
	for it.next(&e) {
		name := e.key
		if prefix != nil {
			name = append(append(prefix[:len(prefix):len(prefix)], '.'), e.key...)
		}
		if err := checkProjectedName(name); err != nil {
			return err
		}
		if err := b.field(name, e.value); err != nil {
			return err
		}
	}
	return nil
}

func checkProjectedName(b []byte) error {
	if len(b) > 0 && b[0] != '$' && bytes.IndexByte(b, '.') < 0 {
		return nil
	}
	name := string(b)
	for part := range strings.SplitSeq(name, ".") {
		switch {
		case part == "" && name == "":
			return failure(40352, "FieldPath cannot be constructed with empty string")
		case part == "":
			return failure(15998, "FieldPath field names may not be empty strings.")
		case part == "$":
			return notImplemented("the positional projection")
		case part[0] == '$':
			return failure(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
		}
	}
	return nil
}

func (b *projectionBuilder) field(name []byte, v value) error {
	switch {
	case v.isNumber() || v.t == bson.TypeBoolean:
		return b.path(name, v.truthy())
	case v.isDocument() && !isEmptyDocument(v.b) && !isOperatorDocument(v):
		return b.add(name, v.b)
	case isOperatorDocument(v):
		it := fieldsOf(v.b)
		var e element
		it.next(&e)
		switch op := string(e.key); op {
		case "$slice", "$elemMatch", "$meta":
			return notImplemented("the projection operator " + op)
		}
	}
	if bytes.IndexByte(name, '.') >= 0 {
		return notImplemented("a computed field below the top level")
	}
	if b.rest == exclude {
		return failure(31252, "Cannot use expression other than $meta in exclusion projection")
	}
	x, err := parseExpression(v)
	if err != nil {
		return err
	}
	if string(name) == "_id" {
		b.id = exclude // the computed value takes its place
	}
	b.rest = include
	b.p.computed = append(b.p.computed, computedField{string(name), x})
	return nil
}

func (b *projectionBuilder) path(name []byte, included bool) error {
	want := exclude
	if included {
		want = include
	}
	if string(name) == "_id" {
		b.id = want
		return nil
	}
	switch {
	case b.rest == undecided:
		b.rest = want
	case b.rest == include && want == exclude:
		return failure(31254, "Cannot do exclusion on field %s in inclusion projection", name)
	case b.rest == exclude && want == include:
		return failure(31253, "Cannot do inclusion on field %s in exclusion projection", name)
	}
	if bytes.Count(name, []byte{'.'}) >= maxPathParts {
		return failure(codeOverflow, "FieldPath is too long")
	}
	return b.insert(name)
}

func (n *projectionNode) find(key []byte) *projectionNode {
	if n.byName != nil {
		if i, ok := n.byName[string(key)]; ok {
			return &n.children[i]
		}
		return nil
	}
	for i := range n.children {
		if string(key) == string(n.children[i].name) {
			return &n.children[i]
		}
	}
	return nil
}

func (n *projectionNode) push(name []byte) *projectionNode {
	n.children = append(n.children, projectionNode{name: name})
	last := len(n.children) - 1
	switch {
	case n.byName != nil:
		n.byName[string(name)] = last
	case last == manyFields:
		n.byName = make(map[string]int, 2*manyFields)
		for i := range n.children {
			n.byName[string(n.children[i].name)] = i
		}
	}
	return &n.children[last]
}

// add adds a field, unless it is there.
func (n *projectionNode) add(name []byte) {
	if n.find(name) == nil {
		n.push(name)
	}
}

// insert adds a path.
func (b *projectionBuilder) insert(name []byte) error {
	n := &b.p.root
	for rest := name; ; {
		part, after, deeper := bytes.Cut(rest, []byte{'.'})
		b.p.dotted = b.p.dotted || deeper
		c := n.find(part)
		switch {
		case c == nil:
			c = n.push(part)
		case !deeper:
			return failure(31250, "Path collision at %s", name)
		case len(c.children) == 0:
			return failure(31249, "Path collision at %s remaining portion %s", name, after)
		}
		if !deeper {
			return nil
		}
		n, rest = c, after
	}
}

// appendTo appends the projected document.
func (p *projection) appendTo(dst, doc []byte) []byte {
	start, dst := openDoc(dst)
	if p.inclusion {
		dst = p.root.appendIncluded(dst, doc)
	} else {
		dst = p.root.appendExcluded(dst, doc)
	}
	for _, c := range p.computed {
		if v := c.expr.eval(doc); !v.missing() {
			dst = appendField(dst, c.name, v)
		}
	}
	return closeDoc(dst, start)
}

func (n *projectionNode) appendIncluded(dst, doc []byte) []byte {
	// Finds spend much of their time here: elements are copied in one piece.
	b := doc[4 : len(doc)-1]
	for left := len(n.children); left > 0 && len(b) > 0; {
		t := bson.Type(b[0])
		at := 1
		for b[at] != 0 {
			at++
		}
		key := b[1:at]
		at++
		size := at + valueSize(t, b[at:])
		e := b[:size]
		b = b[size:]
		c := n.find(key)
		if c == nil {
			continue
		}
		left--
		switch {
		case len(c.children) == 0:
			dst = append(dst, e...)
		case t == bson.TypeEmbeddedDocument:
			start, sub := openSub(dst, t, string(c.name))
			dst = closeDoc(c.appendIncluded(sub, e[at:]), start)
		case t == bson.TypeArray:
			start, sub := openSub(dst, t, string(c.name))
			dst = closeDoc(c.appendArray(sub, e[at:], true), start)
		}
	}
	return dst
}

func (n *projectionNode) appendExcluded(dst, doc []byte) []byte {
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		c := n.find(e.key)
		switch {
		case c == nil:
			dst = appendElement(dst, e)
		case len(c.children) == 0:
		case e.isDocument():
			start, b := openSub(dst, e.t, string(c.name))
			dst = closeDoc(c.appendExcluded(b, e.b), start)
		case e.isArray():
			start, b := openSub(dst, e.t, string(c.name))
			dst = closeDoc(c.appendArray(b, e.b, false), start)
		default:
			dst = appendElement(dst, e)
		}
	}
	return dst
}

// appendArray projects the documents in an array, also in arrays in it. An
// inclusion drops what is neither, an exclusion keeps it.
func (n *projectionNode) appendArray(dst, arr []byte, inclusion bool) []byte {
	it := fieldsOf(arr)
	var e element
	for i := 0; it.next(&e); {
		switch {
		case e.isDocument():
			start, b := openDoc(appendIndexHeader(dst, e.t, i))
			if inclusion {
				dst = closeDoc(n.appendIncluded(b, e.b), start)
			} else {
				dst = closeDoc(n.appendExcluded(b, e.b), start)
			}
		case e.isArray():
			start, b := openDoc(appendIndexHeader(dst, e.t, i))
			dst = closeDoc(n.appendArray(b, e.b, inclusion), start)
		case inclusion:
			continue
		default:
			dst = append(appendIndexHeader(dst, e.t, i), e.b...)
		}
		i++
	}
	return dst
}

// keeps reports whether the path survives the projection whole.
func (p *projection) keeps(target path) bool {
	if len(p.computed) > 0 {
		return false
	}
	n := &p.root
	for _, part := range target.parts {
		c := n.find([]byte(part))
		if c == nil {
			return !p.inclusion
		}
		if len(c.children) == 0 {
			return p.inclusion
		}
		n = c
	}
	return false
}
