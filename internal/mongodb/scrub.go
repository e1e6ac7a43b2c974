package mongodb

import (
	"errors"
	"net/url"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// scrubber takes a password out of errors.
type scrubber struct{ forms []string }

// newScrubber knows the password as it is and in every URL-encoded form.
func newScrubber(password secret.Text) scrubber {
	if password.IsEmpty() {
		return scrubber{}
	}
	pw := password.Reveal()
	_, userinfo, _ := strings.Cut(url.UserPassword("", pw).String(), ":")
	return scrubber{[]string{pw, escape(pw), url.QueryEscape(pw), url.PathEscape(pw), userinfo}}
}

// error returns err unless its text holds the password; then an error with
// that taken out, which is still recognised by errors.Is and errors.As but
// does not unwrap: the chain underneath holds the password.
func (s scrubber) error(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	clean := text
	for _, form := range s.forms {
		clean = strings.ReplaceAll(clean, form, secret.Redacted)
	}
	if clean == text {
		return err
	}
	return &scrubbedError{clean, err}
}

type scrubbedError struct {
	text  string
	cause error
}

func (e *scrubbedError) Error() string        { return e.text }
func (e *scrubbedError) Is(target error) bool { return errors.Is(e.cause, target) }
func (e *scrubbedError) As(target any) bool   { return errors.As(e.cause, target) }
