package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	gcpconfig "github.com/mongo-sandbox/sandbox/terraform/gcp"
)

// variable is one variable block.
type variable struct {
	name        string
	typ         cty.Type
	defaults    *typeexpr.Defaults // of optional attributes; may be nil
	value       cty.Value          // default, converted
	nullable    bool
	sensitive   bool
	validations []validation
}

type validation struct {
	condition hcl.Expression
	message   string
}

// schema is the variable blocks in their order.
type schema struct {
	variables []*variable
	byName    map[string]*variable
}

// primitive reports whether -var and TF_VAR_ give the value's text itself
// rather than an expression.
func (v *variable) primitive() bool { return v.typ.IsPrimitiveType() }

// attributes returns the names of the attributes of the elements of a map of
// objects, sorted; nil for other types.
func (v *variable) attributes() []string {
	if !v.typ.IsMapType() || !v.typ.ElementType().IsObjectType() {
		return nil
	}
	return sortedKeys(v.typ.ElementType().AttributeTypes())
}

func (s *schema) names() []string {
	names := make([]string, 0, len(s.variables))
	for _, v := range s.variables {
		names = append(names, v.name)
	}
	return names
}

// loadSchema reads the embedded variable blocks. It fails only when the
// program was built from a broken configuration.
func loadSchema() (*schema, error) {
	text, err := gcpconfig.Files.ReadFile(gcpconfig.VariablesFile)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	s, diags := parseSchema(text, gcpconfig.VariablesFile)
	if diags.HasErrors() {
		return nil, fmt.Errorf("read schema: %w", diags)
	}
	return s, nil
}

func parseSchema(text []byte, name string) (*schema, hcl.Diagnostics) {
	file, diags := hclsyntax.ParseConfig(text, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	content, diags := file.Body.Content(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}},
	})
	s := &schema{byName: map[string]*variable{}}
	for _, block := range content.Blocks {
		v, more := parseVariable(block)
		diags = append(diags, more...)
		s.variables = append(s.variables, v)
		s.byName[v.name] = v
	}
	return s, diags
}

func parseVariable(block *hcl.Block) (*variable, hcl.Diagnostics) {
	v := &variable{name: block.Labels[0], typ: cty.DynamicPseudoType, nullable: true}
	content, diags := block.Body.Content(&hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "type", Required: true}, {Name: "default", Required: true}, {Name: "description", Required: true},
			{Name: "nullable"}, {Name: "sensitive"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "validation"}},
	})
	if diags.HasErrors() {
		return v, diags
	}
	var more hcl.Diagnostics
	v.typ, v.defaults, more = typeexpr.TypeConstraintWithDefaults(content.Attributes["type"].Expr)
	diags = append(diags, more...)
	for name, target := range map[string]*bool{"nullable": &v.nullable, "sensitive": &v.sensitive} {
		if attr, ok := content.Attributes[name]; ok {
			value, more := attr.Expr.Value(nil)
			diags = append(diags, more...)
			*target = value.Type() == cty.Bool && value.True()
		}
	}
	value, more := content.Attributes["default"].Expr.Value(nil)
	diags = append(diags, more...)
	if !diags.HasErrors() {
		var err error
		if v.value, err = v.convert(value); err != nil {
			diags = diags.Append(&hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Default of the wrong type", Detail: err.Error(), Subject: &block.DefRange})
		}
	}
	for _, inner := range content.Blocks {
		attrs, more := inner.Body.JustAttributes()
		diags = append(diags, more...)
		condition, message := attrs["condition"], attrs["error_message"]
		if condition == nil || message == nil {
			continue // not for us to judge: Terraform itself does
		}
		text, more := message.Expr.Value(nil)
		diags = append(diags, more...)
		if !more.HasErrors() && text.Type() == cty.String {
			v.validations = append(v.validations, validation{condition.Expr, text.AsString()})
		}
	}
	return v, diags
}

// convert applies Terraform's rules: null takes the default of a variable
// that is not nullable, missing and null attributes take theirs, then the
// value is converted to the type.
func (v *variable) convert(value cty.Value) (cty.Value, error) {
	if value.IsNull() {
		if !v.nullable && v.value != cty.NilVal {
			return v.value, nil
		}
		return cty.NullVal(v.typ.WithoutOptionalAttributesDeep()), nil
	}
	if v.defaults != nil {
		value = v.defaults.Apply(value)
	}
	return convert.Convert(value, v.typ)
}

// validate evaluates the validation blocks and returns the messages of those
// that do not hold.
func (v *variable) validate(value cty.Value) []string {
	ctx := &hcl.EvalContext{
		Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{v.name: value})},
		Functions: map[string]function.Function{
			"can":      tryfunc.CanFunc,
			"contains": stdlib.ContainsFunc,
			"floor":    stdlib.FloorFunc,
			"keys":     stdlib.KeysFunc,
			"length":   stdlib.LengthFunc,
			"regex":    stdlib.RegexFunc,
		},
	}
	var messages []string
	for _, check := range v.validations {
		// A condition that cannot be evaluated does not hold.
		result, diags := check.condition.Value(ctx)
		if diags.HasErrors() || result.IsNull() || !result.IsKnown() || result.Type() != cty.Bool || result.False() {
			messages = append(messages, check.message)
		}
	}
	return messages
}

// nearest returns the known name that name was probably meant to be, or "".
func nearest(name string, known []string) string {
	if len(name) > 100 {
		return "" // nobody meant that; the distance is quadratic in the length
	}
	name = strings.ToLower(name)
	best, distance := "", max(2, len(name)/3)+1
	for _, candidate := range known {
		if d := levenshtein.Distance(name, candidate, nil); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" && len(name) >= 4 { // long names are often cut short
		for _, candidate := range known {
			if strings.HasPrefix(candidate, name) {
				return candidate
			}
		}
	}
	return best
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
