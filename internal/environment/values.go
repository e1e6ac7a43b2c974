package environment

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// source is where a variable's value comes from: the last place that sets it.
type source struct {
	name hcl.Range
	expr hcl.Expression
	// given is set for a text outside of files.
	given *Given
}

// place finds an element of the source's expression: the range of its key and
// of its value. When the expression does not spell the element out, as in a
// for expression, the ranges are those of the closest element around it.
func (s *source) place(path cty.Path) (key, value hcl.Range) {
	key, value, _ = s.find(path)
	return key, value
}

// find is place that also tells whether the element itself was found.
func (s *source) find(path cty.Path) (key, value hcl.Range, found bool) {
	key, expr := s.name, unwrap(s.expr)
	for _, step := range path {
		next, nextKey := child(expr, stepName(step))
		if next == nil {
			return key, expr.Range(), false
		}
		key, expr = nextKey, unwrap(next)
	}
	return key, expr.Range(), true
}

// unwrap looks through parentheses.
func unwrap(expr hcl.Expression) hcl.Expression {
	for {
		parens, ok := expr.(*hclsyntax.ParenthesesExpr)
		if !ok {
			return expr
		}
		expr = parens.Expression
	}
}

func child(expr hcl.Expression, name string) (hcl.Expression, hcl.Range) {
	var found hcl.Expression
	var key hcl.Range
	if pairs, diags := hcl.ExprMap(expr); !diags.HasErrors() {
		for _, pair := range pairs {
			// Of equal keys the last one counts.
			if text, ok := keyText(pair.Key); ok && text == name {
				found, key = pair.Value, pair.Key.Range()
			}
		}
	} else if items, diags := hcl.ExprList(expr); !diags.HasErrors() {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(items) {
			found, key = items[i], items[i].Range()
		}
	}
	return found, key
}

func keyText(expr hcl.Expression) (string, bool) {
	value, diags := expr.Value(nil)
	if diags.HasErrors() {
		return "", false
	}
	value, err := convert.Convert(value, cty.String)
	if err != nil || value.IsNull() || !value.IsKnown() {
		return "", false
	}
	return value.AsString(), true
}

func stepName(step cty.PathStep) string {
	switch step := step.(type) {
	case cty.GetAttrStep:
		return step.Name
	case cty.IndexStep:
		if step.Key.Type() == cty.String {
			return step.Key.AsString()
		}
		return step.Key.AsBigFloat().Text('f', 0)
	}
	return ""
}

// pathText writes a path as an expression: replsets["mongo9"].mongo_version.
func pathText(variable string, path cty.Path) string {
	var text strings.Builder
	text.WriteString(variable)
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			text.WriteString("." + step.Name)
		case cty.IndexStep:
			if step.Key.Type() == cty.String {
				fmt.Fprintf(&text, "[%q]", step.Key.AsString())
			} else {
				fmt.Fprintf(&text, "[%s]", stepName(step))
			}
		}
	}
	return text.String()
}

// checker compares a value with a type in the way that conversion does, but
// goes on after the first difference and also finds what conversion drops in
// silence: unknown attributes and repeated keys.
type checker struct {
	problems *Problems
	schema   *schema
	variable *variable
	source   *source
}

// check reports whether the value at path fits the type.
func (c *checker) check(value cty.Value, typ cty.Type, path cty.Path) bool {
	switch {
	case value.IsNull() || typ == cty.DynamicPseudoType:
		return true
	case typ.IsPrimitiveType():
		if !value.Type().IsPrimitiveType() {
			return c.wrongType(path, fmt.Sprintf("%s is required, not %s", article(typ), article(value.Type())))
		}
		if _, err := convert.Convert(value, typ); err != nil {
			return c.wrongType(path, err.Error())
		}
		return true
	case typ.IsMapType():
		if !value.Type().IsObjectType() && !value.Type().IsMapType() {
			return c.wrongType(path, fmt.Sprintf("%s is required, not %s", article(typ), article(value.Type())))
		}
		ok := true
		for key, element := range elements(value) {
			ok = c.check(element, typ.ElementType(), path.IndexString(key)) && ok
		}
		return ok
	case typ.IsObjectType():
		if !value.Type().IsObjectType() && !value.Type().IsMapType() {
			return c.wrongType(path, fmt.Sprintf("%s is required, not %s", article(typ), article(value.Type())))
		}
		return c.checkObject(value, typ, path)
	case typ.IsListType() || typ.IsSetType():
		from := value.Type()
		if !from.IsTupleType() && !from.IsListType() && !from.IsSetType() {
			return c.wrongType(path, fmt.Sprintf("%s is required, not %s", article(typ), article(from)))
		}
		ok, i := true, 0
		for it := value.ElementIterator(); it.Next(); i++ {
			_, element := it.Element()
			ok = c.check(element, typ.ElementType(), path.IndexInt(i)) && ok
		}
		return ok
	}
	return true
}

func (c *checker) checkObject(value cty.Value, typ cty.Type, path cty.Path) bool {
	ok := true
	given := map[string]bool{}
	for name, element := range elements(value) {
		given[name] = true
		if !typ.HasAttribute(name) {
			c.unknownAttribute(name, typ, path)
			ok = false
			continue
		}
		ok = c.check(element, typ.AttributeType(name), path.GetAttr(name)) && ok
	}
	for _, name := range sortedKeys(typ.AttributeTypes()) {
		if !given[name] && !typ.AttributeOptional(name) {
			key, _ := c.source.place(path)
			c.problems.refuse(&key, "Missing attribute", fmt.Sprintf("%s needs the attribute %q.", pathText(c.variable.name, path), name), "")
			ok = false
		}
	}
	return ok
}

func (c *checker) unknownAttribute(name string, typ cty.Type, path cty.Path) {
	key, value, found := c.source.find(path.GetAttr(name))
	if found {
		c.problems.blank(value)
	}
	known := sortedKeys(typ.AttributeTypes())
	hint := ""
	if near := nearest(name, known); near != "" {
		hint = fmt.Sprintf("Did you mean %q?", near)
	} else if c.schema.byName[name] != nil {
		hint = fmt.Sprintf("%q is a setting of the whole environment: write it outside of %s.", name, c.variable.name)
	} else {
		hint = "Known attributes: " + strings.Join(known, ", ") + "."
	}
	c.problems.refuse(&key, "Unknown attribute", fmt.Sprintf("%s has no attribute %q.", pathText(c.variable.name, path), name), hint)
}

// repeated finds keys that an object spells out more than once. HCL takes the
// last one without a word, and a deployment would be missing.
func (c *checker) repeated(expr hcl.Expression, path cty.Path) {
	pairs, diags := hcl.ExprMap(unwrap(expr))
	if diags.HasErrors() {
		return
	}
	first := map[string]hcl.Range{}
	for _, pair := range pairs {
		key, ok := keyText(pair.Key)
		if !ok {
			continue
		}
		at := pair.Key.Range()
		if before, seen := first[key]; seen {
			c.problems.refuse(&at, "Repeated name", fmt.Sprintf("%s has %q twice: it was written on line %d before.", pathText(c.variable.name, path), key, before.Start.Line), "Rename or remove one of them.")
			continue
		}
		first[key] = at
		c.repeated(pair.Value, path.IndexString(key))
	}
}

func (c *checker) wrongType(path cty.Path, why string) bool {
	_, at := c.source.place(path)
	c.problems.refuse(&at, "Wrong type", fmt.Sprintf("%s: %s.", pathText(c.variable.name, path), why), "")
	return false
}

// elements yields the elements of a map or object by name, sorted.
func elements(value cty.Value) func(yield func(string, cty.Value) bool) {
	return func(yield func(string, cty.Value) bool) {
		for it := value.ElementIterator(); it.Next(); {
			key, element := it.Element()
			if !yield(key.AsString(), element) {
				return
			}
		}
	}
}

func article(typ cty.Type) string {
	switch {
	case typ == cty.String:
		return "a string"
	case typ == cty.Number:
		return "a number"
	case typ == cty.Bool:
		return "a bool"
	case typ.IsMapType() && typ.ElementType().IsObjectType():
		return "a map of objects"
	case typ.IsMapType():
		return "a map"
	case typ.IsObjectType():
		return "an object"
	}
	return "a list"
}

// hclText writes a value in HCL syntax on one line.
func hclText(value cty.Value) string {
	typ := value.Type()
	switch {
	case value.IsNull():
		return "null"
	case typ.IsObjectType() || typ.IsMapType():
		var parts []string
		for key, element := range elements(value) {
			if !hclsyntax.ValidIdentifier(key) {
				key = hclText(cty.StringVal(key))
			}
			parts = append(parts, key+" = "+hclText(element))
		}
		if parts == nil {
			return "{}"
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case typ.IsTupleType() || typ.IsListType() || typ.IsSetType():
		var parts []string
		for it := value.ElementIterator(); it.Next(); {
			_, element := it.Element()
			parts = append(parts, hclText(element))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return string(hclwrite.TokensForValue(value).Bytes())
}

// wholeNumber returns a number as int if it is one between -1e9 and 1e9.
func wholeNumber(value cty.Value) (int, bool) {
	if value.IsNull() || value.Type() != cty.Number {
		return 0, false
	}
	f := value.AsBigFloat()
	if !f.IsInt() || f.Cmp(big.NewFloat(1e9)) > 0 || f.Cmp(big.NewFloat(-1e9)) < 0 {
		return 0, false
	}
	n, _ := f.Int64()
	return int(n), true
}
