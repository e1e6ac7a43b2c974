package engine

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// shellText writes a value as MongoDB's messages and index bounds show it.
func shellText(v value) string {
	var b strings.Builder
	writeShellText(&b, v)
	return b.String()
}

func writeShellText(b *strings.Builder, v value) {
	switch v.t {
	case bson.TypeString, bson.TypeSymbol:
		b.WriteString(quoted(v.str()))
	case bson.TypeInt32, bson.TypeInt64:
		n, _ := v.integer()
		b.WriteString(strconv.FormatInt(n, 10))
	case bson.TypeDouble:
		b.WriteString(doubleText(v.f64()))
	case bson.TypeDecimal128:
		b.WriteString(v.decimal().String())
	case bson.TypeBoolean:
		b.WriteString(strconv.FormatBool(v.boolean()))
	case bson.TypeObjectID:
		b.WriteString("ObjectId('" + hex.EncodeToString(v.b) + "')")
	case bson.TypeDateTime:
		b.WriteString("new Date(" + strconv.FormatInt(v.i64(), 10) + ")")
	case bson.TypeTimestamp:
		n := uint64(v.i64())
		b.WriteString("Timestamp(" + strconv.FormatUint(n>>32, 10) + ", " + strconv.FormatUint(n&math.MaxUint32, 10) + ")")
	case bson.TypeMinKey:
		b.WriteString("MinKey")
	case bson.TypeMaxKey:
		b.WriteString("MaxKey")
	case bson.TypeUndefined:
		b.WriteString("undefined")
	case bson.TypeBinary:
		subtype, data := v.binary()
		b.WriteString("BinData(" + strconv.Itoa(int(subtype)) + ", " + strings.ToUpper(hex.EncodeToString(data)) + ")")
	case bson.TypeRegex:
		pattern, options := v.regex()
		b.WriteString("/" + string(pattern) + "/" + string(options))
	case bson.TypeEmbeddedDocument, bson.TypeArray:
		writeContainerText(b, v)
	case 0, bson.TypeNull:
		b.WriteString("null")
	default:
		b.WriteString("<" + typeName(v.t) + ">")
	}
}

func writeContainerText(b *strings.Builder, v value) {
	open, closing := "{ ", " }"
	if v.isArray() {
		open, closing = "[ ", " ]"
	}
	if isEmptyDocument(v.b) {
		b.WriteString(open[:1] + closing[1:])
		return
	}
	it := fieldsOf(v.b)
	var e element
	for sep := open; it.next(&e); sep = ", " {
		b.WriteString(sep)
		if v.isDocument() {
			b.Write(e.key)
			b.WriteString(": ")
		}
		writeShellText(b, e.value)
	}
	b.WriteString(closing)
}

func quoted(s []byte) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(s)) + `"`
}

// doubleText always shows that it is a double: 5.0, inf, nan.
func doubleText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan.0"
	case math.IsInf(f, 1):
		return "inf.0"
	case math.IsInf(f, -1):
		return "-inf.0"
	}
	s := strconv.FormatFloat(f, 'g', 16, 64)
	if strings.ContainsAny(s, ".e") {
		return s
	}
	return s + ".0"
}
