package embedded

import (
	"context"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// kind is who may answer a command.
type kind uint8

const (
	kindAdmin kind = iota // any member, of itself
	kindRead              // the primary, or a secondary that forwards it
	kindWrite             // the primary
	kindTxn               // commitTransaction, abortTransaction
)

// command is an entry of the command table.
type command struct {
	name      string
	kind      kind
	privilege privilege
	open      bool // needs no authentication
	legacy    bool // may come as OP_QUERY
	adminOnly bool // runs against the database admin only
	apiV1     bool // in Stable API version 1
	inTxn     bool // may run in a transaction
	retryable bool // may carry a transaction number outside of one
	txnEnd    txnState
	run       func(context.Context, *conn, *request) (bson.D, error) // nil: the engine
}

// commandTable lists what the server answers. What is not in it does not
// exist, and the client is told so.
func (s *Server) commandTable() map[string]*command {
	list := []*command{
		{name: "hello", open: true, legacy: true, apiV1: true, run: s.hello},
		{name: "isMaster", open: true, legacy: true, run: s.hello},
		{name: "ismaster", open: true, legacy: true, run: s.hello},
		{name: "ping", open: true, apiV1: true, run: s.ping},
		{name: "buildInfo", open: true, run: s.buildInfo},
		{name: "buildinfo", open: true, run: s.buildInfo},
		{name: "saslStart", open: true, run: s.saslStart},
		{name: "saslContinue", open: true, run: s.saslContinue},
		{name: "logout", open: true, run: s.logout},
		{name: "connectionStatus", open: true, run: s.connectionStatus},
		{name: "whatsmyuri", open: true, run: s.whatsMyURI},

		{name: "startSession", run: s.startSession},
		{name: "refreshSessions", apiV1: true, run: s.refreshSessions},
		{name: "endSessions", apiV1: true, run: s.endSessions},
		{name: "killSessions", run: s.endSessions},
		{name: "killAllSessions", privilege: privCluster, run: s.endSessions},
		{name: "commitTransaction", kind: kindTxn, adminOnly: true, apiV1: true, txnEnd: txnCommitted},
		{name: "abortTransaction", kind: kindTxn, adminOnly: true, apiV1: true, txnEnd: txnAborted},

		{name: "createUser", privilege: privUsers, run: s.createUser},
		{name: "dropUser", privilege: privUsers, run: s.dropUser},
		{name: "usersInfo", privilege: privUsers, run: s.usersInfo},

		{name: "serverStatus", privilege: privMonitor, run: s.serverStatus},
		{name: "hostInfo", adminOnly: true, privilege: privMonitor, run: s.hostInfo},
		{name: "getParameter", adminOnly: true, privilege: privMonitor, run: s.getParameter},
		{name: "getCmdLineOpts", adminOnly: true, privilege: privMonitor, run: s.getCmdLineOpts},
		{name: "getDiagnosticData", adminOnly: true, privilege: privMonitor, run: s.getDiagnosticData},
		{name: "configureFailPoint", adminOnly: true, privilege: privCluster, run: s.configureFailPoint},
		{name: "shutdown", adminOnly: true, privilege: privCluster, run: s.shutdown},

		{name: "replSetInitiate", adminOnly: true, privilege: privCluster, run: s.replSetInitiate},
		{name: "replSetGetStatus", adminOnly: true, privilege: privMonitor, run: s.replSetGetStatus},
		{name: "replSetGetConfig", adminOnly: true, privilege: privMonitor, run: s.replSetGetConfig},
		{name: "getDefaultRWConcern", adminOnly: true, privilege: privMonitor, run: s.getDefaultRWConcern},
		{name: "replSetStepDown", adminOnly: true, privilege: privCluster, run: s.replSetStepDown},
	}
	if s.repl != nil {
		list = append(list, s.repl.memberCommands()...)
	}
	table := make(map[string]*command, 2*len(list))
	for _, name := range s.engine.Load().Commands() {
		table[name] = dataCommand(name)
	}
	for _, cmd := range list {
		table[cmd.name] = cmd
	}
	return table
}

// dataCommand classifies a command of the engine. One that is not known here
// counts as a write, which is the careful choice.
func dataCommand(name string) *command {
	cmd := &command{name: name, kind: kindWrite, privilege: privWrite}
	switch name {
	case "find", "aggregate", "getMore", "killCursors", "distinct":
		cmd.kind, cmd.privilege, cmd.inTxn, cmd.apiV1 = kindRead, privRead, true, name != "distinct"
	case "count", "explain", "listCollections", "listIndexes":
		cmd.kind, cmd.privilege, cmd.apiV1 = kindRead, privRead, true
	case "collStats", "collstats", "dbStats", "dbstats", "dataSize", "dbHash", "validate":
		cmd.kind, cmd.privilege = kindRead, privRead
	case "listDatabases":
		cmd.kind, cmd.privilege, cmd.apiV1, cmd.adminOnly = kindRead, privMonitor, true, true
	case "insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite":
		cmd.inTxn, cmd.retryable, cmd.apiV1 = true, true, true
	case "create", "createIndexes":
		cmd.inTxn, cmd.apiV1 = true, true
	case "drop", "dropIndexes", "collMod":
		cmd.apiV1 = true
	case "dropDatabase":
		cmd.privilege, cmd.apiV1 = privDBAdmin, true
	}
	return cmd
}

// dispatch runs a command that has been parsed.
func (s *Server) dispatch(ctx context.Context, c *conn, q *request) (bson.Raw, error) {
	s.countOperation(q)
	reply, err := s.execute(ctx, c, q)
	if err != nil {
		if err == errHangUp { //nolint:errorlint // never wrapped
			return nil, err
		}
		return nil, label(q, asError(err))
	}
	return reply, nil
}

func (s *Server) execute(ctx context.Context, c *conn, q *request) (bson.Raw, error) {
	cmd := q.cmd
	if c.msg.query && !cmd.legacy {
		return nil, failf(352, "UnsupportedOpQueryCommand", "Unsupported OP_QUERY command: %s. The client driver may require an upgrade.", q.Name)
	}
	if err := s.authorize(c, q); err != nil {
		return nil, err
	}
	if cmd.adminOnly && q.Database != "admin" {
		return nil, failf(codeUnauthorized, "Unauthorized", "%s may only be run against the admin database.", q.Name)
	}
	var failed bson.Raw // the fail point's writeConcernError
	var failedLabels []string
	if p := s.failPoint.Load(); p != nil && p.takes(c, q.Name) {
		p.wait(ctx)
		switch {
		case p.closeConnection:
			return nil, errHangUp
		case p.hasErrorCode:
			e := failf(p.errorCode, codeName(p.errorCode), "Failing command via 'failCommand' failpoint")
			if p.hasLabels {
				e.Labels = append([]string{}, p.errorLabels...) // not nil: no label is added
			}
			return nil, e
		}
		failed, failedLabels = p.writeConcernError, p.errorLabels
	}
	if q.writeConcern.set && s.repl == nil && (q.writeConcern.number > 1 || q.writeConcern.name != "" && q.writeConcern.name != "majority") {
		return nil, badValue("cannot use non-majority 'w' mode or 'w' > 1 when a host is not replicated")
	}
	reply, err := s.run(ctx, c, q)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return s.withWriteConcernError(q, reply, failed, failedLabels), nil
	}
	if q.writeConcern.set && s.repl != nil && (cmd.kind == kindWrite || cmd.kind == kindTxn) {
		if doc := s.repl.unsatisfiable(q.writeConcern); doc != nil {
			return s.withWriteConcernError(q, reply, doc, nil), nil
		}
	}
	return reply, nil
}

func (s *Server) run(ctx context.Context, c *conn, q *request) (bson.Raw, error) {
	if q.maxTime > 0 {
		ctx = deadlineContext{ctx, time.Now().Add(q.maxTime)}
	}
	if q.hasTxnNumber {
		return s.runNumbered(ctx, c, q)
	}
	if q.cmd.run != nil {
		doc, err := q.cmd.run(ctx, c, q)
		if err != nil {
			return nil, err
		}
		reply, err := bson.Marshal(doc)
		if err != nil {
			return nil, err
		}
		return extend(reply, appendDouble(nil, "ok", 1)), nil
	}
	if q.cmd.kind == kindTxn {
		return nil, invalidOptions("%s must be run within a transaction", q.Name)
	}
	if s.repl != nil {
		if view := s.repl.view.Load(); view.state != statePrimary {
			return s.repl.runElsewhere(c, q, view)
		}
	}
	return s.runEngine(ctx, q, nil)
}

// runEngine runs a data command on this member's data.
func (s *Server) runEngine(ctx context.Context, q *request, txn *engine.Txn) (bson.Raw, error) {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.repl != nil && s.repl.view.Load().state != statePrimary {
		if q.cmd.kind == kindRead {
			return nil, failf(codeNotPrimaryNoOk, "NotPrimaryNoSecondaryOk", "not primary and secondaryOk=false")
		}
		return nil, notWritablePrimary()
	}
	q.Txn = txn
	reply, err := s.engine.Load().Run(ctx, &q.Request)
	if err == nil && q.cmd.kind == kindWrite {
		s.lastOp.Add(1)
	}
	return reply, err
}

// countOperation counts as serverStatus.opcounters does: writes by their
// statements, everything else by command.
func (s *Server) countOperation(q *request) {
	switch q.Name {
	case "find":
		s.counters.query.Add(1)
	case "getMore":
		s.counters.getmore.Add(1)
	case "insert":
		s.counters.insert.Add(statements(q, "documents"))
	case "update":
		s.counters.update.Add(statements(q, "updates"))
	case "delete":
		s.counters.deletes.Add(statements(q, "deletes"))
	default:
		s.counters.command.Add(1)
	}
}

func statements(q *request, field string) int64 {
	if docs, ok := q.Sequences[field]; ok {
		return int64(len(docs))
	}
	if e, ok := find(q.Body, field); ok && e.kind == bson.TypeArray {
		return int64(count(e.value))
	}
	return 0
}

// withWriteConcernError adds the error to a reply, and the labels it calls
// for.
func (s *Server) withWriteConcernError(q *request, reply, doc bson.Raw, labels []string) bson.Raw {
	if _, has := find(reply, "writeConcernError"); has {
		return reply
	}
	more := append(appendKey(nil, bson.TypeEmbeddedDocument, "writeConcernError"), doc...)
	if labels == nil && q.hasTxnNumber {
		if e, ok := find(doc, "code"); ok {
			if code, isNumber := e.number(); isNumber && retryableWrite(int32(code)) {
				labels = []string{labelRetryableWrite}
			}
		}
	}
	if len(labels) > 0 {
		more = appendLabels(more, labels)
	}
	return extend(reply, more)
}

// label adds the error labels that the drivers' specifications give to the
// server.
func label(q *request, e *engine.Error) *engine.Error {
	switch {
	case e.Labels != nil && len(e.Labels) == 0: // told to have none
		return e
	case q.inTxn && (q.cmd.txnEnd == txnNone || !retryableWrite(e.Code)):
		if transientInTransaction(e.Code) {
			return withLabel(e, labelTransient)
		}
	case q.hasTxnNumber && retryableWrite(e.Code):
		return withLabel(e, labelRetryableWrite)
	}
	return e
}

// codeName names the codes that tests inject; others are named by number, as
// MongoDB does for codes without a name.
func codeName(code int32) string {
	switch code {
	case 1:
		return "InternalError"
	case 2:
		return "BadValue"
	case 6:
		return "HostUnreachable"
	case 7:
		return "HostNotFound"
	case 11:
		return "UserNotFound"
	case 13:
		return "Unauthorized"
	case 18:
		return "AuthenticationFailed"
	case 24:
		return "LockTimeout"
	case 26:
		return "NamespaceNotFound"
	case 43:
		return "CursorNotFound"
	case 50:
		return "MaxTimeMSExpired"
	case 64:
		return "WriteConcernTimeout"
	case 89:
		return "NetworkTimeout"
	case 91:
		return "ShutdownInProgress"
	case 100:
		return "UnsatisfiableWriteConcern"
	case 112:
		return "WriteConflict"
	case 133:
		return "FailedToSatisfyReadPreference"
	case 134:
		return "ReadConcernMajorityNotAvailableYet"
	case 189:
		return "PrimarySteppedDown"
	case 202:
		return "NetworkInterfaceExceededTimeLimit"
	case 246:
		return "SnapshotUnavailable"
	case 251:
		return "NoSuchTransaction"
	case 262:
		return "ExceededTimeLimit"
	case 391:
		return "ReauthenticationRequired"
	case 462:
		return "IngressRequestRateLimitExceeded"
	case 9001:
		return "SocketException"
	case 10107:
		return "NotWritablePrimary"
	case 11000:
		return "DuplicateKey"
	case 11600:
		return "InterruptedAtShutdown"
	case 11601:
		return "Interrupted"
	case 11602:
		return "InterruptedDueToReplStateChange"
	case 13435:
		return "NotPrimaryNoSecondaryOk"
	case 13436:
		return "NotPrimaryOrSecondary"
	}
	return "Location" + strconv.Itoa(int(code))
}
