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
	klo, khi       []byte
}

func newInterval(lo, hi value, hiOpen bool) interval {
	return interval{lo: lo, hi: hi, hiOpen: hiOpen, klo: appendKey(nil, lo), khi: appendKey(nil, hi)}
}

// point returns the interval of one value. Its key is appended to buf.
func point(buf []byte, v value) (interval, []byte) {
	start := len(buf)
	buf = appendKey(buf, v)
	k := buf[start:len(buf):len(buf)]
	return interval{lo: v, hi: v, klo: k, khi: k}, buf
}

func (iv *interval) isPoint() bool { return !iv.loOpen && !iv.hiOpen && bytes.Equal(iv.klo, iv.khi) }

func (iv *interval) empty() bool {
	c := bytes.Compare(iv.klo, iv.khi)
	return c > 0 || c == 0 && (iv.loOpen || iv.hiOpen)
}

func everything() interval {
	return newInterval(value{t: bson.TypeMinKey}, value{t: bson.TypeMaxKey}, false)
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
		return newInterval(doubleValue(math.Inf(-1)), doubleValue(math.Inf(1)), false), true
	case bson.TypeString, bson.TypeSymbol:
		return newInterval(stringValue(""), documentValue([]byte{5, 0, 0, 0, 0}), true), true
	case bson.TypeEmbeddedDocument:
		return newInterval(documentValue([]byte{5, 0, 0, 0, 0}), arrayValue(nil), true), true
	case bson.TypeBinary:
		return newInterval(value{bson.TypeBinary, make([]byte, 5)}, zeroID, true), true
	case bson.TypeObjectID:
		return newInterval(zeroID, value{bson.TypeObjectID, bytes.Repeat([]byte{0xFF}, 12)}, false), true
	case bson.TypeBoolean:
		return newInterval(value{bson.TypeBoolean, []byte{0}}, value{bson.TypeBoolean, []byte{1}}, false), true
	case bson.TypeDateTime:
		lo, hi := int64Value(math.MinInt64), int64Value(math.MaxInt64)
		lo.t, hi.t = bson.TypeDateTime, bson.TypeDateTime
		return newInterval(lo, hi, false), true
	case bson.TypeTimestamp:
		return newInterval(value{bson.TypeTimestamp, make([]byte, 8)}, value{bson.TypeTimestamp, bytes.Repeat([]byte{0xFF}, 8)}, false), true
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
		iv, _ := point(make([]byte, 0, 24), f.operand)
		return []interval{iv}, !f.operand.isNull()
	case opIn:
		exact = true
		out = make([]interval, len(f.operands))
		buf := make([]byte, 0, 16*len(f.operands))
		for i, v := range f.operands {
			exact = exact && !v.isNull()
			out[i], buf = point(buf, v)
		}
		return out, exact
	}
	iv, _ := bracket(f.operand)
	k := appendKey(nil, f.operand)
	switch f.op {
	case opGt, opGte:
		iv.lo, iv.klo, iv.loOpen = f.operand, k, f.op == opGt
	default:
		iv.hi, iv.khi, iv.hiOpen = f.operand, k, f.op == opLt
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
		if c := bytes.Compare(b[j].klo, iv.klo); c > 0 || c == 0 && b[j].loOpen {
			iv.lo, iv.klo, iv.loOpen = b[j].lo, b[j].klo, b[j].loOpen
		}
		c := bytes.Compare(b[j].khi, iv.khi)
		if c < 0 || c == 0 && b[j].hiOpen {
			iv.hi, iv.khi, iv.hiOpen = b[j].hi, b[j].khi, b[j].hiOpen
		}
		if !iv.empty() {
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

// rangeBuilder makes the ends of key ranges.
type rangeBuilder struct{ buf []byte }

func (b *rangeBuilder) entry(prefix, part []byte, descending, past bool) entry {
	b.buf = append(append(b.buf[:0], prefix...), part...)
	if descending {
		invert(b.buf[len(prefix):])
	}
	if past {
		b.buf = append(b.buf, afterKey)
	}
	return newEntry(b.buf, 0)
}

func (b *rangeBuilder) keyRange(prefix []byte, iv *interval, descending bool) keyRange {
	if descending {
		return keyRange{b.entry(prefix, iv.khi, true, iv.hiOpen), b.entry(prefix, iv.klo, true, !iv.loOpen)}
	}
	return keyRange{b.entry(prefix, iv.klo, false, iv.loOpen), b.entry(prefix, iv.khi, false, !iv.hiOpen)}
}

// maxPrefixes bounds the combinations of values that a scan of a compound
// index starts from.
const maxPrefixes = 10000

// keyRanges returns the runs of keys that satisfy the bounds, in the index's
// order. Only the last field may have intervals that are not points.
func keyRanges(pattern keyPattern, bounds [][]interval) []keyRange {
	prefixes := [][]byte{nil}
	last := len(bounds) - 1
	for i := range last {
		next := make([][]byte, 0, len(prefixes)*len(bounds[i]))
		for _, prefix := range prefixes {
			for k := range bounds[i] {
				iv := &bounds[i][ordered(k, len(bounds[i]), pattern[i].descending)]
				p := append(slices.Clone(prefix), iv.klo...)
				if pattern[i].descending {
					invert(p[len(prefix):])
				}
				next = append(next, p)
			}
		}
		prefixes = next
	}
	var b rangeBuilder
	out := make([]keyRange, 0, len(prefixes)*len(bounds[last]))
	for _, prefix := range prefixes {
		for k := range bounds[last] {
			iv := &bounds[last][ordered(k, len(bounds[last]), pattern[last].descending)]
			out = append(out, b.keyRange(prefix, iv, pattern[last].descending))
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
