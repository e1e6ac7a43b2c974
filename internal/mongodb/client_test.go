package mongodb

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSplitURI(t *testing.T) {
	tests := []struct{ uri, clean, user, password string }{
		{"mongodb://h1:27017,h2:27018/?replicaSet=rs0", "mongodb://h1:27017,h2:27018/?replicaSet=rs0", "", ""},
		{"mongodb://ann:s3cret@h1/airline", "mongodb://h1/airline", "ann", "s3cret"},
		{"mongodb://ann%40org:p%40ss%2Fw%3Ard%25@h1", "mongodb://h1", "ann@org", "p@ss/w:rd%"},
		{"mongodb+srv://ann:a+b@c.example.net/?authSource=admin", "mongodb+srv://c.example.net/?authSource=admin", "ann", "a+b"},
		{"mongodb://ann@h1", "mongodb://h1", "ann", ""},
		{"mongodb://ann:@h1", "mongodb://h1", "ann", ""},
	}
	for _, tt := range tests {
		clean, user, password, err := SplitURI(tt.uri)
		if err != nil || clean != tt.clean || user != tt.user || password.Reveal() != tt.password {
			t.Errorf("SplitURI(%q) = %q, %q, %q, %v; want %q, %q, %q", tt.uri, clean, user, password.Reveal(), err, tt.clean, tt.user, tt.password)
		}
	}
}

func TestSplitURIRefusesWithoutQuoting(t *testing.T) {
	tests := map[string]string{
		"":                                                        "must start with",
		"http://ann:hunter2@h1":                                   "must start with",
		"mongodb://ann:hunter2@x@h1":                              "percent-encode",
		"mongodb://ann:hunter2/x@h1":                              "percent-encode",
		"mongodb://ann:hunter2:x@h1":                              "percent-encode",
		"mongodb://ann:hunter2%zz@h1":                             "%25",
		"mongodb://:hunter2@h1":                                   "user name is empty",
		"mongodb://ann:hunter2@":                                  "no host",
		"mongodb://ann:hunter2@/db":                               "no host",
		"mongodb://ann:hunter2":                                   "port is not a number",
		"mongodb://ann:hunter2/db?a=b":                            "port is not a number",
		"mongodb://h1:27017,ann:hunter2?a=b":                      "port is not a number",
		"mongodb://h1/?appName=x@hunter2":                         "percent-encode",
		"mongodb://h1/?proxyPassword=hunter2":                     "proxyPassword",
		"mongodb://h1/?a=b&TLSCertificateKeyFilePassword=hunter2": "TLSCertificateKeyFilePassword",
		"mongodb://h1/?authMechanismProperties=AWS_SESSION_TOKEN:hunter2&x=y": "authMechanismProperties",
	}
	for uri, want := range tests {
		clean, user, password, err := SplitURI(uri)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SplitURI(%q): error %v, want one with %q", uri, err, want)
			continue
		}
		if all := clean + user + password.Reveal() + err.Error(); strings.Contains(all, "hunter2") {
			t.Errorf("SplitURI(%q): %q gives the password away", uri, all)
		}
	}
}

func FuzzSplitURI(f *testing.F) {
	f.Add("mongodb://ann:s3cret@h1/?a=b")
	f.Add("mongodb+srv://a%40:%25@h/x?y;z")
	f.Add("mongodb://@@")
	f.Fuzz(func(t *testing.T, uri string) {
		clean, _, password, err := SplitURI(uri)
		if err != nil {
			if clean != "" || !password.IsEmpty() {
				t.Fatalf("refused and yet returned %q", clean)
			}
			return
		}
		again, user, none, err := SplitURI(clean)
		if err != nil || again != clean || user != "" || !none.IsEmpty() {
			t.Fatalf("%q is not clean: %q %q %v", clean, again, user, err)
		}
	})
}

func TestConnectNeverShowsThePassword(t *testing.T) {
	const password = "p@ss w/rd%?"
	bad := []Options{
		{URI: "mongodb://h1:99999999/"},
		{URI: "mongodb://h1/?authMechanism=NOPE"},
		{URI: "mongodb://h1/?authMechanism=MONGODB-X509"}, // takes no password
		{URI: "mongodb://h1/?readPreference=sideways"},
		{URI: "mongodb://h1/", ReadPreference: "sideways"},
		{URI: "mongodb://h1/", WriteConcern: "0"},
		{URI: "mongodb://h1/", WriteConcern: "51"},
		{URI: "mongodb://h1/", OpTimeout: -1},
		{URI: "mongodb://ann:" + url.PathEscape(password) + "@h1/"},
		{URI: "mongodb://h1,h2/", Direct: true},
		{URI: "nonsense"},
	}
	for _, o := range bad {
		o.Username, o.Password = "ann", secret.New(password)
		client, err := Connect(t.Context(), o)
		if err == nil {
			t.Errorf("Connect(%v) did not fail", o)
			_ = client.Close(t.Context())
			continue
		}
		for _, form := range newScrubber(o.Password).forms {
			if strings.Contains(err.Error(), form) {
				t.Errorf("Connect(%v): %q gives the password away", o, err)
			}
		}
	}
}

func TestConnectTakesWhatItIsGiven(t *testing.T) {
	good := []Options{
		{URI: "mongodb://127.0.0.1:1/"},
		{URI: "mongodb://127.0.0.1:1"},
		{URI: "mongodb://127.0.0.1:1/airline?replicaSet=rs", Username: "ann", Password: secret.New("a:b/c@d%e f+g")},
		{URI: "mongodb://127.0.0.1:1/?authMechanism=SCRAM-SHA-256&authSource=admin", Username: "a@b", Password: secret.New("x")},
		{URI: "mongodb://127.0.0.1:1/", WriteConcern: "majority", ReadPreference: "secondary", OpTimeout: time.Second, MaxPoolSize: 3, AppName: "test", Direct: true},
		{URI: "mongodb://127.0.0.1:1/", WriteConcern: "2"},
	}
	for _, o := range good {
		client, err := Connect(t.Context(), o)
		if err != nil {
			t.Errorf("Connect(%v): %v", o, err)
			continue
		}
		if err := client.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := client.Close(t.Context()); err != nil {
			t.Errorf("second Close: %v", err)
		}
	}
}

func TestScrubber(t *testing.T) {
	const password = "se@cr et/+%"
	scrub := newScrubber(secret.New(password))
	for _, form := range []string{password, url.QueryEscape(password), url.PathEscape(password), "se%40cr%20et%2F%2B%25"} {
		err := scrub.error(fmt.Errorf("dial mongodb://ann:%s@h1: %w", form, fs.ErrNotExist))
		if strings.Contains(err.Error(), form) || !strings.Contains(err.Error(), secret.Redacted) {
			t.Errorf("%q is not scrubbed out of %q", form, err)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is no longer recognised", err)
		}
		if errors.Unwrap(err) != nil {
			t.Errorf("the chain below %q still holds the password", err)
		}
	}
	plain := errors.New("harmless")
	if got := scrub.error(plain); got != plain { //nolint:errorlint // the very same error is wanted
		t.Errorf("a harmless error became %v", got)
	}
	if (scrubber{}).error(nil) != nil || scrub.error(nil) != nil {
		t.Error("no error became one")
	}
}

func TestHosts(t *testing.T) {
	for uri, want := range map[string][]string{
		"mongodb://a":                         {"a:27017"},
		"mongodb://a:1,b:2/?replicaSet=x":     {"a:1", "b:2"},
		"mongodb://[::1]/db":                  {"[::1]:27017"},
		"mongodb://[::1]:5":                   {"[::1]:5"},
		"mongodb+srv://cluster.example.net/x": {"cluster.example.net"},
	} {
		if got := Hosts(uri); !slices.Equal(got, want) {
			t.Errorf("Hosts(%s) = %v, want %v", uri, got, want)
		}
	}
}
