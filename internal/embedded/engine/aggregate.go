package engine

import (
	"context"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const maxStages = 1000 // of a pipeline, as in MongoDB

// stream gives documents one after the other; false at the end.
type stream func() (bson.Raw, bool, error)

// stage is one step of a pipeline.
type stage struct {
	name string
	spec value
	// What the planner can take over, by name.
	filter     *filter
	sort       keyPattern
	number     int64
	projection *projection
	// run connects the stage to its input.
	run      func(ctx context.Context, in stream) stream
	returned int
}

func parseStage(v value) (*stage, error) {
	if !v.isDocument() || countElements(v.b) != 1 {
		return nil, failure(40323, "A pipeline stage specification object must contain exactly one field.")
	}
	it := fieldsOf(v.b)
	var e element
	it.next(&e)
	st := &stage{name: string(e.key), spec: e.value}
	var err error
	switch st.name {
	case "$match":
		err = st.parseMatch()
	case "$sort":
		err = st.parseSort()
	case "$limit", "$skip":
		err = st.parseNumber()
	case "$project":
		err = st.parseProject()
	case "$group":
		err = st.parseGroup()
	case "$count":
		err = st.parseCount()
	case "$unwind":
		err = st.parseUnwind()
	default:
		if knownStage(st.name) {
			return nil, notImplemented("the pipeline stage " + st.name)
		}
		return nil, failure(40324, "Unrecognized pipeline stage name: '%s'", st.name)
	}
	return st, err
}

func knownStage(name string) bool {
	switch name {
	case "$addFields", "$bucket", "$bucketAuto", "$changeStream", "$changeStreamSplitLargeEvent", "$collStats",
		"$currentOp", "$densify", "$documents", "$facet", "$fill", "$geoNear", "$graphLookup", "$indexStats",
		"$listLocalSessions", "$listSampledQueries", "$listSearchIndexes", "$listSessions", "$lookup", "$merge",
		"$out", "$planCacheStats", "$querySettings", "$queryStats", "$rankFusion", "$redact", "$replaceRoot",
		"$replaceWith", "$sample", "$search", "$searchMeta", "$set", "$setWindowFields", "$shardedDataDistribution",
		"$sortByCount", "$unionWith", "$unset", "$vectorSearch", "$scoreFusion", "$listClusterCatalog":
		return true
	}
	return false
}

func (st *stage) parseMatch() (err error) {
	if !st.spec.isDocument() {
		return failure(15959, "the match filter must be an expression in an object")
	}
	if st.filter, err = parseFilter(st.spec.b); err != nil {
		return err
	}
	st.run = func(_ context.Context, in stream) stream {
		return func() (bson.Raw, bool, error) {
			for {
				doc, ok, err := in()
				if !ok || err != nil || st.filter.matches(doc) {
					return doc, ok, err
				}
			}
		}
	}
	return nil
}

func (st *stage) parseSort() (err error) {
	if !st.spec.isDocument() {
		return failure(15973, "the $sort key specification must be an object")
	}
	if st.sort, err = parseSort(st.spec.b); err != nil {
		return err
	}
	if len(st.sort) == 0 {
		return failure(15976, "$sort stage must have at least one sort key")
	}
	st.run = func(_ context.Context, in stream) stream {
		return lazily(func() ([]bson.Raw, error) { return sortStream(st.sort, in) })
	}
	return nil
}

func sortStream(by keyPattern, in stream) ([]bson.Raw, error) {
	var items []sortItem
	var scratch keyList
	for {
		doc, ok, err := in()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		key, err := by.sortKey(doc, &scratch)
		if err != nil {
			return nil, err
		}
		items = append(items, sortItem{key: key, seq: len(items), doc: doc})
	}
	slices.SortFunc(items, sortItem.compare)
	out := make([]bson.Raw, len(items))
	for i, item := range items {
		out[i] = item.doc
	}
	return out, nil
}

// lazily computes documents when the first one is asked for.
func lazily(compute func() ([]bson.Raw, error)) stream {
	var docs []bson.Raw
	done := false
	return func() (bson.Raw, bool, error) {
		if !done {
			done = true
			var err error
			if docs, err = compute(); err != nil {
				return nil, false, err
			}
		}
		if len(docs) == 0 {
			return nil, false, nil
		}
		doc := docs[0]
		docs = docs[1:]
		return doc, true, nil
	}
}

func (st *stage) parseNumber() error {
	limit := st.name == "$limit"
	n, ok := st.spec.integer()
	switch {
	case !st.spec.isNumber() || !ok:
		code := int32(5107200)
		if limit {
			code = 5107201
		}
		return failure(code, "invalid argument to %s stage: Expected an integer: %s: %s", st.name, st.name, shellText(st.spec))
	case n < 0 && !limit:
		return failure(5107200, "invalid argument to $skip stage: Expected a non-negative number in: $skip: %d", n)
	case n < 0:
		return failure(5107201, "invalid argument to $limit stage: Expected a non-negative number in: $limit: %d", n)
	case n == 0 && limit:
		return failure(15958, "the limit must be positive")
	}
	st.number = n
	st.run = func(_ context.Context, in stream) stream {
		left := n
		return func() (bson.Raw, bool, error) {
			if limit {
				if left == 0 {
					return nil, false, nil
				}
				left--
				return in()
			}
			for ; left > 0; left-- {
				if doc, ok, err := in(); !ok || err != nil {
					return doc, ok, err
				}
			}
			return in()
		}
	}
	return nil
}

func (st *stage) parseProject() (err error) {
	if !st.spec.isDocument() {
		return failure(15969, "$project specification must be an object")
	}
	if isEmptyDocument(st.spec.b) {
		return failure(51272, "Invalid $project :: caused by :: projection specification must have at least one field")
	}
	if st.projection, err = parseProjection(st.spec.b); err != nil {
		return err
	}
	st.run = func(_ context.Context, in stream) stream {
		return func() (bson.Raw, bool, error) {
			doc, ok, err := in()
			if !ok || err != nil {
				return nil, false, err
			}
			return st.projection.appendTo(nil, doc), true, nil
		}
	}
	return nil
}

func (st *stage) parseGroup() error {
	g, err := parseGroup(st.spec)
	if err != nil {
		return err
	}
	st.run = func(_ context.Context, in stream) stream {
		return lazily(func() ([]bson.Raw, error) { return g.groups(in) })
	}
	return nil
}

func (st *stage) parseCount() error {
	name := ""
	if st.spec.t == bson.TypeString {
		name = string(st.spec.str())
	}
	switch {
	case st.spec.t != bson.TypeString || name == "":
		return failure(40156, "the count field must be a non-empty string")
	case name[0] == '$':
		return failure(40158, "the count field cannot be a $-prefixed path")
	case strings.ContainsRune(name, 0):
		return failure(40159, "the count field cannot contain a null byte")
	case strings.Contains(name, "."):
		return failure(40160, "the count field cannot contain '.'")
	}
	st.run = func(_ context.Context, in stream) stream {
		return lazily(func() ([]bson.Raw, error) {
			n := int64(0)
			for {
				_, ok, err := in()
				if err != nil {
					return nil, err
				}
				if !ok {
					break
				}
				n++
			}
			if n == 0 {
				return nil, nil
			}
			start, b := openDoc(nil)
			return []bson.Raw{closeDoc(appendCount(b, name, n), start)}, nil
		})
	}
	return nil
}

// unwind is a parsed $unwind.
type unwind struct {
	parts    []string
	position string // includeArrayIndex
	preserve bool
}

func (st *stage) parseUnwind() error {
	u := &unwind{}
	v := st.spec
	if v.isDocument() {
		it := fieldsOf(v.b)
		var e element
		path := value{}
		for it.next(&e) {
			switch name := string(e.key); name {
			case "path":
				path = e.value
			case "includeArrayIndex":
				if e.t != bson.TypeString || len(e.str()) == 0 || e.str()[0] == '$' {
					return failure(28810, "expected a non-empty string for the includeArrayIndex  option to $unwind stage")
				}
				if u.position = string(e.str()); strings.Contains(u.position, ".") {
					return notImplemented("a dotted includeArrayIndex")
				}
			case "preserveNullAndEmptyArrays":
				if e.t != bson.TypeBoolean {
					return failure(28809, "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got %s", typeName(e.t))
				}
				u.preserve = e.boolean()
			default:
				return failure(28811, "unrecognized option to $unwind stage: %s", name)
			}
		}
		v = path
	}
	switch {
	case v.missing():
		return failure(28812, "no path specified to $unwind stage")
	case v.t != bson.TypeString:
		return failure(28808, "expected a string as the path for $unwind stage, got %s", typeName(v.t))
	case len(v.str()) < 2 || v.str()[0] != '$':
		return failure(28818, "path option to $unwind stage should be prefixed with a '$': %s", v.str())
	}
	x, err := parseFieldPath(string(v.str()))
	if err != nil {
		return err
	}
	if x.parts == nil {
		return failure(28818, "path option to $unwind stage should be a field path: %s", v.str())
	}
	u.parts = x.parts
	st.run = func(_ context.Context, in stream) stream { return u.run(in) }
	return nil
}

func (u *unwind) run(in stream) stream {
	var doc bson.Raw
	var rest fields
	open := false
	at := 0
	return func() (bson.Raw, bool, error) {
		for {
			var e element
			if open && rest.next(&e) {
				at++
				return u.with(doc, e.value, int64(at-1)), true, nil
			}
			var ok bool
			var err error
			if doc, ok, err = in(); !ok || err != nil {
				return nil, false, err
			}
			open = false
			v, left := get(doc, u.parts)
			switch {
			case v.isArray() && len(left) == 0 && !isEmptyDocument(v.b):
				rest, open, at = fieldsOf(v.b), true, 0
			case v.isArray() && len(left) == 0: // empty
				if u.preserve {
					return u.with(doc, value{}, -1), true, nil
				}
			case v.isArray() || v.missing() || v.isNull() || v.t == bson.TypeUndefined:
				if u.preserve {
					return u.with(doc, v, -1), true, nil
				}
			default:
				return u.with(doc, v, -1), true, nil
			}
		}
	}
}

// with returns the document with v at the path; a position of -1 is null. A
// missing v takes the field away, unless there was none.
func (u *unwind) with(doc bson.Raw, v value, position int64) bson.Raw {
	out := setPath(nil, doc, u.parts, v)
	if u.position == "" {
		return out
	}
	at := nullValue()
	if position >= 0 {
		at = int64Value(position)
	}
	return setPath(nil, out, []string{u.position}, at)
}

// setPath copies a document with one field replaced, or taken away when v is
// missing. Below an array nothing changes.
func setPath(dst, doc []byte, parts []string, v value) []byte {
	start, dst := openDoc(dst)
	it := fieldsOf(doc)
	var e element
	found := false
	for it.next(&e) {
		switch {
		case found || string(e.key) != parts[0]:
			dst = appendElement(dst, e)
			continue
		case len(parts) == 1 && !v.missing():
			dst = appendField(dst, parts[0], v)
		case len(parts) == 1:
		case e.isDocument():
			dst = setPath(appendHeader(dst, e.t, parts[0]), e.b, parts[1:], v)
		default:
			dst = appendElement(dst, e)
		}
		found = true
	}
	if !found && len(parts) == 1 && !v.missing() {
		dst = appendField(dst, parts[0], v)
	}
	return closeDoc(dst, start)
}

// pipeline is a parsed aggregate: what the planner takes over, and the stages
// that are left.
type pipeline struct {
	ns       string
	question question
	stages   []*stage
	explain  bool
	batch    int64
}

func parseAggregate(req *Request, body []byte, explaining bool) (*pipeline, error) {
	if n, ok := firstValue(body).integer(); ok {
		if n == 1 {
			return nil, notImplemented("an aggregation of a whole database")
		}
		return nil, failure(codeFailedToParse, "Invalid command format: the 'aggregate' field must specify a collection name or 1")
	}
	ns, err := namespace(&Request{Database: req.Database, Body: body})
	if err != nil {
		return nil, err
	}
	p := &pipeline{ns: ns, batch: defaultBatch}
	hasPipeline, hasCursor := false, false
	err = eachOption("aggregate", body, func(name string, v value) (known bool, err error) {
		field := "aggregate." + name
		switch name {
		case "pipeline":
			hasPipeline = true
			err = p.parseStages(v)
		case "cursor":
			hasCursor = true
			if !v.isDocument() {
				return true, failure(codeTypeMismatch, "cursor field must be missing or an object")
			}
			p.batch, err = cursorBatch(field, v, defaultBatch)
		case "explain":
			p.explain, err = wantBool(field, v)
		case "hint":
			p.question.hint, err = wantHint(v)
		case "allowDiskUse", "bypassDocumentValidation":
			_, err = wantBool(field, v)
		case "collation":
			err = checkCollation(field, v)
		case "let":
			err = checkLet(field, v)
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return nil, err
	case !hasPipeline:
		return nil, failure(codeMissingField, "BSON field 'aggregate.pipeline' is missing but a required field")
	case !hasCursor && !p.explain && !explaining:
		return nil, failure(codeFailedToParse, "The 'cursor' option is required, except for aggregate with the explain argument")
	}
	p.absorb()
	return p, nil
}

func (p *pipeline) parseStages(v value) error {
	if !v.isArray() {
		return failure(codeTypeMismatch, "'pipeline' option must be specified as an array")
	}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		if !e.isDocument() {
			return failure(codeTypeMismatch, "Each element of the 'pipeline' array must be an object")
		}
		st, err := parseStage(e.value)
		if err != nil {
			return err
		}
		if p.stages = append(p.stages, st); len(p.stages) > maxStages {
			return failure(7749501, "Pipeline length must be no longer than %d stages", maxStages)
		}
	}
	return nil
}

// absorb moves leading stages into the query that feeds the pipeline: $match,
// $sort, $skip, $limit and $project, in this order, each at most once.
func (p *pipeline) absorb() {
	q := &p.question
	take := func(name string) *stage {
		if len(p.stages) == 0 || p.stages[0].name != name {
			return nil
		}
		st := p.stages[0]
		p.stages = p.stages[1:]
		return st
	}
	if st := take("$match"); st != nil {
		q.filter, q.raw = st.filter, st.spec.b
	}
	if st := take("$sort"); st != nil {
		q.sort = st.sort
	}
	if st := take("$skip"); st != nil {
		q.skip = st.number
	}
	if st := take("$limit"); st != nil {
		q.limit = st.number
	}
	if st := take("$project"); st != nil {
		q.projection = st.projection
	}
}

// connect returns the output of the pipeline over the results of its query;
// nil results are a collection that does not exist.
func (p *pipeline) connect(ctx context.Context, r *results) stream {
	in := func() (bson.Raw, bool, error) {
		if r == nil {
			return nil, false, nil
		}
		_, doc, ok, err := r.next()
		if ok && r.projection != nil && !r.early {
			doc = r.projection.appendTo(nil, doc)
		}
		return doc, ok, err
	}
	out := stream(in)
	for _, st := range p.stages {
		next := st.run(ctx, out)
		out = func() (bson.Raw, bool, error) {
			doc, ok, err := next()
			if ok {
				st.returned++
			}
			return doc, ok, err
		}
	}
	return out
}

func (e *Engine) aggregate(ctx context.Context, req *Request) (bson.Raw, error) {
	p, err := parseAggregate(req, req.Body, false)
	if err != nil {
		return nil, err
	}
	if p.explain {
		return e.explainCommand(ctx, req, req.Body, verbosityPlanner)
	}
	var out list
	err = e.read(req, p.ns, func(s *store, _ func() *store) error {
		var r *results
		if s != nil {
			if r, err = p.question.open(ctx, s); err != nil {
				return err
			}
		}
		next := p.connect(ctx, r)
		for steps := 1; ; steps++ {
			if steps%checkEvery == 0 {
				if err := interrupted(ctx); err != nil {
					return err
				}
			}
			doc, ok, err := next()
			if err != nil {
				return err
			}
			if !ok {
				return nil
			}
			if len(doc) > maxDocumentSize {
				return failure(codeObjectTooLarge, "BSONObj size: %d is invalid. Size must be between 0 and %d", len(doc), maxDocumentSize)
			}
			out.docs = append(out.docs, doc)
		}
	})
	if err != nil {
		return nil, err
	}
	return e.reply(p.ns, &out, p.batch, false)
}
