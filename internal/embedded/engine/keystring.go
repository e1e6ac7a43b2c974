package engine

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// An encoded key compares with bytes.Compare as its values compare with
// compare. No value's encoding is the beginning of another one's, so that
// encodings can be put one after the other. The bytes of a descending field
// are inverted. A complete key ends with endOfKey.
const (
	endOfKey = 0x04
	afterKey = 0xFF // greater than every byte that can follow a value
)

// Marks after a number: whether the value lies below, at, or above the double
// before it.
const (
	numberBelow = 0x40
	numberExact = 0x80
	numberAbove = 0xC0
)

// appendKey appends the encoding of v in ascending order.
func appendKey(dst []byte, v value) []byte {
	r := rank(v.t)
	switch r {
	case rankNumber:
		return appendNumberKey(append(dst, rankNumber), v)
	case rankString:
		return appendEscaped(append(dst, rankString), v.str())
	case rankObject:
		dst = append(dst, rankObject)
		f := fieldsOf(v.b)
		var e element
		for f.next(&e) {
			dst = append(dst, byte(rank(e.t)))
			dst = append(dst, e.key...)
			dst = append(dst, 0)
			dst = appendKey(dst, e.value)
		}
		return append(dst, 0)
	case rankArray:
		dst = append(dst, rankArray)
		f := fieldsOf(v.b)
		var e element
		for f.next(&e) {
			dst = appendKey(dst, e.value)
		}
		return append(dst, 0)
	case rankBinary:
		subtype, data := v.binary()
		dst = binary.BigEndian.AppendUint32(append(dst, rankBinary), uint32(len(data)))
		return append(append(dst, subtype), data...)
	case rankObjectID:
		return append(append(dst, rankObjectID), v.b...)
	case rankBool:
		return append(dst, rankBool+v.b[0])
	case rankDate:
		return binary.BigEndian.AppendUint64(append(dst, rankDate), uint64(v.i64())^1<<63)
	case rankTimestamp:
		return binary.BigEndian.AppendUint64(append(dst, rankTimestamp), binary.LittleEndian.Uint64(v.b))
	case rankRegex:
		pattern, options := v.regex()
		dst = append(append(dst, rankRegex), pattern...)
		dst = append(append(dst, 0), options...)
		return append(dst, 0)
	case rankDBPointer:
		dst = binary.BigEndian.AppendUint32(append(dst, rankDBPointer), uint32(len(v.b)))
		return append(dst, v.b[4:]...)
	case rankCode:
		return appendEscaped(append(dst, rankCode), v.str())
	case rankCodeScope:
		code, scope := v.codeScope()
		dst = appendEscaped(append(dst, rankCodeScope), code)
		return appendKey(dst, documentValue(scope))
	}
	return append(dst, byte(r))
}

// appendKeyIn appends v for a field that ascends or descends.
func appendKeyIn(dst []byte, v value, descending bool) []byte {
	start := len(dst)
	dst = appendKey(dst, v)
	if descending {
		invert(dst[start:])
	}
	return dst
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

// appendEscaped ends a string with 00 00 and writes its own NULs as 00 01.
func appendEscaped(dst, s []byte) []byte {
	for i := range s {
		dst = append(dst, s[i])
		if s[i] == 0 {
			dst = append(dst, 1)
		}
	}
	return append(dst, 0, 0)
}

// appendNumberKey writes the nearest double in order-preserving form; beyond
// 2^53, where an int64 falls between two doubles, the distance to it in two
// bytes; then how the exact value lies to that, which only decimals need.
func appendNumberKey(dst []byte, v value) []byte {
	switch v.t {
	case bson.TypeInt32:
		return append(appendDoubleKey(dst, float64(v.i32())), numberExact)
	case bson.TypeInt64:
		return append(appendIntKey(dst, v.i64()), numberExact)
	case bson.TypeDouble:
		f := v.f64()
		dst = appendDoubleKey(dst, f)
		if beyondExact(f) {
			dst = append(dst, 0x80, 0)
		}
		return append(dst, numberExact)
	}
	return appendDecimalKey(dst, v)
}

func beyondExact(f float64) bool { return f >= 1<<53 || f <= -(1<<53) }

func appendDoubleKey(dst []byte, f float64) []byte {
	if f != f {
		return binary.BigEndian.AppendUint64(dst, 0) // NaN comes before minus infinity
	}
	bits := math.Float64bits(f + 0) // -0 becomes 0
	if bits>>63 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, bits)
}

func appendIntKey(dst []byte, n int64) []byte {
	f := float64(n)
	dst = appendDoubleKey(dst, f)
	if !beyondExact(f) {
		return dst
	}
	var distance int64
	if f >= 1<<63 {
		distance = int64(uint64(n) - 1<<63)
	} else {
		distance = n - int64(f)
	}
	return binary.BigEndian.AppendUint16(dst, uint16(distance+1<<15))
}

func appendDecimalKey(dst []byte, v value) []byte {
	switch numberClass(v) {
	case 0:
		return append(appendDoubleKey(dst, math.NaN()), numberExact)
	case 1:
		return append(appendDoubleKey(dst, math.Inf(-1)), 0x80, 0, numberExact)
	case 3:
		return append(appendDoubleKey(dst, math.Inf(1)), 0x80, 0, numberExact)
	}
	exact := rational(v)
	f := v.float()
	if math.IsInf(f, 0) { // too large for a double, yet finite
		f = math.Copysign(math.MaxFloat64, f)
	}
	near := new(big.Rat).SetFloat64(f)
	dst = appendDoubleKey(dst, f)
	if beyondExact(f) {
		distance := int64(0)
		if f >= -(1<<63) && f <= 1<<63 {
			floor := new(big.Int).Div(exact.Num(), exact.Denom()) // Euclidean: rounds down
			whole := new(big.Int).Sub(floor, near.Num())
			distance = whole.Int64()
			near.SetInt(floor)
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(distance+1<<15))
	}
	switch exact.Cmp(near) {
	case 0:
		return append(dst, numberExact)
	case -1:
		dst = append(dst, numberBelow)
	default:
		dst = append(dst, numberAbove)
	}
	return appendDecimalDigits(dst, v.decimal(), exact.Sign() < 0)
}

// appendDecimalDigits orders the decimals that share a nearest double: the
// exponent of the first digit, then all 34 digits.
func appendDecimalDigits(dst []byte, d bson.Decimal128, negative bool) []byte {
	coefficient, exponent, err := d.BigInt()
	if err != nil {
		return dst
	}
	digits := strings.TrimLeft(coefficient.String(), "-")
	start := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(exponent+len(digits)+1<<15))
	for i := range 34 {
		c := byte('0')
		if i < len(digits) {
			c = digits[i]
		}
		dst = append(dst, c)
	}
	if negative {
		invert(dst[start:])
	}
	return dst
}
