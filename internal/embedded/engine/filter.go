package engine

import (
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

type filterOp uint8

const (
	opAnd filterOp = iota
	opOr
	opNor
	opNot
	opEq
	opGt
	opGte
	opLt
	opLte
	opIn
	opExists
	opSize
	opElemMatchObject // children[0] matches an element as a document
	opElemMatchValue  // every child matches one and the same element
	opRegex
)

// filter is a parsed query predicate. Operators that combine others have
// children; the others have a path and operands.
type filter struct {
	op       filterOp
	path     path
	operand  value
	operands []value // opIn: sorted, without duplicates
	patterns []*regexp.Regexp
	children []*filter
}

// parseFilter reads a query document. A nil result matches everything.
func parseFilter(doc []byte) (*filter, error) {
	if isEmptyDocument(doc) {
		return nil, nil
	}
	children, err := parsePredicates(doc)
	if err != nil || len(children) == 0 {
		return nil, err
	}
	return conjunction(children), nil
}

func conjunction(children []*filter) *filter {
	if len(children) == 1 {
		return children[0]
	}
	return &filter{op: opAnd, children: children}
}

func parsePredicates(doc []byte) ([]*filter, error) {
	var out []*filter
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		if len(e.key) > 0 && e.key[0] == '$' {
			f, err := parseLogical(string(e.key), e.value)
			if err != nil {
				return nil, err
			}
			if f != nil {
				out = append(out, f)
			}
			continue
		}
		p, err := parsePath(string(e.key))
		if err != nil {
			return nil, err
		}
		fs, err := parseField(p, e.value)
		if err != nil {
			return nil, err
		}
		out = append(out, fs...)
	}
	return out, nil
}

func parseLogical(op string, v value) (*filter, error) {
	kind := opAnd
	switch op {
	case "$and":
	case "$or":
		kind = opOr
	case "$nor":
		kind = opNor
	case "$comment":
		return nil, nil
	case "$expr", "$where", "$text", "$jsonSchema", "$sampleRate", "$alwaysTrue", "$alwaysFalse":
		return nil, notImplemented("the query operator " + op)
	default:
		return nil, failure(codeBadValue, "unknown top level operator: %s. If you have a field name that starts with a '$' symbol, consider using $getField or $setField.", op)
	}
	if !v.isArray() {
		return nil, failure(codeBadValue, "%s must be an array", op)
	}
	f := &filter{op: kind}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		if !e.isDocument() {
			return nil, failure(codeBadValue, "$or/$and/$nor entries need to be full objects")
		}
		children, err := parsePredicates(e.b)
		if err != nil {
			return nil, err
		}
		f.children = append(f.children, conjunction(children))
	}
	if len(f.children) == 0 {
		return nil, failure(codeBadValue, "$and/$or/$nor must be a nonempty array")
	}
	return f, nil
}

// isOperatorDocument reports whether a value holds operators ({$gt: 1})
// instead of a document to compare with. A DBRef's fields are not operators.
func isOperatorDocument(v value) bool {
	if !v.isDocument() {
		return false
	}
	it := fieldsOf(v.b)
	var e element
	if !it.next(&e) || len(e.key) == 0 || e.key[0] != '$' {
		return false
	}
	switch string(e.key) {
	case "$ref", "$id", "$db":
		return false
	}
	return true
}

// parseField reads what a query says of one path.
func parseField(p path, v value) ([]*filter, error) {
	if isOperatorDocument(v) {
		return parseOperators(p, v.b)
	}
	f, err := equality(p, v)
	if err != nil {
		return nil, err
	}
	return []*filter{f}, nil
}

func equality(p path, v value) (*filter, error) {
	switch v.t {
	case bson.TypeRegex:
		re, err := compileRegex(v)
		if err != nil {
			return nil, err
		}
		return &filter{op: opRegex, path: p, operand: v, patterns: []*regexp.Regexp{re}}, nil
	case bson.TypeUndefined:
		return nil, failure(codeBadValue, "cannot compare to undefined")
	}
	return &filter{op: opEq, path: p, operand: v}, nil
}

func parseOperators(p path, doc []byte) ([]*filter, error) {
	var out []*filter
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		f, err := parseOperator(p, string(e.key), e.value, doc)
		if err != nil {
			return nil, err
		}
		if f != nil {
			out = append(out, f)
		}
	}
	return out, nil
}

func parseOperator(p path, op string, v value, all []byte) (*filter, error) {
	switch op {
	case "$eq":
		if v.t == bson.TypeUndefined {
			return nil, failure(codeBadValue, "cannot compare to undefined")
		}
		return &filter{op: opEq, path: p, operand: v}, nil
	case "$ne":
		switch v.t {
		case bson.TypeRegex:
			return nil, failure(codeBadValue, "Can't have regex as arg to $ne.")
		case bson.TypeUndefined:
			return nil, failure(codeBadValue, "cannot compare to undefined")
		}
		return negate(&filter{op: opEq, path: p, operand: v}), nil
	case "$gt":
		return comparison(opGt, p, v)
	case "$gte":
		return comparison(opGte, p, v)
	case "$lt":
		return comparison(opLt, p, v)
	case "$lte":
		return comparison(opLte, p, v)
	case "$in":
		return parseIn(p, op, v)
	case "$nin":
		f, err := parseIn(p, op, v)
		if err != nil {
			return nil, err
		}
		return negate(f), nil
	case "$exists":
		f := &filter{op: opExists, path: p}
		if !v.truthy() {
			return negate(f), nil
		}
		return f, nil
	case "$size":
		return parseSize(p, v)
	case "$not":
		return parseNot(p, v)
	case "$elemMatch":
		return parseElemMatch(p, v)
	case "$regex":
		return parseRegexOperator(p, v, lookup(all, "$options"))
	case "$options":
		if lookup(all, "$regex").missing() {
			return nil, failure(codeBadValue, "$options needs a $regex")
		}
		return nil, nil
	case "$comment":
		return nil, nil
	case "$all", "$type", "$mod", "$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear",
		"$geoIntersects", "$geoWithin", "$near", "$nearSphere", "$within", "$maxDistance", "$minDistance", "$expr":
		return nil, notImplemented("the query operator " + op)
	}
	return nil, failure(codeBadValue, "unknown operator: %s", op)
}

func negate(f *filter) *filter { return &filter{op: opNot, children: []*filter{f}} }

func comparison(op filterOp, p path, v value) (*filter, error) {
	switch v.t {
	case bson.TypeRegex:
		return nil, failure(codeBadValue, "Can't have RegEx as arg to predicate over field '%s'.", p.name)
	case bson.TypeUndefined:
		return nil, failure(codeBadValue, "cannot compare to undefined")
	}
	return &filter{op: op, path: p, operand: v}, nil
}

func parseIn(p path, op string, v value) (*filter, error) {
	if !v.isArray() {
		return nil, failure(codeBadValue, "%s needs an array", op)
	}
	f := &filter{op: opIn, path: p, operands: make([]value, 0, 10)}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		switch {
		case isOperatorDocument(e.value):
			return nil, failure(codeBadValue, "cannot nest $ under %s", op)
		case e.t == bson.TypeUndefined:
			return nil, failure(codeBadValue, "cannot compare to undefined")
		case e.t == bson.TypeRegex:
			re, err := compileRegex(e.value)
			if err != nil {
				return nil, err
			}
			f.patterns = append(f.patterns, re)
		}
		f.operands = append(f.operands, e.value)
	}
	slices.SortFunc(f.operands, compare)
	f.operands = slices.CompactFunc(f.operands, func(a, b value) bool { return compare(a, b) == 0 })
	return f, nil
}

func parseSize(p path, v value) (*filter, error) {
	if !v.isNumber() {
		return nil, failure(codeBadValue, "Failed to parse $size. Expected a number in: $size")
	}
	n, ok := v.integer()
	if !ok {
		return nil, failure(codeBadValue, "Failed to parse $size. Expected an integer")
	}
	if n < 0 {
		return nil, failure(codeBadValue, "Failed to parse $size. Expected a non-negative number in: $size: %d", n)
	}
	return &filter{op: opSize, path: p, operand: int64Value(n)}, nil
}

func parseNot(p path, v value) (*filter, error) {
	if v.t == bson.TypeRegex {
		f, err := equality(p, v)
		if err != nil {
			return nil, err
		}
		return negate(f), nil
	}
	if !v.isDocument() {
		return nil, failure(codeBadValue, "$not needs a regex or a document")
	}
	if isEmptyDocument(v.b) {
		return nil, failure(codeBadValue, "$not cannot be empty")
	}
	children, err := parseOperators(p, v.b)
	if err != nil {
		return nil, err
	}
	return negate(conjunction(children)), nil
}

func parseElemMatch(p path, v value) (*filter, error) {
	if !v.isDocument() {
		return nil, failure(codeBadValue, "$elemMatch needs an Object")
	}
	if isOperatorDocument(v) && !startsWithLogical(v.b) {
		children, err := parseOperators(path{}, v.b)
		if err != nil {
			return nil, err
		}
		return &filter{op: opElemMatchValue, path: p, children: children}, nil
	}
	children, err := parsePredicates(v.b)
	if err != nil {
		return nil, err
	}
	return &filter{op: opElemMatchObject, path: p, children: []*filter{conjunction(children)}}, nil
}

func startsWithLogical(doc []byte) bool {
	it := fieldsOf(doc)
	var e element
	if !it.next(&e) {
		return false
	}
	switch string(e.key) {
	case "$and", "$or", "$nor":
		return true
	}
	return false
}

const maxPatternLength = 32764 // PCRE2's limit in MongoDB

func parseRegexOperator(p path, v, options value) (*filter, error) {
	var pattern, flags string
	switch v.t {
	case bson.TypeString:
		pattern = string(v.str())
	case bson.TypeRegex:
		b, o := v.regex()
		pattern, flags = string(b), string(o)
	default:
		return nil, failure(codeBadValue, "$regex has to be a string")
	}
	if !options.missing() {
		if options.t != bson.TypeString {
			return nil, failure(codeBadValue, "$options has to be a string")
		}
		if flags != "" {
			return nil, failure(51075, "options set in both $regex and $options")
		}
		flags = string(options.str())
	}
	if strings.ContainsRune(pattern, 0) || strings.ContainsRune(flags, 0) {
		return nil, failure(codeBadValue, "Regular expression cannot contain an embedded null byte")
	}
	v = regexValue(pattern, flags)
	re, err := compileRegex(v)
	if err != nil {
		return nil, err
	}
	return &filter{op: opRegex, path: p, operand: v, patterns: []*regexp.Regexp{re}}, nil
}

func regexValue(pattern, options string) value {
	b := make([]byte, 0, len(pattern)+len(options)+2)
	b = append(append(b, pattern...), 0)
	return value{bson.TypeRegex, append(append(b, options...), 0)}
}

// compileRegex compiles with Go's engine: Perl syntax without backreferences
// and look-around, and never slower than linear.
func compileRegex(v value) (*regexp.Regexp, error) {
	pattern, options := v.regex()
	if len(pattern) > maxPatternLength {
		return nil, failure(codeBadValue, "Regular expression is too long")
	}
	flags := ""
	for _, o := range options {
		switch o {
		case 'i', 'm', 's':
			flags += string(rune(o))
		case 'u':
		case 'x', 'l':
			return nil, notImplemented("the regular expression option " + string(rune(o)))
		default:
			return nil, failure(51108, "invalid flag in regex options: %c", o)
		}
	}
	text := string(pattern)
	if flags != "" {
		text = "(?" + flags + ")" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, failure(51091, "Regular expression is invalid: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re, nil
}

// matches reports whether a document satisfies the filter. A nil filter
// matches everything.
func (f *filter) matches(doc []byte) bool {
	if f == nil {
		return true
	}
	switch f.op {
	case opAnd:
		for _, c := range f.children {
			if !c.matches(doc) {
				return false
			}
		}
		return true
	case opOr, opNor:
		for _, c := range f.children {
			if c.matches(doc) {
				return f.op == opOr
			}
		}
		return f.op == opNor
	case opNot:
		return !f.children[0].matches(doc)
	}
	return f.matchPath(doc, f.path.parts)
}

func (f *filter) matchPath(doc []byte, parts []string) bool {
	v := lookup(doc, parts[0])
	if len(parts) == 1 {
		return f.matchLeaf(v)
	}
	switch v.t {
	case bson.TypeEmbeddedDocument:
		return f.matchPath(v.b, parts[1:])
	case bson.TypeArray:
		return f.matchArray(v.b, parts[1:])
	}
	return f.matchLeaf(value{})
}

// matchArray goes on through the documents in an array, and by position when
// the next part is a number. Elements that are neither match nothing, not
// even a test for null.
func (f *filter) matchArray(arr []byte, parts []string) bool {
	position, positional := arrayIndex(parts[0])
	it := fieldsOf(arr)
	var e element
	for i := 0; it.next(&e); i++ {
		if e.isDocument() && f.matchPath(e.b, parts) {
			return true
		}
		if !positional || i != position {
			continue
		}
		switch {
		case len(parts) == 1:
			if f.matchLeaf(e.value) {
				return true
			}
		case e.isDocument():
			if f.matchPath(e.b, parts[1:]) {
				return true
			}
		case e.isArray():
			if f.matchArray(e.b, parts[1:]) {
				return true
			}
		}
	}
	return false
}

// matchLeaf tests the value at the end of a path: of an array, every element
// and the array as a whole.
func (f *filter) matchLeaf(v value) bool {
	switch f.op {
	case opExists:
		return !v.missing()
	case opSize:
		return v.isArray() && int64(countElements(v.b)) == f.operand.i64()
	case opElemMatchObject, opElemMatchValue:
		return v.isArray() && f.matchElement(v.b)
	}
	if v.isArray() {
		it := fieldsOf(v.b)
		var e element
		for it.next(&e) {
			if f.matchSingle(e.value) {
				return true
			}
		}
	}
	return f.matchSingle(v)
}

func (f *filter) matchElement(arr []byte) bool {
	it := fieldsOf(arr)
	var e element
	for it.next(&e) {
		if f.op == opElemMatchObject {
			if (e.isDocument() || e.isArray()) && f.children[0].matches(e.b) {
				return true
			}
			continue
		}
		if !slices.ContainsFunc(f.children, func(c *filter) bool { return !c.matchValue(e.value) }) {
			return true
		}
	}
	return false
}

// matchValue tests an array's element on its own, without a path.
func (f *filter) matchValue(v value) bool {
	switch f.op {
	case opAnd:
		return !slices.ContainsFunc(f.children, func(c *filter) bool { return !c.matchValue(v) })
	case opNot:
		return !f.children[0].matchValue(v)
	case opExists, opSize, opElemMatchObject, opElemMatchValue:
		return f.matchLeaf(v)
	}
	return f.matchSingle(v)
}

// matchSingle tests one value without looking into it.
func (f *filter) matchSingle(v value) bool {
	switch f.op {
	case opIn:
		if _, found := slices.BinarySearchFunc(f.operands, v, compare); found && v.t != bson.TypeRegex {
			return true
		}
		return len(f.patterns) > 0 && f.matchRegex(v)
	case opRegex:
		return f.matchRegex(v)
	}
	return satisfies(f.op, v, f.operand)
}

func (f *filter) matchRegex(v value) bool {
	switch v.t {
	case bson.TypeString, bson.TypeSymbol:
		for _, re := range f.patterns {
			if re.Match(v.str()) {
				return true
			}
		}
	case bson.TypeRegex:
		if f.op == opRegex {
			return v.equalBytes(f.operand)
		}
		_, found := slices.BinarySearchFunc(f.operands, v, compare)
		return found
	}
	return false
}

// satisfies compares within one type only ("type bracketing"); MinKey and
// MaxKey compare with everything. A missing field equals null.
func satisfies(op filterOp, v, operand value) bool {
	if rank(v.t) != rank(operand.t) && operand.t != bson.TypeMinKey && operand.t != bson.TypeMaxKey {
		return false
	}
	if v.isNumber() && operand.isNumber() {
		vn, on := numberClass(v) == 0, numberClass(operand) == 0
		if vn || on {
			return vn && on && op != opGt && op != opLt
		}
	}
	c := compare(v, operand)
	switch op {
	case opEq:
		return c == 0
	case opGt:
		return c > 0
	case opGte:
		return c >= 0
	case opLt:
		return c < 0
	case opLte:
		return c <= 0
	}
	return false
}

func (op filterOp) String() string {
	switch op {
	case opEq:
		return "$eq"
	case opGt:
		return "$gt"
	case opGte:
		return "$gte"
	case opLt:
		return "$lt"
	case opLte:
		return "$lte"
	case opSize:
		return "$size"
	case opAnd:
		return "$and"
	case opOr:
		return "$or"
	case opNor:
		return "$nor"
	}
	return "$not"
}

// appendFilter appends the filter's fields as explain's parsedQuery shows
// them.
func appendFilter(dst []byte, f *filter) []byte {
	if f == nil {
		return dst
	}
	switch f.op {
	case opAnd, opOr, opNor:
		start, dst := openSub(dst, bson.TypeArray, f.op.String())
		for i, c := range f.children {
			var sub int
			sub, dst = openDoc(appendIndexHeader(dst, bson.TypeEmbeddedDocument, i))
			dst = closeDoc(appendFilter(dst, c), sub)
		}
		return closeDoc(dst, start)
	case opNot:
		c := f.children[0]
		if c.op == opAnd || c.op == opOr || c.op == opNor {
			start, dst := openSub(dst, bson.TypeArray, "$nor")
			sub, dst := openDoc(appendIndexHeader(dst, bson.TypeEmbeddedDocument, 0))
			return closeDoc(closeDoc(appendFilter(dst, c), sub), start)
		}
		outer, dst := openSub(dst, bson.TypeEmbeddedDocument, c.path.name)
		inner, dst := openSub(dst, bson.TypeEmbeddedDocument, "$not")
		return closeDoc(closeDoc(appendOperator(dst, c), inner), outer)
	}
	start, dst := openSub(dst, bson.TypeEmbeddedDocument, f.path.name)
	return closeDoc(appendOperator(dst, f), start)
}

func appendOperator(dst []byte, f *filter) []byte {
	switch f.op {
	case opIn:
		return appendField(dst, "$in", arrayValue(f.operands))
	case opExists:
		return appendBool(dst, "$exists", true)
	case opRegex:
		pattern, options := f.operand.regex()
		dst = appendString(dst, "$regex", string(pattern))
		if len(options) > 0 {
			dst = appendString(dst, "$options", string(options))
		}
		return dst
	case opElemMatchObject:
		start, dst := openSub(dst, bson.TypeEmbeddedDocument, "$elemMatch")
		return closeDoc(appendFilter(dst, f.children[0]), start)
	case opElemMatchValue:
		start, dst := openSub(dst, bson.TypeEmbeddedDocument, "$elemMatch")
		for _, c := range f.children {
			if c.op == opNot {
				var sub int
				sub, dst = openSub(dst, bson.TypeEmbeddedDocument, "$not")
				dst = closeDoc(appendOperator(dst, c.children[0]), sub)
				continue
			}
			dst = appendOperator(dst, c)
		}
		return closeDoc(dst, start)
	case opAnd: // below $not in $elemMatch
		for _, c := range f.children {
			dst = appendOperator(dst, c)
		}
		return dst
	}
	return appendField(dst, f.op.String(), f.operand)
}
