package engine

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// findAndModifyCommand is a parsed findAndModify.
type findAndModifyCommand struct {
	ns        string
	statement updateStatement // its question serves removals, too
	remove    bool
	returnNew bool
	fields    *projection
}

func parseFindAndModify(req *Request) (*findAndModifyCommand, error) {
	ns, err := namespace(req)
	if err != nil {
		return nil, err
	}
	f := &findAndModifyCommand{ns: ns}
	f.statement.question = question{write: true, limit: 1}
	q := &f.statement.question
	var u value
	err = eachOption("findAndModify", req.Body, func(name string, v value) (known bool, err error) {
		field := "findAndModify." + name
		switch name {
		case "query":
			if q.raw, err = wantDocument(field, v); err == nil {
				q.filter, err = parseFilter(q.raw)
			}
		case "sort":
			var doc []byte
			if doc, err = wantDocument(field, v); err == nil {
				q.sort, err = parseSort(doc)
			}
		case "fields":
			var doc []byte
			if doc, err = wantDocument(field, v); err == nil {
				f.fields, err = parseProjection(doc)
			}
		case "update":
			u = v
			f.statement.update, err = parseUpdate(v)
		case "remove":
			f.remove, err = wantBool(field, v)
		case "new":
			f.returnNew, err = wantBool(field, v)
		case "upsert":
			f.statement.upsert, err = wantBool(field, v)
		case "hint":
			q.hint, err = wantHint(v)
		case "bypassDocumentValidation", "bypassEmptyTsReplacement":
			_, err = wantBool(field, v)
		case "arrayFilters":
			err = refuseIfNotEmpty(field, name, v)
		case "collation":
			err = checkCollation(field, v)
		case "let":
			err = checkLet(field, v)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	q.upsert = f.statement.upsert
	switch {
	case f.remove && !u.missing():
		return nil, failure(codeFailedToParse, "Cannot specify both an update and remove=true")
	case !f.remove && u.missing():
		return nil, failure(codeFailedToParse, "Either an update or remove=true must be specified")
	case f.remove && f.statement.upsert:
		return nil, failure(codeFailedToParse, "Cannot specify both upsert=true and remove=true")
	case f.remove && f.returnNew:
		return nil, failure(codeFailedToParse, "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
	}
	return f, nil
}

func (e *Engine) findAndModify(ctx context.Context, req *Request) (bson.Raw, error) {
	f, err := parseFindAndModify(req)
	if err != nil {
		return nil, err
	}
	n := 0
	var result bson.Raw
	var upserted value
	err = e.write(ctx, req, f.ns, f.statement.upsert, func(w *writer) (err error) {
		n, result, upserted, err = f.run(ctx, w)
		return err
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(nil)
	var last int
	last, b = openSub(b, bson.TypeEmbeddedDocument, "lastErrorObject")
	b = appendInt32(b, "n", n)
	if !f.remove {
		b = appendBool(b, "updatedExisting", n > 0 && upserted.missing())
	}
	if !upserted.missing() {
		b = appendField(b, "upserted", upserted)
	}
	b = closeDoc(b, last)
	switch {
	case result == nil:
		b = appendHeader(b, bson.TypeNull, "value")
	case f.fields != nil:
		b = f.fields.appendTo(appendHeader(b, bson.TypeEmbeddedDocument, "value"), result)
	default:
		b = appendDoc(b, "value", result)
	}
	return closeDoc(appendOK(b), start), nil
}

// run returns how many documents were touched, the one to answer with, and
// the _id of an inserted one.
func (f *findAndModifyCommand) run(ctx context.Context, w *writer) (int, bson.Raw, value, error) {
	if w == nil {
		return 0, nil, value{}, nil
	}
	targets, err := w.targets(ctx, &f.statement.question)
	if err != nil {
		return 0, nil, value{}, err
	}
	if len(targets) > 0 {
		t := targets[0]
		if f.remove {
			return 1, t.doc, value{}, w.remove(t.rid, t.doc)
		}
		changed, err := f.statement.update.run(w, t)
		if changed == nil || !f.returnNew {
			changed = t.doc
		}
		return 1, changed, value{}, err
	}
	if f.remove || !f.statement.upsert {
		return 0, nil, value{}, nil
	}
	doc, err := f.statement.update.upsertDocument(f.statement.question.filter)
	if err != nil {
		return 0, nil, value{}, err
	}
	if err := w.insert(doc); err != nil {
		return 0, nil, value{}, err
	}
	if f.returnNew {
		return 1, doc, lookup(doc, "_id"), nil
	}
	return 1, nil, lookup(doc, "_id"), nil
}
