// Package engine is the in-memory data engine behind the embedded server: it
// takes one database command at a time, as the wire protocol delivers it, and
// returns the reply document or the error that MongoDB would give.
//
// Documents are kept as the BSON bytes that arrived, in a B-tree by record
// number; every index is a B-tree of byte-comparable keys. Nothing is written
// to disk. The package knows nothing of sockets, authentication, sessions,
// retryable writes or replication.
package engine
