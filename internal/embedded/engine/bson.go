package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Limits of MongoDB: a document's size, the nesting of stored documents and
// commands.
const (
	maxDocumentSize = 16 * 1024 * 1024
	maxCommandSize  = 48*1024*1024 + 16*1024
	maxDepth        = 180
)

// value is a BSON value as it lies in a document: its type and its bytes. The
// zero value stands for a field that does not exist.
type value struct {
	t bson.Type
	b []byte
}

func (v value) missing() bool { return v.t == 0 }

func (v value) isNumber() bool {
	switch v.t {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return true
	}
	return false
}

func (v value) isDocument() bool { return v.t == bson.TypeEmbeddedDocument }
func (v value) isArray() bool    { return v.t == bson.TypeArray }
func (v value) isNull() bool     { return v.t == bson.TypeNull }

func (v value) i32() int32   { return int32(binary.LittleEndian.Uint32(v.b)) }
func (v value) i64() int64   { return int64(binary.LittleEndian.Uint64(v.b)) }
func (v value) f64() float64 { return math.Float64frombits(binary.LittleEndian.Uint64(v.b)) }

// str returns a string's bytes without length and terminator.
func (v value) str() []byte { return v.b[4 : len(v.b)-1] }

func (v value) boolean() bool { return v.b[0] != 0 }

// decimal returns a Decimal128.
func (v value) decimal() bson.Decimal128 {
	return bson.NewDecimal128(binary.LittleEndian.Uint64(v.b[8:]), binary.LittleEndian.Uint64(v.b))
}

// binary returns the subtype and the bytes of a BinData, past the second
// length that the old subtype 2 carries.
func (v value) binary() (subtype byte, data []byte) {
	subtype, data = v.b[4], v.b[5:]
	if subtype == bson.TypeBinaryBinaryOld && len(data) >= 4 {
		data = data[4:]
	}
	return subtype, data
}

// regex returns the pattern and the options of a regular expression.
func (v value) regex() (pattern, options []byte) {
	i := bytes.IndexByte(v.b, 0)
	return v.b[:i], v.b[i+1 : len(v.b)-1]
}

// float returns a number as a double, rounded.
func (v value) float() float64 {
	switch v.t {
	case bson.TypeInt32:
		return float64(v.i32())
	case bson.TypeInt64:
		return float64(v.i64())
	case bson.TypeDouble:
		return v.f64()
	case bson.TypeDecimal128:
		f, _ := strconv.ParseFloat(v.decimal().String(), 64)
		return f
	}
	return 0
}

// integer returns a number's value when it is an integer that fits.
func (v value) integer() (int64, bool) {
	switch v.t {
	case bson.TypeInt32:
		return int64(v.i32()), true
	case bson.TypeInt64:
		return v.i64(), true
	case bson.TypeDouble, bson.TypeDecimal128:
		f := v.float()
		if f != math.Trunc(f) || f < -(1<<63) || f >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	}
	return 0, false
}

// truthy is MongoDB's conversion to a boolean: everything but false, zero,
// null and what does not exist.
func (v value) truthy() bool {
	switch v.t {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return false
	case bson.TypeBoolean:
		return v.boolean()
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return v.float() != 0
	}
	return true
}

func (v value) equalBytes(w value) bool { return v.t == w.t && bytes.Equal(v.b, w.b) }

// element is one field of a document.
type element struct {
	key []byte
	value
}

// fields walks a document's elements. The document must be valid.
type fields struct{ rest []byte }

func fieldsOf(doc []byte) fields { return fields{doc[4 : len(doc)-1]} }

// next moves to the next element; false at the end.
func (f *fields) next(e *element) bool {
	b := f.rest
	if len(b) == 0 {
		return false
	}
	t := bson.Type(b[0])
	n := 1
	for b[n] != 0 {
		n++
	}
	e.key = b[1:n]
	b = b[n+1:]
	size := valueSize(t, b)
	e.t, e.b = t, b[:size:size]
	f.rest = b[size:]
	return true
}

// valueSize returns the number of bytes of a value of type t at the start of
// b, which must be valid.
func valueSize(t bson.Type, b []byte) int {
	switch t {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		return 8
	case bson.TypeInt32:
		return 4
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return 4 + int(binary.LittleEndian.Uint32(b))
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		return int(binary.LittleEndian.Uint32(b))
	case bson.TypeBinary:
		return 5 + int(binary.LittleEndian.Uint32(b))
	case bson.TypeObjectID:
		return 12
	case bson.TypeBoolean:
		return 1
	case bson.TypeDecimal128:
		return 16
	case bson.TypeRegex:
		i := bytes.IndexByte(b, 0) + 1
		return i + bytes.IndexByte(b[i:], 0) + 1
	case bson.TypeDBPointer:
		return 4 + int(binary.LittleEndian.Uint32(b)) + 12
	}
	return 0
}

// lookup returns the field of a document, or a missing value.
func lookup(doc []byte, key string) value {
	f := fieldsOf(doc)
	b := f.rest
	for len(b) > 0 {
		t := bson.Type(b[0])
		n := 1
		for b[n] != 0 {
			n++
		}
		name := b[1:n]
		b = b[n+1:]
		size := valueSize(t, b)
		if string(name) == key {
			return value{t, b[:size:size]}
		}
		b = b[size:]
	}
	return value{}
}

// arrayAt returns the i-th element of an array.
func arrayAt(arr []byte, i int) value {
	f := fieldsOf(arr)
	var e element
	for f.next(&e) {
		if i == 0 {
			return e.value
		}
		i--
	}
	return value{}
}

// arrayIndex reads a path component as a position in an array.
func arrayIndex(part string) (int, bool) {
	if part == "" || len(part) > 9 || part[0] == '0' && len(part) > 1 {
		return 0, false
	}
	n := 0
	for i := 0; i < len(part); i++ {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		n = n*10 + int(part[i]-'0')
	}
	return n, true
}

func isEmptyDocument(doc []byte) bool { return len(doc) <= 5 }

func countElements(doc []byte) int {
	f := fieldsOf(doc)
	var e element
	n := 0
	for f.next(&e) {
		n++
	}
	return n
}

// validate checks that b is one well-formed document, no larger
// and no deeper than MongoDB allows. Everything else in this package relies
// on it.
func validate(b []byte) error {
	if len(b) > maxCommandSize {
		return failure(codeObjectTooLarge, "BSONObj size: %d is invalid. Size must be between 0 and %d", len(b), maxCommandSize)
	}
	return validateDocument(b, 1)
}

func invalidBSON(why string) error { return failure(codeInvalidBSON, "invalid BSON: %s", why) }

func validateDocument(b []byte, depth int) error {
	if depth > maxDepth {
		return failure(codeOverflow, "BSONObj exceeds maximum nested object depth: %d", maxDepth)
	}
	if len(b) < 5 || int64(binary.LittleEndian.Uint32(b)) != int64(len(b)) || b[len(b)-1] != 0 {
		return invalidBSON("a document's length is wrong")
	}
	b = b[4 : len(b)-1]
	for len(b) > 0 {
		t := bson.Type(b[0])
		n := bytes.IndexByte(b[1:], 0)
		if n < 0 {
			return invalidBSON("a field name does not end")
		}
		b = b[n+2:]
		size, err := validateValue(t, b, depth)
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// validateValue returns the size of the value at the start of b.
func validateValue(t bson.Type, b []byte, depth int) (int, error) {
	size := int64(0)
	switch t {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		size = 8
	case bson.TypeInt32:
		size = 4
	case bson.TypeObjectID:
		size = 12
	case bson.TypeDecimal128:
		size = 16
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		return 0, nil
	case bson.TypeBoolean:
		if len(b) < 1 || b[0] > 1 {
			return 0, invalidBSON("a boolean is neither 0 nor 1")
		}
		size = 1
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		n, ok := validString(b)
		if !ok {
			return 0, invalidBSON("a string's length is wrong")
		}
		size = n
	case bson.TypeBinary:
		if len(b) < 5 {
			return 0, invalidBSON("a binary value is cut short")
		}
		size = 5 + int64(binary.LittleEndian.Uint32(b))
	case bson.TypeRegex:
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return 0, invalidBSON("a regular expression does not end")
		}
		j := bytes.IndexByte(b[i+1:], 0)
		if j < 0 {
			return 0, invalidBSON("a regular expression does not end")
		}
		return i + j + 2, nil
	case bson.TypeDBPointer:
		n, ok := validString(b)
		if !ok {
			return 0, invalidBSON("a string's length is wrong")
		}
		size = n + 12
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		if len(b) < 5 {
			return 0, invalidBSON("a document is cut short")
		}
		size = int64(binary.LittleEndian.Uint32(b))
		if size > int64(len(b)) {
			return 0, invalidBSON("a document's length is wrong")
		}
		return int(size), validateDocument(b[:size], depth+1)
	case bson.TypeCodeWithScope:
		if len(b) < 14 {
			return 0, invalidBSON("a code value is cut short")
		}
		size = int64(binary.LittleEndian.Uint32(b))
		if size < 14 || size > int64(len(b)) {
			return 0, invalidBSON("a code value's length is wrong")
		}
		n, ok := validString(b[4:size])
		if !ok {
			return 0, invalidBSON("a string's length is wrong")
		}
		return int(size), validateDocument(b[4+n:size], depth+1)
	default:
		return 0, failure(codeInvalidBSON, "invalid BSON: unknown type %d", byte(t))
	}
	if size > int64(len(b)) {
		return 0, invalidBSON("a value is cut short")
	}
	return int(size), nil
}

// validString checks a length-prefixed string and returns its size.
func validString(b []byte) (int64, bool) {
	if len(b) < 5 {
		return 0, false
	}
	size := 4 + int64(binary.LittleEndian.Uint32(b))
	return size, size >= 5 && size <= int64(len(b)) && b[size-1] == 0
}

// The builder functions below append to a byte slice. A document or array is
// opened with its offset and closed with it.

func openDoc(dst []byte) (int, []byte) { return len(dst), append(dst, 0, 0, 0, 0) }

func closeDoc(dst []byte, start int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

func appendHeader(dst []byte, t bson.Type, key string) []byte {
	dst = append(dst, byte(t))
	dst = append(dst, key...)
	return append(dst, 0)
}

// appendIndexHeader is appendHeader for the i-th element of an array.
func appendIndexHeader(dst []byte, t bson.Type, i int) []byte {
	dst = append(dst, byte(t))
	dst = strconv.AppendInt(dst, int64(i), 10)
	return append(dst, 0)
}

// openSub opens a document or an array in a field.
func openSub(dst []byte, t bson.Type, key string) (int, []byte) {
	return openDoc(appendHeader(dst, t, key))
}

func appendField(dst []byte, key string, v value) []byte {
	return append(appendHeader(dst, v.t, key), v.b...)
}

func appendElement(dst []byte, e element) []byte {
	dst = append(dst, byte(e.t))
	dst = append(dst, e.key...)
	dst = append(dst, 0)
	return append(dst, e.b...)
}

func appendString(dst []byte, key, s string) []byte {
	dst = appendHeader(dst, bson.TypeString, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)+1))
	dst = append(dst, s...)
	return append(dst, 0)
}

func appendInt32(dst []byte, key string, n int) []byte {
	return binary.LittleEndian.AppendUint32(appendHeader(dst, bson.TypeInt32, key), uint32(n))
}

func appendInt64(dst []byte, key string, n int64) []byte {
	return binary.LittleEndian.AppendUint64(appendHeader(dst, bson.TypeInt64, key), uint64(n))
}

// appendCount appends an integer as MongoDB's appendNumber does: an int32
// when it fits.
func appendCount(dst []byte, key string, n int64) []byte {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		return appendInt32(dst, key, int(n))
	}
	return appendInt64(dst, key, n)
}

func appendDouble(dst []byte, key string, f float64) []byte {
	return binary.LittleEndian.AppendUint64(appendHeader(dst, bson.TypeDouble, key), math.Float64bits(f))
}

func appendBool(dst []byte, key string, b bool) []byte {
	dst = appendHeader(dst, bson.TypeBoolean, key)
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendDoc(dst []byte, key string, doc []byte) []byte {
	return append(appendHeader(dst, bson.TypeEmbeddedDocument, key), doc...)
}

func appendOK(dst []byte) []byte { return appendDouble(dst, "ok", 1) }

// Constructors of values that no document holds yet.

func int32Value(n int32) value {
	return value{bson.TypeInt32, binary.LittleEndian.AppendUint32(nil, uint32(n))}
}

func int64Value(n int64) value {
	return value{bson.TypeInt64, binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

func doubleValue(f float64) value {
	return value{bson.TypeDouble, binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

func stringValue(s string) value {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(s)+1))
	return value{bson.TypeString, append(append(b, s...), 0)}
}

func nullValue() value { return value{t: bson.TypeNull} }

// countValue is an integer as int32 when it fits, else int64.
func countValue(n int64) value {
	if n >= math.MinInt32 && n <= math.MaxInt32 {
		return int32Value(int32(n))
	}
	return int64Value(n)
}

func documentValue(doc []byte) value { return value{bson.TypeEmbeddedDocument, doc} }

func arrayValue(values []value) value {
	start, b := openDoc(nil)
	for i, v := range values {
		b = append(appendIndexHeader(b, v.t, i), v.b...)
	}
	return value{bson.TypeArray, closeDoc(b, start)}
}

// typeName is MongoDB's name of a type in messages.
func typeName(t bson.Type) string {
	switch t {
	case 0:
		return "missing"
	case bson.TypeDouble:
		return "double"
	case bson.TypeString:
		return "string"
	case bson.TypeEmbeddedDocument:
		return "object"
	case bson.TypeArray:
		return "array"
	case bson.TypeBinary:
		return "binData"
	case bson.TypeUndefined:
		return "undefined"
	case bson.TypeObjectID:
		return "objectId"
	case bson.TypeBoolean:
		return "bool"
	case bson.TypeDateTime:
		return "date"
	case bson.TypeNull:
		return "null"
	case bson.TypeRegex:
		return "regex"
	case bson.TypeDBPointer:
		return "dbPointer"
	case bson.TypeJavaScript:
		return "javascript"
	case bson.TypeSymbol:
		return "symbol"
	case bson.TypeCodeWithScope:
		return "javascriptWithScope"
	case bson.TypeInt32:
		return "int"
	case bson.TypeTimestamp:
		return "timestamp"
	case bson.TypeInt64:
		return "long"
	case bson.TypeDecimal128:
		return "decimal"
	case bson.TypeMinKey:
		return "minKey"
	case bson.TypeMaxKey:
		return "maxKey"
	}
	return "unknown"
}
