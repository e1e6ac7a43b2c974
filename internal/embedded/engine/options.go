package engine

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// generic reports whether a field belongs to every command: the server deals
// with it.
func generic(name string) bool {
	switch name {
	case "$db", "lsid", "txnNumber", "txnRetryCounter", "autocommit", "startTransaction", "stmtId", "stmtIds",
		"$clusterTime", "$readPreference", "readConcern", "writeConcern", "maxTimeMS", "maxTimeMSOpOnly", "comment",
		"apiVersion", "apiStrict", "apiDeprecationErrors", "$configServerState", "$configTime", "$topologyTime",
		"$audit", "$client", "$queryOptions", "$oplogQueryData", "$replData", "databaseVersion", "shardVersion",
		"clientOperationKey", "help":
		return true
	}
	return false
}

// eachOption calls set with every option of a command. What set does not know
// is refused.
func eachOption(command string, body []byte, set func(name string, v value) (known bool, err error)) error {
	it := fieldsOf(body)
	var e element
	it.next(&e) // the command itself
	for it.next(&e) {
		name := string(e.key)
		if generic(name) {
			continue
		}
		known, err := set(name, e.value)
		if err != nil {
			return err
		}
		if !known {
			return unknownField(command, name)
		}
	}
	return nil
}

func unknownField(command, name string) error {
	return failure(codeUnknownField, "BSON field '%s.%s' is an unknown field.", command, name)
}

func wrongType(field string, v value, want string) error {
	return failure(codeTypeMismatch, "BSON field '%s' is the wrong type '%s', expected type '%s'", field, typeName(v.t), want)
}

func wantDocument(field string, v value) ([]byte, error) {
	if !v.isDocument() {
		return nil, wrongType(field, v, "object")
	}
	return v.b, nil
}

func wantArray(field string, v value) ([]byte, error) {
	if !v.isArray() {
		return nil, wrongType(field, v, "array")
	}
	return v.b, nil
}

func wantString(field string, v value) (string, error) {
	if v.t != bson.TypeString {
		return "", wrongType(field, v, "string")
	}
	return string(v.str()), nil
}

// wantBool accepts numbers, too, as MongoDB's safeBool.
func wantBool(field string, v value) (bool, error) {
	if v.t != bson.TypeBoolean && !v.isNumber() {
		return false, failure(codeTypeMismatch, "BSON field '%s' is the wrong type '%s', expected types '[bool, long, int, decimal, double]'", field, typeName(v.t))
	}
	return v.truthy(), nil
}

// wantCount reads a number that must not be negative.
func wantCount(field string, v value) (int64, error) {
	if !v.isNumber() {
		return 0, failure(codeTypeMismatch, "BSON field '%s' is the wrong type '%s', expected types '[long, int, decimal, double]'", field, typeName(v.t))
	}
	n, ok := v.integer()
	if !ok {
		if f := v.float(); f > -(1<<63) && f < 1<<63 {
			n = int64(f)
		} else {
			return 0, failure(codeBadValue, "BSON field '%s' is out of range", field)
		}
	}
	if n < 0 {
		short := field[strings.LastIndexByte(field, '.')+1:]
		return 0, failure(51024, "BSON field '%s' value must be >= 0, actual value '%d'", short, n)
	}
	return n, nil
}

// checkCollation accepts the simple collation only.
func checkCollation(field string, v value) error {
	doc, err := wantDocument(field, v)
	if err != nil {
		return err
	}
	if isEmptyDocument(doc) {
		return nil
	}
	locale := lookup(doc, "locale")
	if locale.t == bson.TypeString && string(locale.str()) == "simple" {
		return nil
	}
	return notImplemented("a collation")
}

// checkLet accepts an empty let only.
func checkLet(field string, v value) error {
	doc, err := wantDocument(field, v)
	if err != nil {
		return err
	}
	if !isEmptyDocument(doc) {
		return notImplemented("the option let")
	}
	return nil
}

// refuseIfSet is for switches that are not implemented: false is accepted.
func refuseIfSet(field, name string, v value) error {
	set, err := wantBool(field, v)
	if err != nil {
		return err
	}
	if set {
		return notImplemented("the option " + name)
	}
	return nil
}

// refuseIfNotEmpty is for documents and arrays that are not implemented.
func refuseIfNotEmpty(field, name string, v value) error {
	if !v.isDocument() && !v.isArray() {
		return wrongType(field, v, "object")
	}
	if !isEmptyDocument(v.b) {
		return notImplemented("the option " + name)
	}
	return nil
}

// namespace returns "database.collection" for a command whose first field
// names a collection.
func namespace(req *Request) (string, error) {
	v := firstValue(req.Body)
	if v.t != bson.TypeString {
		return "", failure(codeInvalidNamespace, "collection name has invalid type %s", typeName(v.t))
	}
	return joinNamespace(req.Database, string(v.str()))
}

func joinNamespace(database, name string) (string, error) {
	ns := database + "." + name
	switch {
	case database == "" || len(database) > 63 || strings.ContainsAny(database, "/\\. \"$\x00"):
		return "", failure(codeInvalidNamespace, "Invalid database name: '%s'", database)
	case name == "":
		return "", failure(codeInvalidNamespace, "Invalid namespace specified '%s'", ns)
	case len(ns) > 255:
		return "", failure(codeInvalidNamespace, "Fully qualified namespace is too long. Namespace: %s Max: 255", ns)
	case strings.HasPrefix(name, ".") || strings.ContainsAny(name, "$\x00"):
		return "", failure(codeInvalidNamespace, "Invalid collection name: %s", name)
	}
	return ns, nil
}

func firstValue(body []byte) value {
	it := fieldsOf(body)
	var e element
	it.next(&e)
	return e.value
}
