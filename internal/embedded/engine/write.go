package engine

import (
	"bytes"
	"context"
	"errors"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const maxWriteBatch = 100000 // statements in one command

// writeErrors collects what went wrong with the statements of a command.
type writeErrors struct {
	ordered bool
	b       []byte
	n       int
}

// add records a statement's failure and reports whether to stop. Failures of
// the whole command are returned.
func (w *writeErrors) add(index int, err error) (stop bool, fatal error) {
	var wait blocked
	if errors.As(err, &wait) {
		return true, err
	}
	e := asError(err)
	switch e.Code {
	case codeWriteConflict, codeMaxTimeMSExpired, codeInterrupted, codeNotImplemented:
		return true, err
	}
	start, b := openDoc(appendIndexHeader(w.b, bson.TypeEmbeddedDocument, w.n))
	b = appendInt32(b, "index", index)
	b = appendInt32(b, "code", int(e.Code))
	var dup *duplicate
	if errors.As(err, &dup) {
		b = appendDoc(b, "keyPattern", dup.pattern)
		b = appendDoc(b, "keyValue", dup.key)
	}
	b = appendString(b, "errmsg", e.Message)
	w.b = closeDoc(b, start)
	w.n++
	return w.ordered, nil
}

func (w *writeErrors) appendTo(dst []byte) []byte {
	if w.n == 0 {
		return dst
	}
	start, dst := openSub(dst, bson.TypeArray, "writeErrors")
	return closeDoc(append(dst, w.b...), start)
}

// statements returns the documents of a write command, from its body or from
// a document sequence.
func statements(req *Request, name string, body value) ([]bson.Raw, error) {
	docs, sequence := req.Sequences[name]
	if sequence && !body.missing() {
		return nil, failure(40413, "BSON field '%s.%s' is a duplicate field", req.Name, name)
	}
	if !sequence {
		if body.missing() {
			return nil, failure(codeMissingField, "BSON field '%s.%s' is missing but a required field", req.Name, name)
		}
		arr, err := wantArray(req.Name+"."+name, body)
		if err != nil {
			return nil, err
		}
		it := fieldsOf(arr)
		var e element
		for it.next(&e) {
			if !e.isDocument() {
				return nil, wrongType(req.Name+"."+name+"."+string(e.key), e.value, "object")
			}
			docs = append(docs, e.b)
		}
	}
	if len(docs) == 0 || len(docs) > maxWriteBatch {
		return nil, failure(codeInvalidLength, "Write batch sizes must be between 1 and %d. Got %d operations.", maxWriteBatch, len(docs))
	}
	return docs, nil
}

// parseWrite reads the options that all write commands share and returns the
// statements.
func parseWrite(req *Request, field string) (ns string, docs []bson.Raw, ordered bool, err error) {
	if ns, err = namespace(req); err != nil {
		return "", nil, false, err
	}
	ordered = true
	var body value
	err = eachOption(req.Name, req.Body, func(name string, v value) (known bool, err error) {
		switch name {
		case field:
			body = v
		case "ordered":
			ordered, err = wantBool(req.Name+".ordered", v)
		case "bypassDocumentValidation":
			_, err = wantBool(req.Name+"."+name, v)
		case "bypassEmptyTsReplacement":
			_, err = wantBool(req.Name+"."+name, v)
			return req.Name != "delete", err
		case "let":
			if req.Name == "insert" {
				return false, nil
			}
			err = checkLet(req.Name+".let", v)
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return "", nil, false, err
	}
	docs, err = statements(req, field, body)
	return ns, docs, ordered, err
}

func (e *Engine) insert(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, docs, ordered, err := parseWrite(req, "documents")
	if err != nil {
		return nil, err
	}
	failed := writeErrors{ordered: ordered}
	inserted, at := 0, 0
	var doc bson.Raw // what is being inserted
	err = e.write(ctx, req, ns, true, func(w *writer) error {
		for at < len(docs) {
			var err error
			if doc == nil {
				if err = interrupted(ctx); err != nil {
					return err
				}
				doc, err = prepareInsert(docs[at])
			}
			if err == nil {
				err = w.insert(doc)
			}
			if err == nil {
				inserted++
			} else if stop, fatal := failed.add(at, err); stop {
				return fatal
			}
			doc = nil
			at++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(make([]byte, 0, 64+len(failed.b)))
	b = appendInt32(b, "n", inserted)
	b = failed.appendTo(b)
	return closeDoc(appendOK(b), start), nil
}

func prepareInsert(doc bson.Raw) (bson.Raw, error) {
	if len(doc) > maxDocumentSize {
		return nil, failure(codeBadValue, "object to insert too large. size in bytes: %d, max size: %d", len(doc), maxDocumentSize)
	}
	return withID(doc)
}

// updateStatement is one element of an update command.
type updateStatement struct {
	question question
	update   *update
	multi    bool
	upsert   bool
	err      error // the filter or the update is wrong, which is a write error
}

func parseUpdateStatement(doc []byte) (*updateStatement, error) {
	s := &updateStatement{question: question{write: true}}
	var q, u value
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		var err error
		name := string(e.key)
		field := "update.updates." + name
		switch name {
		case "q":
			q = e.value
			_, err = wantDocument(field, e.value)
		case "u":
			u = e.value
		case "multi":
			s.multi, err = wantBool(field, e.value)
		case "upsert":
			s.upsert, err = wantBool(field, e.value)
		case "hint":
			s.question.hint, err = wantHint(e.value)
		case "sort":
			var by []byte
			if by, err = wantDocument(field, e.value); err == nil {
				s.question.sort, err = parseSort(by)
			}
		case "collation":
			err = checkCollation(field, e.value)
		case "arrayFilters", "c":
			err = refuseIfNotEmpty(field, name, e.value)
		case "sampleId", "allowShardKeyUpdatesWithoutFullShardKeyInQuery", "upsertSupplied":
			err = notImplemented("the option " + name)
		default:
			err = unknownField("update.updates", name)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case q.missing():
		return nil, failure(codeMissingField, "BSON field 'update.updates.q' is missing but a required field")
	case u.missing():
		return nil, failure(codeMissingField, "BSON field 'update.updates.u' is missing but a required field")
	case s.multi && len(s.question.sort) > 0:
		return nil, failure(codeFailedToParse, "Cannot specify sort with multi=true")
	}
	s.question.raw, s.question.upsert = q.b, s.upsert
	if !s.multi {
		s.question.limit = 1
	}
	s.err = s.parse(q.b, u)
	return s, nil
}

func (s *updateStatement) parse(q []byte, u value) (err error) {
	if s.question.filter, err = parseFilter(q); err != nil {
		return err
	}
	if s.update, err = parseUpdate(u); err != nil {
		return err
	}
	if s.multi && s.update.replacement != nil {
		return failure(codeFailedToParse, "multi update is not supported for replacement-style update")
	}
	return nil
}

func wantHint(v value) (value, error) {
	if v.t != bson.TypeString && !v.isDocument() {
		return value{}, failure(codeFailedToParse, "Hint must be a string or an object")
	}
	if v.isDocument() && isEmptyDocument(v.b) {
		return value{}, nil
	}
	return v, nil
}

// target is a document that a statement matched.
type target struct {
	rid int64
	doc bson.Raw
}

// targets finds and claims the documents that a write matches, all before
// the first one changes: a scan must not meet what it has moved, and a wait
// for a transaction must not repeat a change.
func (w *writer) targets(ctx context.Context, q *question) ([]target, error) {
	r, err := q.open(ctx, w.s)
	if err != nil {
		return nil, err
	}
	var out []target
	for {
		rid, doc, ok, err := r.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		out = append(out, target{rid, doc})
	}
	if w.txn == nil && len(w.c.owners) == 0 {
		return out, nil
	}
	for _, t := range out {
		if err := w.claim(t.rid); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// outcome is what an update statement did.
type outcome struct {
	matched, modified int
	upserted          value // the _id of an inserted document
}

func (s *updateStatement) run(ctx context.Context, w *writer) (outcome, error) {
	var out outcome
	if s.err != nil || w == nil {
		return out, s.err
	}
	targets, err := w.targets(ctx, &s.question)
	if err != nil {
		return out, err
	}
	out.matched = len(targets)
	for i, t := range targets {
		changed, err := s.update.run(w, t)
		if err != nil {
			var wait blocked
			if i > 0 && errors.As(err, &wait) {
				err = writeConflict() // what was changed must not be changed again
			}
			return out, err
		}
		if changed != nil {
			out.modified++
		}
	}
	if len(targets) > 0 || !s.upsert {
		return out, nil
	}
	doc, err := s.update.upsertDocument(s.question.filter)
	if err != nil {
		return out, err
	}
	if len(doc) > maxDocumentSize {
		return out, failure(codeBadValue, "object to insert too large. size in bytes: %d, max size: %d", len(doc), maxDocumentSize)
	}
	if err := w.insert(doc); err != nil {
		return out, err
	}
	out.upserted = lookup(doc, "_id")
	return out, nil
}

// run updates one document and returns the new one, or nil when nothing
// changes.
func (u *update) run(w *writer, t target) (bson.Raw, error) {
	doc, err := u.apply(t.doc, false)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(doc, t.doc) {
		return nil, nil
	}
	return doc, w.update(t.rid, t.doc, doc, u.paths)
}

func (e *Engine) update(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, docs, ordered, err := parseWrite(req, "updates")
	if err != nil {
		return nil, err
	}
	failed := writeErrors{ordered: ordered}
	parsed := make([]*updateStatement, len(docs))
	create := false
	for i, doc := range docs {
		if parsed[i], err = parseUpdateStatement(doc); err != nil {
			return nil, err
		}
		create = create || parsed[i].upsert
	}
	var total outcome
	var upserted []byte
	nUpserted, at := 0, 0
	err = e.write(ctx, req, ns, create, func(w *writer) error {
		for ; at < len(docs); at++ {
			if err := interrupted(ctx); err != nil {
				return err
			}
			out, err := parsed[at].run(ctx, w)
			var wait blocked
			if errors.As(err, &wait) {
				return err
			}
			total.matched += out.matched
			total.modified += out.modified
			if !out.upserted.missing() {
				start, b := openDoc(appendIndexHeader(upserted, bson.TypeEmbeddedDocument, nUpserted))
				b = appendInt32(b, "index", at)
				upserted = closeDoc(appendField(b, "_id", out.upserted), start)
				nUpserted++
			}
			if err != nil {
				if stop, fatal := failed.add(at, err); stop {
					return fatal
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(make([]byte, 0, 96+len(upserted)+len(failed.b)))
	b = appendInt32(b, "n", total.matched+nUpserted)
	if nUpserted > 0 {
		var arr int
		arr, b = openSub(b, bson.TypeArray, "upserted")
		b = closeDoc(append(b, upserted...), arr)
	}
	b = failed.appendTo(b)
	b = appendInt32(b, "nModified", total.modified)
	return closeDoc(appendOK(b), start), nil
}

// deleteStatement is one element of a delete command.
type deleteStatement struct {
	question question
	multi    bool
	err      error // the filter is wrong, which is a write error
}

func parseDeleteStatement(doc []byte) (*deleteStatement, error) {
	s := &deleteStatement{question: question{write: true}}
	var q, limit value
	it := fieldsOf(doc)
	var e element
	for it.next(&e) {
		var err error
		name := string(e.key)
		field := "delete.deletes." + name
		switch name {
		case "q":
			q = e.value
			_, err = wantDocument(field, e.value)
		case "limit":
			limit = e.value
		case "hint":
			s.question.hint, err = wantHint(e.value)
		case "collation":
			err = checkCollation(field, e.value)
		case "sampleId":
			err = notImplemented("the option " + name)
		default:
			err = unknownField("delete.deletes", name)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case q.missing():
		return nil, failure(codeMissingField, "BSON field 'delete.deletes.q' is missing but a required field")
	case limit.missing():
		return nil, failure(codeMissingField, "BSON field 'delete.deletes.limit' is missing but a required field")
	case !limit.isNumber():
		return nil, failure(codeTypeMismatch, "BSON field 'delete.deletes.limit' is the wrong type '%s', expected types '[long, int, decimal, double]'", typeName(limit.t))
	}
	n, ok := limit.integer()
	if !ok || n != 0 && n != 1 {
		return nil, failure(codeFailedToParse, "The limit field in delete objects must be 0 or 1. Got %s", shellText(limit))
	}
	s.multi, s.question.limit = n == 0, n
	s.question.raw = q.b
	s.question.filter, s.err = parseFilter(q.b)
	return s, nil
}

func (s *deleteStatement) run(ctx context.Context, w *writer) (int, error) {
	if s.err != nil || w == nil {
		return 0, s.err
	}
	targets, err := w.targets(ctx, &s.question)
	if err != nil {
		return 0, err
	}
	for i, t := range targets {
		if err := w.remove(t.rid, t.doc); err != nil {
			return i, err
		}
	}
	return len(targets), nil
}

func (e *Engine) delete(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, docs, ordered, err := parseWrite(req, "deletes")
	if err != nil {
		return nil, err
	}
	failed := writeErrors{ordered: ordered}
	parsed := make([]*deleteStatement, len(docs))
	for i, doc := range docs {
		if parsed[i], err = parseDeleteStatement(doc); err != nil {
			return nil, err
		}
	}
	deleted, at := 0, 0
	err = e.write(ctx, req, ns, false, func(w *writer) error {
		for ; at < len(docs); at++ {
			if err := interrupted(ctx); err != nil {
				return err
			}
			n, err := parsed[at].run(ctx, w)
			deleted += n
			if err != nil {
				if stop, fatal := failed.add(at, err); stop {
					return fatal
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(make([]byte, 0, 64+len(failed.b)))
	b = appendInt32(b, "n", deleted)
	b = failed.appendTo(b)
	return closeDoc(appendOK(b), start), nil
}
