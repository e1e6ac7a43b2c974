package engine

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// Codes of MongoDB's error_codes.yml. Numbers without a name in that file are
// used as they are and named "Location<number>".
const (
	codeBadValue              = 2
	codeFailedToParse         = 9
	codeUnauthorized          = 13
	codeTypeMismatch          = 14
	codeOverflow              = 15
	codeInvalidLength         = 21
	codeInvalidBSON           = 22
	codeNamespaceNotFound     = 26
	codeIndexNotFound         = 27
	codePathNotViable         = 28
	codeConflictingUpdate     = 40
	codeCursorNotFound        = 43
	codeNamespaceExists       = 48
	codeMaxTimeMSExpired      = 50
	codeDollarPrefixedName    = 52
	codeInvalidIDField        = 53
	codeEmptyFieldName        = 56
	codeCommandNotFound       = 59
	codeImmutableField        = 66
	codeCannotCreateIndex     = 67
	codeInvalidOptions        = 72
	codeInvalidNamespace      = 73
	codeIndexOptionsConflict  = 85
	codeIndexKeySpecsConflict = 86
	codeWriteConflict         = 112
	codeInvalidPipelineOp     = 168
	codeParallelArrays        = 171
	codeInvalidIndexOption    = 197
	codeNotImplemented        = 238
	codeNoSuchTransaction     = 251
	codeTransactionCommitted  = 256
	codeNotSupportedInTxn     = 263
	codeObjectTooLarge        = 10334
	codeDuplicateKey          = 11000
	codeInterrupted           = 11601
	codeMissingField          = 40414
	codeUnknownField          = 40415
)

func codeName(code int32) string {
	switch code {
	case codeBadValue:
		return "BadValue"
	case codeFailedToParse:
		return "FailedToParse"
	case codeUnauthorized:
		return "Unauthorized"
	case codeTypeMismatch:
		return "TypeMismatch"
	case codeOverflow:
		return "Overflow"
	case codeInvalidLength:
		return "InvalidLength"
	case codeInvalidBSON:
		return "InvalidBSON"
	case codeNamespaceNotFound:
		return "NamespaceNotFound"
	case codeIndexNotFound:
		return "IndexNotFound"
	case codePathNotViable:
		return "PathNotViable"
	case codeConflictingUpdate:
		return "ConflictingUpdateOperators"
	case codeCursorNotFound:
		return "CursorNotFound"
	case codeNamespaceExists:
		return "NamespaceExists"
	case codeMaxTimeMSExpired:
		return "MaxTimeMSExpired"
	case codeDollarPrefixedName:
		return "DollarPrefixedFieldName"
	case codeInvalidIDField:
		return "InvalidIdField"
	case codeEmptyFieldName:
		return "EmptyFieldName"
	case codeCommandNotFound:
		return "CommandNotFound"
	case codeImmutableField:
		return "ImmutableField"
	case codeCannotCreateIndex:
		return "CannotCreateIndex"
	case codeInvalidOptions:
		return "InvalidOptions"
	case codeInvalidNamespace:
		return "InvalidNamespace"
	case codeIndexOptionsConflict:
		return "IndexOptionsConflict"
	case codeIndexKeySpecsConflict:
		return "IndexKeySpecsConflict"
	case codeWriteConflict:
		return "WriteConflict"
	case codeInvalidPipelineOp:
		return "InvalidPipelineOperator"
	case codeParallelArrays:
		return "CannotIndexParallelArrays"
	case codeInvalidIndexOption:
		return "InvalidIndexSpecificationOption"
	case codeNotImplemented:
		return "NotImplemented"
	case codeNoSuchTransaction:
		return "NoSuchTransaction"
	case codeTransactionCommitted:
		return "TransactionCommitted"
	case codeNotSupportedInTxn:
		return "OperationNotSupportedInTransaction"
	case codeObjectTooLarge:
		return "BSONObjectTooLarge"
	case codeDuplicateKey:
		return "DuplicateKey"
	case codeInterrupted:
		return "Interrupted"
	case codeMissingField:
		return "IDLFailedToParse"
	case codeUnknownField:
		return "IDLUnknownField"
	}
	return "Location" + strconv.Itoa(int(code))
}

const labelTransient = "TransientTransactionError"

// failure returns the error with MongoDB's name for the code.
func failure(code int32, format string, args ...any) *Error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return &Error{Code: code, Name: codeName(code), Message: msg}
}

// notImplemented refuses something that MongoDB has and this engine has not.
func notImplemented(what string) *Error {
	return failure(codeNotImplemented, "%s is not implemented by the embedded engine", what)
}

func writeConflict() *Error {
	err := failure(codeWriteConflict, "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction.")
	err.Labels = []string{labelTransient}
	return err
}

// interrupted turns the end of a context into what a client sees: a deadline
// is maxTimeMS, anything else is a kill.
func interrupted(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return failure(codeMaxTimeMSExpired, "operation exceeded time limit")
	default:
		return failure(codeInterrupted, "operation was interrupted")
	}
}

// asError returns err as an *Error; whatever else it is becomes an internal
// error (code 1).
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: 1, Name: "InternalError", Message: err.Error()}
}
