package environment

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Limits that keep the parser, which is recursive and in places quadratic,
// within its stack and in a moment. An environment of fifty replica sets has
// some 2,000 tokens.
const (
	maxFileBytes = 1 << 20
	maxTokens    = 20_000
	maxDepth     = 100
	// Loops in loops take exponential time.
	maxLoops = 2
)

// ArgKind tells the two forms of an Arg apart.
type ArgKind int

// The kinds of arguments.
const (
	VarFile ArgKind = iota // -var-file=VALUE
	Var                    // -var VALUE, VALUE being name=value
)

// Arg is one -var-file or -var of the command line.
type Arg struct {
	Kind  ArgKind
	Value string
}

// Options say where the settings come from. A later source replaces the whole
// value of an earlier one, in Terraform's order: TF_VAR_ variables,
// terraform.tfvars, terraform.tfvars.json, then *.auto.tfvars and
// *.auto.tfvars.json by name, then Args as they stand, then Platform.
type Options struct {
	// Dir is the folder of the automatic files, and where relative names of
	// variable files start: the current folder, as for Terraform, when empty.
	Dir string
	// Args are the -var-file and -var arguments in the order given.
	Args []Arg
	// Environ has the form of os.Environ. What does not start with TF_VAR_ is
	// passed over, and so are variables that no schema knows, since they may
	// be meant for other configurations.
	Environ []string
	// Platform, if set, is used in place of what the files say.
	Platform string
	// Name of the environment: 1 to 31 lower-case letters, digits and
	// hyphens, starting with a letter or digit. When empty it is made of the
	// base name of the first -var-file, else of the first automatic file.
	Name string
}

// Load reads, checks and expands. The Spec is nil exactly when the Problems
// have errors; Problems without errors are warnings that belong to the Spec.
// Everything that is wrong in any of the sources is reported, apart from
// values that a later source replaces: those are read but not judged, since
// they have no effect.
func Load(o Options) (*Spec, *Problems) {
	l := newLoader(o)
	var err error
	if l.schema, err = loadSchema(); err != nil {
		l.problems.refuse(nil, "Broken program", err.Error()+".", "Report this.")
		return nil, l.problems
	}
	return l.load(folder{o.Dir}), l.problems
}

func newLoader(o Options) *loader {
	return &loader{
		Options:  o,
		problems: &Problems{order: map[string]int{}, files: map[string]*hcl.File{}},
		sources:  map[string]*source{},
		values:   map[string]cty.Value{},
	}
}

// files is what the loader reads.
type files interface {
	read(name string) ([]byte, error)
	list() ([]string, error) // names in the folder, sorted
}

type folder struct{ dir string }

func (f folder) read(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.dir, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	// One byte more than allowed, for the caller to see that it is too much.
	// No look at the size before: the file may be a pipe.
	return io.ReadAll(io.LimitReader(file, maxFileBytes+1))
}

func (f folder) list() ([]string, error) {
	entries, err := os.ReadDir(filepath.Clean(f.dir)) // Clean turns "" into "."
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

type loader struct {
	Options
	problems  *Problems
	schema    *schema
	files     []File
	automatic []string             // names of those that no argument names
	sources   map[string]*source   // of the variables that something sets
	values    map[string]cty.Value // of every variable that has a sound one
	// partial is set when something could not be read, so that what is
	// missing may just not have been seen.
	partial bool
}

func (l *loader) load(in files) *Spec {
	l.readEnviron()
	l.readAutomatic(in)
	for _, arg := range l.Args {
		if arg.Kind == VarFile {
			l.readFile(in, arg.Value)
		} else {
			l.readVar(arg.Value)
		}
	}
	if l.Platform != "" {
		l.setText("--platform", "", "platform", l.Platform)
	}
	name := l.environmentName()
	for _, v := range l.schema.variables {
		l.resolve(v)
	}
	spec := l.expand(name)
	if l.problems.HasErrors() {
		return nil
	}
	return spec
}

func (l *loader) readEnviron() {
	environ := slices.Clone(l.Environ)
	slices.Sort(environ)
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		name, prefixed := strings.CutPrefix(name, "TF_VAR_")
		if !ok || !prefixed {
			continue
		}
		if l.schema.byName[name] == nil {
			// Not refused, as Terraform does not: it may be meant for another
			// configuration.
			if near := nearest(name, l.schema.names()); near != "" {
				l.problems.warn(nil, "Unknown variable", fmt.Sprintf("TF_VAR_%s is set, but there is no variable %q; it is ignored.", name, name), fmt.Sprintf("Did you mean %q?", near))
			}
			continue
		}
		l.setText("TF_VAR_"+name, "TF_VAR_"+name+"=", name, value)
	}
}

func (l *loader) readAutomatic(in files) {
	present, err := in.list()
	if err != nil {
		l.problems.refuse(nil, "Unreadable folder", fmt.Sprintf("The folder for terraform.tfvars and *.auto.tfvars cannot be listed: %s.", cause(err)), "")
		return
	}
	for _, name := range []string{"terraform.tfvars", "terraform.tfvars.json"} {
		if slices.Contains(present, name) {
			l.readAutomaticFile(in, name)
		}
	}
	for _, name := range present {
		if strings.HasSuffix(name, ".auto.tfvars") || strings.HasSuffix(name, ".auto.tfvars.json") {
			l.readAutomaticFile(in, name)
		}
	}
}

func (l *loader) readAutomaticFile(in files, name string) {
	l.automatic = append(l.automatic, name)
	l.readFile(in, name)
}

func (l *loader) readFile(in files, name string) {
	if name == "" {
		l.partial = true
		l.problems.refuse(nil, "Unreadable variable file", "A -var-file argument is empty.", "Give the name of a file.")
		return
	}
	text, err := in.read(name)
	if err == nil && len(text) > maxFileBytes {
		err = errors.New("it is larger than 1 MiB")
	}
	if err != nil {
		l.partial = true
		l.problems.refuseFile(name, "Unreadable variable file", fmt.Sprintf("%s cannot be read: %s.", name, cause(err)), "")
		return
	}
	if !slices.ContainsFunc(l.files, func(f File) bool { return f.Name == name }) {
		sum := sha256.Sum256(text)
		l.files = append(l.files, File{Name: name, SHA256: hex.EncodeToString(sum[:]), Text: string(text)})
	}
	isJSON := strings.HasSuffix(name, ".json")
	if why := tooDeep(text, isJSON); why != "" {
		l.partial = true
		l.problems.refuseFile(name, "Unreadable variable file", fmt.Sprintf("%s %s.", name, why), "")
		return
	}
	parse := hclsyntax.ParseConfig
	if isJSON {
		parse = func(text []byte, name string, _ hcl.Pos) (*hcl.File, hcl.Diagnostics) {
			return hcljson.Parse(text, name)
		}
	}
	file, diags := parse(text, name, hcl.InitialPos)
	l.problems.source(name, text, file)
	l.problems.syntax(diags)
	l.partial = l.partial || diags.HasErrors()
	if file == nil || file.Body == nil {
		return
	}
	attrs, more := file.Body.JustAttributes()
	if !diags.HasErrors() {
		// After a syntax error the body is a torso, and what it lacks is no
		// news.
		l.problems.syntax(more)
		l.partial = l.partial || more.HasErrors()
	}
	for _, key := range sortedKeys(attrs) {
		attr := attrs[key]
		v := l.schema.byName[key]
		if v == nil || v.sensitive {
			l.problems.blank(attr.Expr.Range())
		}
		if v == nil {
			l.unknownVariable(&attr.NameRange, key)
			continue
		}
		l.sources[key] = &source{name: attr.NameRange, expr: attr.Expr}
	}
}

func (l *loader) unknownVariable(at *hcl.Range, name string) {
	l.partial = true // replsets may be what was meant
	hint := "The README of environments/ and terraform/gcp/variables.tf list those that there are."
	if near := nearest(name, l.schema.names()); near != "" {
		hint = fmt.Sprintf("Did you mean %q?", near)
	} else if slices.Contains(l.schema.byName["replsets"].attributes(), name) {
		hint = fmt.Sprintf("%q is an attribute of each replica set: write it inside of replsets.", name)
	}
	l.problems.refuse(at, "Unknown variable", fmt.Sprintf("There is no variable %q.", name), hint)
}

func (l *loader) readVar(arg string) {
	name, value, ok := strings.Cut(arg, "=")
	switch {
	case !ok:
		// What was meant as the value may be a secret: do not repeat it.
		l.problems.refuse(nil, "Malformed -var", "A -var argument has the form name=value; one has no equals sign.", "")
	case name != strings.TrimSpace(name):
		l.problems.refuse(nil, "Malformed -var", fmt.Sprintf("A -var argument has spaces around the name %q.", strings.TrimSpace(name)), "Write -var name=value, without spaces before the equals sign.")
	case l.schema.byName[name] == nil:
		origin := "-var " + name
		l.problems.source(origin, []byte(name+"=..."), nil)
		at := rangeOf(origin, "", name)
		l.unknownVariable(&at, name)
	default:
		origin := "-var " + name
		for n := 2; l.problems.files[origin] != nil; n++ {
			origin = fmt.Sprintf("-var %s, number %d", name, n)
		}
		l.setText(origin, name+"=", name, value)
	}
}

// setText sets a variable from a text outside of files. As with Terraform it
// is taken as it stands for strings, numbers and bools, and as an expression
// for the other types.
func (l *loader) setText(origin, before, name, value string) {
	v := l.schema.byName[name]
	text := []byte(before + value)
	l.problems.source(origin, text, nil)
	at := rangeOf(origin, before, value)
	if v.sensitive {
		l.problems.blank(at)
	}
	nameRange := at
	if before != "" {
		nameRange = rangeOf(origin, "", strings.TrimSuffix(before, "="))
	}
	given := &Given{Name: name, Value: value, Sensitive: v.sensitive}
	if v.sensitive {
		given.Value = secret.Redacted
	}
	if v.primitive() {
		l.sources[name] = &source{nameRange, hcl.StaticExpr(cty.StringVal(value), at), given}
		return
	}
	if len(value) > maxFileBytes {
		l.problems.refuseFile(origin, "Unreadable value", "The value is larger than 1 MiB.", "")
		return
	}
	if why := tooDeep([]byte(value), false); why != "" {
		l.problems.refuseFile(origin, "Unreadable value", fmt.Sprintf("The value %s.", why), "")
		return
	}
	expr, diags := hclsyntax.ParseExpression([]byte(value), origin, at.Start)
	l.problems.syntax(diags)
	if !diags.HasErrors() {
		l.sources[name] = &source{nameRange, expr, given}
	}
}

// given are the variables that -var or TF_VAR_ set and nothing after it, by
// name. The platform is the environment's own.
func (l *loader) given() []Given {
	list := []Given{}
	for name, s := range l.sources {
		if s.given != nil && name != "platform" {
			list = append(list, *s.given)
		}
	}
	slices.SortFunc(list, func(x, y Given) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// rangeOf is the place of text in a source that starts with before. Column
// and byte agree: what stands before is ASCII.
func rangeOf(origin, before, text string) hcl.Range {
	start := hcl.Pos{Line: 1, Column: len(before) + 1, Byte: len(before)}
	end := start
	end.Byte += len(text)
	end.Column += len([]rune(text))
	return hcl.Range{Filename: origin, Start: start, End: end}
}

// resolve converts a variable's value and validates it.
func (l *loader) resolve(v *variable) {
	src := l.sources[v.name]
	if src == nil {
		l.values[v.name] = v.value
		return
	}
	given, diags := src.expr.Value(nil)
	if diags.HasErrors() {
		l.problems.syntax(diags)
		return
	}
	if !given.IsWhollyKnown() {
		return
	}
	c := &checker{l.problems, l.schema, v, src}
	c.repeated(src.expr, nil)
	if v.attributes() != nil && !given.IsNull() && given.CanIterateElements() && (given.Type().IsObjectType() || given.Type().IsMapType()) {
		given = c.soundElements(given)
	} else if !c.check(given, v.typ, nil) {
		return
	}
	value, err := v.convert(given)
	if err != nil {
		var at cty.PathError
		errors.As(err, &at)
		c.wrongType(at.Path, err.Error())
		return
	}
	messages := v.validate(value)
	for _, message := range messages {
		_, at := src.place(nil)
		l.problems.refuse(&at, "Invalid value of "+v.name, message, "")
	}
	if len(messages) == 0 {
		l.values[v.name] = value
	}
}

// soundElements leaves out the elements of a map of objects that do not fit,
// after reporting them, so that the others can still be looked at.
func (c *checker) soundElements(value cty.Value) cty.Value {
	sound := map[string]cty.Value{}
	for key, element := range elements(value) {
		path := cty.Path{}.IndexString(key)
		if element.IsNull() {
			_, at := c.source.place(path)
			c.problems.refuse(&at, "Missing value", fmt.Sprintf("%s is null.", pathText(c.variable.name, path)), "Write {} to take every default, or remove it.")
			continue
		}
		if c.check(element, c.variable.typ.ElementType(), path) {
			sound[key] = element
		}
	}
	return cty.ObjectVal(sound)
}

// ValidName reports whether an environment can have that name. It is safe as
// the name of a folder.
func ValidName(name string) bool { return environmentName.MatchString(name) }

var (
	environmentName  = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}$`)
	variableFileName = regexp.MustCompile(`(\.auto)?\.tfvars(\.json)?$|\.json$`)
)

func (l *loader) environmentName() string {
	if l.Name != "" {
		if !ValidName(l.Name) {
			l.problems.refuse(nil, "Invalid environment name", fmt.Sprintf("%q cannot be the name of an environment.", l.Name), "Use 1 to 31 lower-case letters, digits and hyphens, starting with a letter or digit.")
		}
		return l.Name
	}
	file := ""
	if i := slices.IndexFunc(l.Args, func(a Arg) bool { return a.Kind == VarFile }); i >= 0 {
		file = l.Args[i].Value
	} else if len(l.files) > 0 {
		file = l.files[0].Name
	}
	if file == "" {
		l.partial = true
		l.problems.refuse(nil, "No environment", "There is no variable file, so the environment has no name.", "Give one with -var-file FILE, or a name with --env NAME.")
		return ""
	}
	name := NameOf(file)
	if !ValidName(name) {
		l.problems.refuseFile(file, "Invalid environment name", fmt.Sprintf("The name of %s cannot be the name of an environment: that has 1 to 31 lower-case letters, digits and hyphens.", file), "Give one with --env NAME.")
	}
	return name
}

// NameOf is the name of the environment that a variable file describes when
// no other is given: its base name, in the characters of a host name.
func NameOf(file string) string {
	return strings.Trim(hostLabel(variableFileName.ReplaceAllString(filepath.Base(file), "")), "-")
}

// tooDeep says why a text is not given to the parser, or "".
func tooDeep(text []byte, isJSON bool) string {
	depth, deepest, tokens, loops, innermost := 0, 0, 0, 0, 0
	open := func() { depth++; deepest = max(deepest, depth) }
	if isJSON {
		inString, escaped := false, false
		for _, b := range text {
			switch {
			case escaped:
				escaped = false
			case inString && b == '\\':
				escaped = true
			case b == '"':
				inString = !inString
			case b == '{' || b == '[':
				// Counted inside of strings too: the parser may see the
				// borders of broken strings elsewhere.
				if tokens++; !inString {
					open()
				}
			case !inString && (b == '}' || b == ']'):
				depth--
			}
		}
	} else {
		lexed, _ := hclsyntax.LexConfig(text, "", hcl.InitialPos) // errors are the parser's to report
		tokens = len(lexed)
		var isLoop []bool // of every open bracket
		for i, token := range lexed {
			word := ""
			if i+1 < len(lexed) && lexed[i+1].Type == hclsyntax.TokenIdent {
				word = string(lexed[i+1].Bytes)
			}
			switch token.Type {
			case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
				open()
				isLoop = append(isLoop, word == "for" && token.Type != hclsyntax.TokenTemplateControl)
				switch {
				case word == "for":
					loops++
				case word == "endfor" && loops > 0:
					loops--
				}
				innermost = max(innermost, loops)
			case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
				depth--
				if n := len(isLoop) - 1; n >= 0 {
					if isLoop[n] && loops > 0 {
						loops--
					}
					isLoop = isLoop[:n]
				}
			}
		}
	}
	switch {
	case deepest > maxDepth:
		return fmt.Sprintf("is nested more than %d deep", maxDepth)
	case innermost > maxLoops:
		return fmt.Sprintf("has more than %d loops in each other", maxLoops)
	case tokens > maxTokens:
		return fmt.Sprintf("has more than %d words and signs", maxTokens)
	}
	return ""
}

// cause is what went wrong with a file, without its name.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
