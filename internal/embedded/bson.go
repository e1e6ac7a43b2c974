package embedded

import (
	"bytes"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// validate checks a document's structure down to the last byte, so that
// whoever reads it later may trust every length in it.
func validate(doc []byte) error {
	switch checkDocument(doc, 1) {
	case bsonBroken:
		return failf(22, "InvalidBSON", "invalid BSON in the message")
	case bsonTooDeep:
		return failf(15, "Overflow", "document is nested deeper than %d levels", maxDepth)
	}
	return nil
}

type bsonState uint8

const (
	bsonOK bsonState = iota
	bsonBroken
	bsonTooDeep
)

// checkDocument checks the document that fills b.
func checkDocument(b []byte, depth int) bsonState {
	if depth > maxDepth {
		return bsonTooDeep
	}
	if len(b) < 5 || int(int32At(b, 0)) != len(b) || b[len(b)-1] != 0 {
		return bsonBroken
	}
	end := len(b) - 1
	for pos := 4; pos < end; {
		t := b[pos]
		n := bytes.IndexByte(b[pos+1:end], 0)
		if n < 0 {
			return bsonBroken
		}
		pos += 1 + n + 1
		size, state := checkValue(t, b[pos:end], depth)
		if state != bsonOK {
			return state
		}
		pos += size
	}
	return bsonOK
}

// checkValue checks the value of type t that b begins with and returns its
// size.
func checkValue(t byte, b []byte, depth int) (int, bsonState) {
	size := -1
	switch bson.Type(t) {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		size = 8
	case bson.TypeInt32:
		size = 4
	case bson.TypeObjectID:
		size = 12
	case bson.TypeDecimal128:
		size = 16
	case bson.TypeNull, bson.TypeUndefined, bson.TypeMinKey, bson.TypeMaxKey:
		size = 0
	case bson.TypeBoolean:
		if len(b) > 0 && b[0] <= 1 {
			size = 1
		}
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		size = checkString(b)
	case bson.TypeDBPointer:
		if size = checkString(b); size >= 0 {
			size += 12
		}
	case bson.TypeBinary:
		if len(b) < 5 {
			return 0, bsonBroken
		}
		n := int(int32At(b, 0))
		if n < 0 || n > len(b)-5 || (b[4] == bson.TypeBinaryBinaryOld && (n < 4 || int(int32At(b, 5)) != n-4)) {
			return 0, bsonBroken
		}
		size = 5 + n
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0)
		if pattern < 0 {
			return 0, bsonBroken
		}
		options := bytes.IndexByte(b[pattern+1:], 0)
		if options < 0 {
			return 0, bsonBroken
		}
		size = pattern + 1 + options + 1
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		if len(b) < 5 {
			return 0, bsonBroken
		}
		size = int(int32At(b, 0))
		if size < 5 || size > len(b) {
			return 0, bsonBroken
		}
		return size, checkDocument(b[:size], depth+1)
	case bson.TypeCodeWithScope:
		if len(b) < 4 {
			return 0, bsonBroken
		}
		size = int(int32At(b, 0))
		if size < 4 || size > len(b) {
			return 0, bsonBroken
		}
		code := checkString(b[4:size])
		if code < 0 {
			return 0, bsonBroken
		}
		return size, checkDocument(b[4+code:size], depth+1)
	}
	if size < 0 || size > len(b) {
		return 0, bsonBroken
	}
	return size, bsonOK
}

// checkString returns the size of the string that b begins with, or -1.
func checkString(b []byte) int {
	if len(b) < 5 {
		return -1
	}
	n := int(int32At(b, 0))
	if n < 1 || n > len(b)-4 || b[4+n-1] != 0 {
		return -1
	}
	return 4 + n
}

// element is one field of a document.
type element struct {
	kind  bson.Type
	key   []byte
	value []byte
}

// fields walks over the elements of a document that validate has accepted.
type fields struct {
	doc []byte
	pos int
}

func fieldsOf(doc []byte) fields { return fields{doc: doc, pos: 4} }

// next returns the next element, ok = false at the end.
func (f *fields) next() (e element, ok bool) {
	if f.pos >= len(f.doc)-1 {
		return element{}, false
	}
	e.kind = bson.Type(f.doc[f.pos])
	n := bytes.IndexByte(f.doc[f.pos+1:], 0)
	e.key = f.doc[f.pos+1 : f.pos+1+n]
	f.pos += 1 + n + 1
	size := valueSize(e.kind, f.doc[f.pos:])
	e.value = f.doc[f.pos : f.pos+size]
	f.pos += size
	return e, true
}

// valueSize is checkValue for values known to be good.
func valueSize(t bson.Type, b []byte) int {
	switch t {
	case bson.TypeDouble, bson.TypeDateTime, bson.TypeTimestamp, bson.TypeInt64:
		return 8
	case bson.TypeInt32:
		return 4
	case bson.TypeBoolean:
		return 1
	case bson.TypeObjectID:
		return 12
	case bson.TypeDecimal128:
		return 16
	case bson.TypeString, bson.TypeJavaScript, bson.TypeSymbol:
		return 4 + int(int32At(b, 0))
	case bson.TypeDBPointer:
		return 4 + int(int32At(b, 0)) + 12
	case bson.TypeBinary:
		return 5 + int(int32At(b, 0))
	case bson.TypeEmbeddedDocument, bson.TypeArray, bson.TypeCodeWithScope:
		return int(int32At(b, 0))
	case bson.TypeRegex:
		pattern := bytes.IndexByte(b, 0)
		return pattern + 1 + bytes.IndexByte(b[pattern+1:], 0) + 1
	default:
		return 0
	}
}

// find returns a top-level element of doc.
func find(doc []byte, key string) (element, bool) {
	for f := fieldsOf(doc); ; {
		e, ok := f.next()
		if !ok || string(e.key) == key {
			return e, ok
		}
	}
}

// text returns a string's value.
func (e element) text() (string, bool) {
	if e.kind != bson.TypeString {
		return "", false
	}
	return string(e.value[4 : len(e.value)-1]), true
}

// document returns the bytes of an embedded document.
func (e element) document() (bson.Raw, bool) {
	return bson.Raw(e.value), e.kind == bson.TypeEmbeddedDocument
}

// array returns the bytes of an array.
func (e element) array() (bson.Raw, bool) {
	return bson.Raw(e.value), e.kind == bson.TypeArray
}

// number returns the value of any number without a fraction.
func (e element) number() (int64, bool) {
	switch e.kind {
	case bson.TypeInt32:
		return int64(int32At(e.value, 0)), true
	case bson.TypeInt64:
		return int64At(e.value, 0), true
	case bson.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(e.value))
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return int64(f), true
		}
	}
	return 0, false
}

// truth returns a boolean, or what MongoDB takes for one: a number.
func (e element) truth() (value, ok bool) {
	if e.kind == bson.TypeBoolean {
		return e.value[0] != 0, true
	}
	n, ok := e.number()
	return n != 0, ok
}

// binary returns subtype and bytes of a binary value.
func (e element) binary() (subtype byte, data []byte, ok bool) {
	if e.kind != bson.TypeBinary {
		return 0, nil, false
	}
	return e.value[4], e.value[5:], true
}

// texts returns the strings of an array, ok = false when it holds anything
// else.
func (e element) texts() (all []string, ok bool) {
	if e.kind != bson.TypeArray {
		return nil, false
	}
	for f := fieldsOf(e.value); ; {
		item, more := f.next()
		if !more {
			return all, true
		}
		s, isText := item.text()
		if !isText {
			return nil, false
		}
		all = append(all, s)
	}
}

// count returns how many elements a document or array has.
func count(doc []byte) int {
	n := 0
	for f := fieldsOf(doc); ; n++ {
		if _, ok := f.next(); !ok {
			return n
		}
	}
}

// typeName is a type as MongoDB's messages name it.
func typeName(t bson.Type) string {
	switch t {
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
	case bson.TypeObjectID:
		return "objectId"
	case bson.TypeBoolean:
		return "bool"
	case bson.TypeDateTime:
		return "date"
	case bson.TypeNull:
		return "null"
	case bson.TypeInt32:
		return "int"
	case bson.TypeInt64:
		return "long"
	case bson.TypeTimestamp:
		return "timestamp"
	default:
		return t.String()
	}
}
