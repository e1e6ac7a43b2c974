package embedded

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

func TestAuthentication(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true, Authorization: true, Username: "admin", Password: secret.New("pä:ss/wörd")})
	ctx := testContext(t)
	good := connect(t, s.URI(), options.Client().SetAuth(options.Credential{Username: "admin", Password: "pä:ss/wörd"}))
	if err := good.Ping(ctx, nil); err != nil {
		t.Fatal(err)
	}
	runOK(t, good, bson.D{{Key: "createUser", Value: "reader"}, {Key: "pwd", Value: "r"},
		{Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: "read"}, {Key: "db", Value: "db"}}}}})

	for name, cred := range map[string]options.Credential{
		"wrong password": {Username: "admin", Password: "pass"},
		"no such user":   {Username: "nobody", Password: "pä:ss/wörd"},
		"other database": {Username: "admin", Password: "pä:ss/wörd", AuthSource: "db"},
		"SCRAM-SHA-1":    {Username: "admin", Password: "pä:ss/wörd", AuthMechanism: "SCRAM-SHA-1"},
	} {
		t.Run(name, func(t *testing.T) {
			client := connect(t, s.URI(), options.Client().SetAuth(cred))
			err := client.Ping(ctx, nil)
			if err == nil || !strings.Contains(err.Error(), "uthenticat") {
				t.Errorf("ping: %v", err)
			}
		})
	}

	w := dialWire(t, s)
	for _, command := range []bson.D{
		{{Key: "serverStatus", Value: 1}}, {{Key: "find", Value: "c"}}, {{Key: "createUser", Value: "x"}, {Key: "pwd", Value: "x"}, {Key: "roles", Value: bson.A{"root"}}},
		{{Key: "replSetGetStatus", Value: 1}}, {{Key: "shutdown", Value: 1}}, {{Key: "endSessions", Value: bson.A{}}},
	} {
		if got := code(w.run("admin", command)); got != codeUnauthorized {
			t.Errorf("%s without authentication: code %d", command[0].Key, got)
		}
	}
	for _, command := range []bson.D{{{Key: "hello", Value: 1}}, {{Key: "ping", Value: 1}}, {{Key: "buildInfo", Value: 1}}, {{Key: "connectionStatus", Value: 1}}} {
		if got := code(w.run("admin", command)); got != 0 {
			t.Errorf("%s without authentication: code %d", command[0].Key, got)
		}
	}

	w.login("reader", "r")
	for name, tc := range map[string]struct {
		db      string
		command bson.D
		code    int32
	}{
		"own database":     {"db", bson.D{{Key: "find", Value: "c"}}, 0},
		"other database":   {"db2", bson.D{{Key: "find", Value: "c"}}, codeUnauthorized},
		"write":            {"db", bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}}, codeUnauthorized},
		"users":            {"db", bson.D{{Key: "usersInfo", Value: 1}}, codeUnauthorized},
		"server's state":   {"admin", bson.D{{Key: "serverStatus", Value: 1}}, codeUnauthorized},
		"not in admin":     {"db", bson.D{{Key: "hostInfo", Value: 1}}, codeUnauthorized},
		"members' command": {"admin", bson.D{{Key: "sandboxWho", Value: 1}}, codeUnauthorized},
	} {
		t.Run("reader "+name, func(t *testing.T) {
			if reply := w.run(tc.db, tc.command); code(reply) != tc.code {
				t.Errorf("code %d, want %d: %v", code(reply), tc.code, reply)
			}
		})
	}
	// A user that is dropped loses what its connections could do.
	runOK(t, good, bson.D{{Key: "dropUser", Value: "reader"}})
	if got := code(w.run("db", bson.D{{Key: "find", Value: "c"}})); got != codeUnauthorized {
		t.Errorf("find of a dropped user: code %d", got)
	}
	if got := code(dialWire(t, s).tryLogin("admin", "reader", "r")); got != codeAuthenticationFailed {
		t.Errorf("login of a dropped user: code %d", got)
	}
	if n := s.counters.failedLogins.Load(); n < 4 {
		t.Errorf("%d failed logins counted", n)
	}
}

func TestFirstUser(t *testing.T) {
	s := startServer(t, Config{Authorization: true})
	w := dialWire(t, s)
	create := func(name string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}, more...)
	}
	if got := code(w.run("db", create("x"))); got != codeUnauthorized {
		t.Errorf("first user outside of admin: code %d", got)
	}
	if got := code(w.run("admin", create("first"))); got != 0 {
		t.Fatalf("first user: code %d", got)
	}
	if got := code(w.run("admin", create("second"))); got != codeUnauthorized {
		t.Errorf("second user without authentication: code %d", got)
	}
	w.login("first", "pw")
	for name, tc := range map[string]struct {
		command bson.D
		code    int32
	}{
		"again":          {create("first"), 51003},
		"no password":    {bson.D{{Key: "createUser", Value: "x"}, {Key: "roles", Value: bson.A{}}}, 2},
		"empty password": {bson.D{{Key: "createUser", Value: "x"}, {Key: "pwd", Value: ""}, {Key: "roles", Value: bson.A{}}}, 50687},
		"no roles":       {bson.D{{Key: "createUser", Value: "x"}, {Key: "pwd", Value: "p"}}, 40414},
		"unknown role":   {bson.D{{Key: "createUser", Value: "x"}, {Key: "pwd", Value: "p"}, {Key: "roles", Value: bson.A{"king"}}}, 31},
		"SHA-1":          {create("x", bson.E{Key: "mechanisms", Value: bson.A{"SCRAM-SHA-1"}}), 2},
		"unknown field":  {create("x", bson.E{Key: "colour", Value: 1}), 40415},
		"drop nobody":    {bson.D{{Key: "dropUser", Value: "nobody"}}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			if reply := w.run("admin", tc.command); code(reply) != tc.code {
				t.Errorf("code %d, want %d: %v", code(reply), tc.code, reply)
			}
		})
	}
	info := w.run("admin", bson.D{{Key: "usersInfo", Value: "first"}})
	if users, _ := info.Lookup("users").Array().Values(); len(users) != 1 || users[0].Document().Lookup("_id").StringValue() != "admin.first" {
		t.Errorf("usersInfo: %v", info)
	}
	if strings.Contains(info.String(), "key") || strings.Contains(info.String(), "salt") {
		t.Errorf("usersInfo shows credentials: %v", info)
	}
}

func TestServerDescribesItself(t *testing.T) {
	s := startServer(t, Config{Version: "9.0.4"})
	w := dialWire(t, s)
	info := w.run("admin", bson.D{{Key: "buildInfo", Value: 1}})
	if info.Lookup("version").StringValue() != "9.0.4" || !info.Lookup("sandboxEmbedded").Boolean() {
		t.Errorf("buildInfo: %v", info)
	}
	if v, _ := info.Lookup("versionArray").Array().Values(); len(v) != 4 || v[0].Int32() != 9 || v[2].Int32() != 4 {
		t.Errorf("versionArray: %v", info)
	}
	status := w.run("admin", bson.D{{Key: "serverStatus", Value: 1}, {Key: "mem", Value: 0}})
	if status.Lookup("extra_info", "user_time_us").Int64() <= 0 || status.Lookup("storageEngine", "name").StringValue() != storageEngine ||
		status.Lookup("connections", "current").Int32() != 1 {
		t.Errorf("serverStatus: %v", status)
	}
	for _, absent := range []string{"wiredTiger", "mem", "repl", "tcmalloc"} {
		if _, err := status.LookupErr(absent); err == nil {
			t.Errorf("serverStatus has %s", absent)
		}
	}
	diagnostic := w.run("admin", bson.D{{Key: "getDiagnosticData", Value: 1}})
	if diagnostic.Lookup("data", "serverStatus", "pid").Int64() != status.Lookup("pid").Int64() {
		t.Errorf("getDiagnosticData: %v", diagnostic)
	}
	if runtime.GOOS == "linux" && (diagnostic.Lookup("data", "systemMetrics", "cpu", "user_ms").Int64() <= 0 ||
		diagnostic.Lookup("data", "systemMetrics", "memory", "MemTotal_kb").Int64() <= 0) {
		t.Errorf("getDiagnosticData: %v", diagnostic)
	}
	if host := w.run("admin", bson.D{{Key: "hostInfo", Value: 1}}); host.Lookup("system", "numCores").Int32() < 1 {
		t.Errorf("hostInfo: %v", host)
	}
	fcv := w.run("admin", bson.D{{Key: "getParameter", Value: 1}, {Key: "featureCompatibilityVersion", Value: 1}})
	if fcv.Lookup("featureCompatibilityVersion", "version").StringValue() != "9.0" {
		t.Errorf("getParameter: %v", fcv)
	}
	if got := code(w.run("admin", bson.D{{Key: "getParameter", Value: 1}, {Key: "quantumMode", Value: 1}})); got != 72 {
		t.Errorf("unknown parameter: code %d", got)
	}
	for _, name := range []string{"getLog", "top", "eval", "Find", "replSetReconfig"} {
		reply := w.run("admin", bson.D{{Key: name, Value: 1}})
		if code(reply) != 59 || reply.Lookup("errmsg").StringValue() != "no such command: '"+name+"'" {
			t.Errorf("%s: %v", name, reply)
		}
	}
	own := dialWire(t, startServer(t, Config{})).run("admin", bson.D{{Key: "buildInfo", Value: 1}})
	if v := own.Lookup("version").StringValue(); v != Version || !strings.Contains(v, "sandbox-embedded") {
		t.Errorf("own version: %s", v)
	}
}

func numbered(command bson.D, session byte, number int64, more ...bson.E) bson.D {
	return append(append(command, bson.E{Key: "lsid", Value: sessionDoc(session)}, bson.E{Key: "txnNumber", Value: number}), more...)
}

func insertDoc(id any) bson.D {
	return bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: id}}}}}
}

func TestRetryableWrites(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w, other := dialWire(t, s), dialWire(t, s)
	inc := bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}},
		{Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}}}}}}
	if reply := w.run("db", numbered(insertDoc(1), 1, 5)); code(reply) != 0 {
		t.Fatal(reply)
	}
	// The same number on another connection: applied once, answered alike.
	if reply := other.run("db", numbered(insertDoc(1), 1, 5)); code(reply) != 0 || reply.Lookup("n").AsInt64() != 1 {
		t.Errorf("retried insert: %v", reply)
	}
	for range 3 {
		if reply := w.run("db", numbered(inc, 1, 6)); reply.Lookup("nModified").AsInt64() != 1 {
			t.Errorf("retried update: %v", reply)
		}
	}
	// Another statement of the same number is another write.
	w.run("db", numbered(inc, 1, 6, bson.E{Key: "stmtId", Value: int32(1)}))
	w.run("db", numbered(inc, 2, 6)) // and another session
	find := w.run("db", bson.D{{Key: "find", Value: "c"}})
	if batch, _ := find.Lookup("cursor", "firstBatch").Array().Values(); len(batch) != 1 || batch[0].Document().Lookup("n").AsInt64() != 3 {
		t.Errorf("document: %v", find)
	}
	if reply := w.run("db", numbered(inc, 1, 5)); code(reply) != 225 {
		t.Errorf("old number: %v", reply)
	}
	multi := bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}},
		{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}}}, {Key: "multi", Value: true}}}}}
	if reply := w.run("db", numbered(multi, 1, 7)); code(reply) != 72 {
		t.Errorf("multi update: %v", reply)
	}
	many := bson.D{{Key: "delete", Value: "c"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "limit", Value: 0}}}}}
	if reply := w.run("db", numbered(many, 1, 7)); code(reply) != 72 {
		t.Errorf("delete of many: %v", reply)
	}
	alone := dialWire(t, startServer(t, Config{}))
	if reply := alone.run("db", numbered(insertDoc(1), 1, 5)); code(reply) != 20 {
		t.Errorf("on a standalone: %v", reply)
	}
}

func TestWriteConcern(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(t, s)
	with := func(id int, w any) bson.D {
		return append(insertDoc(id), bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: w}}})
	}
	for i, ok := range []any{0, 1, "majority"} {
		if reply := w.run("db", with(i, ok)); code(reply) != 0 || strings.Contains(reply.String(), "writeConcernError") {
			t.Errorf("w %v: %v", ok, reply)
		}
	}
	for i, tc := range []struct {
		w    any
		code int32
	}{{2, 100}, {"datacenter", 79}} {
		reply := w.run("db", with(10+i, tc.w))
		if code(reply) != 0 || reply.Lookup("n").AsInt64() != 1 || reply.Lookup("writeConcernError", "code").Int32() != tc.code {
			t.Errorf("w %v: %v", tc.w, reply)
		}
	}
	if reply := dialWire(t, startServer(t, Config{})).run("db", with(1, 2)); code(reply) != codeBadValue {
		t.Errorf("w 2 on a standalone: %v", reply)
	}
}

func TestTransactions(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w, other := dialWire(t, s), dialWire(t, s)
	w.run("db", bson.D{{Key: "create", Value: "c"}})
	in := func(command bson.D, number int64, more ...bson.E) bson.D {
		return numbered(command, 1, number, append([]bson.E{{Key: "autocommit", Value: false}}, more...)...)
	}
	start := bson.E{Key: "startTransaction", Value: true}
	end := func(name string, number int64) bson.D { return in(bson.D{{Key: name, Value: 1}}, number) }
	documents := func() int {
		batch, _ := other.run("db", bson.D{{Key: "find", Value: "c"}}).Lookup("cursor", "firstBatch").Array().Values()
		return len(batch)
	}

	if reply := w.run("db", in(insertDoc(1), 1, start)); code(reply) != 0 {
		t.Fatal(reply)
	}
	if n := documents(); n != 0 {
		t.Errorf("%d documents seen before the commit", n)
	}
	if reply := other.run("db", in(insertDoc(2), 1)); code(reply) != 0 { // another connection goes on
		t.Error(reply)
	}
	for range 2 { // a commit may be retried
		if reply := w.run("admin", end("commitTransaction", 1)); code(reply) != 0 {
			t.Error(reply)
		}
	}
	if n := documents(); n != 2 {
		t.Errorf("%d documents after the commit", n)
	}
	w.run("db", in(insertDoc(3), 2, start))
	if reply := w.run("admin", end("abortTransaction", 2)); code(reply) != 0 {
		t.Error(reply)
	}
	if n := documents(); n != 2 {
		t.Errorf("%d documents after the abort", n)
	}

	for name, tc := range map[string]struct {
		db        string
		command   bson.D
		code      int32
		transient bool
	}{
		"commit of an aborted one":  {"admin", end("commitTransaction", 2), 251, true},
		"command of an aborted one": {"db", in(insertDoc(4), 2), 251, true},
		"unknown number":            {"db", in(insertDoc(4), 9), 251, true},
		"old number":                {"db", in(insertDoc(4), 1), 225, false},
		"start again":               {"db", in(insertDoc(4), 2, start), 117, false},
		"commit outside of admin":   {"db", end("commitTransaction", 2), codeUnauthorized, false},
		"command that may not":      {"db", in(bson.D{{Key: "dropDatabase", Value: 1}}, 3, start), 263, false},
		"count":                     {"db", in(bson.D{{Key: "count", Value: "c"}}, 3, start), 263, false},
		"write concern in it": {"db", in(insertDoc(4), 3, start,
			bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 1}}}), 72, false},
	} {
		t.Run(name, func(t *testing.T) {
			reply := w.run(tc.db, tc.command)
			if code(reply) != tc.code || slices.Contains(labels(reply), labelTransient) != tc.transient {
				t.Errorf("code %d, labels %v; want %d, transient %v", code(reply), labels(reply), tc.code, tc.transient)
			}
		})
	}

	// A failed write aborts the transaction.
	w.run("db", in(insertDoc(5), 4, start))
	w.run("db", in(insertDoc(5), 4))
	if reply := w.run("admin", end("commitTransaction", 4)); code(reply) != 251 {
		t.Errorf("commit after a duplicate key: %v", reply)
	}
	// A newer number aborts the older transaction.
	w.run("db", in(insertDoc(6), 5, start))
	w.run("db", in(insertDoc(7), 6, start))
	w.run("admin", end("commitTransaction", 6))
	if n := documents(); n != 3 {
		t.Errorf("%d documents, want 1, 2 and 7", n)
	}
	// The end of the session does too.
	w.run("db", in(insertDoc(8), 7, start))
	w.run("admin", bson.D{{Key: "endSessions", Value: bson.A{sessionDoc(1)}}})
	if reply := w.run("admin", end("commitTransaction", 7)); code(reply) != 251 {
		t.Errorf("commit after endSessions: %v", reply)
	}
}

func TestTransactionsExpire(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(t, s)
	w.run("db", bson.D{{Key: "create", Value: "c"}})
	begin := func(session byte) {
		reply := w.run("db", numbered(insertDoc(int(session)), session, 1, bson.E{Key: "autocommit", Value: false}, bson.E{Key: "startTransaction", Value: true}))
		if code(reply) != 0 {
			t.Fatal(reply)
		}
	}
	begin(1)
	if n := s.sessions.expire(time.Now().Add(59 * time.Second)); n != 0 {
		t.Errorf("%d transactions aborted within their time", n)
	}
	if n := s.sessions.expire(time.Now().Add(61 * time.Second)); n != 1 {
		t.Errorf("%d transactions aborted after their time, want 1", n)
	}
	// One whose connection has ended has less time.
	begin(2)
	_ = w.nc.Close()
	deadline := time.Now().Add(10 * time.Second)
	for s.sessions.expire(time.Now().Add(orphanTimeout+time.Second)) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the transaction of an ended connection is still there")
		}
		time.Sleep(time.Millisecond)
	}
	if n := s.sessions.count(); n != 2 {
		t.Errorf("%d sessions", n)
	}
	s.sessions.expire(time.Now().Add(sessionTimeout + time.Minute))
	if n := s.sessions.count(); n != 0 {
		t.Errorf("%d sessions after half an hour of nothing", n)
	}
}

func TestDriverTransactions(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	client := connect(t, s.URI())
	ctx := testContext(t)
	coll := client.Database("db").Collection("accounts")
	if _, err := coll.InsertMany(ctx, []any{bson.D{{Key: "_id", Value: "a"}, {Key: "n", Value: 100}}, bson.D{{Key: "_id", Value: "b"}, {Key: "n", Value: 0}}}); err != nil {
		t.Fatal(err)
	}
	add := func(ctx context.Context, id string, n int) error {
		_, err := coll.UpdateByID(ctx, id, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: n}}}})
		return err
	}
	move := func(fail error) error {
		session, err := client.StartSession()
		if err != nil {
			return err
		}
		defer session.EndSession(ctx)
		_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
			if err := add(ctx, "a", -1); err != nil {
				return nil, err
			}
			if err := add(ctx, "b", 1); err != nil {
				return nil, err
			}
			return nil, fail
		})
		return err
	}
	// Concurrent transactions over the same documents conflict, and the driver
	// tries again by the labels.
	errs := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 5 {
				err = errors.Join(err, move(nil))
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	stop := errors.New("stop")
	if err := move(stop); !errors.Is(err, stop) {
		t.Errorf("aborted transaction: %v", err)
	}
	for id, want := range map[string]int64{"a": 60, "b": 40} {
		var doc struct{ N int64 }
		if err := coll.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&doc); err != nil || doc.N != want {
			t.Errorf("%s has %d, want %d, error %v", id, doc.N, want, err)
		}
	}
	// A commit whose connection breaks is tried again by the driver.
	runOK(t, client, bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
		{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"commitTransaction"}}, {Key: "closeConnection", Value: true}}}})
	if err := move(nil); err != nil {
		t.Errorf("transaction whose commit lost its connection: %v", err)
	}
}

func TestFailPoints(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	var started atomic.Int64
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "insert" {
			started.Add(1)
		}
	}}
	client := connect(t, s.URI(), options.Client().SetMonitor(monitor).SetAppName("tests"))
	ctx := testContext(t)
	coll := client.Database("db").Collection("c")
	set := func(mode any, data ...bson.E) {
		t.Helper()
		runOK(t, client, bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode},
			{Key: "data", Value: append(bson.D{{Key: "failCommands", Value: bson.A{"insert"}}}, data...)}})
		started.Store(0)
	}
	times := func(n int) bson.D { return bson.D{{Key: "times", Value: n}} }
	insert := func() error {
		_, err := coll.InsertOne(ctx, bson.D{})
		return err
	}
	attempts := func(want int64) {
		t.Helper()
		if got := started.Load(); got != want {
			t.Errorf("%d attempts, want %d", got, want)
		}
	}

	set(times(1), bson.E{Key: "errorCode", Value: 91}, bson.E{Key: "closeConnection", Value: false})
	if err := insert(); err != nil {
		t.Error("a retryable error was not retried:", err)
	}
	attempts(2)
	set(times(1), bson.E{Key: "closeConnection", Value: true})
	if err := insert(); err != nil {
		t.Error("a lost connection was not retried:", err)
	}
	attempts(2)
	set(times(1), bson.E{Key: "errorCode", Value: 2})
	if err := insert(); !hasCode(err, 2) {
		t.Error("BadValue:", err)
	}
	attempts(1)
	set(times(1), bson.E{Key: "errorCode", Value: 2}, bson.E{Key: "errorLabels", Value: bson.A{labelRetryableWrite}})
	if err := insert(); err != nil {
		t.Error("an error with the label was not retried:", err)
	}
	attempts(2)
	set(times(1), bson.E{Key: "errorCode", Value: 91}, bson.E{Key: "errorLabels", Value: bson.A{}})
	if err := insert(); !hasCode(err, 91) {
		t.Error("an error without its label was retried:", err)
	}
	set(times(1), bson.E{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "waited"}}})
	var we mongo.WriteException
	if err := insert(); !errors.As(err, &we) || we.WriteConcernError == nil || we.WriteConcernError.Code != 64 {
		t.Error("write concern error:", err)
	}
	set(times(1), bson.E{Key: "blockConnection", Value: true}, bson.E{Key: "blockTimeMS", Value: 80})
	start := time.Now()
	if err := insert(); err != nil || time.Since(start) < 80*time.Millisecond {
		t.Errorf("blocked insert took %v, error %v", time.Since(start), err)
	}
	set(times(1), bson.E{Key: "errorCode", Value: 2}, bson.E{Key: "appName", Value: "others"})
	if err := insert(); err != nil {
		t.Error("the fail point is another application's:", err)
	}
	set(bson.D{{Key: "skip", Value: 1}}, bson.E{Key: "errorCode", Value: 2})
	if first, second := insert(), insert(); first != nil || !hasCode(second, 2) {
		t.Errorf("skip 1: %v, then %v", first, second)
	}
	set("alwaysOn", bson.E{Key: "errorCode", Value: 2})
	if first, second := insert(), insert(); !hasCode(first, 2) || !hasCode(second, 2) {
		t.Errorf("alwaysOn: %v, then %v", first, second)
	}
	set("off")
	if err := insert(); err != nil {
		t.Error("off:", err)
	}

	w := dialWire(t, s)
	for name, command := range map[string]bson.D{
		"unknown fail point": {{Key: "configureFailPoint", Value: "x"}, {Key: "mode", Value: "off"}},
		"unknown mode":       {{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "sometimes"}},
		"no mode":            {{Key: "configureFailPoint", Value: "failCommand"}},
		"no commands":        {{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "alwaysOn"}, {Key: "data", Value: bson.D{}}},
		"unknown data": {{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "alwaysOn"},
			{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"x"}}, {Key: "colour", Value: 1}}}},
	} {
		if got := code(w.run("admin", command)); got == 0 {
			t.Errorf("%s is accepted", name)
		}
	}
}
