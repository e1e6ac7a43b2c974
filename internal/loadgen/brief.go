package loadgen

import (
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// briefly bounds what is shown of a server's message, or of a key, in bytes.
const briefly = 200

// duplicateKey is the server's code of a violated unique index.
const duplicateKey = 11000

// briefError shows one line of an error that would fill a screen.
type briefError struct {
	text  string
	whole error
}

func (e *briefError) Error() string { return e.text }

// Unwrap returns the error whose text was shortened.
func (e *briefError) Unwrap() error { return e.whole }

// brief shortens the error of a write, in which the driver lists every
// document that was refused: the first is told, by its code and, for a
// duplicate key, by index and key; the others are counted. Other errors stay
// as they are.
func brief(err error) error {
	var bulk mongo.BulkWriteException
	var write mongo.WriteException
	var first mongo.WriteError
	refused := 0
	switch {
	case errors.As(err, &bulk) && len(bulk.WriteErrors) > 0:
		first, refused = bulk.WriteErrors[0].WriteError, len(bulk.WriteErrors)
	case errors.As(err, &write) && len(write.WriteErrors) > 0:
		first, refused = write.WriteErrors[0], len(write.WriteErrors)
	default:
		return err
	}
	text := fmt.Sprintf("code %d: %s", first.Code, clip(first.Message))
	if first.Code == duplicateKey {
		index, key := duplicate(first)
		text = fmt.Sprintf("code %d (DuplicateKey): index %s already has key %s", first.Code, clip(index), clip(key))
	}
	if refused > 1 {
		text += fmt.Sprintf(" (and %d more documents were refused)", refused-1)
	}
	return &briefError{text, err}
}

// duplicate is the index and the key that a duplicate key error is about.
// The index's name is only in the message, "E11000 duplicate key error
// collection: db.c index: name dup key: { field: value }"; the key is a
// document beside it.
func duplicate(e mongo.WriteError) (index, key string) {
	_, rest, _ := strings.Cut(e.Message, " index: ")
	index, key, _ = strings.Cut(rest, " dup key: ")
	value, err := e.Raw.LookupErr("keyValue")
	if doc, ok := value.DocumentOK(); err == nil && ok {
		if text, err := bson.MarshalExtJSON(doc, false, false); err == nil {
			key = string(text)
		}
	}
	if index == "" {
		index = "(not named)"
	}
	if key == "" {
		key = "(not told)"
	}
	return index, key
}

// clip cuts a text off.
func clip(text string) string {
	if len(text) <= briefly {
		return text
	}
	return strings.ToValidUTF8(text[:briefly], "") + "…"
}
