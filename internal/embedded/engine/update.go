package engine

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// update is a parsed update: operators, or a document that replaces.
type update struct {
	replacement []byte // nil for operators
	root        updateNode
	paths       []path // every path that the operators name
}

type updateKind uint8

const (
	updateNothing updateKind = iota // the node only leads to others
	updateSet
	updateSetOnInsert
	updateUnset
	updateInc
	updateMul
	updateMin
	updateMax
	updatePush
	updatePull
)

// updateNode is a field that an update changes, or that leads to one.
type updateNode struct {
	name     string
	kind     updateKind
	operand  value
	each     []value // $push
	pull     *filter // $pull with a condition on each element
	pullDoc  bool    // the condition is a query of a document
	children []*updateNode
	byName   map[string]*updateNode // children, when they are many
	met      bool                   // found in the document that is being rewritten
}

// maxBackfill is how far past an array's end an update may write.
const maxBackfill = 1500000

func parseUpdate(v value) (*update, error) {
	switch v.t {
	case bson.TypeEmbeddedDocument:
	case bson.TypeArray:
		return nil, notImplemented("an update with an aggregation pipeline")
	default:
		return nil, failure(codeFailedToParse, "Update argument must be either an object or an array")
	}
	it := fieldsOf(v.b)
	var e element
	if !it.next(&e) || len(e.key) == 0 || e.key[0] != '$' {
		return parseReplacement(v.b)
	}
	u := &update{}
	it = fieldsOf(v.b)
	for it.next(&e) {
		if err := u.parseModifier(string(e.key), e.value); err != nil {
			return nil, err
		}
	}
	u.root.order()
	return u, nil
}

func parseReplacement(doc []byte) (*update, error) {
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		if len(e.key) > 0 && e.key[0] == '$' {
			return nil, failure(codeDollarPrefixedName, "The dollar ($) prefixed field '%s' in '%s' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith.", e.key, e.key)
		}
	}
	return &update{replacement: doc}, nil
}

func modifierKind(name string) (updateKind, error) {
	switch name {
	case "$set":
		return updateSet, nil
	case "$setOnInsert":
		return updateSetOnInsert, nil
	case "$unset":
		return updateUnset, nil
	case "$inc":
		return updateInc, nil
	case "$mul":
		return updateMul, nil
	case "$min":
		return updateMin, nil
	case "$max":
		return updateMax, nil
	case "$push":
		return updatePush, nil
	case "$pull":
		return updatePull, nil
	case "$addToSet", "$bit", "$currentDate", "$pop", "$pullAll", "$rename":
		return 0, notImplemented("the update operator " + name)
	}
	return 0, failure(codeFailedToParse, "Unknown modifier: %s. Expected a valid update modifier or pipeline-style update specified as an array", name)
}

func (u *update) parseModifier(name string, v value) error {
	kind, err := modifierKind(name)
	if err != nil {
		return err
	}
	if !v.isDocument() {
		return failure(codeFailedToParse, "Modifiers operate on fields but we found type %s instead. For example: {$mod: {<field>: ...}} not {%s: %s}", typeName(v.t), name, shellText(v))
	}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		p, err := parseUpdatePath(string(e.key))
		if err != nil {
			return err
		}
		n := &updateNode{kind: kind, operand: e.value}
		if err := n.parseOperand(name, p, e.value); err != nil {
			return err
		}
		if len(p.parts)+depthOf(e.value) > maxDepth {
			return failure(codeOverflow, "Document exceeds maximum nesting depth of %d", maxDepth)
		}
		if err := u.root.insert(p, n); err != nil {
			return err
		}
		u.paths = append(u.paths, p)
	}
	return nil
}

func parseUpdatePath(name string) (path, error) {
	p, err := parsePath(name)
	if err != nil {
		return p, err
	}
	for i, part := range p.parts {
		switch {
		case part == "" && name == "":
			return p, failure(codeEmptyFieldName, "An empty update path is not valid.")
		case part == "":
			return p, failure(codeEmptyFieldName, "The update path '%s' contains an empty field name, which is not allowed.", name)
		case i > 0 && (part == "$" || strings.HasPrefix(part, "$[")):
			return p, notImplemented("the positional update operator " + part)
		case part[0] == '$':
			return p, failure(codeDollarPrefixedName, "The dollar ($) prefixed field '%s' in '%s' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith.", part, name)
		}
	}
	return p, nil
}

func depthOf(v value) int {
	if !v.isDocument() && !v.isArray() {
		return 0
	}
	deepest := 0
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		deepest = max(deepest, depthOf(e.value))
	}
	return deepest + 1
}

func (n *updateNode) parseOperand(name string, p path, v value) error {
	switch n.kind {
	case updateInc, updateMul:
		if !v.isNumber() {
			return failure(codeTypeMismatch, "Cannot %s with non-numeric argument: {%s: %s}",
				map[updateKind]string{updateInc: "increment", updateMul: "multiply"}[n.kind], p.name, shellText(v))
		}
		if v.t == bson.TypeDecimal128 {
			return notImplemented(name + " of a decimal")
		}
	case updatePush:
		return n.parsePush(v)
	case updatePull:
		return n.parsePull(v)
	}
	return nil
}

func (n *updateNode) parsePush(v value) error {
	if !isOperatorDocument(v) || lookup(v.b, "$each").missing() {
		n.each = []value{v}
		return nil
	}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		switch name := string(e.key); name {
		case "$each":
			if !e.isArray() {
				return failure(codeBadValue, "The argument to $each in $push must be an array but it was of type: %s", typeName(e.t))
			}
			n.each = []value{}
			each := fieldsOf(e.b)
			var el element
			for each.next(&el) {
				n.each = append(n.each, el.value)
			}
		case "$position", "$slice", "$sort":
			return notImplemented("the $push modifier " + name)
		default:
			return failure(codeBadValue, "Unrecognized clause in $push: %s", name)
		}
	}
	return nil
}

func (n *updateNode) parsePull(v value) error {
	var children []*filter
	var err error
	switch {
	case isOperatorDocument(v):
		children, err = parseOperators(path{}, v.b)
	case v.isDocument():
		n.pullDoc = true
		children, err = parsePredicates(v.b)
	case v.t == bson.TypeRegex:
		var f *filter
		f, err = equality(path{}, v)
		children = []*filter{f}
	default:
		children = []*filter{{op: opEq, operand: v}}
	}
	if err != nil {
		return err
	}
	n.pull = conjunction(children)
	return nil
}

func (n *updateNode) find(name []byte) *updateNode {
	if n.byName != nil {
		return n.byName[string(name)]
	}
	for _, c := range n.children {
		if string(name) == c.name {
			return c
		}
	}
	return nil
}

func (n *updateNode) push(c *updateNode) {
	n.children = append(n.children, c)
	switch {
	case n.byName != nil:
		n.byName[c.name] = c
	case len(n.children) > manyFields:
		n.byName = make(map[string]*updateNode, 2*manyFields)
		for _, c := range n.children {
			n.byName[c.name] = c
		}
	}
}

// insert puts a leaf at a path. Two operators must not meet on one path.
func (n *updateNode) insert(p path, leaf *updateNode) error {
	for i, part := range p.parts {
		c := n.find([]byte(part))
		last := i == len(p.parts)-1
		if c != nil && (last || c.kind != updateNothing) {
			return failure(codeConflictingUpdate, "Updating the path '%s' would create a conflict at '%s'", p.name, strings.Join(p.parts[:i+1], "."))
		}
		if c == nil {
			c = &updateNode{}
			if last {
				c = leaf
			}
			c.name = part
			n.push(c)
		}
		n = c
	}
	return nil
}

// order sorts the fields as MongoDB adds them: numbers by value, before names
// in lexicographic order.
func (n *updateNode) order() {
	slices.SortFunc(n.children, func(a, b *updateNode) int {
		ia, na := arrayIndex(a.name)
		ib, nb := arrayIndex(b.name)
		switch {
		case na && nb:
			return ia - ib
		case na:
			return -1
		case nb:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	for _, c := range n.children {
		c.order()
	}
}

// apply returns the updated document, in fresh memory. inserting is set when
// an upsert builds a new one.
func (u *update) apply(doc []byte, inserting bool) (bson.Raw, error) {
	if u.replacement != nil {
		return u.replace(doc)
	}
	r := rewriter{doc: doc, inserting: inserting}
	out, err := r.document(make([]byte, 0, len(doc)+64), doc, &u.root)
	if err != nil {
		return nil, err
	}
	if id := lookup(doc, "_id"); !id.missing() {
		if now := lookup(out, "_id"); now.missing() || !now.equalBytes(id) && compare(now, id) != 0 {
			return nil, failure(codeImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
		}
	}
	if len(out) > maxDocumentSize {
		return nil, failure(17419, "Resulting document after update is larger than %d", maxDocumentSize)
	}
	return out, nil
}

// replace keeps the _id, which comes first.
func (u *update) replace(doc []byte) (bson.Raw, error) {
	old, id := lookup(doc, "_id"), lookup(u.replacement, "_id")
	switch {
	case old.missing():
		old = id
	case !id.missing() && compare(old, id) != 0:
		return nil, failure(codeImmutableField, "After applying the update, the (immutable) field '_id' was found to have been altered to _id: %s", shellText(id))
	}
	start, out := openDoc(make([]byte, 0, len(u.replacement)+32))
	if !old.missing() {
		out = appendField(out, "_id", old)
	}
	it := fieldsOf(u.replacement)
	var e element
	for it.next(&e) {
		if string(e.key) != "_id" {
			out = appendElement(out, e)
		}
	}
	out = closeDoc(out, start)
	if len(out) > maxDocumentSize {
		return nil, failure(17419, "Resulting document after update is larger than %d", maxDocumentSize)
	}
	return out, nil
}

// rewriter copies a document and changes what an update names on the way.
type rewriter struct {
	doc       []byte // for messages
	inserting bool
}

func (r *rewriter) document(dst, doc []byte, n *updateNode) ([]byte, error) {
	start, dst := openDoc(dst)
	for _, c := range n.children {
		c.met = false
	}
	it := fieldsOf(doc)
	copied := 4 // everything before this offset is dealt with
	var e element
	for left := len(n.children); left > 0; {
		at := len(doc) - 1 - len(it.rest)
		if !it.next(&e) {
			break
		}
		c := n.find(e.key)
		if c == nil || c.met {
			continue
		}
		c.met = true
		left--
		dst = append(dst, doc[copied:at]...)
		copied = len(doc) - 1 - len(it.rest)
		var err error
		if dst, err = r.element(dst, e.value, c); err != nil {
			return nil, err
		}
	}
	dst = append(dst, doc[copied:len(doc)-1]...)
	for _, c := range n.children {
		if c.met {
			continue
		}
		var err error
		if dst, err = r.create(dst, c); err != nil {
			return nil, err
		}
	}
	return closeDoc(dst, start), nil
}

// element changes a field that exists.
func (r *rewriter) element(dst []byte, v value, n *updateNode) ([]byte, error) {
	if n.kind != updateNothing {
		v, err := r.change(v, n)
		if err != nil {
			return nil, err
		}
		if v.missing() {
			return dst, nil
		}
		return appendField(dst, n.name, v), nil
	}
	switch {
	case v.isDocument():
		return r.document(appendHeader(dst, v.t, n.name), v.b, n)
	case v.isArray():
		return r.array(appendHeader(dst, v.t, n.name), v.b, n)
	case n.creates(r.inserting):
		return nil, failure(codePathNotViable, "Cannot create field '%s' in element {%s: %s}", n.children[0].name, n.name, shellText(v))
	}
	return appendField(dst, n.name, v), nil
}

func (r *rewriter) array(dst, arr []byte, n *updateNode) ([]byte, error) {
	for _, c := range n.children {
		if _, ok := arrayIndex(c.name); !ok {
			if !c.creates(r.inserting) {
				continue
			}
			return nil, failure(codePathNotViable, "Cannot create field '%s' in element {%s: %s}", c.name, n.name, shellText(value{bson.TypeArray, arr}))
		}
		c.met = false
	}
	start, dst := openDoc(dst)
	it := fieldsOf(arr)
	var e element
	length := 0
	for ; it.next(&e); length++ {
		c := n.at(length)
		if c == nil {
			dst = append(appendIndexHeader(dst, e.t, length), e.b...)
			continue
		}
		c.met = true
		before := len(dst)
		var err error
		if dst, err = r.element(dst, e.value, c); err != nil {
			return nil, err
		}
		if len(dst) == before { // $unset leaves a hole
			dst = appendIndexHeader(dst, bson.TypeNull, length)
		}
	}
	for _, c := range n.children {
		i, ok := arrayIndex(c.name)
		if !ok || c.met || !c.creates(r.inserting) {
			continue
		}
		if i-length > maxBackfill {
			return nil, failure(155, "can't backfill more than %d elements", maxBackfill)
		}
		for ; length < i; length++ {
			dst = appendIndexHeader(dst, bson.TypeNull, length)
		}
		var err error
		if dst, err = r.create(dst, c); err != nil {
			return nil, err
		}
		length++
	}
	return closeDoc(dst, start), nil
}

// at returns the child for a position in an array.
func (n *updateNode) at(i int) *updateNode {
	var digits [20]byte
	return n.find(strconv.AppendInt(digits[:0], int64(i), 10))
}

// creates reports whether the node makes a field that does not exist.
func (n *updateNode) creates(inserting bool) bool {
	switch n.kind {
	case updateNothing:
		return slices.ContainsFunc(n.children, func(c *updateNode) bool { return c.creates(inserting) })
	case updateUnset, updatePull:
		return false
	case updateSetOnInsert:
		return inserting
	}
	return true
}

// create adds a field that does not exist.
func (r *rewriter) create(dst []byte, n *updateNode) ([]byte, error) {
	if !n.creates(r.inserting) {
		return dst, nil
	}
	if n.kind == updateNothing {
		return r.document(appendHeader(dst, bson.TypeEmbeddedDocument, n.name), []byte{5, 0, 0, 0, 0}, n)
	}
	v, err := r.change(value{}, n)
	if err != nil {
		return nil, err
	}
	return appendField(dst, n.name, v), nil
}

// change returns a field's new value; missing when it goes away.
func (r *rewriter) change(v value, n *updateNode) (value, error) {
	switch n.kind {
	case updateSet:
		return n.operand, nil
	case updateSetOnInsert:
		if r.inserting {
			return n.operand, nil
		}
		return v, nil
	case updateUnset:
		return value{}, nil
	case updateInc, updateMul:
		return r.arithmetic(v, n)
	case updateMin:
		if v.missing() || compare(n.operand, v) < 0 {
			return n.operand, nil
		}
		return v, nil
	case updateMax:
		if v.missing() || compare(n.operand, v) > 0 {
			return n.operand, nil
		}
		return v, nil
	case updatePush:
		return r.push(v, n)
	}
	return pullFrom(v, n)
}

func (r *rewriter) arithmetic(v value, n *updateNode) (value, error) {
	if v.missing() {
		if n.kind == updateInc {
			return n.operand, nil
		}
		v = int32Value(0)
	}
	name := "$inc"
	if n.kind == updateMul {
		name = "$mul"
	}
	switch {
	case !v.isNumber():
		return v, failure(codeTypeMismatch, "Cannot apply %s to a value of non-numeric type. {_id: %s} has the field '%s' of non-numeric type %s", name, shellText(lookup(r.doc, "_id")), n.name, typeName(v.t))
	case v.t == bson.TypeDecimal128:
		return v, notImplemented(name + " of a decimal")
	}
	compute := addNumbers
	if n.kind == updateMul {
		compute = multiplyNumbers
	}
	out, ok := compute(v, n.operand)
	if !ok {
		return v, failure(codeBadValue, "Failed to apply %s operations to current value (%s) for document {_id: %s}", name, shellText(v), shellText(lookup(r.doc, "_id")))
	}
	return out, nil
}

// addNumbers adds as MongoDB does: an int32 grows to an int64, and a double
// makes the sum one; false when an int64 overflows.
func addNumbers(a, b value) (value, bool) {
	if a.t == bson.TypeDouble || b.t == bson.TypeDouble {
		return doubleValue(a.float() + b.float()), true
	}
	na, _ := a.integer()
	nb, _ := b.integer()
	sum := na + nb
	if (sum > na) != (nb > 0) && nb != 0 {
		return value{}, false
	}
	return integerLike(sum, a, b), true
}

func multiplyNumbers(a, b value) (value, bool) {
	if a.t == bson.TypeDouble || b.t == bson.TypeDouble {
		return doubleValue(a.float() * b.float()), true
	}
	na, _ := a.integer()
	nb, _ := b.integer()
	product := na * nb
	if na != 0 && (product/na != nb || na == -1 && nb == math.MinInt64) {
		return value{}, false
	}
	return integerLike(product, a, b), true
}

// integerLike is an int32 when both operands are and it fits.
func integerLike(n int64, a, b value) value {
	if a.t == bson.TypeInt32 && b.t == bson.TypeInt32 {
		return countValue(n)
	}
	return int64Value(n)
}

func (r *rewriter) push(v value, n *updateNode) (value, error) {
	if v.missing() {
		return arrayValue(n.each), nil
	}
	if !v.isArray() {
		return v, failure(codeBadValue, "The field '%s' must be an array but is of type %s in document {_id: %s}", n.name, typeName(v.t), shellText(lookup(r.doc, "_id")))
	}
	length := countElements(v.b)
	out := append(make([]byte, 0, len(v.b)+64), v.b[:len(v.b)-1]...)
	for i, el := range n.each {
		out = append(appendIndexHeader(out, el.t, length+i), el.b...)
	}
	return value{v.t, closeDoc(out, 0)}, nil
}

func pullFrom(v value, n *updateNode) (value, error) {
	if v.missing() {
		return v, nil
	}
	if !v.isArray() {
		return v, failure(codeBadValue, "Cannot apply $pull to a non-array value")
	}
	var keep []value
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		matched := false
		if n.pullDoc {
			matched = e.isDocument() && n.pull.matches(e.b)
		} else {
			matched = n.pull.matchValue(e.value)
		}
		if !matched {
			keep = append(keep, e.value)
		}
	}
	return arrayValue(keep), nil
}

// upsertDocument builds the document that an upsert inserts: the filter's
// equalities, the update on top, and an _id in front.
func (u *update) upsertDocument(f *filter) (bson.Raw, error) {
	base := []byte{5, 0, 0, 0, 0}
	var equalities updateNode
	if err := collectEqualities(f, &equalities); err != nil {
		return nil, err
	}
	if u.replacement != nil {
		equalities.children = slices.DeleteFunc(equalities.children, func(c *updateNode) bool { return c.name != "_id" })
		equalities.byName = nil
	}
	r := rewriter{doc: base, inserting: true}
	base, err := r.document(nil, base, &equalities)
	if err != nil {
		return nil, err
	}
	doc, err := u.apply(base, true)
	if err != nil {
		return nil, err
	}
	return withID(doc)
}

// collectEqualities gathers what a filter says about a new document.
func collectEqualities(f *filter, root *updateNode) error {
	if f == nil {
		return nil
	}
	switch f.op {
	case opAnd:
		for _, c := range f.children {
			if err := collectEqualities(c, root); err != nil {
				return err
			}
		}
	case opEq:
		if err := root.insert(f.path, &updateNode{kind: updateSet, operand: f.operand}); err != nil {
			return failure(54, "cannot infer query fields to set, path '%s' is matched twice", f.path.name)
		}
	}
	return nil
}

// withID returns the document, copied, with its _id in front: a new ObjectID
// when it has none.
func withID(doc []byte) (bson.Raw, error) {
	it := fieldsOf(doc)
	var e element
	if it.next(&e) && string(e.key) == "_id" {
		return bytes.Clone(doc), checkID(e.value)
	}
	id := lookup(doc, "_id")
	if id.missing() {
		oid := bson.NewObjectID()
		id = value{bson.TypeObjectID, oid[:]}
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	start, out := openDoc(make([]byte, 0, len(doc)+len(id.b)+8))
	out = appendField(out, "_id", id)
	it = fieldsOf(doc)
	for it.next(&e) {
		if string(e.key) != "_id" {
			out = appendElement(out, e)
		}
	}
	return closeDoc(out, start), nil
}

func checkID(id value) error {
	switch id.t {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return failure(codeInvalidIDField, "The '_id' value cannot be of type %s", typeName(id.t))
	}
	return nil
}
