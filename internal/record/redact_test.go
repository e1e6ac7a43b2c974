package record

import (
	"errors"
	"slices"
	"testing"
)

func TestRedact(t *testing.T) {
	cases := map[string]string{
		"mongodb://127.0.0.1:27017/?replicaSet=rs":       "mongodb://127.0.0.1:27017/?replicaSet=rs",
		"mongodb://admin@h:1/":                           "mongodb://admin@h:1/",
		"mongodb://admin:hunter2@h:1/x":                  "mongodb://admin:[redacted]@h:1/x",
		"mongodb+srv://admin:p%40ss%2Fw@h/":              "mongodb+srv://admin:[redacted]@h/",
		"mongodb://admin:p@ss/word@h:1/":                 "mongodb://admin:[redacted]@h:1/",
		"dial https://u:p@h: refused, see http://h/":     "dial https://u:[redacted]@h: refused, see http://h/",
		`uri = "mongodb://a:b@h"`:                        `uri = "mongodb://a:[redacted]@h"`,
		"mongodb://h/?tlsCertificateKeyFilePassword=x&a": "mongodb://h/?tlsCertificateKeyFilePassword=[redacted]&a",
		`pmm_password = "a b\"c"`:                        `pmm_password = [redacted]`,
		"--password=hunter2":                             "--password=[redacted]",
		"--password-file=/etc/pw":                        "--password-file=/etc/pw",
		"seconds_behind=3":                               "seconds_behind=3",
		"mail someone@example.com":                       "mail someone@example.com",
	}
	for in, want := range cases {
		if got := Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRedactArgs(t *testing.T) {
	in := []string{"sandbox", "bench", "--password", "hunter2", "-auth-token", "t", "--password", "--uri", "mongodb://a:b@h"}
	want := []string{"sandbox", "bench", "--password", "[redacted]", "-auth-token", "[redacted]", "--password", "--uri", "mongodb://a:[redacted]@h"}
	if got := redactArgs(in); !slices.Equal(got, want) {
		t.Errorf("redactArgs = %q, want %q", got, want)
	}
	if in[3] != "hunter2" {
		t.Error("redactArgs changed its argument")
	}
}

func TestRedactVariables(t *testing.T) {
	got := redactVariables([]Variable{
		{Name: "region", Value: "europe-west1"}, {Name: "admin_password", Value: "hush"}, {Name: "uri", Value: "mongodb://u:hush@h/"}, {Name: "empty"},
	})
	want := []Variable{
		{Name: "region", Value: "europe-west1"}, {Name: "admin_password", Value: "[redacted]"}, {Name: "uri", Value: "mongodb://u:[redacted]@h/"}, {Name: "empty"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if redactVariables(nil) != nil || redactVariables([]Variable{}) == nil {
		t.Error("what is not known and what was not given are the same")
	}
}

func TestGuard(t *testing.T) {
	for text, want := range map[string]error{
		`{"uri":"mongodb://admin:hunter2@h"}`:                 errSecret,
		`{"a":"mongodb://a:[redacted]@h","b":"x://u:p@h"}`:    errSecret,
		`{"uri":"mongodb://admin:[redacted]@h","b":"c@d"}`:    nil,
		`{"mail":"someone@example.com","time":"12:00"}`:       nil,
		`{"uri":"mongodb://127.0.0.1:1,127.0.0.1:2/airline"}`: nil,
	} {
		if got := guard([]byte(text)); !errors.Is(got, want) {
			t.Errorf("guard(%s) = %v, want %v", text, got, want)
		}
	}
}
