package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

const (
	// sessionTimeout is MongoDB's localLogicalSessionTimeoutMinutes.
	sessionTimeout = 30 * time.Minute
	// orphanTimeout is how long a transaction outlives the connection that
	// its last command came on, for a driver that goes on with another.
	orphanTimeout = 5 * time.Second
)

type txnState uint8

const (
	txnNone txnState = iota
	txnInProgress
	txnCommitted
	txnAborted
)

// session is a logical session with its last transaction number and what
// came of it: the replies of a retryable write, or a transaction.
type session struct {
	mu       sync.Mutex // held while a command with a transaction number runs
	lastUse  time.Time
	number   int64 // the highest transaction number seen
	replies  []storedReply
	state    txnState
	txn      *engine.Txn
	txnLimit time.Time // when the transaction has had its time
	txnEnd   time.Time // when it is aborted, not after txnLimit
	txnConn  *conn     // the connection of its last command
}

// storedReply is what the statements of one command were answered with.
type storedReply struct {
	stmtID int64
	reply  bson.Raw
}

// sessions are the sessions that transaction numbers were used in. Others
// leave no trace here.
type sessions struct {
	mu  sync.Mutex
	all map[sessionID]*session
}

func newSessions() *sessions { return &sessions{all: map[sessionID]*session{}} }

// get returns the session, new if need be.
func (s *sessions) get(id sessionID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[id]
	if x == nil {
		x = &session{number: -1}
		s.all[id] = x
	}
	return x
}

// abort ends the session's transaction if one is in progress. The caller
// holds x.mu.
func (x *session) abort() bool {
	if x.state != txnInProgress {
		return false
	}
	x.txn.Abort()
	x.txn, x.txnConn, x.state = nil, nil, txnAborted
	return true
}

// advance makes number the session's present one, which forgets everything
// of the number before. The caller holds x.mu.
func (x *session) advance(number int64) (aborted bool) {
	aborted = x.abort()
	x.number, x.state, x.replies = number, txnNone, x.replies[:0]
	return aborted
}

// expire aborts transactions that have had their time and forgets sessions
// that nobody uses. It returns how many transactions it aborted.
func (s *sessions) expire(now time.Time) (aborted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.all {
		if !x.mu.TryLock() {
			continue // in use
		}
		if x.state == txnInProgress && now.After(x.txnEnd) && x.abort() {
			aborted++
		}
		if now.Sub(x.lastUse) > sessionTimeout {
			x.abort()
			delete(s.all, id)
		}
		x.mu.Unlock()
	}
	return aborted
}

// end aborts the session's transaction and forgets the session.
func (s *sessions) end(id sessionID) (aborted bool) {
	s.mu.Lock()
	x := s.all[id]
	delete(s.all, id)
	s.mu.Unlock()
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.abort()
}

// abortAll aborts every transaction.
func (s *sessions) abortAll() (aborted int64) {
	s.mu.Lock()
	all := make([]*session, 0, len(s.all))
	for _, x := range s.all {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		if x.abort() {
			aborted++
		}
		x.mu.Unlock()
	}
	return aborted
}

// connectionEnded gives the transaction of x little time, if c was the last
// connection it was used on.
func (s *sessions) connectionEnded(x *session, c *conn) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.state == txnInProgress && x.txnConn == c {
		x.txnConn = nil
		if end := time.Now().Add(orphanTimeout); end.Before(x.txnEnd) {
			x.txnEnd = end
		}
	}
}

// runNumbered runs a command that carries a transaction number.
func (s *Server) runNumbered(ctx context.Context, c *conn, q *request) (bson.Raw, error) {
	if s.repl == nil {
		return nil, failf(20, "IllegalOperation", "Transaction numbers are only allowed on a replica set member or mongos")
	}
	if view := s.repl.view.Load(); view.state != statePrimary {
		return nil, notWritablePrimary()
	}
	if !q.inTxn && !q.cmd.retryable {
		return nil, failf(50768, "NotARetryableWriteCommand", "txnNumber may only be provided for multi-document transactions "+
			"and retryable write commands. autocommit:false was not provided, and %s is not a retryable write command.", q.Name)
	}
	x := s.sessions.get(q.session)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lastUse = time.Now()
	if q.txnNumber < x.number {
		return nil, failf(225, "TransactionTooOld", "Cannot start transaction with { txnNumber: %d } on session because a newer "+
			"transaction with txnNumber %d has already started on this session.", q.txnNumber, x.number)
	}
	if q.inTxn {
		return s.runInTransaction(ctx, c, q, x)
	}
	return s.runRetryable(ctx, q, x)
}

// runRetryable applies a write once per session, number and statement.
func (s *Server) runRetryable(ctx context.Context, q *request, x *session) (bson.Raw, error) {
	if err := checkRetryable(q); err != nil {
		return nil, err
	}
	if q.txnNumber > x.number {
		if x.advance(q.txnNumber) {
			s.counters.txnAborted.Add(1)
		}
	} else if x.state != txnNone {
		return nil, failf(117, "ConflictingOperationInProgress", "a transaction with txnNumber %d exists on this session", q.txnNumber)
	}
	for _, stored := range x.replies {
		if stored.stmtID == q.stmtID {
			s.counters.retriedWrites.Add(1)
			return slices.Clone(stored.reply), nil
		}
	}
	reply, err := s.runEngine(ctx, q, nil)
	if err != nil {
		return nil, err
	}
	// Most replies fit where the last number's stood.
	i := len(x.replies)
	if i < cap(x.replies) {
		x.replies = x.replies[:i+1]
	} else {
		x.replies = append(x.replies, storedReply{})
	}
	x.replies[i].stmtID = q.stmtID
	x.replies[i].reply = append(x.replies[i].reply[:0], reply...)
	return reply, nil
}

// checkRetryable refuses writes to several documents by one statement.
func checkRetryable(q *request) error {
	name, field := "updates", "multi"
	switch q.Name {
	case "update":
	case "delete":
		name, field = "deletes", "limit"
	default:
		return nil
	}
	check := func(statement []byte) error {
		e, ok := find(statement, field)
		if !ok {
			return nil
		}
		if on, isBool := e.truth(); isBool && on == (field == "multi") {
			return invalidOptions("Cannot use (or request) retryable writes with %s", map[string]string{
				"multi": "multi=true", "limit": "limit=0"}[field])
		}
		return nil
	}
	for _, statement := range q.Sequences[name] {
		if err := validate(statement); err != nil {
			return err
		}
		if err := check(statement); err != nil {
			return err
		}
	}
	if e, ok := find(q.Body, name); ok && e.kind == bson.TypeArray {
		for f := fieldsOf(e.value); ; {
			item, more := f.next()
			if !more {
				break
			}
			if item.kind != bson.TypeEmbeddedDocument {
				continue // the engine says what is wrong with it
			}
			if err := check(item.value); err != nil {
				return err
			}
		}
	}
	return nil
}

func noSuchTransaction(q *request) *engine.Error {
	return failf(codeNoSuchTransaction, "NoSuchTransaction",
		"Given transaction number %d does not match any in-progress transactions.", q.txnNumber)
}

// runInTransaction runs a command of a multi-document transaction.
func (s *Server) runInTransaction(ctx context.Context, c *conn, q *request, x *session) (bson.Raw, error) {
	if !q.cmd.inTxn && q.cmd.txnEnd == txnNone {
		if x.state == txnInProgress && q.txnNumber == x.number {
			s.abortTxn(x)
		}
		return nil, failf(263, "OperationNotSupportedInTransaction", "Cannot run '%s' in a multi-document transaction.", q.Name)
	}
	if q.cmd.txnEnd != txnNone {
		return s.endTransaction(q, x)
	}
	if q.writeConcern.set {
		return nil, invalidOptions("writeConcern is not allowed within a multi-statement transaction")
	}
	if q.Database == "local" || q.Database == "config" || q.Database == "admin" {
		return nil, failf(263, "OperationNotSupportedInTransaction", "Cannot run command against the '%s' database in a transaction.", q.Database)
	}
	if q.start {
		if q.txnNumber == x.number && (x.state != txnNone || len(x.replies) > 0) {
			return nil, failf(117, "ConflictingOperationInProgress", "Cannot start a transaction with given transaction number %d: it exists already", q.txnNumber)
		}
		if x.advance(q.txnNumber) {
			s.counters.txnAborted.Add(1)
		}
		txn := s.beginTxn()
		if txn == nil {
			return nil, notWritablePrimary()
		}
		x.txn, x.state = txn, txnInProgress
		x.txnLimit = x.lastUse.Add(s.cfg.parameters.lifetime)
		x.txnEnd = x.txnLimit
		s.counters.txnStarted.Add(1)
	} else {
		if q.txnNumber != x.number || x.state == txnNone {
			return nil, noSuchTransaction(q)
		}
		if q.hasReadConcern {
			return nil, invalidOptions("Only the first command in a transaction may specify a readConcern")
		}
		switch x.state {
		case txnCommitted:
			return nil, failf(256, "TransactionCommitted", "Transaction with { txnNumber: %d } has been committed.", q.txnNumber)
		case txnAborted:
			return nil, failf(codeNoSuchTransaction, "NoSuchTransaction", "Transaction with { txnNumber: %d } has been aborted.", q.txnNumber)
		}
		if x.lastUse.After(x.txnEnd) {
			s.abortTxn(x)
			return nil, noSuchTransaction(q)
		}
	}
	if x.txnConn != c {
		x.txnConn, c.lastTxn = c, x
		x.txnEnd = x.txnLimit // the connection before may have ended
	}
	reply, err := s.runEngine(ctx, q, x.txn)
	if err != nil || hasWriteErrors(q, reply) {
		// Any failure aborts the transaction, as it does on a mongod.
		s.abortTxn(x)
	}
	return reply, err
}

// beginTxn begins a transaction unless the server has just stopped being the
// primary.
func (s *Server) beginTxn() *engine.Txn {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.repl.view.Load().state != statePrimary {
		return nil
	}
	return s.engine.Load().Begin()
}

func hasWriteErrors(q *request, reply bson.Raw) bool {
	if q.cmd.kind != kindWrite {
		return false
	}
	_, found := find(reply, "writeErrors")
	return found
}

func (s *Server) abortTxn(x *session) {
	if x.abort() {
		s.counters.txnAborted.Add(1)
	}
}

// endTransaction is commitTransaction and abortTransaction.
func (s *Server) endTransaction(q *request, x *session) (bson.Raw, error) {
	if err := q.only("recoveryToken"); err != nil {
		return nil, err
	}
	if q.start {
		return nil, invalidOptions("%s cannot start a transaction", q.Name)
	}
	if q.txnNumber != x.number || x.state == txnNone {
		return nil, noSuchTransaction(q)
	}
	if q.cmd.txnEnd == txnAborted {
		switch x.state {
		case txnCommitted:
			return nil, failf(256, "TransactionCommitted", "Transaction with { txnNumber: %d } has been committed.", q.txnNumber)
		case txnAborted:
			return nil, failf(codeNoSuchTransaction, "NoSuchTransaction", "Transaction with { txnNumber: %d } has been aborted.", q.txnNumber)
		}
		s.abortTxn(x)
		return okReply(), nil
	}
	switch {
	case x.state == txnCommitted:
		return okReply(), nil // a retry
	case x.state == txnAborted || x.lastUse.After(x.txnEnd):
		s.abortTxn(x)
		return nil, failf(codeNoSuchTransaction, "NoSuchTransaction", "Transaction with { txnNumber: %d } has been aborted.", q.txnNumber)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.repl.view.Load().state != statePrimary {
		s.abortTxn(x)
		return nil, notWritablePrimary()
	}
	if err := x.txn.Commit(); err != nil {
		x.txn, x.txnConn, x.state = nil, nil, txnAborted
		s.counters.txnAborted.Add(1)
		var e *engine.Error
		if errors.As(err, &e) {
			return nil, e
		}
		return nil, err
	}
	x.txn, x.txnConn, x.state = nil, nil, txnCommitted
	s.counters.txnCommitted.Add(1)
	s.lastOp.Add(1)
	return okReply(), nil
}

func okReply() bson.Raw {
	return closeDocument(appendDouble(make([]byte, 4, 24), "ok", 1), 0)
}

// startSession hands out an identifier.
func (s *Server) startSession(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	var id sessionID
	_, _ = rand.Read(id[:]) // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return bson.D{
		{Key: "id", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}}},
		{Key: "timeoutMinutes", Value: int32(sessionTimeout / time.Minute)},
	}, nil
}

// endSessions is endSessions, killSessions and, without a list, killAllSessions.
func (s *Server) endSessions(_ context.Context, _ *conn, q *request) (bson.D, error) {
	ids, err := sessionList(q)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if s.sessions.end(id) {
			s.counters.txnAborted.Add(1)
		}
	}
	if len(ids) == 0 && q.Name != "endSessions" {
		s.counters.txnAborted.Add(s.sessions.abortAll())
	}
	return bson.D{}, nil
}

func (s *Server) refreshSessions(_ context.Context, _ *conn, q *request) (bson.D, error) {
	ids, err := sessionList(q)
	if err != nil {
		return nil, err
	}
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	for _, id := range ids {
		if x := s.sessions.all[id]; x != nil && x.mu.TryLock() { // else it is in use
			x.lastUse = time.Now()
			x.mu.Unlock()
		}
	}
	return bson.D{}, nil
}

func sessionList(q *request) ([]sessionID, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	list, ok := q.first.array()
	if !ok {
		return nil, typeMismatch(q.Name, q.Name, q.first.kind, "array")
	}
	var ids []sessionID
	for f := fieldsOf(list); ; {
		e, more := f.next()
		if !more {
			return ids, nil
		}
		doc, isDoc := e.document()
		if !isDoc {
			return nil, typeMismatch(q.Name, q.Name, e.kind, "object")
		}
		id, err := parseSessionID(doc)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}
