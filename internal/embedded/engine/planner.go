package engine

import (
	"bytes"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

type accessKind uint8

const (
	collectionScan accessKind = iota
	indexScan
	idLookup    // EXPRESS_*, IDHACK: one key of the _id index
	expressScan // EXPRESS_IXSCAN on another index
)

// access says how to reach the documents that a filter asks for.
type access struct {
	kind      accessKind
	index     *index // its definition; a scan looks its tree up in the store
	bounds    [][]interval
	ranges    []keyRange
	backward  bool
	sorted    bool    // the documents come in the order asked for
	residual  *filter // what the index does not decide
	fullRange bool    // every key, for its order
}

// question is what the planner has to answer.
type question struct {
	filter *filter
	raw    []byte // the filter's document
	sort   keyPattern
	hint   value
	// What decides between the fast paths of MongoDB 8.
	limit      int64
	skip       int64
	batchSize  bool
	projection *projection
	write      bool // an update or delete; upserts do not take the express path
	upsert     bool
}

// plan chooses the access path: a lookup by _id; else the index whose leading
// fields the filter binds best, single values before ranges; else one that
// gives the order; else the collection. Of equals the index created first
// wins.
func (q *question) plan(s *store) (*access, error) {
	if !q.hint.missing() {
		return q.planHinted(s)
	}
	if key, ok := q.idEquality(); ok {
		a := &access{kind: idLookup, index: s.indexes[0], sorted: true}
		k := append(appendKey(make([]byte, 0, 32), key), endOfKey)
		a.ranges = []keyRange{{start: newEntry(k, 0), end: newEntry(append(k, afterKey), 0)}}
		return a, nil
	}
	predicates := q.predicates()
	if a := q.planExpress(s, predicates); a != nil {
		return a, nil
	}
	var best *index
	var bestScore score
	for _, ix := range s.indexes {
		if sc := q.score(ix, predicates); sc.bound > 0 && sc.betterThan(bestScore) {
			best, bestScore = ix, sc
		}
	}
	if best != nil {
		return q.scanIndex(best, predicates), nil
	}
	if len(q.sort) > 0 {
		for _, ix := range s.indexes {
			if ok, _ := providesSort(ix, nil, q.sort); ok {
				return q.scanIndex(ix, nil), nil
			}
		}
	}
	return q.scanCollection(), nil
}

func (q *question) scanCollection() *access {
	return &access{kind: collectionScan, residual: q.filter, sorted: len(q.sort) == 0}
}

func (q *question) planHinted(s *store) (*access, error) {
	ix, natural, err := hinted(s, q.hint)
	if err != nil {
		return nil, err
	}
	if natural != 0 {
		a := q.scanCollection()
		a.backward = natural < 0
		return a, nil
	}
	return q.scanIndex(ix, q.predicates()), nil
}

// hinted finds the index that a hint names or describes, or the direction of
// a $natural hint.
func hinted(s *store, hint value) (ix *index, natural int64, err error) {
	switch hint.t {
	case bson.TypeString:
		if ix := s.index(string(hint.str())); ix != nil {
			return ix, 0, nil
		}
	case bson.TypeEmbeddedDocument:
		if v := lookup(hint.b, "$natural"); !v.missing() {
			n, ok := v.integer()
			if !ok || n != 1 && n != -1 {
				return nil, 0, failure(codeBadValue, "$natural hint must be 1 or -1")
			}
			return nil, n, nil
		}
		for _, ix := range s.indexes {
			if compareDocuments(ix.keys, hint.b, true) == 0 {
				return ix, 0, nil
			}
		}
	default:
		return nil, 0, failure(codeFailedToParse, "Hint must be a string or an object")
	}
	return nil, 0, failure(codeBadValue, "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index")
}

// idEquality returns the _id when the filter is nothing but {_id: value} or
// {_id: {$eq: value}}.
func (q *question) idEquality() (value, bool) {
	f := q.filter
	if f == nil || f.op != opEq || f.path.name != "_id" || q.skip > 0 {
		return value{}, false
	}
	return f.operand, pointable(f.operand) && !f.operand.isNull()
}

// express reports whether MongoDB 8 takes its express path for a lookup by
// _id; where it does not, the lookup is an IDHACK.
func (q *question) express() bool {
	if q.write {
		return !q.upsert
	}
	return !q.batchSize && (q.projection == nil || q.projection.simple())
}

// planExpress finds the index for a lone equality that returns at most one
// document: by limit 1 or because the index is unique.
func (q *question) planExpress(s *store, predicates []*filter) *access {
	if q.write || !q.express() || len(q.sort) > 0 || q.skip > 0 || len(predicates) != 1 {
		return nil
	}
	f := predicates[0]
	if f != q.filter || f.op != opEq || !f.plannable() || f.operand.isNull() {
		return nil
	}
	var best *index
	for _, ix := range s.indexes {
		if ix.pattern[0].path.name != f.path.name || q.limit != 1 && (!ix.unique || len(ix.pattern) > 1) {
			continue
		}
		if best == nil || len(ix.pattern) < len(best.pattern) {
			best = ix
		}
	}
	if best == nil {
		return nil
	}
	a := q.scanIndex(best, predicates)
	a.kind = expressScan
	return a
}

// predicates returns the parts of the filter that must all hold.
func (q *question) predicates() []*filter {
	if q.filter == nil {
		return nil
	}
	if q.filter.op != opAnd {
		return []*filter{q.filter}
	}
	return flatten(nil, q.filter)
}

func flatten(dst []*filter, f *filter) []*filter {
	for _, c := range f.children {
		if c.op == opAnd {
			dst = flatten(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// score ranks an index for a query.
type score struct {
	bound  int // leading fields with bounds
	points int // of these, with single values
	sorts  bool
}

func (s score) betterThan(t score) bool {
	if s.points != t.points {
		return s.points > t.points
	}
	if s.bound != t.bound {
		return s.bound > t.bound
	}
	return s.sorts && !t.sorts
}

func (q *question) score(ix *index, predicates []*filter) score {
	var sc score
	single := make([]bool, 0, 8)
	combinations := 1
	for i := range ix.pattern {
		if !compounds(ix, i) {
			break
		}
		kind, count := fieldBinding(ix, i, predicates)
		if kind == unbound || !fits(i, &combinations, count) {
			break
		}
		sc.bound++
		single = append(single, kind == boundToPoints && count == 1)
		if kind == boundToRange {
			break
		}
		sc.points++
	}
	if len(q.sort) > 0 {
		sc.sorts, _ = providesSort(ix, single, q.sort)
	}
	return sc
}

// fits limits the combinations of values over several fields.
func fits(field int, combinations *int, count int) bool {
	if field > 0 && count > 0 && *combinations > maxPrefixes/count {
		return false
	}
	*combinations *= max(count, 1)
	return true
}

// compounds reports whether bounds on field i may be combined with those on
// the fields before it: not when both go through an array that they may
// share, since different elements may satisfy them.
func compounds(ix *index, i int) bool {
	if !ix.isMultikey(i) {
		return true
	}
	for j := range i {
		if ix.isMultikey(j) && ix.pattern[j].path.parts[0] == ix.pattern[i].path.parts[0] {
			return false
		}
	}
	return true
}

type binding uint8

const (
	unbound binding = iota
	boundToRange
	boundToPoints
)

// fieldBinding says how the predicates bind an index's field, and to how many
// single values at most.
func fieldBinding(ix *index, i int, predicates []*filter) (kind binding, count int) {
	name := ix.pattern[i].path.name
	for _, f := range predicates {
		if f.path.name != name || f.op < opEq || f.op > opIn || !f.plannable() {
			continue
		}
		if !f.isPoints() {
			kind = max(kind, boundToRange)
			continue
		}
		n := max(len(f.operands), 1)
		if kind != boundToPoints || n < count {
			kind, count = boundToPoints, n
		}
	}
	return kind, count
}

// scanIndex builds the scan of an index with the bounds that the predicates
// give.
func (q *question) scanIndex(ix *index, predicates []*filter) *access {
	a := &access{kind: indexScan, index: ix}
	decided := make([]bool, len(predicates))
	var single []bool
	combinations := 1
	for i := range ix.pattern {
		if !compounds(ix, i) {
			break
		}
		kind, count := fieldBinding(ix, i, predicates)
		if kind == unbound || !fits(i, &combinations, count) {
			break
		}
		iv := fieldIntervals(ix, i, predicates, decided)
		a.bounds = append(a.bounds, iv)
		points := !slices.ContainsFunc(iv, func(iv interval) bool { return !iv.single })
		single = append(single, points && len(iv) == 1)
		if !points {
			break
		}
	}
	if a.bounds == nil {
		a.fullRange = true
		a.bounds = [][]interval{{everything()}}
	}
	a.ranges = keyRanges(ix.pattern, a.bounds)
	a.sorted = len(q.sort) == 0
	if len(q.sort) > 0 {
		a.sorted, a.backward = providesSort(ix, single, q.sort)
	}
	a.residual = remaining(q.filter, predicates, decided)
	return a
}

// fieldIntervals returns the bounds of one field and marks the predicates
// that they decide. In a multikey index each element has a key of its own,
// so that only one predicate can be used: one for single values if possible.
func fieldIntervals(ix *index, i int, predicates []*filter, decided []bool) []interval {
	name := ix.pattern[i].path.name
	var out []interval
	chosen := -1
	for k, f := range predicates {
		if f.path.name != name || f.op < opEq || f.op > opIn || !f.plannable() {
			continue
		}
		if !ix.isMultikey(i) {
			iv, exact := f.intervals()
			if chosen >= 0 {
				iv = intersect(out, iv)
			}
			out, chosen, decided[k] = iv, k, exact
			continue
		}
		if chosen < 0 || f.isPoints() && !predicates[chosen].isPoints() {
			chosen = k
		}
	}
	if ix.isMultikey(i) {
		out, decided[chosen] = predicates[chosen].intervals()
	}
	return out
}

// remaining is the filter without the predicates that are decided.
func remaining(all *filter, predicates []*filter, decided []bool) *filter {
	if !slices.Contains(decided, true) {
		return all
	}
	var rest []*filter
	for i, f := range predicates {
		if !decided[i] {
			rest = append(rest, f)
		}
	}
	if rest == nil {
		return nil
	}
	return conjunction(rest)
}

// providesSort reports whether an index scan gives the order asked for, and
// whether it has to run backward. single marks the leading fields that are
// bound to one value: they may be left out of the sort, or appear anywhere in
// it.
func providesSort(ix *index, single []bool, sort keyPattern) (ok, backward bool) {
	fixed := func(p path) bool {
		for i := range single {
			if single[i] && !ix.isMultikey(i) && ix.pattern[i].path.name == p.name {
				return true
			}
		}
		return false
	}
	directed := false
	i := 0
	for _, s := range sort {
		if fixed(s.path) {
			continue
		}
		for i < len(ix.pattern) && i < len(single) && single[i] {
			i++
		}
		if i == len(ix.pattern) || ix.isMultikey(i) || ix.pattern[i].path.name != s.path.name {
			return false, false
		}
		b := ix.pattern[i].descending != s.descending
		if directed && b != backward {
			return false, false
		}
		directed, backward = true, b
		i++
	}
	return true, backward
}

// boundsText shows the bounds of an index's field as explain does.
func (a *access) boundsText(field int) []string {
	descending := a.index.pattern[field].descending != a.backward
	if field >= len(a.bounds) {
		if descending {
			return []string{"[MaxKey, MinKey]"}
		}
		return []string{"[MinKey, MaxKey]"}
	}
	var out []string
	for k := range a.bounds[field] {
		iv := a.bounds[field][ordered(k, len(a.bounds[field]), descending)]
		if descending {
			iv.lo, iv.hi, iv.loOpen, iv.hiOpen = iv.hi, iv.lo, iv.hiOpen, iv.loOpen
		}
		var b bytes.Buffer
		b.WriteByte("[("[btoi(iv.loOpen)])
		b.WriteString(shellText(iv.lo) + ", " + shellText(iv.hi))
		b.WriteByte("])"[btoi(iv.hiOpen)])
		out = append(out, b.String())
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
