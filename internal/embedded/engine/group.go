package engine

import (
	"math"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// groupSpec is a parsed $group.
type groupSpec struct {
	id     *expression
	fields []accumulatorSpec
}

type accumulatorSpec struct {
	name string
	op   string
	expr *expression
}

func parseGroup(v value) (*groupSpec, error) {
	if !v.isDocument() {
		return nil, failure(15947, "a group's fields must be specified in an object")
	}
	g := &groupSpec{}
	it := fieldsOf(v.b)
	var e element
	for it.next(&e) {
		name := string(e.key)
		if name == "_id" {
			if g.id != nil {
				return nil, failure(15948, "a group's _id may only be specified once")
			}
			var err error
			if g.id, err = parseExpression(e.value); err != nil {
				return nil, err
			}
			continue
		}
		a, err := parseAccumulator(name, e.value)
		if err != nil {
			return nil, err
		}
		g.fields = append(g.fields, a)
	}
	if g.id == nil {
		return nil, failure(15955, "a group specification must include an _id")
	}
	return g, nil
}

func parseAccumulator(name string, v value) (accumulatorSpec, error) {
	var none accumulatorSpec
	switch {
	case strings.Contains(name, "."):
		return none, failure(40235, "The field name '%s' cannot contain '.'", name)
	case strings.HasPrefix(name, "$"):
		return none, failure(40236, "The field name '%s' cannot be an operator name", name)
	case !v.isDocument() || isEmptyDocument(v.b):
		return none, failure(40234, "The field '%s' must be an accumulator object", name)
	case countElements(v.b) != 1:
		return none, failure(40238, "The field '%s' must specify one accumulator", name)
	}
	it := fieldsOf(v.b)
	var e element
	it.next(&e)
	op := string(e.key)
	switch op {
	case "$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet":
	case "$count":
		if !e.isDocument() || !isEmptyDocument(e.b) {
			return none, failure(codeTypeMismatch, "$count takes no arguments, i.e. $count:{}")
		}
		return accumulatorSpec{name, "$sum", &expression{constant: int32Value(1)}}, nil
	case "$accumulator", "$bottom", "$bottomN", "$firstN", "$lastN", "$maxN", "$median", "$mergeObjects", "$minN",
		"$percentile", "$stdDevPop", "$stdDevSamp", "$top", "$topN", "$concatArrays", "$setUnion":
		return none, notImplemented("the accumulator " + op)
	default:
		return none, failure(15952, "unknown group operator '%s'", op)
	}
	if e.isArray() {
		return none, failure(40237, "The %s accumulator is a unary operator", op)
	}
	x, err := parseExpression(e.value)
	return accumulatorSpec{name, op, x}, err
}

// accumulator is the state of one field of one group.
type accumulator struct {
	spec   *accumulatorSpec
	sum    total
	count  int64
	best   value
	values []value
	seen   map[string]struct{}
}

func (a *accumulator) add(doc []byte) error {
	v := a.spec.expr.eval(doc)
	switch a.spec.op {
	case "$sum", "$avg":
		if !v.isNumber() {
			return nil
		}
		if v.t == bson.TypeDecimal128 {
			return notImplemented(a.spec.op + " of a decimal")
		}
		a.sum.add(v)
		a.count++
	case "$min", "$max":
		if v.missing() || v.isNull() || v.t == bson.TypeUndefined {
			return nil
		}
		c := 0
		if !a.best.missing() {
			c = compare(v, a.best)
		}
		if a.best.missing() || a.spec.op == "$min" && c < 0 || a.spec.op == "$max" && c > 0 {
			a.best = v
		}
	case "$first":
		if a.count == 0 {
			a.best = v
		}
		a.count++
	case "$last":
		a.best = v
	case "$push":
		if !v.missing() {
			a.values = append(a.values, v)
		}
	case "$addToSet":
		if v.missing() {
			return nil
		}
		if a.seen == nil {
			a.seen = map[string]struct{}{}
		}
		k := string(appendKey(nil, v))
		if _, double := a.seen[k]; !double {
			a.seen[k] = struct{}{}
			a.values = append(a.values, v)
		}
	}
	return nil
}

func (a *accumulator) result() value {
	switch a.spec.op {
	case "$sum":
		return a.sum.value()
	case "$avg":
		if a.count == 0 {
			return nullValue()
		}
		return doubleValue(a.sum.float() / float64(a.count))
	case "$push", "$addToSet":
		return arrayValue(a.values)
	}
	if a.best.missing() {
		return nullValue()
	}
	return a.best
}

// total adds numbers: as integers while they fit, and as doubles with the
// rounding error carried along (Neumaier's variant of Kahan summation).
type total struct {
	integer  int64
	spilled  bool // the integers left the range of an int64
	long     bool // an int64 was added
	real     bool // a double was added
	sum, err float64
}

func (t *total) add(v value) {
	if v.t == bson.TypeDouble {
		t.real = true
		t.addFloat(v.f64())
		return
	}
	n, _ := v.integer()
	t.long = t.long || v.t == bson.TypeInt64
	s := t.integer + n
	if (s > t.integer) != (n > 0) && n != 0 {
		t.spilled = true
		t.addFloat(float64(t.integer))
		s = n
	}
	t.integer = s
}

func (t *total) addFloat(f float64) {
	s := t.sum + f
	if math.Abs(t.sum) >= math.Abs(f) {
		t.err += (t.sum - s) + f
	} else {
		t.err += (f - s) + t.sum
	}
	t.sum = s
}

func (t *total) float() float64 {
	if math.IsNaN(t.err) || math.IsInf(t.sum, 0) {
		return t.sum + float64(t.integer)
	}
	return t.sum + (float64(t.integer) + t.err)
}

func (t *total) value() value {
	switch {
	case t.real || t.spilled:
		return doubleValue(t.float())
	case t.long:
		return int64Value(t.integer)
	}
	return countValue(t.integer)
}

// group is the documents with one _id.
type group struct {
	id     value
	fields []accumulator
}

// groups reads the input to its end and returns a document for each group, in
// the order in which the groups appeared.
func (g *groupSpec) groups(in stream) ([]bson.Raw, error) {
	byKey := map[string]*group{}
	var order []*group
	var key []byte
	for {
		doc, ok, err := in()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		id := g.id.eval(doc)
		if id.missing() {
			id = nullValue()
		}
		key = appendKey(key[:0], id)
		gr := byKey[string(key)]
		if gr == nil {
			gr = &group{id: id, fields: make([]accumulator, len(g.fields))}
			for i := range g.fields {
				gr.fields[i].spec = &g.fields[i]
			}
			byKey[string(key)] = gr
			order = append(order, gr)
		}
		for i := range gr.fields {
			if err := gr.fields[i].add(doc); err != nil {
				return nil, err
			}
		}
	}
	out := make([]bson.Raw, len(order))
	for i, gr := range order {
		start, b := openDoc(nil)
		b = appendField(b, "_id", gr.id)
		for k := range gr.fields {
			b = appendField(b, gr.fields[k].spec.name, gr.fields[k].result())
		}
		out[i] = closeDoc(b, start)
		if len(out[i]) > maxDocumentSize {
			return nil, failure(codeObjectTooLarge, "BSONObj size: %d is invalid. Size must be between 0 and %d", len(out[i]), maxDocumentSize)
		}
	}
	return out, nil
}
