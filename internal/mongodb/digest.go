package mongodb

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"

	"github.com/cespare/xxhash/v2"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// digest sums up the documents of a result. What the documents say counts:
// field names and values, how deep they lie, and the order of arrays. What a
// server may write differently for the same content does not: the order of
// fields, the type of a number (2, 2.0 and NumberDecimal("2.00") are equal),
// in which batches the documents came, and in which order, for which no
// command of a workload asks beyond the grouping of its pipeline. The reply
// around them (ok, cursor id, $clusterTime) is no part of it.
//
// Its zero value is the digest of an empty result.
type digest uint64

// add takes a document. The sum does not depend on the order.
func (d *digest) add(document bson.Raw) { *d += digest(contentHash(document, 0)) }

// fold is the digest in 32 bits: enough for comparing two answers to one
// command, of which different ones then look alike once in four billion.
func (d digest) fold() uint32 {
	h := mix(uint64(d))
	return uint32(h>>32) ^ uint32(h)
}

// maxDepth is how deep documents may be nested in a server (the default of
// its parameter maxBSONDepth).
const maxDepth = 200

// contentHash is that of a document or an array, whose fields are named by
// their places. The bytes of malformed BSON are taken as they are.
func contentHash(document []byte, depth int) uint64 {
	if len(document) < 5 || depth > maxDepth {
		return xxhash.Sum64(document)
	}
	var sum uint64
	for rest := document[4:]; len(rest) > 1 && rest[0] != 0; {
		element, more, ok := bsoncore.ReadElement(rest)
		if !ok {
			sum += xxhash.Sum64(rest)
			break
		}
		sum += elementHash(element, depth)
		rest = more
	}
	// Without it, fields could change places between documents unseen.
	return mix(sum)
}

func mix(sum uint64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], sum)
	return xxhash.Sum64(b[:])
}

func elementHash(e bsoncore.Element, depth int) uint64 {
	value, err := e.ValueErr()
	if err != nil {
		return xxhash.Sum64(e)
	}
	switch value.Type {
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		return hashOf(value.Type, e.KeyBytes(), contentHash(value.Data, depth+1))
	case bsoncore.TypeInt32:
		n, _ := value.Int32OK()
		return integerHash(e.KeyBytes(), int64(n))
	case bsoncore.TypeDouble:
		n, _ := value.DoubleOK()
		return doubleHash(e.KeyBytes(), n)
	case bsoncore.TypeDecimal128:
		high, low, _ := value.Decimal128OK()
		return decimalHash(e.KeyBytes(), bson.NewDecimal128(high, low))
	}
	return xxhash.Sum64(e) // a 64-bit integer among them
}

// hashOf hashes the bytes of an element with a value of eight bytes.
func hashOf(kind bsoncore.Type, key []byte, value uint64) uint64 {
	var buffer [128]byte
	b := append(buffer[:0], byte(kind))
	b = append(b, key...)
	b = append(b, 0)
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, value))
}

// Whole numbers count as 64-bit integers, all others as doubles where they
// are exactly one.

func integerHash(key []byte, n int64) uint64 { return hashOf(bsoncore.TypeInt64, key, uint64(n)) }

func doubleHash(key []byte, n float64) uint64 {
	switch {
	case math.IsNaN(n):
		n = math.NaN() // of many bit patterns one
	case n == math.Trunc(n) && math.Abs(n) < 1<<63:
		return integerHash(key, int64(n)) // -0 is 0
	}
	return hashOf(bsoncore.TypeDouble, key, math.Float64bits(n))
}

func decimalHash(key []byte, d bson.Decimal128) uint64 {
	digits, exponent, err := d.BigInt()
	if err != nil {
		n := math.NaN()
		if sign := d.IsInf(); sign != 0 {
			n = math.Inf(sign)
		}
		return doubleHash(key, n)
	}
	// The widest double has an exponent of 308.
	const widest = 400
	if exponent >= -widest && exponent <= widest {
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
		n := new(big.Rat).SetInt(digits)
		if exponent < 0 {
			n.SetFrac(digits, power)
		} else {
			n.Mul(n, new(big.Rat).SetInt(power))
		}
		if n.IsInt() && n.Num().IsInt64() {
			return integerHash(key, n.Num().Int64())
		}
		if f, exact := n.Float64(); exact {
			return doubleHash(key, f)
		}
	}
	if digits.Sign() == 0 {
		return integerHash(key, 0)
	}
	text := digits.String()
	significant := strings.TrimRight(text, "0")
	exponent += len(text) - len(significant)
	return hashOf(bsoncore.TypeDecimal128, key, xxhash.Sum64String(significant)+uint64(exponent))
}
