package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Ranks of the types in MongoDB's comparison order ("Comparison/Sort Order" of
// the manual). They are also the first byte of an encoded key.
const (
	rankMinKey    = 10
	rankUndefined = 15
	rankNull      = 20
	rankNumber    = 30
	rankString    = 60
	rankObject    = 70
	rankArray     = 80
	rankBinary    = 90
	rankObjectID  = 100
	rankBool      = 110 // false; true is one more
	rankDate      = 120
	rankTimestamp = 130
	rankRegex     = 140
	rankDBPointer = 150
	rankCode      = 160
	rankCodeScope = 170
	rankMaxKey    = 240
)

// rank returns the place of a type among the types. A missing field counts as
// null, as it does in sorts and in indexes.
func rank(t bson.Type) int {
	switch t {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return rankNumber
	case bson.TypeString, bson.TypeSymbol:
		return rankString
	case 0, bson.TypeNull:
		return rankNull
	case bson.TypeMinKey:
		return rankMinKey
	case bson.TypeUndefined:
		return rankUndefined
	case bson.TypeEmbeddedDocument:
		return rankObject
	case bson.TypeArray:
		return rankArray
	case bson.TypeBinary:
		return rankBinary
	case bson.TypeObjectID:
		return rankObjectID
	case bson.TypeBoolean:
		return rankBool
	case bson.TypeDateTime:
		return rankDate
	case bson.TypeTimestamp:
		return rankTimestamp
	case bson.TypeRegex:
		return rankRegex
	case bson.TypeDBPointer:
		return rankDBPointer
	case bson.TypeJavaScript:
		return rankCode
	case bson.TypeCodeWithScope:
		return rankCodeScope
	}
	return rankMaxKey
}

// compare orders two values across types as MongoDB's sorts do. Its order is
// the byte order of appendKey.
func compare(a, b value) int {
	ra, rb := rank(a.t), rank(b.t)
	if ra != rb {
		return cmp.Compare(ra, rb)
	}
	switch ra {
	case rankNumber:
		return compareNumbers(a, b)
	case rankString, rankCode:
		return bytes.Compare(a.str(), b.str())
	case rankObject:
		return compareDocuments(a.b, b.b, true)
	case rankArray:
		return compareDocuments(a.b, b.b, false)
	case rankBinary:
		sa, da := a.binary()
		sb, db := b.binary()
		if c := cmp.Compare(len(da), len(db)); c != 0 {
			return c
		}
		if c := cmp.Compare(sa, sb); c != 0 {
			return c
		}
		return bytes.Compare(da, db)
	case rankObjectID, rankBool:
		return bytes.Compare(a.b, b.b)
	case rankDate:
		return cmp.Compare(a.i64(), b.i64())
	case rankTimestamp:
		return cmp.Compare(binary.LittleEndian.Uint64(a.b), binary.LittleEndian.Uint64(b.b))
	case rankRegex:
		pa, oa := a.regex()
		pb, ob := b.regex()
		if c := bytes.Compare(pa, pb); c != 0 {
			return c
		}
		return bytes.Compare(oa, ob)
	case rankDBPointer:
		if c := cmp.Compare(len(a.b), len(b.b)); c != 0 {
			return c
		}
		return bytes.Compare(a.b[4:], b.b[4:])
	case rankCodeScope:
		ca, sa := a.codeScope()
		cb, sb := b.codeScope()
		if c := bytes.Compare(ca, cb); c != 0 {
			return c
		}
		return compareDocuments(sa, sb, true)
	}
	return 0
}

// codeScope splits a code value into its text and its scope.
func (v value) codeScope() (code, scope []byte) {
	n := 4 + int(binary.LittleEndian.Uint32(v.b[4:]))
	return v.b[8 : 4+n-1], v.b[4+n:]
}

// compareDocuments compares element by element: type, then name (not for
// arrays), then value; the shorter one comes first.
func compareDocuments(a, b []byte, names bool) int {
	fa, fb := fieldsOf(a), fieldsOf(b)
	var ea, eb element
	for {
		oka, okb := fa.next(&ea), fb.next(&eb)
		switch {
		case !oka && !okb:
			return 0
		case !oka:
			return -1
		case !okb:
			return 1
		}
		if names {
			if c := cmp.Compare(rank(ea.t), rank(eb.t)); c != 0 {
				return c
			}
			if c := bytes.Compare(ea.key, eb.key); c != 0 {
				return c
			}
		}
		if c := compare(ea.value, eb.value); c != 0 {
			return c
		}
	}
}

func compareNumbers(a, b value) int {
	switch {
	case a.t == bson.TypeInt32 && b.t == bson.TypeInt32:
		return cmp.Compare(a.i32(), b.i32())
	case a.t == bson.TypeDouble && b.t == bson.TypeDouble:
		return cmp.Compare(a.f64(), b.f64()) // NaN first, -0 equal to 0
	case a.t == bson.TypeDecimal128 || b.t == bson.TypeDecimal128:
		return compareDecimals(a, b)
	case a.t == bson.TypeDouble:
		n, _ := b.integer()
		return -compareIntDouble(n, a.f64())
	case b.t == bson.TypeDouble:
		n, _ := a.integer()
		return compareIntDouble(n, b.f64())
	}
	na, _ := a.integer()
	nb, _ := b.integer()
	return cmp.Compare(na, nb)
}

// compareIntDouble compares exactly, also beyond 2^53.
func compareIntDouble(n int64, f float64) int {
	switch {
	case math.IsNaN(f) || f < -(1<<63):
		return 1
	case f >= 1<<63:
		return -1
	}
	t := int64(f)
	if c := cmp.Compare(n, t); c != 0 {
		return c
	}
	return cmp.Compare(0, f-float64(t))
}

// numberClass separates what big.Rat cannot hold: NaN first, then minus
// infinity, the finite numbers and infinity.
func numberClass(v value) int {
	switch v.t {
	case bson.TypeDouble:
		f := v.f64()
		switch {
		case math.IsNaN(f):
			return 0
		case math.IsInf(f, -1):
			return 1
		case math.IsInf(f, 1):
			return 3
		}
	case bson.TypeDecimal128:
		d := v.decimal()
		switch {
		case d.IsNaN():
			return 0
		case d.IsInf() < 0:
			return 1
		case d.IsInf() > 0:
			return 3
		}
	}
	return 2
}

func compareDecimals(a, b value) int {
	ca, cb := numberClass(a), numberClass(b)
	if ca != 2 || cb != 2 {
		return cmp.Compare(ca, cb)
	}
	return rational(a).Cmp(rational(b))
}

// rational returns a finite number exactly.
func rational(v value) *big.Rat {
	switch v.t {
	case bson.TypeDouble:
		return new(big.Rat).SetFloat64(v.f64())
	case bson.TypeDecimal128:
		coefficient, exponent, err := v.decimal().BigInt()
		if err != nil {
			return new(big.Rat)
		}
		r := new(big.Rat).SetInt(coefficient)
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
		if exponent >= 0 {
			return r.Mul(r, new(big.Rat).SetInt(power))
		}
		return r.Quo(r, new(big.Rat).SetInt(power))
	}
	n, _ := v.integer()
	return new(big.Rat).SetInt64(n)
}
