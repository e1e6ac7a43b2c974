package engine

import (
	"bytes"
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

type verbosity uint8

const (
	verbosityPlanner verbosity = iota
	verbosityStats
	verbosityAll
)

func (e *Engine) explain(ctx context.Context, req *Request) (bson.Raw, error) {
	inner := firstValue(req.Body)
	if !inner.isDocument() {
		return nil, wrongType("explain.explain", inner, "object")
	}
	verbose := verbosityAll
	err := eachOption("explain", req.Body, func(name string, v value) (bool, error) {
		if name != "verbosity" {
			return false, nil
		}
		s, err := wantString("explain.verbosity", v)
		if err != nil {
			return true, err
		}
		switch s {
		case "queryPlanner":
			verbose = verbosityPlanner
		case "executionStats":
			verbose = verbosityStats
		case "allPlansExecution":
		default:
			return true, failure(codeBadValue, "Enumeration value '%s' for field 'explain.verbosity' is not a valid value.", s)
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return e.explainCommand(ctx, req, inner.b, verbose)
}

// explanation is a command to explain: its query, and what it would do with
// the documents.
type explanation struct {
	ns       string
	question *question
	finish   finish
	// Of writes.
	update  *update
	upsert  bool
	stages  []*stage // of an aggregation, after the query
	connect func(context.Context, *results) stream
}

// finish is the stage on top of the query.
type finish string

const (
	finishNone    finish = ""
	finishCount   finish = "COUNT"
	finishUpdate  finish = "UPDATE"
	finishDelete  finish = "DELETE"
	finishDeletes finish = "BATCHED_DELETE"
)

// explainCommand explains the command in body, without its effects.
func (e *Engine) explainCommand(ctx context.Context, req *Request, body []byte, verbose verbosity) (bson.Raw, error) {
	inner := &Request{Database: req.Database, Body: body}
	it := fieldsOf(body)
	var first element
	if !it.next(&first) {
		return nil, failure(codeCommandNotFound, "Explain failed due to unknown command: ")
	}
	inner.Name = string(first.key)
	x, err := parseExplained(inner)
	if err != nil {
		return nil, err
	}
	start, b := openDoc(make([]byte, 0, 2048))
	b = appendString(b, "explainVersion", "1")
	err = e.read(&Request{}, x.ns, func(s *store, _ func() *store) error {
		ran, err := x.run(ctx, s, verbose)
		if err != nil {
			return err
		}
		if len(x.stages) == 0 {
			b = x.appendPlan(b, s, ran, verbose)
			return nil
		}
		b = x.appendStages(b, s, ran, verbose)
		return nil
	})
	if err != nil {
		return nil, err
	}
	cmd, b := openSub(b, bson.TypeEmbeddedDocument, "command")
	it = fieldsOf(body)
	for it.next(&first) {
		if !generic(string(first.key)) {
			b = appendElement(b, first)
		}
	}
	b = closeDoc(appendString(b, "$db", req.Database), cmd)
	return closeDoc(appendOK(b), start), nil
}

func parseExplained(req *Request) (*explanation, error) {
	x := &explanation{}
	switch req.Name {
	case "find":
		f, err := parseFind(req.Database, req.Body)
		if err != nil {
			return nil, err
		}
		x.ns, x.question = f.ns, &f.question
	case "count":
		ns, q, err := parseCount(req)
		if err != nil {
			return nil, err
		}
		x.ns, x.question, x.finish = ns, q, finishCount
	case "distinct":
		ns, _, q, err := parseDistinct(req)
		if err != nil {
			return nil, err
		}
		x.ns, x.question = ns, q
	case "aggregate":
		p, err := parseAggregate(req, req.Body, true)
		if err != nil {
			return nil, err
		}
		x.ns, x.question, x.stages, x.connect = p.ns, &p.question, p.stages, p.connect
	case "update", "delete":
		return x, x.parseWrite(req)
	case "findAndModify", "findandmodify":
		f, err := parseFindAndModify(req)
		if err != nil {
			return nil, err
		}
		x.ns, x.question, x.finish = f.ns, &f.statement.question, finishDelete
		if !f.remove {
			x.finish, x.update, x.upsert = finishUpdate, f.statement.update, f.statement.upsert
		}
	default:
		return nil, failure(codeCommandNotFound, "Explain failed due to unknown command: %s", req.Name)
	}
	return x, nil
}

func (x *explanation) parseWrite(req *Request) error {
	field := "updates"
	if req.Name == "delete" {
		field = "deletes"
	}
	ns, docs, _, err := parseWrite(req, field)
	if err != nil {
		return err
	}
	if len(docs) != 1 {
		return failure(codeInvalidLength, "explained write batches must be of size 1")
	}
	x.ns = ns
	if req.Name == "delete" {
		s, err := parseDeleteStatement(docs[0])
		if err != nil {
			return err
		}
		x.question, x.finish = &s.question, finishDelete
		if s.multi {
			x.finish = finishDeletes
		}
		return s.err
	}
	s, err := parseUpdateStatement(docs[0])
	if err != nil {
		return err
	}
	x.question, x.finish, x.update, x.upsert = &s.question, finishUpdate, s.update, s.upsert
	return s.err
}

// execution is a plan, and what it did if it ran.
type execution struct {
	a        *access
	r        *results
	input    int // documents that the query gave
	modified int // of an update
	took     time.Duration
}

// run plans the query and, unless only the plan is asked for, executes it
// without its effects.
func (x *explanation) run(ctx context.Context, s *store, verbose verbosity) (*execution, error) {
	if s == nil {
		return &execution{}, nil
	}
	began := time.Now()
	r, err := x.question.open(ctx, s)
	if err != nil {
		return nil, err
	}
	ran := &execution{a: r.sc.a, r: r}
	if verbose == verbosityPlanner {
		return ran, nil
	}
	defer func() { ran.took = time.Since(began) }()
	if x.finish == finishCount && x.question.filter == nil && x.question.hint.missing() {
		ran.input = int(countAll(s, x.question))
		return ran, nil
	}
	if len(x.stages) > 0 {
		out := x.connect(ctx, r)
		for {
			if _, ok, err := out(); !ok || err != nil {
				ran.input = int(r.returned)
				return ran, err
			}
		}
	}
	for {
		_, doc, ok, err := r.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return ran, nil
		}
		ran.input++
		if x.update != nil {
			changed, err := x.update.apply(doc, false)
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(changed, doc) {
				ran.modified++
			}
		}
	}
}

// appendPlan appends the fields queryPlanner and executionStats.
func (x *explanation) appendPlan(dst []byte, s *store, ran *execution, verbose verbosity) []byte {
	start, dst := openSub(dst, bson.TypeEmbeddedDocument, "queryPlanner")
	dst = appendString(dst, "namespace", x.ns)
	parsed, dst := openSub(dst, bson.TypeEmbeddedDocument, "parsedQuery")
	dst = closeDoc(appendFilter(dst, x.question.filter), parsed)
	dst = appendBool(dst, "indexFilterSet", false)
	dst = appendInt32(dst, "optimizationTimeMillis", 0)
	dst = appendBool(dst, "maxIndexedOrSolutionsReached", false)
	dst = appendBool(dst, "maxIndexedAndSolutionsReached", false)
	dst = appendBool(dst, "maxScansToExplodeReached", false)
	dst = appendBool(dst, "prunedSimilarIndexes", false)
	plan, dst := openSub(dst, bson.TypeEmbeddedDocument, "winningPlan")
	dst = appendBool(dst, "isCached", false)
	dst = closeDoc(x.appendNodes(dst, x.nodes(s, ran), false), plan)
	dst = closeDoc(appendField(dst, "rejectedPlans", arrayValue(nil)), start)
	if verbose == verbosityPlanner {
		return dst
	}
	nodes := x.nodes(s, ran)
	start, dst = openSub(dst, bson.TypeEmbeddedDocument, "executionStats")
	dst = appendBool(dst, "executionSuccess", true)
	dst = appendInt32(dst, "nReturned", nodes[0].returned)
	dst = appendInt32(dst, "executionTimeMillis", int(ran.took.Milliseconds()))
	keys, docs := 0, 0
	if ran.r != nil {
		keys, docs = ran.r.sc.keysExamined, ran.r.sc.docsExamined
	}
	dst = appendInt32(dst, "totalKeysExamined", keys)
	dst = appendInt32(dst, "totalDocsExamined", docs)
	plan, dst = openSub(dst, bson.TypeEmbeddedDocument, "executionStages")
	if nodes[0].express {
		dst = appendBool(dst, "isCached", false)
	}
	dst = closeDoc(x.appendNodes(dst, nodes, true), plan)
	if verbose == verbosityAll {
		dst = appendField(dst, "allPlansExecution", arrayValue(nil))
	}
	return closeDoc(dst, start)
}

// appendStages appends an aggregation whose query is only its first part.
func (x *explanation) appendStages(dst []byte, s *store, ran *execution, verbose verbosity) []byte {
	arr, dst := openSub(dst, bson.TypeArray, "stages")
	first, dst := openDoc(appendIndexHeader(dst, bson.TypeEmbeddedDocument, 0))
	cursor, dst := openSub(dst, bson.TypeEmbeddedDocument, "$cursor")
	dst = closeDoc(x.appendPlan(dst, s, ran, verbose), cursor)
	if verbose != verbosityPlanner {
		dst = appendInt64(dst, "nReturned", int64(ran.input))
		dst = appendInt64(dst, "executionTimeMillisEstimate", ran.took.Milliseconds())
	}
	dst = closeDoc(dst, first)
	for i, st := range x.stages {
		var start int
		start, dst = openDoc(appendIndexHeader(dst, bson.TypeEmbeddedDocument, i+1))
		dst = appendField(dst, st.name, st.spec)
		if verbose != verbosityPlanner {
			dst = appendInt64(dst, "nReturned", int64(st.returned))
			dst = appendInt64(dst, "executionTimeMillisEstimate", ran.took.Milliseconds())
		}
		dst = closeDoc(dst, start)
	}
	return closeDoc(dst, arr)
}

// node is a stage of a plan, as explain shows it.
type node struct {
	name     string
	express  bool
	returned int
	works    int
	eof      bool
	plan     func(dst []byte) []byte // fields of the plan
	stats    func(dst []byte) []byte // fields of the execution
}

// appendNodes appends the stages, the topmost first, each the input of the
// one before.
func (x *explanation) appendNodes(dst []byte, nodes []node, stats bool) []byte {
	n := nodes[0]
	dst = appendString(dst, "stage", n.name)
	if n.plan != nil && n.express {
		dst = n.plan(dst)
	}
	if stats {
		dst = appendInt32(dst, "nReturned", n.returned)
		dst = appendInt32(dst, "executionTimeMillisEstimate", 0)
		if !n.express {
			dst = appendInt32(dst, "works", n.works)
			dst = appendInt32(dst, "advanced", n.returned)
			dst = appendInt32(dst, "needTime", max(n.works-n.returned-btoi(n.eof), 0))
			dst = appendInt32(dst, "needYield", 0)
			dst = appendInt32(dst, "saveState", 0)
			dst = appendInt32(dst, "restoreState", 0)
			dst = appendInt32(dst, "isEOF", btoi(n.eof))
		}
	}
	if n.plan != nil && !n.express {
		dst = n.plan(dst)
	}
	if stats && n.stats != nil {
		dst = n.stats(dst)
	}
	if len(nodes) > 1 {
		start, b := openSub(dst, bson.TypeEmbeddedDocument, "inputStage")
		dst = closeDoc(x.appendNodes(b, nodes[1:], stats), start)
	}
	return dst
}

// nodes returns the plan's stages, the topmost first.
func (x *explanation) nodes(s *store, ran *execution) []node {
	q, a, r := x.question, ran.a, ran.r
	if s == nil {
		return x.topped([]node{{name: "EOF", works: 1, eof: true}}, ran)
	}
	if x.finish == finishCount && q.filter == nil && q.hint.missing() {
		return []node{{name: "RECORD_STORE_FAST_COUNT", works: 1, eof: true, stats: func(dst []byte) []byte {
			dst = appendInt32(dst, "nCounted", ran.input)
			return appendCount(dst, "nSkipped", q.skip)
		}}}
	}
	if a.kind == idLookup || a.kind == expressScan {
		if a.kind == expressScan || q.express() {
			return []node{x.expressNode(ran)}
		}
		id := node{name: "IDHACK", returned: r.sc.returned, works: 2, eof: true, stats: func(dst []byte) []byte {
			dst = appendInt32(dst, "keysExamined", r.sc.keysExamined)
			return appendInt32(dst, "docsExamined", r.sc.docsExamined)
		}}
		return x.topped([]node{id}, ran)
	}
	nodes := scanNodes(ran)
	if q.projection != nil && r.early {
		nodes = prepend(nodes, projectionNodeOf(q, nodes[0].returned, nodes[0].eof))
	}
	if r.sort != nil {
		nodes = prepend(nodes, sortNode(q, r, nodes[0]))
	}
	if q.skip > 0 {
		nodes = prepend(nodes, node{name: "SKIP", returned: int(r.returned), works: nodes[0].works, eof: true, plan: func(dst []byte) []byte {
			return appendCount(dst, "skipAmount", q.skip)
		}})
	}
	return x.topped(nodes, ran)
}

func prepend(nodes []node, n node) []node { return append([]node{n}, nodes...) }

// topped adds the stages above the sort: the projection, the limit, and what
// the command does with the documents.
func (x *explanation) topped(nodes []node, ran *execution) []node {
	q, r := x.question, ran.r
	returned := 0
	if r != nil {
		returned = int(r.returned)
	}
	if q.projection != nil && (r == nil || !r.early) {
		nodes = prepend(nodes, projectionNodeOf(q, returned, nodes[0].eof))
	}
	if q.limit > 0 && x.finish == finishNone && (r == nil || r.sort == nil) && nodes[len(nodes)-1].name != "IDHACK" && r != nil {
		nodes = prepend(nodes, node{name: "LIMIT", returned: returned, works: returned + 1, eof: true, plan: func(dst []byte) []byte {
			return appendCount(dst, "limitAmount", q.limit)
		}})
	}
	if x.finish != finishNone {
		nodes = prepend(nodes, node{name: string(x.finish), works: nodes[0].works + 1, eof: true, stats: func(dst []byte) []byte {
			return x.appendFinish(dst, ran)
		}})
	}
	return nodes
}

func (x *explanation) appendFinish(dst []byte, ran *execution) []byte {
	switch x.finish {
	case finishCount:
		dst = appendInt32(dst, "nCounted", ran.input)
		return appendCount(dst, "nSkipped", x.question.skip)
	case finishUpdate:
		dst = appendInt32(dst, "nMatched", ran.input)
		dst = appendInt32(dst, "nWouldModify", ran.modified)
		return appendInt32(dst, "nWouldUpsert", btoi(x.upsert && ran.input == 0))
	}
	return appendInt32(dst, "nWouldDelete", ran.input)
}

func (x *explanation) expressNode(ran *execution) node {
	q, a, r := x.question, ran.a, ran.r
	n := node{name: "EXPRESS_IXSCAN", express: true, returned: int(r.returned)}
	switch x.finish {
	case finishUpdate:
		n.name, n.returned = "EXPRESS_UPDATE", 0
	case finishDelete, finishDeletes:
		n.name, n.returned = "EXPRESS_DELETE", 0
	}
	n.plan = func(dst []byte) []byte {
		dst = appendString(dst, "keyPattern", shellText(documentValue(a.index.keys)))
		dst = appendString(dst, "indexName", a.index.name)
		if q.projection != nil {
			dst = appendDoc(dst, "projection", q.projection.spec)
			dst = appendBool(dst, "projectionCovered", false)
		}
		return dst
	}
	n.stats = func(dst []byte) []byte {
		dst = appendInt32(dst, "keysExamined", r.sc.keysExamined)
		dst = appendInt32(dst, "docsExamined", r.sc.docsExamined)
		if x.finish != finishNone {
			dst = x.appendFinish(dst, ran)
		}
		return dst
	}
	return n
}

// scanNodes returns FETCH over IXSCAN, or COLLSCAN.
func scanNodes(ran *execution) []node {
	a, sc := ran.a, ran.r.sc
	direction := "forward"
	if a.backward {
		direction = "backward"
	}
	appendResidual := func(dst []byte) []byte {
		if a.residual == nil {
			return dst
		}
		start, dst := openSub(dst, bson.TypeEmbeddedDocument, "filter")
		return closeDoc(appendFilter(dst, a.residual), start)
	}
	if a.kind == collectionScan {
		return []node{{
			name: "COLLSCAN", returned: sc.returned, works: sc.docsExamined + 1, eof: sc.eof,
			plan:  func(dst []byte) []byte { return appendString(appendResidual(dst), "direction", direction) },
			stats: func(dst []byte) []byte { return appendInt32(dst, "docsExamined", sc.docsExamined) },
		}}
	}
	fetch := node{
		name: "FETCH", returned: sc.returned, works: sc.keysExamined + btoi(sc.eof), eof: sc.eof, plan: appendResidual,
		stats: func(dst []byte) []byte {
			dst = appendInt32(dst, "docsExamined", sc.docsExamined)
			return appendInt32(dst, "alreadyHasObj", 0)
		},
	}
	scan := node{
		name: "IXSCAN", returned: sc.fromIndex, works: sc.keysExamined + btoi(sc.eof), eof: sc.eof,
		plan: func(dst []byte) []byte { return a.appendIndex(dst, direction) },
		stats: func(dst []byte) []byte {
			dst = appendInt32(dst, "keysExamined", sc.keysExamined)
			dst = appendInt32(dst, "seeks", sc.seeks)
			dst = appendInt32(dst, "dupsTested", len(sc.seen))
			return appendInt32(dst, "dupsDropped", 0)
		},
	}
	return []node{fetch, scan}
}

func (a *access) appendIndex(dst []byte, direction string) []byte {
	ix := a.index
	dst = appendDoc(dst, "keyPattern", ix.keys)
	dst = appendString(dst, "indexName", ix.name)
	dst = appendBool(dst, "isMultiKey", ix.multikey != 0)
	paths, dst := openSub(dst, bson.TypeEmbeddedDocument, "multiKeyPaths")
	for i, f := range ix.pattern {
		var through []value
		if ix.isMultikey(i) {
			through = []value{stringValue(f.path.name)}
		}
		dst = appendField(dst, f.path.name, arrayValue(through))
	}
	dst = closeDoc(dst, paths)
	dst = appendBool(dst, "isUnique", ix.unique)
	dst = appendBool(dst, "isSparse", false)
	dst = appendBool(dst, "isPartial", false)
	dst = appendInt32(dst, "indexVersion", 2)
	dst = appendString(dst, "direction", direction)
	bounds, dst := openSub(dst, bson.TypeEmbeddedDocument, "indexBounds")
	for i, f := range ix.pattern {
		var texts []value
		for _, text := range a.boundsText(i) {
			texts = append(texts, stringValue(text))
		}
		dst = appendField(dst, f.path.name, arrayValue(texts))
	}
	return closeDoc(dst, bounds)
}

func projectionNodeOf(q *question, returned int, eof bool) node {
	n := node{name: "PROJECTION_DEFAULT", returned: returned, works: returned + btoi(eof), eof: eof}
	if q.projection.simple() {
		n.name = "PROJECTION_SIMPLE"
	}
	n.plan = func(dst []byte) []byte { return appendDoc(dst, "transformBy", q.projection.spec) }
	return n
}

func sortNode(q *question, r *results, input node) node {
	returned := int(r.returned + r.skipped)
	return node{
		name: "SORT", returned: returned, works: input.works + returned, eof: true,
		plan: func(dst []byte) []byte {
			start, dst := openSub(dst, bson.TypeEmbeddedDocument, "sortPattern")
			for _, f := range q.sort {
				dst = appendInt32(dst, f.path.name, 1-2*btoi(f.descending))
			}
			dst = closeDoc(dst, start)
			dst = appendInt32(dst, "memLimit", 100<<20)
			if q.limit > 0 {
				dst = appendCount(dst, "limitAmount", q.limit+q.skip)
			}
			return appendString(dst, "type", "simple")
		},
		stats: func(dst []byte) []byte {
			dst = appendBool(dst, "usedDisk", false)
			return appendInt32(dst, "spills", 0)
		},
	}
}
