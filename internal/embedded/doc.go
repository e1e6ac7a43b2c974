// Package embedded is a small server of the MongoDB wire protocol that keeps
// its data in memory.
//
// In go connections (OP_MSG, and OP_QUERY for the handshake) and a
// mongod.conf; out come replies, error codes and replica set behaviour as a
// driver expects them of MongoDB 8.0. The sub-package engine holds the data
// and runs the data commands; this package does everything around it: the
// protocol, authentication, sessions, retryable writes, transactions, fail
// points, administration, and replica sets across processes.
//
// What it does not do: it does not persist data (only users, the replica set
// configuration and the election term survive a restart), it does not
// replicate (secondaries forward reads to the primary, whose memory is the
// only copy), it does not speak TLS or compression, and it does not pretend:
// hello and buildInfo carry sandboxEmbedded: true, and nothing measured on it
// says anything about MongoDB.
//
// Facts of the protocol are from the MongoDB manual (Wire Protocol, Database
// Commands, Error Codes), the drivers' specifications (Server Discovery and
// Monitoring, Retryable Writes, Transactions, Authentication) and the
// server's README files for fail points.
package embedded
