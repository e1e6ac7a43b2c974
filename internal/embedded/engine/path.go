package engine

import "strings"

const (
	maxPathParts     = 200 // as MongoDB's FieldPath
	maxPathPositions = 16  // array positions in one path; bounds the work of matching it
)

// path is a dotted path.
type path struct {
	name  string
	parts []string
}

func parsePath(name string) (path, error) {
	p := path{name: name}
	if !strings.Contains(name, ".") {
		p.parts = []string{name}
		return p, nil
	}
	if strings.Count(name, ".") >= maxPathParts {
		return p, failure(codeOverflow, "FieldPath is too long")
	}
	p.parts = strings.Split(name, ".")
	positions := 0
	for _, part := range p.parts {
		if _, ok := arrayIndex(part); ok {
			positions++
		}
	}
	if positions > maxPathPositions {
		return p, notImplemented("a path with more than 16 array positions")
	}
	return p, nil
}

// overlaps reports whether one path is the other one or leads to it.
func (p path) overlaps(q path) bool {
	for i := range min(len(p.parts), len(q.parts)) {
		if p.parts[i] != q.parts[i] {
			return false
		}
	}
	return true
}

// get follows the path through documents. The walk stops at an array, which
// is returned with the parts that are left; a missing value stands for a
// field that does not exist.
func get(doc []byte, parts []string) (v value, rest []string) {
	for i, part := range parts {
		v = lookup(doc, part)
		switch {
		case v.isArray():
			return v, parts[i+1:]
		case i == len(parts)-1:
			return v, nil
		case !v.isDocument():
			return value{}, nil
		}
		doc = v.b
	}
	return v, nil
}
