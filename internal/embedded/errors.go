package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// failf makes a command's error. Codes and names are those of MongoDB's
// error_codes.yml.
func failf(code int32, name, format string, args ...any) *engine.Error {
	return &engine.Error{Code: code, Name: name, Message: fmt.Sprintf(format, args...)}
}

// Codes that several places need.
const (
	codeBadValue             = 2
	codeUnauthorized         = 13
	codeTypeMismatch         = 14
	codeAuthenticationFailed = 18
	codeInvalidOptions       = 72
	codeNotWritablePrimary   = 10107
	codeNotPrimaryNoOk       = 13435
	codeNotPrimaryOrSec      = 13436
	codeNoSuchTransaction    = 251
)

func badValue(format string, args ...any) *engine.Error {
	return failf(codeBadValue, "BadValue", format, args...)
}

func invalidOptions(format string, args ...any) *engine.Error {
	return failf(codeInvalidOptions, "InvalidOptions", format, args...)
}

func typeMismatch(command, field string, got bson.Type, want string) *engine.Error {
	return failf(codeTypeMismatch, "TypeMismatch",
		"BSON field '%s.%s' is the wrong type '%s', expected type '%s'", command, field, typeName(got), want)
}

func unknownField(command, field string) *engine.Error {
	return failf(40415, "IDLUnknownField", "BSON field '%s.%s' is an unknown field.", command, field)
}

func notWritablePrimary() *engine.Error {
	return failf(codeNotWritablePrimary, "NotWritablePrimary", "not primary")
}

// asError turns whatever a command failed with into what the client sees.
func asError(err error) *engine.Error {
	var e *engine.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return failf(50, "MaxTimeMSExpired", "operation exceeded time limit")
	case errors.Is(err, context.Canceled):
		return failf(11600, "InterruptedAtShutdown", "interrupted at shutdown")
	default:
		return failf(8, "UnknownError", "%v", err)
	}
}

// retryableWrite reports whether a driver may try the write again after an
// error of this code (Retryable Writes specification).
func retryableWrite(code int32) bool {
	switch code {
	case 6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436:
		return true
	}
	return false
}

// transientInTransaction reports whether the whole transaction may be tried
// again after an error of this code in one of its commands (Transactions
// specification; MongoDB's isTransientTransactionError).
func transientInTransaction(code int32) bool {
	switch code {
	case 24, 112, 246, codeNoSuchTransaction, 267:
		return true
	}
	return retryableWrite(code)
}

const (
	labelRetryableWrite = "RetryableWriteError"
	labelTransient      = "TransientTransactionError"
)

// withLabel adds a label to a copy of the error.
func withLabel(e *engine.Error, label string) *engine.Error {
	if slices.Contains(e.Labels, label) {
		return e
	}
	labelled := *e
	labelled.Labels = append(slices.Clip(labelled.Labels), label)
	return &labelled
}
