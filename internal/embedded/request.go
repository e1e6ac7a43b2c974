package embedded

import (
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// sessionID is the UUID of a logical session.
type sessionID [16]byte

// request is a command with its generic arguments taken apart. A connection
// reuses one for all its commands.
type request struct {
	engine.Request
	generic
	cmd   *command
	first element // the command's name and its argument
}

// generic are the arguments that every command takes.
type generic struct {
	hasSession bool
	session    sessionID

	hasTxnNumber bool
	txnNumber    int64
	stmtID       int64
	start        bool // startTransaction: true
	inTxn        bool // autocommit: false

	hasReadConcern bool
	writeConcern   writeConcern
	secondaryOk    bool // $readPreference allows a secondary
	maxTime        time.Duration
	hasAPIVersion  bool
	apiStrict      bool
}

// writeConcern is w in one of its forms; whatever is asked for counts as
// satisfied when the set could ever satisfy it, for there is one copy of the
// data and it is in memory.
type writeConcern struct {
	set    bool
	number int64  // of members, when name is empty
	name   string // "majority" or another mode
}

// parse takes the message's body apart. Which commands there are is the
// server's to say.
func (q *request) parse(m *message, commands map[string]*command) error {
	lastDatabase := q.Database
	q.Request = engine.Request{Body: m.body, Sequences: m.sequences}
	q.generic = generic{}
	if m.query {
		q.Database = m.database
	}
	f := fieldsOf(m.body)
	var ok bool
	if q.first, ok = f.next(); !ok {
		q.cmd = nil
		return failf(59, "CommandNotFound", "no such command: ''")
	}
	if q.cmd = commands[string(q.first.key)]; q.cmd == nil {
		return failf(59, "CommandNotFound", "no such command: '%s'", q.first.key)
	}
	q.Name = q.cmd.name
	for {
		e, more := f.next()
		if !more {
			break
		}
		if string(e.key) == "$db" && e.kind == bson.TypeString && !m.query {
			if name := e.value[4 : len(e.value)-1]; string(name) == lastDatabase {
				q.Database = lastDatabase
			} else {
				q.Database = string(name)
			}
			continue
		}
		if err := q.argument(e); err != nil {
			return err
		}
	}
	if q.Database == "" && !m.query {
		return failf(40571, "Location40571", "OP_MSG requests require a $db argument")
	}
	if q.Database != lastDatabase && !validDatabase(q.Database) {
		return failf(73, "InvalidNamespace", "Invalid database name: '%s'", q.Database)
	}
	return q.checkSession()
}

// validDatabase follows the manual's Naming Restrictions (the stricter ones
// of Windows are the server's too).
func validDatabase(name string) bool {
	return name == "$external" || name != "" && len(name) < 64 && !strings.ContainsAny(name, "/\\. \"$*<>:|?\x00")
}

// isGeneric reports whether the field is one that every command may carry.
func isGeneric(key string) bool {
	switch key {
	case "$db", "lsid", "txnNumber", "stmtId", "stmtIds", "startTransaction", "autocommit", "readConcern",
		"writeConcern", "$readPreference", "apiVersion", "apiStrict", "apiDeprecationErrors", "maxTimeMS",
		"comment", "$clusterTime":
		return true
	}
	return false
}

// argument reads one field of the command when it is a generic one.
func (q *request) argument(e element) error {
	var ok bool
	switch string(e.key) {
	case "$db":
		return typeMismatch(q.Name, "$db", e.kind, "string")
	case "lsid":
		return q.readSession(e)
	case "txnNumber":
		if e.kind != bson.TypeInt64 {
			return typeMismatch(q.Name, "txnNumber", e.kind, "long")
		}
		q.hasTxnNumber = true
		if q.txnNumber, _ = e.number(); q.txnNumber < 0 {
			return invalidOptions("Transaction number cannot be negative: %d", q.txnNumber)
		}
	case "stmtId":
		if q.stmtID, ok = e.number(); !ok {
			return typeMismatch(q.Name, "stmtId", e.kind, "int")
		}
	case "stmtIds":
		list, isArray := e.array()
		if !isArray {
			return typeMismatch(q.Name, "stmtIds", e.kind, "array")
		}
		ids := fieldsOf(list)
		if id, more := ids.next(); more {
			if q.stmtID, ok = id.number(); !ok {
				return typeMismatch(q.Name, "stmtIds", id.kind, "int")
			}
		}
	case "startTransaction":
		if e.kind != bson.TypeBoolean {
			return typeMismatch(q.Name, "startTransaction", e.kind, "bool")
		}
		if q.start, _ = e.truth(); !q.start {
			return invalidOptions("Specifying startTransaction=false is not allowed.")
		}
	case "autocommit":
		if e.kind != bson.TypeBoolean {
			return typeMismatch(q.Name, "autocommit", e.kind, "bool")
		}
		if on, _ := e.truth(); on {
			return invalidOptions("Specifying autocommit=true is not allowed.")
		}
		q.inTxn = true
	case "readConcern":
		return q.readReadConcern(e)
	case "writeConcern":
		return q.readWriteConcern(e)
	case "$readPreference":
		return q.readReadPreference(e)
	case "maxTimeMS":
		n, isNumber := e.number()
		if !isNumber {
			return typeMismatch(q.Name, "maxTimeMS", e.kind, "int")
		}
		if n < 0 || n > 1<<31-1 {
			return badValue("%d value for maxTimeMS is out of range [0, 2147483647]", n)
		}
		q.maxTime = time.Duration(n) * time.Millisecond
	case "apiVersion":
		version, isText := e.text()
		if !isText {
			return typeMismatch(q.Name, "apiVersion", e.kind, "string")
		}
		if version != "1" {
			return failf(322, "APIVersionError", "API version must be \"1\"")
		}
		q.hasAPIVersion = true
	case "apiStrict":
		if q.apiStrict, ok = e.truth(); !ok {
			return typeMismatch(q.Name, "apiStrict", e.kind, "bool")
		}
	case "apiDeprecationErrors":
		if _, ok = e.truth(); !ok {
			return typeMismatch(q.Name, "apiDeprecationErrors", e.kind, "bool")
		}
	case "$clusterTime":
		if e.kind != bson.TypeEmbeddedDocument {
			return typeMismatch(q.Name, "$clusterTime", e.kind, "object")
		}
	}
	return nil
}

func (q *request) readSession(e element) error {
	doc, ok := e.document()
	if !ok {
		return typeMismatch(q.Name, "lsid", e.kind, "object")
	}
	id, err := parseSessionID(doc)
	if err != nil {
		return err
	}
	q.session, q.hasSession = id, true
	return nil
}

// parseSessionID reads {id: UUID}. The other fields that MongoDB knows (uid,
// txnNumber, txnUUID) are for its own routers.
func parseSessionID(doc []byte) (id sessionID, err error) {
	found := false
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			break
		}
		if string(e.key) != "id" {
			return id, unknownField("OperationSessionInfo.lsid", string(e.key))
		}
		subtype, data, isBinary := e.binary()
		if !isBinary || subtype != bson.TypeBinaryUUID {
			return id, typeMismatch("OperationSessionInfo.lsid", "id", e.kind, "UUID")
		}
		if len(data) != len(id) {
			return id, failf(207, "InvalidUUID", "uuid must be a 16-byte binary field with UUID (4) subtype")
		}
		copy(id[:], data)
		found = true
	}
	if !found {
		return id, failf(40414, "IDLFailedToParse", "BSON field 'OperationSessionInfo.lsid.id' is missing but a required field")
	}
	return id, nil
}

func (q *request) readReadConcern(e element) error {
	doc, ok := e.document()
	if !ok {
		return typeMismatch(q.Name, "readConcern", e.kind, "object")
	}
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			return nil
		}
		q.hasReadConcern = true
		switch string(e.key) {
		case "level":
			level, isText := e.text()
			if !isText {
				return typeMismatch("readConcern", "level", e.kind, "string")
			}
			switch level {
			case "local", "available", "majority", "linearizable", "snapshot":
			default:
				return badValue("Enumeration value '%s' for field 'readConcern.level' is not a valid value.", level)
			}
		case "afterClusterTime", "atClusterTime":
			if e.kind != bson.TypeTimestamp {
				return typeMismatch("readConcern", string(e.key), e.kind, "timestamp")
			}
		case "provenance":
		default:
			return unknownField("readConcern", string(e.key))
		}
	}
}

func (q *request) readWriteConcern(e element) error {
	doc, ok := e.document()
	if !ok {
		return typeMismatch(q.Name, "writeConcern", e.kind, "object")
	}
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			return nil
		}
		switch string(e.key) {
		case "w":
			q.writeConcern.set = true
			if q.writeConcern.name, ok = e.text(); ok {
				continue
			}
			if q.writeConcern.number, ok = e.number(); !ok {
				return failf(9, "FailedToParse", "w has to be a number or string; found: %s", typeName(e.kind))
			}
			if n := q.writeConcern.number; n < 0 || n > 50 {
				return failf(9, "FailedToParse", "w has to be a non-negative number and not greater than 50; found: %d", n)
			}
		case "j", "fsync":
			if _, ok = e.truth(); !ok {
				return failf(9, "FailedToParse", "%s must be numeric or a boolean value", e.key)
			}
		case "wtimeout":
			if n, isNumber := e.number(); !isNumber || n > 1<<31-1 {
				return failf(9, "FailedToParse", "wtimeout must be a number and not greater than 2147483647")
			}
		case "provenance":
		default:
			return failf(9, "FailedToParse", "unrecognized write concern field: %s", e.key)
		}
	}
}

func (q *request) readReadPreference(e element) error {
	doc, ok := e.document()
	if !ok {
		return typeMismatch(q.Name, "$readPreference", e.kind, "object")
	}
	mode := ""
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			break
		}
		switch string(e.key) {
		case "mode":
			mode, ok = e.text()
		case "tags":
			_, ok = e.array()
		case "maxStalenessSeconds":
			_, ok = e.number()
		case "hedge":
			_, ok = e.document()
		default:
			return unknownField("$readPreference", string(e.key))
		}
		if !ok {
			return typeMismatch("$readPreference", string(e.key), e.kind, "another type")
		}
	}
	switch mode {
	case "primary":
	case "primaryPreferred", "secondary", "secondaryPreferred", "nearest":
		q.secondaryOk = true
	default:
		return failf(9, "FailedToParse", "Could not parse $readPreference mode '%s'. "+
			"Only the modes 'primary', 'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are supported.", mode)
	}
	return nil
}

// checkSession checks the arguments that only mean something together.
func (q *request) checkSession() error {
	switch {
	case q.hasTxnNumber && !q.hasSession:
		return invalidOptions("Transaction number requires a session ID to also be specified")
	case q.inTxn && !q.hasTxnNumber:
		return invalidOptions("'autocommit' field requires a transaction number to also be specified")
	case q.start && !q.inTxn:
		return invalidOptions("'startTransaction' field requires 'autocommit' field to also be specified")
	case q.apiStrict && !q.hasAPIVersion:
		return failf(322, "APIVersionError", "Provided apiStrict without passing apiVersion")
	case q.apiStrict && !q.cmd.apiV1:
		return failf(323, "APIStrictError", "Provided apiStrict:true, but the command %s is not in API Version 1", q.Name)
	}
	return nil
}

// only refuses every field of the command that is neither generic nor named.
func (q *request) only(names ...string) error {
	f := fieldsOf(q.Body)
	_, _ = f.next()
next:
	for {
		e, more := f.next()
		if !more {
			return nil
		}
		key := string(e.key)
		if isGeneric(key) {
			continue
		}
		for _, name := range names {
			if key == name {
				continue next
			}
		}
		return unknownField(q.Name, key)
	}
}
