package computeapi

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"reflect"
	"regexp"
	"strings"
)

// decode reads a request's body into a type of the API. As with the real one,
// null means unset and numbers may be given for quoted numbers; a field that
// the type does not have is refused.
func decode(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	var body any
	if err := decoder.Decode(&body); err != nil {
		return invalid("Parse error: %v", err)
	}
	body, err := conform(body, reflect.TypeOf(into).Elem(), "body")
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return invalid("Invalid value: %v", err)
	}
	return nil
}

// conform drops what is null and checks the fields against those of a type.
func conform(value any, t reflect.Type, at string) (any, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			at := at + "." + name
			innerType, quoted := fieldType(t, name)
			switch number, isNumber := inner.(json.Number); {
			case innerType == nil:
				return nil, invalid("Invalid JSON payload received. Unknown name at '%s'", at)
			case inner == nil, quoted && inner == "":
				delete(value, name)
				continue
			case quoted && isNumber:
				value[name] = number.String()
				continue
			}
			inner, err := conform(inner, innerType, at)
			if err != nil {
				return nil, err
			}
			value[name] = inner
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil, invalid("Invalid value at '%s': a list", at)
		}
		kept := []any{}
		for _, inner := range value {
			if inner == nil {
				continue
			}
			inner, err := conform(inner, t.Elem(), at)
			if err != nil {
				return nil, err
			}
			kept = append(kept, inner)
		}
		return kept, nil
	}
	return value, nil
}

// fieldType is the type of a field in JSON, nil if there is none, and whether
// its numbers are written in quotes.
func fieldType(t reflect.Type, name string) (field reflect.Type, quoted bool) {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), false
	case reflect.Struct:
		for f := range t.Fields() {
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == name && name != "-" {
				return f.Type, strings.Contains(options, "string")
			}
		}
	}
	return nil, false
}

// fingerprint changes with what it is made of.
func fingerprint(of any) string {
	text, _ := json.Marshal(of) // types of the API can be marshalled
	hash := fnv.New64a()
	_, _ = hash.Write(text)
	return base64.StdEncoding.EncodeToString(hash.Sum(nil))
}

var (
	resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelKey     = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue   = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
)

func checkLabels(labels map[string]string) error {
	for key, value := range labels {
		if !labelKey.MatchString(key) || !labelValue.MatchString(value) {
			return invalid("Invalid value for field 'resource.labels': '%s=%s'", key, value)
		}
	}
	return nil
}

// matches checks the fingerprint that a change was made on.
func matches(given, current, of string) error {
	if given != current {
		return &apiError{http.StatusPreconditionFailed, "conditionNotMet", of + " fingerprint either invalid or resource labels have changed"}
	}
	return nil
}
