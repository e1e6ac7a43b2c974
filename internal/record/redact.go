package record

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Redact returns text with the passwords in it replaced: the password of a
// connection string (scheme://user:password@…), URL-encoded or not, and the
// value of anything assigned to a name that ends in password, passphrase,
// secret or token.
func Redact(text string) string {
	// A password that was not URL-encoded may hold '@' and '/': everything
	// up to the last '@' before white space or a quote is taken for it.
	text = uriPassword().ReplaceAllString(text, "${1}"+secret.Redacted+"@")
	return assignedSecret().ReplaceAllString(text, "${1}"+secret.Redacted)
}

// redactArgs returns a command line with the passwords in it replaced, also
// those that follow their flag as an argument of its own.
func redactArgs(args []string) []string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = Redact(arg)
		if i > 0 && secretFlag().MatchString(args[i-1]) && !strings.HasPrefix(arg, "-") {
			out[i] = secret.Redacted
		}
	}
	return out
}

// redactVariables replaces secrets in values, and the values of variables
// that are named like secrets.
func redactVariables(list []Variable) []Variable {
	if list == nil {
		return nil
	}
	out := make([]Variable, len(list))
	for i, v := range list {
		assignment := v.Name + "="
		v.Value = strings.TrimPrefix(Redact(assignment+v.Value), assignment)
		out[i] = v
	}
	return out
}

// errSecret is the refusal to write a document that holds a password.
var errSecret = errors.New("refused: it holds a connection string with a password")

// guard refuses data that holds a connection string with a password that was
// not redacted.
func guard(data []byte) error {
	if !bytes.Contains(data, []byte("://")) {
		return nil
	}
	for _, match := range uriPassword().FindAll(data, -1) {
		if !bytes.HasSuffix(match, []byte(":"+secret.Redacted+"@")) {
			return errSecret
		}
	}
	return nil
}

// The expressions are compiled where they are used: they run a few times per
// cell, and the package keeps no state.
func uriPassword() *regexp.Regexp {
	return regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s"'/?:@]*:)[^\s"']*@`)
}

func assignedSecret() *regexp.Regexp {
	return regexp.MustCompile(`(?i)([\w.-]*(?:password|passwd|passphrase|secret|token)\s*=\s*)(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s,;&"']+)`)
}

func secretFlag() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^--?[\w.-]*(?:password|passwd|passphrase|secret|token)$`)
}
