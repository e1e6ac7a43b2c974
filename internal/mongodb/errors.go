package mongodb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"
)

// The names ErrorName has for what is not an error code of a server.
const (
	NameCanceled        = "Canceled"        // the caller gave up
	NameServerSelection = "ServerSelection" // no suitable server was found in time
	NameTimeout         = "Timeout"         // no answer within the client's time limit
	NameNetwork         = "Network"         // the connection failed or was closed
	NameDuplicateKey    = "DuplicateKey"    // an insert or update broke a unique index
	NameOther           = "Other"           // anything else the driver refuses
)

// ErrorName gives the error of a command a short name that does not change
// from one server or driver version to the next and is fit for counting: a
// server's codeName ("WriteConflict"), "code 123" where it sent none,
// "WriteConcern(…)" with one of these inside when the write was applied but
// not acknowledged as asked, or one of the Name constants. It returns "" for
// nil.
//
// Writes report failed documents by code alone, so their errors are "code
// 112" rather than "WriteConflict"; duplicate keys, which every insert
// workload knows, are told apart by the driver.
func ErrorName(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return NameCanceled
	}
	// Before timeouts: a selection that ends with the command's own deadline
	// is both.
	var selection topology.ServerSelectionError
	if errors.As(err, &selection) {
		return NameServerSelection
	}
	if mongo.IsDuplicateKeyError(err) {
		return NameDuplicateKey
	}
	var write mongo.WriteException
	if errors.As(err, &write) {
		if len(write.WriteErrors) > 0 {
			return codeName("", write.WriteErrors[0].Code, write.WriteErrors[0].Raw)
		}
		return concernName(write.WriteConcernError)
	}
	var bulk mongo.BulkWriteException
	if errors.As(err, &bulk) {
		if len(bulk.WriteErrors) > 0 {
			return codeName("", bulk.WriteErrors[0].Code, bulk.WriteErrors[0].Raw)
		}
		return concernName(bulk.WriteConcernError)
	}
	var command mongo.CommandError
	if errors.As(err, &command) && (command.Code != 0 || command.Name != "") {
		return codeName(command.Name, int(command.Code), command.Raw)
	}
	if mongo.IsTimeout(err) {
		return NameTimeout
	}
	if isNetwork(err) {
		return NameNetwork
	}
	return NameOther
}

// maxTimeMSExpired is the server's code for a command that it ended because
// its maxTimeMS had passed.
const maxTimeMSExpired = 50

// IsTimeout reports whether a command failed because the time it was given
// ran out: at the client, or at the server, which the driver tells by
// maxTimeMS. A server that could not be selected in time is none: nothing was
// sent.
func IsTimeout(err error) bool {
	switch ErrorName(err) {
	case "", NameCanceled, NameServerSelection:
		return false
	case NameTimeout:
		return true
	}
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(maxTimeMSExpired)
}

func isNetwork(err error) bool {
	if mongo.IsNetworkError(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) {
		return true
	}
	var connection topology.ConnectionError
	var network net.Error
	// The failure of another command's connection closed this one's pool.
	var pool driver.RetryablePoolError
	return errors.As(err, &connection) || errors.As(err, &network) || errors.As(err, &pool)
}

func codeName(name string, code int, raw bson.Raw) string {
	if name != "" {
		return name
	}
	if value, err := raw.LookupErr("codeName"); err == nil {
		if text, ok := value.StringValueOK(); ok && text != "" {
			return text
		}
	}
	return fmt.Sprintf("code %d", code)
}

func concernName(wce *mongo.WriteConcernError) string {
	if wce == nil {
		return NameOther
	}
	return "WriteConcern(" + codeName(wce.Name, wce.Code, wce.Raw) + ")"
}
