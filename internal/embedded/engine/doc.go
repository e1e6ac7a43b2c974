// Package engine holds data.
package engine

// Txn is a transaction.
type Txn struct{}
