package engine

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// expression is an aggregation expression: a field path, a constant, or a
// document or array of expressions.
type expression struct {
	constant value    // when nothing else is set
	parts    []string // "$a.b"
	root     bool     // "$$ROOT", "$$CURRENT"
	names    []string // a document's fields, with operands
	array    bool     // an array, of operands
	operands []*expression
}

func parseExpression(v value) (*expression, error) {
	switch v.t {
	case bson.TypeString:
		s := string(v.str())
		if !strings.HasPrefix(s, "$") {
			break
		}
		return parseFieldPath(s)
	case bson.TypeArray:
		x := &expression{array: true}
		return x, x.parseOperands(v.b)
	case bson.TypeEmbeddedDocument:
		it := fieldsOf(v.b)
		var e element
		if it.next(&e) && len(e.key) > 0 && e.key[0] == '$' {
			return parseOperatorExpression(string(e.key), e.value, v.b)
		}
		x := &expression{}
		it = fieldsOf(v.b)
		for it.next(&e) {
			name := string(e.key)
			switch {
			case name == "":
				return nil, failure(40352, "FieldPath cannot be constructed with empty string")
			case strings.HasPrefix(name, "$"):
				return nil, failure(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
			case strings.Contains(name, "."):
				return nil, failure(16405, "FieldPath field names may not contain '.'. Consider using $getField or $setField.")
			}
			x.names = append(x.names, name)
		}
		if x.names == nil {
			break // {} is a constant
		}
		return x, x.parseOperands(v.b)
	}
	return &expression{constant: v}, nil
}

func parseFieldPath(s string) (*expression, error) {
	name, ok := strings.CutPrefix(s, "$$")
	if ok {
		variable, rest, dotted := strings.Cut(name, ".")
		switch variable {
		case "ROOT", "CURRENT":
			if !dotted {
				return &expression{root: true}, nil
			}
			s = "$" + rest
		case "NOW", "CLUSTER_TIME", "REMOVE", "DESCEND", "PRUNE", "KEEP", "SEARCH_META", "USER_ROLES":
			return nil, notImplemented("the variable $$" + variable)
		default:
			return nil, failure(17276, "Use of undefined variable: %s", variable)
		}
	}
	p, err := parsePath(s[1:])
	if err != nil {
		return nil, err
	}
	for _, part := range p.parts {
		switch {
		case part == "" && len(p.parts) == 1:
			return nil, failure(16872, "'$' by itself is not a valid FieldPath")
		case part == "":
			return nil, failure(15998, "FieldPath field names may not be empty strings.")
		case part[0] == '$':
			return nil, failure(16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.")
		}
	}
	return &expression{parts: p.parts}, nil
}

func parseOperatorExpression(op string, v value, doc []byte) (*expression, error) {
	if countElements(doc) != 1 {
		return nil, failure(15983, "An object representing an expression must have exactly one field")
	}
	switch op {
	case "$literal", "$const":
		return &expression{constant: v}, nil
	}
	if knownExpression(op) {
		return nil, notImplemented("the expression " + op)
	}
	return nil, failure(codeInvalidPipelineOp, "Unrecognized expression '%s'", op)
}

// knownExpression reports whether MongoDB has the expression operator.
func knownExpression(op string) bool {
	switch op {
	case "$abs", "$add", "$allElementsTrue", "$and", "$anyElementTrue", "$arrayElemAt", "$arrayToObject", "$avg",
		"$binarySize", "$bitAnd", "$bitNot", "$bitOr", "$bitXor", "$bsonSize", "$ceil", "$cmp", "$concat",
		"$concatArrays", "$cond", "$convert", "$dateAdd", "$dateDiff", "$dateFromParts", "$dateFromString",
		"$dateSubtract", "$dateToParts", "$dateToString", "$dateTrunc", "$dayOfMonth", "$dayOfWeek", "$dayOfYear",
		"$divide", "$eq", "$exp", "$filter", "$first", "$firstN", "$floor", "$function", "$getField", "$gt", "$gte",
		"$hour", "$ifNull", "$in", "$indexOfArray", "$indexOfBytes", "$indexOfCP", "$isArray", "$isNumber",
		"$isoDayOfWeek", "$isoWeek", "$isoWeekYear", "$last", "$lastN", "$let", "$ln", "$log", "$log10", "$lt", "$lte",
		"$ltrim", "$map", "$max", "$maxN", "$median", "$mergeObjects", "$meta", "$millisecond", "$min", "$minN",
		"$minute", "$mod", "$month", "$multiply", "$ne", "$not", "$objectToArray", "$or", "$percentile", "$pow",
		"$rand", "$range", "$reduce", "$regexFind", "$regexFindAll", "$regexMatch", "$replaceAll", "$replaceOne",
		"$reverseArray", "$round", "$rtrim", "$second", "$setDifference", "$setEquals", "$setField",
		"$setIntersection", "$setIsSubset", "$setUnion", "$size", "$slice", "$sortArray", "$split", "$sqrt",
		"$stdDevPop", "$stdDevSamp", "$strLenBytes", "$strLenCP", "$strcasecmp", "$substr", "$substrBytes",
		"$substrCP", "$subtract", "$sum", "$switch", "$toBool", "$toDate", "$toDecimal", "$toDouble", "$toHashedIndexKey",
		"$toInt", "$toLong", "$toLower", "$toObjectId", "$toString", "$toUpper", "$toUUID", "$trim", "$trunc",
		"$tsIncrement", "$tsSecond", "$type", "$unsetField", "$week", "$year", "$zip", "$sin", "$cos", "$tan",
		"$asin", "$acos", "$atan", "$atan2", "$asinh", "$acosh", "$atanh", "$sinh", "$cosh", "$tanh",
		"$degreesToRadians", "$radiansToDegrees":
		return true
	}
	return false
}

func (x *expression) parseOperands(doc []byte) error {
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		operand, err := parseExpression(e.value)
		if err != nil {
			return err
		}
		x.operands = append(x.operands, operand)
	}
	return nil
}

// eval computes the expression for a document. A missing value stands for a
// field that does not exist.
func (x *expression) eval(doc []byte) value {
	switch {
	case x.root:
		return documentValue(doc)
	case x.parts != nil:
		return evalPath(doc, x.parts)
	case x.array:
		out := make([]value, len(x.operands))
		for i, operand := range x.operands {
			if out[i] = operand.eval(doc); out[i].missing() {
				out[i] = nullValue()
			}
		}
		return arrayValue(out)
	case x.names != nil:
		start, b := openDoc(nil)
		for i, operand := range x.operands {
			if v := operand.eval(doc); !v.missing() {
				b = appendField(b, x.names[i], v)
			}
		}
		return documentValue(closeDoc(b, start))
	}
	return x.constant
}

// evalPath reads a path as aggregation does: an array on the way gives the
// array of what its documents hold, and positions do not count.
func evalPath(doc []byte, parts []string) value {
	v := lookup(doc, parts[0])
	if len(parts) == 1 {
		return v
	}
	switch v.t {
	case bson.TypeEmbeddedDocument:
		return evalPath(v.b, parts[1:])
	case bson.TypeArray:
		return evalArray(v.b, parts[1:])
	}
	return value{}
}

func evalArray(arr []byte, parts []string) value {
	var out []value
	it := fieldsOf(arr)
	var e element
	for it.next(&e) {
		var v value
		switch e.t {
		case bson.TypeEmbeddedDocument:
			v = evalPath(e.b, parts)
		case bson.TypeArray:
			v = evalArray(e.b, parts)
		}
		if !v.missing() {
			out = append(out, v)
		}
	}
	return arrayValue(out)
}
