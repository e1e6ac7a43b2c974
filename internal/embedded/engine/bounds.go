package engine

import (
	"bytes"
	"math"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// interval is a range of a field's values, lowest first whatever the index's
// direction.
type interval struct {
	lo, hi         value
	loOpen, hiOpen bool // the end itself is outside
	single         bool // lo is hi
}

func point(v value) interval { return interval{lo: v, hi: v, single: true} }

func (iv *interval) empty() bool {
	c := compare(iv.lo, iv.hi)
	return c > 0 || c == 0 && (iv.loOpen || iv.hiOpen)
}

func everything() interval {
	return interval{lo: value{t: bson.TypeMinKey}, hi: value{t: bson.TypeMaxKey}}
}

// bracket returns the values that a range over v's type lies between, as
// MongoDB chooses them; false for types that ranges are not planned for.
func bracket(v value) (interval, bool) {
	zeroID := value{bson.TypeObjectID, make([]byte, 12)}
	switch v.t {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		if numberClass(v) == 0 {
			return interval{}, false
		}
		return interval{lo: doubleValue(math.Inf(-1)), hi: doubleValue(math.Inf(1))}, true
	case bson.TypeString, bson.TypeSymbol:
		return interval{lo: stringValue(""), hi: documentValue([]byte{5, 0, 0, 0, 0}), hiOpen: true}, true
	case bson.TypeEmbeddedDocument:
		return interval{lo: documentValue([]byte{5, 0, 0, 0, 0}), hi: arrayValue(nil), hiOpen: true}, true
	case bson.TypeBinary:
		return interval{lo: value{bson.TypeBinary, make([]byte, 5)}, hi: zeroID, hiOpen: true}, true
	case bson.TypeObjectID:
		return interval{lo: zeroID, hi: value{bson.TypeObjectID, bytes.Repeat([]byte{0xFF}, 12)}}, true
	case bson.TypeBoolean:
		return interval{lo: value{bson.TypeBoolean, []byte{0}}, hi: value{bson.TypeBoolean, []byte{1}}}, true
	case bson.TypeDateTime:
		lo, hi := int64Value(math.MinInt64), int64Value(math.MaxInt64)
		lo.t, hi.t = bson.TypeDateTime, bson.TypeDateTime
		return interval{lo: lo, hi: hi}, true
	case bson.TypeTimestamp:
		return interval{lo: value{bson.TypeTimestamp, make([]byte, 8)}, hi: value{bson.TypeTimestamp, bytes.Repeat([]byte{0xFF}, 8)}}, true
	}
	return interval{}, false
}

// plannable reports whether an index can answer the predicate.
func (f *filter) plannable() bool {
	switch f.op {
	case opEq:
		return pointable(f.operand)
	case opIn:
		return len(f.patterns) == 0 && !slices.ContainsFunc(f.operands, func(v value) bool { return !pointable(v) })
	case opGt, opGte, opLt, opLte:
		_, ok := bracket(f.operand)
		return ok
	}
	return false
}

func pointable(v value) bool {
	switch v.t {
	case bson.TypeArray, bson.TypeMinKey, bson.TypeMaxKey, bson.TypeRegex:
		return false
	}
	return true
}

// isPoints reports whether a plannable predicate asks for single values.
func (f *filter) isPoints() bool { return f.op == opEq || f.op == opIn }

// intervals returns the values that a plannable predicate asks for, in order,
// and whether every document found there satisfies it. That is not so for
// null, whose key other documents have, too.
func (f *filter) intervals() (out []interval, exact bool) {
	switch f.op {
	case opEq:
		return []interval{point(f.operand)}, !f.operand.isNull()
	case opIn:
		exact = true
		out = make([]interval, len(f.operands))
		for i, v := range f.operands {
			exact = exact && !v.isNull()
			out[i] = point(v)
		}
		return out, exact
	}
	iv, _ := bracket(f.operand)
	switch f.op {
	case opGt, opGte:
		iv.lo, iv.loOpen = f.operand, f.op == opGt
	default:
		iv.hi, iv.hiOpen = f.operand, f.op == opLt
	}
	if iv.empty() {
		return nil, true
	}
	return []interval{iv}, true
}

// intersect returns the values in both lists, which are in order.
func intersect(a, b []interval) []interval {
	var out []interval
	for i, j := 0, 0; i < len(a) && j < len(b); {
		iv := a[i]
		if c := compare(b[j].lo, iv.lo); c > 0 || c == 0 && b[j].loOpen {
			iv.lo, iv.loOpen = b[j].lo, b[j].loOpen
		}
		c := compare(b[j].hi, iv.hi)
		if c < 0 || c == 0 && b[j].hiOpen {
			iv.hi, iv.hiOpen = b[j].hi, b[j].hiOpen
		}
		if !iv.empty() {
			iv.single = compare(iv.lo, iv.hi) == 0
			out = append(out, iv)
		}
		if c < 0 {
			j++
		} else {
			i++
		}
	}
	return out
}

// keyRange is a run of an index's keys, from start up to but not including
// end.
type keyRange struct{ start, end entry }

// appendRange appends the keys that begin with prefix and go on with a value
// of the interval. buf is memory to work in.
func appendRange(dst []keyRange, buf, prefix []byte, iv *interval, descending bool) ([]keyRange, []byte) {
	first, last, firstOpen, lastOpen := iv.lo, iv.hi, iv.loOpen, iv.hiOpen
	if descending {
		first, last, firstOpen, lastOpen = last, first, lastOpen, firstOpen
	}
	buf = appendKeyIn(append(buf[:0], prefix...), first, descending)
	var r keyRange
	if firstOpen {
		buf = append(buf, afterKey)
	}
	r.start = newEntry(buf, 0)
	if !iv.single {
		buf = appendKeyIn(append(buf[:0], prefix...), last, descending)
	}
	if !lastOpen {
		buf = append(buf, afterKey)
	}
	r.end = newEntry(buf, 0)
	return append(dst, r), buf
}

// maxPrefixes bounds the combinations of values that a scan of a compound
// index starts from.
const maxPrefixes = 10000

// keyRanges returns the runs of keys that satisfy the bounds, in the index's
// order. Only the last field may have intervals that are not single values.
func keyRanges(pattern keyPattern, bounds [][]interval) []keyRange {
	prefixes := [][]byte{nil}
	last := len(bounds) - 1
	for i := range last {
		next := make([][]byte, 0, len(prefixes)*len(bounds[i]))
		for _, prefix := range prefixes {
			for k := range bounds[i] {
				iv := &bounds[i][ordered(k, len(bounds[i]), pattern[i].descending)]
				next = append(next, appendKeyIn(slices.Clone(prefix), iv.lo, pattern[i].descending))
			}
		}
		prefixes = next
	}
	buf := make([]byte, 0, 64)
	out := make([]keyRange, 0, len(prefixes)*len(bounds[last]))
	for _, prefix := range prefixes {
		for k := range bounds[last] {
			iv := &bounds[last][ordered(k, len(bounds[last]), pattern[last].descending)]
			out, buf = appendRange(out, buf, prefix, iv, pattern[last].descending)
		}
	}
	return out
}

func ordered(i, n int, descending bool) int {
	if descending {
		return n - 1 - i
	}
	return i
}
