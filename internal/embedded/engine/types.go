package engine

import "go.mongodb.org/mongo-driver/v2/bson"

// Request is one command as the wire protocol delivers it.
type Request struct {
	Database string
	Name     string   // the command's name as sent: "find"
	Body     bson.Raw // the whole command document, generic fields ($db, lsid, …) included
	// Sequences are the document sequences (OP_MSG section kind 1) by
	// identifier: "documents", "updates", "deletes".
	Sequences map[string][]bson.Raw
	// Txn is the transaction the command runs in; nil outside of one.
	Txn *Txn
}

// Error is a command that failed. The server renders it as {ok: 0, errmsg,
// code, codeName, errorLabels}.
type Error struct {
	Code    int32
	Name    string // MongoDB's codeName: "BadValue"
	Message string
	Labels  []string
}

// Error implements error.
func (e *Error) Error() string { return e.Name + ": " + e.Message }
