package engine

import (
	"bytes"
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// findCommand is a parsed find.
type findCommand struct {
	ns          string
	question    question
	batch       int64
	singleBatch bool
	noTimeout   bool
}

func parseFind(database string, body []byte) (*findCommand, error) {
	ns, err := namespace(&Request{Database: database, Body: body})
	if err != nil {
		return nil, err
	}
	f := &findCommand{ns: ns, batch: defaultBatch}
	q := &f.question
	err = eachOption("find", body, func(name string, v value) (known bool, err error) {
		switch name {
		case "filter":
			if q.raw, err = wantDocument("find.filter", v); err == nil {
				q.filter, err = parseFilter(q.raw)
			}
		case "sort":
			var doc []byte
			if doc, err = wantDocument("find.sort", v); err == nil {
				q.sort, err = parseSort(doc)
			}
		case "projection":
			var doc []byte
			if doc, err = wantDocument("find.projection", v); err == nil {
				q.projection, err = parseProjection(doc)
			}
		case "limit":
			q.limit, err = wantCount("find.limit", v)
		case "skip":
			q.skip, err = wantCount("find.skip", v)
		case "batchSize":
			q.batchSize = true
			f.batch, err = wantCount("find.batchSize", v)
		case "singleBatch":
			f.singleBatch, err = wantBool("find.singleBatch", v)
		case "hint":
			if v.t != bson.TypeString && !v.isDocument() {
				return true, failure(codeFailedToParse, "hint must be either a string or nested object")
			}
			if !v.isDocument() || !isEmptyDocument(v.b) {
				q.hint = v
			}
		case "noCursorTimeout":
			f.noTimeout, err = wantBool("find.noCursorTimeout", v)
		case "allowDiskUse", "allowPartialResults", "oplogReplay":
			_, err = wantBool("find."+name, v)
		case "tailable", "awaitData", "returnKey", "showRecordId":
			err = refuseIfSet("find."+name, name, v)
		case "min", "max":
			err = refuseIfNotEmpty("find."+name, name, v)
		case "collation":
			err = checkCollation("find.collation", v)
		case "let":
			err = checkLet("find.let", v)
		default:
			return false, nil
		}
		return true, err
	})
	return f, err
}

// open plans the query and starts it. It returns nil for a collection that
// does not exist.
func (q *question) open(ctx context.Context, s *store) (*results, error) {
	a, err := q.plan(s)
	if err != nil {
		return nil, err
	}
	r := &results{sc: newScan(ctx, s, a), skip: q.skip, limit: q.limit, projection: q.projection}
	if !a.sorted {
		r.sort = q.sort
		r.early = q.projectsEarly()
	}
	return r, nil
}

// projectsEarly reports whether the projection runs before the sort, as
// MongoDB does when that leaves the sort's fields whole and computes nothing.
func (q *question) projectsEarly() bool {
	return q.projection != nil && len(q.projection.computed) == 0 &&
		!slices.ContainsFunc(q.sort, func(f keyField) bool { return !q.projection.keeps(f.path) })
}

func (e *Engine) find(ctx context.Context, req *Request) (bson.Raw, error) {
	f, err := parseFind(req.Database, req.Body)
	if err != nil {
		return nil, err
	}
	start, out := openDoc(make([]byte, 0, 2048))
	err = e.read(req, f.ns, func(s *store, snapshot func() *store) error {
		var src source = &list{}
		if s != nil {
			r, err := f.question.open(ctx, s)
			if err != nil {
				return err
			}
			src = r
		}
		cur, b := openSub(out, bson.TypeEmbeddedDocument, "cursor")
		arr, b := openSub(b, bson.TypeArray, "firstBatch")
		b, more, err := appendBatch(b, src, f.batch)
		if err != nil {
			return err
		}
		b = closeDoc(b, arr)
		var id int64
		if more && !f.singleBatch {
			if id, err = e.keep(req, src, snapshot()); err != nil {
				return err
			}
		}
		b = appendInt64(b, "id", id)
		out = closeDoc(appendString(b, "ns", f.ns), cur)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return closeDoc(appendOK(out), start), nil
}

// keep opens a cursor for the rest of a find. It moves to a snapshot, and to
// a copy of the request, whose memory is not the engine's.
func (e *Engine) keep(req *Request, src source, s *store) (int64, error) {
	f, err := parseFind(req.Database, bytes.Clone(req.Body))
	if err != nil {
		return 0, err
	}
	r, ok := src.(*results)
	if ok {
		a, err := f.question.plan(s)
		if err != nil {
			return 0, err
		}
		r.sc.rebase(context.Background(), s, a)
		r.projection = f.question.projection
		if r.sort != nil {
			r.sort = f.question.sort
		}
	}
	return e.cursors.add(&cursor{ns: f.ns, src: src, noTime: f.noTimeout}), nil
}

func (e *Engine) count(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, q, err := parseCount(req)
	if err != nil {
		return nil, err
	}
	n := int64(0)
	err = e.read(req, ns, func(s *store, _ func() *store) error {
		if s == nil {
			return nil
		}
		if q.filter == nil {
			n = countAll(s, q)
			return nil
		}
		r, err := q.open(ctx, s)
		if err != nil {
			return err
		}
		for {
			_, _, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				return nil
			}
			n++
		}
	})
	if err != nil {
		return nil, err
	}
	start, b := openDoc(nil)
	return closeDoc(appendOK(appendCount(b, "n", n)), start), nil
}

// countAll counts without a filter, from the collection's number of records.
func countAll(s *store, q *question) int64 {
	n := max(int64(s.records.Len())-q.skip, 0)
	if q.limit > 0 {
		n = min(n, q.limit)
	}
	return n
}

func parseCount(req *Request) (string, *question, error) {
	ns, err := namespace(req)
	if err != nil {
		return "", nil, err
	}
	q := &question{batchSize: true}
	err = eachOption("count", req.Body, func(name string, v value) (known bool, err error) {
		switch name {
		case "query":
			if q.raw, err = wantDocument("count.query", v); err == nil {
				q.filter, err = parseFilter(q.raw)
			}
		case "limit":
			// A negative limit counts as its absolute value.
			if n, ok := v.integer(); ok && n < 0 && n != -n {
				q.limit = -n
				return true, nil
			}
			q.limit, err = wantCount("count.limit", v)
		case "skip":
			q.skip, err = wantCount("count.skip", v)
		case "hint":
			if v.t != bson.TypeString && !v.isDocument() {
				return true, failure(codeFailedToParse, "hint must be either a string or nested object")
			}
			if !v.isDocument() || !isEmptyDocument(v.b) {
				q.hint = v
			}
		case "collation":
			err = checkCollation("count.collation", v)
		case "fields":
		default:
			return false, nil
		}
		return true, err
	})
	return ns, q, err
}

func (e *Engine) distinct(ctx context.Context, req *Request) (bson.Raw, error) {
	ns, key, q, err := parseDistinct(req)
	if err != nil {
		return nil, err
	}
	var values []value
	seen := map[string]struct{}{}
	collect := func(v value) {
		k := string(appendKey(nil, v))
		if _, double := seen[k]; !double {
			seen[k] = struct{}{}
			values = append(values, v)
		}
	}
	err = e.read(req, ns, func(s *store, _ func() *store) error {
		if s == nil {
			return nil
		}
		r, err := q.open(ctx, s)
		if err != nil {
			return err
		}
		for {
			_, doc, ok, err := r.next()
			if err != nil {
				return err
			}
			if !ok {
				return nil
			}
			eachValue(doc, key.parts, collect)
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(values, compare)
	start, b := openDoc(nil)
	b = appendField(b, "values", arrayValue(values))
	if len(b) > maxDocumentSize {
		return nil, failure(17217, "distinct too big, 16mb cap")
	}
	return closeDoc(appendOK(b), start), nil
}

func parseDistinct(req *Request) (ns string, key path, q *question, err error) {
	if ns, err = namespace(req); err != nil {
		return "", path{}, nil, err
	}
	q = &question{batchSize: true}
	given := false
	err = eachOption("distinct", req.Body, func(name string, v value) (known bool, err error) {
		switch name {
		case "key":
			var s string
			if s, err = wantString("distinct.key", v); err == nil {
				given = true
				key, err = parsePath(s)
			}
		case "query":
			if v.isNull() {
				return true, nil
			}
			if q.raw, err = wantDocument("distinct.query", v); err == nil {
				q.filter, err = parseFilter(q.raw)
			}
		case "hint":
			if v.t != bson.TypeString && !v.isDocument() {
				return true, failure(codeFailedToParse, "hint must be either a string or nested object")
			}
			q.hint = v
		case "collation":
			err = checkCollation("distinct.collation", v)
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && !given {
		err = failure(codeMissingField, "BSON field 'distinct.key' is missing but a required field")
	}
	return ns, key, q, err
}

// eachValue calls use with every value at a path, the elements of arrays one
// by one.
func eachValue(doc []byte, parts []string, use func(value)) {
	v := lookup(doc, parts[0])
	rest := parts[1:]
	switch {
	case v.missing():
	case v.isArray():
		eachInArray(v.b, rest, use)
	case len(rest) == 0:
		use(v)
	case v.isDocument():
		eachValue(v.b, rest, use)
	}
}

func eachInArray(arr []byte, parts []string, use func(value)) {
	it := fieldsOf(arr)
	var e element
	if len(parts) == 0 {
		for it.next(&e) {
			use(e.value)
		}
		return
	}
	position, positional := arrayIndex(parts[0])
	for i := 0; it.next(&e); i++ {
		if e.isDocument() {
			eachValue(e.b, parts, use)
		}
		if !positional || i != position {
			continue
		}
		switch {
		case e.isArray():
			eachInArray(e.b, parts[1:], use)
		case len(parts) == 1:
			use(e.value)
		case e.isDocument():
			eachValue(e.b, parts[1:], use)
		}
	}
}
