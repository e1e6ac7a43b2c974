package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

const testKey = "c2FuZGJveC10ZXN0LWtleWZpbGUK"

// set is a replica set of servers in this process.
type set struct {
	members []*Server
	uri     string
}

// startSet starts three members, the last of them an arbiter if asked for, and
// initiates them through the driver.
func startSet(t testing.TB, arbiter bool, cfg Config) *set {
	t.Helper()
	cfg.ReplicaSet = "rs"
	x := &set{}
	var hosts []string
	members := bson.A{}
	for i := range 3 {
		s := startServer(t, cfg)
		x.members = append(x.members, s)
		hosts = append(hosts, s.Addr())
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: s.Addr()}, {Key: "arbiterOnly", Value: arbiter && i == 2}})
	}
	x.uri = "mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=rs"
	start := time.Now()
	direct := connect(t, "mongodb://"+hosts[0]+"/?directConnection=true")
	reply := direct.Database("admin").RunCommand(testContext(t), bson.D{{Key: "replSetInitiate", Value: bson.D{
		{Key: "_id", Value: "rs"}, {Key: "members", Value: members}}}})
	if err := reply.Err(); err != nil {
		t.Fatal(err)
	}
	x.waitPrimary(t)
	x.waitFor(t, func(i int, v *replView) bool { return v.primary >= 0 })
	t.Logf("set is up after %v", time.Since(start))
	return x
}

// waitPrimary returns the index of the primary.
func (x *set) waitPrimary(t testing.TB) int {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		for i, s := range x.members {
			if s.ctx.Err() == nil && s.repl.view.Load().state == statePrimary {
				return i
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("no primary")
	return -1
}

// waitFor waits until ok holds for every live member.
func (x *set) waitFor(t testing.TB, ok func(i int, v *replView) bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		all := true
		for i, s := range x.members {
			if s.ctx.Err() == nil && !ok(i, s.repl.view.Load()) {
				all = false
			}
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("members did not get there in time")
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (x *set) direct(i int) string {
	return "mongodb://" + x.members[i].Addr() + "/?directConnection=true"
}

func runOK(t testing.TB, client *mongo.Client, command bson.D) bson.Raw {
	t.Helper()
	raw, err := client.Database("admin").RunCommand(testContext(t), command).Raw()
	if err != nil {
		t.Fatalf("%s: %v", command[0].Key, err)
	}
	return raw
}

func TestSetIsUpFast(t *testing.T) {
	start := time.Now()
	x := startSet(t, true, Config{Heartbeat: 500 * time.Millisecond})
	took := time.Since(start)
	if took > 3*time.Second {
		t.Errorf("took %v, want about a second at most", took)
	}
	if got := x.waitPrimary(t); got != 0 {
		t.Errorf("member %d is the primary, want the lowest index", got)
	}
	for i, want := range []struct {
		state                       memberState
		primary, secondary, arbiter bool
	}{{statePrimary, true, false, false}, {stateSecondary, false, true, false}, {stateArbiter, false, false, true}} {
		client := connect(t, x.direct(i))
		hello := runOK(t, client, bson.D{{Key: "hello", Value: 1}})
		arbiter, _ := hello.Lookup("arbiterOnly").BooleanOK()
		if hello.Lookup("isWritablePrimary").Boolean() != want.primary || hello.Lookup("secondary").Boolean() != want.secondary || arbiter != want.arbiter {
			t.Errorf("hello of member %d: %v", i, hello)
		}
		if got := hello.Lookup("primary").StringValue(); got != x.members[0].Addr() {
			t.Errorf("member %d takes %s for the primary", i, got)
		}
		if got := hello.Lookup("me").StringValue(); got != x.members[i].Addr() {
			t.Errorf("member %d takes itself for %s", i, got)
		}
		// Two data-bearing members of three: majority would need both of them.
		defaults := runOK(t, client, bson.D{{Key: "getDefaultRWConcern", Value: 1}})
		if w, ok := defaults.Lookup("defaultWriteConcern", "w").AsInt64OK(); !ok || w != 1 {
			t.Errorf("default write concern of a set with an arbiter: %v", defaults)
		}
		if !hello.Lookup("sandboxEmbedded").Boolean() {
			t.Error("hello does not say what it is")
		}
		var status struct {
			MyState memberState `bson:"myState"`
			Members []struct {
				State  memberState `bson:"state"`
				Health float64     `bson:"health"`
				OpTime *struct {
					TS bson.Timestamp `bson:"ts"`
				} `bson:"optime"`
			} `bson:"members"`
		}
		if err := bson.Unmarshal(runOK(t, client, bson.D{{Key: "replSetGetStatus", Value: 1}}), &status); err != nil {
			t.Fatal(err)
		}
		if status.MyState != want.state || len(status.Members) != 3 || (status.Members[2].OpTime != nil) || status.Members[1].Health != 1 {
			t.Errorf("status of member %d: %+v", i, status)
		}
	}
}

func TestElectionAfterLossAndReturn(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	x := &set{}
	members := bson.A{}
	for i, dir := range dirs {
		s := startServer(t, Config{ReplicaSet: "rs", DBPath: dir, KeyFile: secret.New(testKey)})
		x.members = append(x.members, s)
		members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: s.Addr()}})
	}
	first := connect(t, x.direct(0))
	runOK(t, first, bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"}, {Key: "members", Value: members}}}})
	if got := x.waitPrimary(t); got != 0 {
		t.Fatalf("member %d is the primary", got)
	}
	hello := runOK(t, first, bson.D{{Key: "hello", Value: 1}})
	before := hello.Lookup("electionId").ObjectID()
	runOK(t, first, bson.D{{Key: "createUser", Value: "admin"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}})
	auth := options.Client().SetAuth(options.Credential{Username: "admin", Password: "pw"})

	port := x.members[0].listeners[0].Addr().(*net.TCPAddr).Port
	x.members[0].Close()
	second := x.waitPrimary(t)
	if second != 1 {
		t.Fatalf("member %d follows, want 1", second)
	}
	client := connect(t, x.direct(1), auth)
	hello = runOK(t, client, bson.D{{Key: "hello", Value: 1}})
	if after := hello.Lookup("electionId").ObjectID(); after.Hex() <= before.Hex() {
		t.Errorf("electionId went from %s to %s", before.Hex(), after.Hex())
	}

	// The lost member comes back by itself, as a secondary.
	x.members[0] = startServer(t, Config{ReplicaSet: "rs", DBPath: dirs[0], KeyFile: secret.New(testKey), Port: port})
	x.waitFor(t, func(_ int, v *replView) bool { return v.primary == 1 })
	if got := x.members[0].repl.view.Load().state; got != stateSecondary {
		t.Errorf("the returned member is %v", got)
	}

	// Without a majority there is no primary.
	x.members[0].Close()
	x.members[2].Close()
	x.waitFor(t, func(_ int, v *replView) bool { return v.state == stateSecondary && v.primary == -1 })
	err := client.Database("admin").RunCommand(testContext(t), bson.D{{Key: "createUser", Value: "x"}, {Key: "pwd", Value: "y"}, {Key: "roles", Value: bson.A{}}}).Err()
	if !hasCode(err, codeNotWritablePrimary) {
		t.Errorf("write without a primary: %v", err)
	}

	// The whole set comes back with users and configuration.
	ports := []int{port, x.members[1].listeners[0].Addr().(*net.TCPAddr).Port, x.members[2].listeners[0].Addr().(*net.TCPAddr).Port}
	x.members[1].Close()
	for i := range x.members {
		x.members[i] = startServer(t, Config{ReplicaSet: "rs", DBPath: dirs[i], KeyFile: secret.New(testKey), Port: ports[i]})
	}
	if got := x.waitPrimary(t); got != 0 {
		t.Errorf("member %d is the primary after the restart of all", got)
	}
	for i := range x.members {
		client := connect(t, x.direct(i), auth)
		runOK(t, client, bson.D{{Key: "serverStatus", Value: 1}})
	}
}

func hasCode(err error, code int) bool {
	se, ok := err.(mongo.ServerError) //nolint:errorlint // drivers do not wrap it
	return ok && se.HasErrorCode(code)
}

func TestInitiateRefusals(t *testing.T) {
	a := startServer(t, Config{ReplicaSet: "rs"})
	other := startServer(t, Config{ReplicaSet: "other"})
	plain := startServer(t, Config{})
	taken := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	free := freePort(t)
	w := dialWire(t, a)
	config := func(name string, hosts ...any) bson.D {
		members := bson.A{}
		for i, h := range hosts {
			if d, ok := h.(bson.D); ok {
				members = append(members, d)
				continue
			}
			members = append(members, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: h}})
		}
		return bson.D{{Key: "_id", Value: name}, {Key: "members", Value: members}}
	}
	for name, tc := range map[string]struct {
		config bson.D
		code   int32
	}{
		"another name":         {config("sr", a.Addr()), 93},
		"not this node":        {config("rs", other.Addr()), 93},
		"member of other name": {config("rs", a.Addr(), other.Addr()), 93},
		"member has a set":     {config("rs", a.Addr(), taken.Addr()), 93},
		"member standalone":    {config("rs", a.Addr(), plain.Addr()), 74},
		"member not there":     {config("rs", a.Addr(), fmt.Sprintf("127.0.0.1:%d", free)), 74},
		"no members":           {config("rs"), 93},
		"same host twice":      {config("rs", a.Addr(), a.Addr()), 93},
		"same id twice": {config("rs", bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()}},
			bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: "h:1"}}), 93},
		"only arbiters":        {config("rs", bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()}, {Key: "arbiterOnly", Value: true}}), 93},
		"votes 2":              {config("rs", bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()}, {Key: "votes", Value: 2}}), 93},
		"unknown member field": {config("rs", bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()}, {Key: "colour", Value: 2}}), 40415},
		"delayed member": {config("rs", bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()},
			{Key: "secondaryDelaySecs", Value: 10}}), 93},
		"unknown field": {append(config("rs", a.Addr()), bson.E{Key: "colour", Value: 1}), 40415},
		"8 voters":      {config("rs", a.Addr(), "a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "g:1"), 93},
	} {
		t.Run(name, func(t *testing.T) {
			reply := w.run("admin", bson.D{{Key: "replSetInitiate", Value: tc.config}})
			if got := code(reply); got != tc.code {
				t.Errorf("code %d, want %d: %v", got, tc.code, reply)
			}
		})
	}
	if got := code(w.run("admin", bson.D{{Key: "replSetGetStatus", Value: 1}})); got != 94 {
		t.Errorf("status before initiation: code %d, want 94", got)
	}
	if got := code(dialWire(t, taken).run("admin", bson.D{{Key: "replSetInitiate", Value: config("rs", taken.Addr())}})); got != 23 {
		t.Errorf("initiating twice: code %d, want 23", got)
	}
	if got := code(dialWire(t, plain).run("admin", bson.D{{Key: "replSetInitiate", Value: config("rs", plain.Addr())}})); got != 76 {
		t.Errorf("initiating a standalone: code %d, want 76", got)
	}
	// Without a document the server makes a set of its own.
	if got := code(w.run("admin", bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"},
		{Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 3}, {Key: "host", Value: a.Addr()}}}}}}})); got != 0 {
		t.Errorf("initiating: code %d", got)
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func TestMembersWithAnotherKeyfileAreKeptOut(t *testing.T) {
	a := startServer(t, Config{ReplicaSet: "rs", KeyFile: secret.New(testKey)})
	b := startServer(t, Config{ReplicaSet: "rs", KeyFile: secret.New("another-key")})
	reply := dialWire(t, a).run("admin", bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"}, {Key: "members", Value: bson.A{
		bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: a.Addr()}}, bson.D{{Key: "_id", Value: 1}, {Key: "host", Value: b.Addr()}},
	}}}}})
	if code(reply) != 74 {
		t.Errorf("reply %v", reply)
	}
	// What members say to each other is for members.
	for _, name := range []string{"sandboxWho", "sandboxHeartbeat", "sandboxVote", "sandboxConfig", "sandboxUsers", "sandboxReceive"} {
		if got := code(dialWire(t, a).run("admin", bson.D{{Key: name, Value: 1}})); got != codeUnauthorized {
			t.Errorf("%s without the keyfile: code %d", name, got)
		}
	}
}

// A dbPath that was removed and made again under the same name belongs to the
// next server: the old one must not write to it.
func TestRemovedDBPathIsNotWrittenToAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	config := Config{ReplicaSet: "rs", DBPath: dir, KeyFile: secret.New(testKey)}
	old := startServer(t, config)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	initiate := func(s *Server) error {
		client := connect(t, "mongodb://"+s.Addr()+"/?directConnection=true")
		return client.Database("admin").RunCommand(testContext(t), bson.D{{Key: "replSetInitiate", Value: bson.D{
			{Key: "_id", Value: "rs"}, {Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: s.Addr()}}}},
		}}}).Err()
	}
	if err := initiate(old); err == nil {
		t.Error("a configuration that cannot be stored was taken")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old server has made %s again: %v", dir, err)
	}
	next := startServer(t, config)
	if err := initiate(old); err == nil {
		t.Error("the old server has stored a configuration after another took its dbPath's name")
	}
	if err := initiate(next); err != nil {
		t.Errorf("the next server is not free: %v", err)
	}
}

func TestReadsThroughSecondary(t *testing.T) {
	x := startSet(t, false, Config{KeyFile: secret.New(testKey)})
	runOK(t, connect(t, x.direct(0)), bson.D{{Key: "createUser", Value: "admin"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}})
	auth := options.Client().SetAuth(options.Credential{Username: "admin", Password: "pw"})
	ctx := testContext(t)
	client := connect(t, x.uri, auth)
	var docs []any
	for i := range 250 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: i % 10}})
	}
	primary := client.Database("db").Collection("c")
	if _, err := primary.InsertMany(ctx, docs); err != nil {
		t.Fatal(err)
	}
	secondary := client.Database("db").Collection("c", options.Collection().SetReadPreference(readpref.Secondary()))
	cursor, err := secondary.Find(ctx, bson.D{}, options.Find().SetBatchSize(100).SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	var got []bson.M
	if err := cursor.All(ctx, &got); err != nil || len(got) != len(docs) {
		t.Fatalf("%d documents through the secondary, error %v", len(got), err)
	}
	if n, err := secondary.CountDocuments(ctx, bson.D{{Key: "n", Value: 3}}); err != nil || n != 25 {
		t.Errorf("count %d, error %v", n, err)
	}
	forwarded := x.members[1].counters.forwardedOps.Load() + x.members[2].counters.forwardedOps.Load()
	if forwarded < 4 {
		t.Errorf("%d commands were forwarded, want find, 2 x getMore and aggregate", forwarded)
	}
	for _, s := range x.members[1:] {
		if n := len(s.repl.cursors.all); n != 0 {
			t.Errorf("%d cursors are still remembered", n)
		}
	}

	// A cursor that is closed early is closed on the primary too.
	cursor, err = secondary.Find(ctx, bson.D{}, options.Find().SetBatchSize(10))
	if err != nil || !cursor.Next(ctx) {
		t.Fatal(err, cursor.Err())
	}
	if err := cursor.Close(ctx); err != nil {
		t.Error(err)
	}

	direct := connect(t, x.direct(1), auth, options.Client().SetRetryWrites(false)) // the driver would retry as long as it may
	if _, err := direct.Database("db").Collection("c").InsertOne(ctx, bson.D{}); !hasCode(err, codeNotWritablePrimary) {
		t.Errorf("write on a secondary: %v", err)
	}
	w := dialWire(t, x.members[1])
	w.login("admin", "pw")
	for name, tc := range map[string]struct {
		command bson.D
		code    int32
	}{
		"read without preference": {bson.D{{Key: "find", Value: "c"}}, codeNotPrimaryNoOk},
		"read of the primary only": {bson.D{{Key: "find", Value: "c"},
			{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "primary"}}}}, codeNotPrimaryNoOk},
		"cursor of nobody": {bson.D{{Key: "getMore", Value: int64(99)}, {Key: "collection", Value: "c"}}, 43},
		"write":            {bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}}, codeNotWritablePrimary},
		"error of the primary": {bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "$bad", Value: 1}}},
			{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "secondary"}}}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			reply := w.run("db", tc.command)
			if got := code(reply); got != tc.code {
				t.Errorf("code %d, want %d: %v", got, tc.code, reply)
			}
			_, err := reply.LookupErr("topologyVersion")
			if stale := tc.code == codeNotPrimaryNoOk || tc.code == codeNotWritablePrimary; stale != (err == nil) {
				t.Errorf("topologyVersion: %v", reply)
			}
		})
	}
}

func TestStepDownLosesNothing(t *testing.T) {
	x := startSet(t, false, Config{})
	client := connect(t, x.uri)
	ctx := testContext(t)
	coll := client.Database("db").Collection("c")
	if _, err := coll.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: fmt.Sprintf("%d-%d", worker, i)}, {Key: "n", Value: i}}); err != nil {
					t.Errorf("insert: %v", err)
					return
				}
				written.Add(1)
			}
		})
	}
	waitWritten := func(n int64) {
		for written.Load() < n && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	waitWritten(200)
	for round := range 3 {
		before := x.waitPrimary(t)
		// On a slow machine nobody may take over in time; that is answered,
		// and must lose nothing either.
		for {
			err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "secondaryCatchUpPeriodSecs", Value: 1}}).Err()
			if err == nil {
				break
			}
			if !hasCode(err, 262) {
				t.Fatalf("replSetStepDown: %v", err)
			}
		}
		after := x.waitPrimary(t)
		if after == before && round == 0 {
			t.Errorf("member %d is the primary again within its second", after)
		}
		waitWritten(written.Load() + 200)
	}
	close(stop)
	wg.Wait()
	n, err := coll.CountDocuments(ctx, bson.D{})
	if err != nil || n != written.Load() {
		t.Errorf("%d documents after %d acknowledged inserts, error %v", n, written.Load(), err)
	}
	names, err := coll.Indexes().ListSpecifications(ctx)
	if err != nil || len(names) != 2 {
		t.Errorf("indexes %v, error %v", names, err)
	}
}

func TestStepDownIsRefused(t *testing.T) {
	alone := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(t, alone)
	for name, tc := range map[string]struct {
		command bson.D
		code    int32
	}{
		"nobody to follow":      {bson.D{{Key: "replSetStepDown", Value: 60}}, 262},
		"negative":              {bson.D{{Key: "replSetStepDown", Value: -1}}, 2},
		"shorter than catch up": {bson.D{{Key: "replSetStepDown", Value: 5}, {Key: "secondaryCatchUpPeriodSecs", Value: 6}}, 2},
		"unknown field":         {bson.D{{Key: "replSetStepDown", Value: 5}, {Key: "x", Value: 6}}, 40415},
	} {
		if got := code(w.run("admin", tc.command)); got != tc.code {
			t.Errorf("%s: code %d, want %d", name, got, tc.code)
		}
	}
	// By force it steps down, and is the primary again after its time.
	if got := code(w.run("admin", bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "force", Value: true}})); got != 0 {
		t.Errorf("by force: code %d", got)
	}
	if got := alone.repl.view.Load().state; got != stateSecondary {
		t.Errorf("state %v after stepping down", got)
	}
	start := time.Now()
	(&set{members: []*Server{alone}}).waitPrimary(t)
	if took := time.Since(start); took < 500*time.Millisecond {
		t.Errorf("primary again after %v, before its second was over", took)
	}
}

func TestAwaitableHello(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(t, s)
	version := w.run("admin", bson.D{{Key: "hello", Value: 1}}).Lookup("topologyVersion").Document()
	hello := bson.D{{Key: "hello", Value: 1}, {Key: "topologyVersion", Value: version}}
	start := time.Now()
	w.run("admin", append(hello, bson.E{Key: "maxAwaitTimeMS", Value: 100}))
	if took := time.Since(start); took < 100*time.Millisecond {
		t.Errorf("answered after %v although nothing had changed", took)
	}
	answered := make(chan bson.Raw)
	go func() { answered <- w.run("admin", append(hello, bson.E{Key: "maxAwaitTimeMS", Value: 20000})) }()
	dialWire(t, s).run("admin", bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "force", Value: true}})
	select {
	case reply := <-answered:
		if reply.Lookup("isWritablePrimary").Boolean() {
			t.Errorf("still primary: %v", reply)
		}
	case <-time.After(10 * time.Second):
		t.Error("not answered when the topology changed")
	}
	for name, command := range map[string]bson.D{
		"no maxAwaitTimeMS":  hello,
		"no topologyVersion": {{Key: "hello", Value: 1}, {Key: "maxAwaitTimeMS", Value: 1}},
	} {
		if got := code(dialWire(t, s).run("admin", command)); got != 31368 {
			t.Errorf("%s: code %d", name, got)
		}
	}
}

func TestDriverSeesChangeOfPrimary(t *testing.T) {
	x := startSet(t, false, Config{})
	var mu sync.Mutex
	var primaries []string
	monitor := &event.ServerMonitor{TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
		mu.Lock()
		defer mu.Unlock()
		for _, server := range e.NewDescription.Servers {
			if server.Kind == "RSPrimary" && (len(primaries) == 0 || primaries[len(primaries)-1] != server.Addr.String()) {
				primaries = append(primaries, server.Addr.String())
			}
		}
	}}
	client := connect(t, x.uri, options.Client().SetServerMonitor(monitor))
	if err := client.Ping(testContext(t), readpref.Primary()); err != nil {
		t.Fatal(err)
	}
	runOK(t, client, bson.D{{Key: "replSetStepDown", Value: 30}})
	if err := client.Ping(context.Background(), readpref.Primary()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		mu.Lock()
		seen := len(primaries)
		mu.Unlock()
		if seen >= 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the driver saw primaries %v", primaries)
		}
		time.Sleep(time.Millisecond)
	}
}
