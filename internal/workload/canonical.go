package workload

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// The canonical form of a command is the document that the server receives
// with its fields in this order, without the fields of the session and of
// the connection (see generic), and with document sequences folded into the
// command as the array they stand for:
//
//	find       find, filter, projection, limit, batchSize, …, $db
//	update     update, updates [{q, u, multi, …}], ordered, …, $db
//	delete     delete, deletes [{q, limit, …}], ordered, …, $db
//	insert     insert, documents […], ordered, …, $db
//	aggregate  aggregate, pipeline, cursor {batchSize}, …, $db
//
// Fields that are not sent are left out: limit 0, batchSize 0 (cursor is {}),
// multi false, any upsert. Writes are ordered: true. Fields of no concern to
// this package (…) follow the known ones in the order received, so that a
// command with, say, a hint has another canonical form.

// AppendCanonical appends the canonical form of the command: what a server
// should receive, byte for byte, but for fields that the driver adds on
// behalf of the session.
func (c *Command) AppendCanonical(dst []byte) []byte {
	command, dst := openDocument(dst)
	switch c.Type {
	case Find:
		dst = appendText(dst, "\x02find\x00", c.Collection)
		dst = appendRaw(dst, "\x03filter\x00", c.Filter)
		dst = appendRaw(dst, "\x03projection\x00", c.Projection)
		if c.Limit != 0 {
			dst = appendInt64(dst, "\x12limit\x00", c.Limit)
		}
		if c.BatchSize != 0 {
			dst = appendInt32(dst, "\x10batchSize\x00", c.BatchSize)
		}
	case UpdateOne, UpdateMany:
		dst = appendText(dst, "\x02update\x00", c.Collection)
		dst = append(dst, "\x04updates\x00"...)
		list, more := openDocument(dst)
		statement, more := openDocument(append(more, "\x030\x00"...))
		more = appendRaw(more, "\x03q\x00", c.Filter)
		more = appendRaw(more, "\x03u\x00", c.Update)
		if c.Type == UpdateMany {
			more = append(more, "\x08multi\x00\x01"...)
		}
		dst = closeDocument(closeDocument(more, statement), list)
		dst = append(dst, "\x08ordered\x00\x01"...)
	case DeleteOne, DeleteMany:
		dst = appendText(dst, "\x02delete\x00", c.Collection)
		dst = append(dst, "\x04deletes\x00"...)
		list, more := openDocument(dst)
		statement, more := openDocument(append(more, "\x030\x00"...))
		more = appendRaw(more, "\x03q\x00", c.Filter)
		limit := int32(0)
		if c.Type == DeleteOne {
			limit = 1
		}
		more = appendInt32(more, "\x10limit\x00", limit)
		dst = closeDocument(closeDocument(more, statement), list)
		dst = append(dst, "\x08ordered\x00\x01"...)
	case InsertOne, InsertMany:
		dst = appendText(dst, "\x02insert\x00", c.Collection)
		dst = append(dst, "\x04documents\x00"...)
		list, more := openDocument(dst)
		for i, document := range c.Documents {
			more = append(appendIndex(more, typeDocument, int64(i)), document...)
		}
		dst = closeDocument(more, list)
		dst = append(dst, "\x08ordered\x00\x01"...)
	case Aggregate:
		dst = appendText(dst, "\x02aggregate\x00", c.Collection)
		dst = appendRaw(dst, "\x04pipeline\x00", c.Pipeline)
		cursor, more := openDocument(append(dst, "\x03cursor\x00"...))
		if c.BatchSize != 0 {
			more = appendInt32(more, "\x10batchSize\x00", c.BatchSize)
		}
		dst = closeDocument(more, cursor)
	}
	dst = appendText(dst, "\x02$db\x00", c.Database)
	return closeDocument(dst, command)
}

// ExtJSON returns the command's canonical form as canonical MongoDB Extended
// JSON, from which the same bytes can be made again.
func (c *Command) ExtJSON() ([]byte, error) {
	text, err := bson.MarshalExtJSON(bson.Raw(c.AppendCanonical(nil)), true, false)
	if err != nil {
		return nil, fmt.Errorf("write %s as extended JSON: %w", c.Type, err)
	}
	return text, nil
}

func appendRaw(dst []byte, key string, document []byte) []byte {
	return append(append(dst, key...), document...)
}

// form says how a command is put into canonical form.
type form struct {
	before    []string // known fields that come before the array
	sequence  string   // the array that may come as a document sequence
	statement []string // known fields of the array's documents; nil: as they are
	after     []string // known fields behind the array
}

func formOf(command string) (form, bool) {
	switch command {
	case "find":
		return form{before: []string{"filter", "projection", "limit", "batchSize"}}, true
	case "update":
		return form{sequence: "updates", statement: []string{"q", "u", "multi"}, after: []string{"ordered"}}, true
	case "delete":
		return form{sequence: "deletes", statement: []string{"q", "limit"}, after: []string{"ordered"}}, true
	case "insert":
		return form{sequence: "documents", after: []string{"ordered"}}, true
	case "aggregate":
		return form{before: []string{"pipeline", "cursor"}}, true
	}
	return form{}, false
}

// generic tells whether any command may carry a field: what drivers add for
// sessions, transactions, routing, concerns, timeouts and versions.
func generic(field string) bool {
	switch field {
	case "lsid", "txnNumber", "startTransaction", "autocommit", "stmtId", "stmtIds",
		"$clusterTime", "$readPreference", "readConcern", "writeConcern",
		"maxTimeMS", "comment", "apiVersion", "apiStrict", "apiDeprecationErrors":
		return true
	}
	return false
}

// CanonicalFromWire makes the canonical form of a command from what a server
// received: the body of a message and its document sequences by name. For a
// command that was made by a Generator and sent by a driver unchanged, the
// result equals AppendCanonical's bytes. It fails for commands other than
// find, update, delete, insert and aggregate, for bodies without $db, and
// for malformed BSON; values inside the fields are copied, not examined.
func CanonicalFromWire(body bson.Raw, sequences map[string][]bson.Raw) ([]byte, error) {
	fields, err := split(body)
	if err != nil {
		return nil, fmt.Errorf("command body: %w", err)
	}
	if len(fields) == 0 {
		return nil, errors.New("command body: empty document")
	}
	name := fields[0].Key()
	form, ok := formOf(name)
	if !ok {
		return nil, fmt.Errorf("command %q is not of this workload", name)
	}
	for sequence := range sequences {
		if sequence != form.sequence {
			return nil, fmt.Errorf("command %s: unexpected document sequence %q", name, sequence)
		}
	}
	db, ok := find(fields, "$db")
	if !ok {
		return nil, fmt.Errorf("command %s: no $db", name)
	}

	command, dst := openDocument(make([]byte, 0, len(body)+256))
	dst = append(dst, fields[0]...)
	dst = appendFields(dst, fields, form.before)
	if form.sequence != "" {
		documents, sent := sequences[form.sequence]
		if array, inBody := find(fields, form.sequence); inBody {
			if sent {
				return nil, fmt.Errorf("command %s: %s twice, in the body and as a document sequence", name, form.sequence)
			}
			if documents, err = splitArray(array); err != nil {
				return nil, fmt.Errorf("command %s: %s: %w", name, form.sequence, err)
			}
		}
		dst = append(append(append(dst, typeArray), form.sequence...), 0)
		var list int
		list, dst = openDocument(dst)
		for i, document := range documents {
			parts, err := split(document)
			if err != nil {
				return nil, fmt.Errorf("command %s: %s %d: %w", name, form.sequence, i, err)
			}
			dst = appendIndex(dst, typeDocument, int64(i))
			var at int
			at, dst = openDocument(dst)
			dst = appendFields(dst, parts, form.statement)
			for _, part := range parts {
				if !slices.Contains(form.statement, part.Key()) {
					dst = append(dst, part...)
				}
			}
			dst = closeDocument(dst, at)
		}
		dst = closeDocument(dst, list)
	}
	dst = appendFields(dst, fields, form.after)
	for _, field := range fields[1:] {
		key := field.Key()
		if key != "$db" && key != form.sequence && !generic(key) &&
			!slices.Contains(form.before, key) && !slices.Contains(form.after, key) {
			dst = append(dst, field...)
		}
	}
	dst = append(dst, db...)
	return closeDocument(dst, command), nil
}

// split returns the elements of a document. It looks no deeper than that.
func split(document []byte) ([]bsoncore.Element, error) {
	if len(document) < 5 || uint64(binary.LittleEndian.Uint32(document)) != uint64(len(document)) || document[len(document)-1] != 0 {
		return nil, errors.New("not a BSON document")
	}
	var elements []bsoncore.Element
	for rest := document[4 : len(document)-1]; len(rest) > 0; {
		element, more, ok := bsoncore.ReadElement(rest)
		if !ok {
			return nil, errors.New("malformed BSON element")
		}
		elements, rest = append(elements, element), more
	}
	return elements, nil
}

// splitArray returns the documents of an element that is an array of them.
func splitArray(array bsoncore.Element) ([]bson.Raw, error) {
	value := array.Value()
	if value.Type != bsoncore.TypeArray {
		return nil, errors.New("not an array")
	}
	elements, err := split(value.Data)
	if err != nil {
		return nil, err
	}
	documents := make([]bson.Raw, len(elements))
	for i, element := range elements {
		item := element.Value()
		if item.Type != bsoncore.TypeEmbeddedDocument {
			return nil, fmt.Errorf("element %d is not a document", i)
		}
		documents[i] = bson.Raw(item.Data)
	}
	return documents, nil
}

func find(fields []bsoncore.Element, key string) (bsoncore.Element, bool) {
	for _, field := range fields {
		if field.Key() == key {
			return field, true
		}
	}
	return nil, false
}

func appendFields(dst []byte, fields []bsoncore.Element, keys []string) []byte {
	for _, key := range keys {
		if field, ok := find(fields, key); ok {
			dst = append(dst, field...)
		}
	}
	return dst
}
