package embedded

import (
	"bytes"
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// stream is a connection whose client has sent everything already.
type stream struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (s *stream) Read(b []byte) (int, error)       { return s.in.Read(b) }
func (s *stream) Write(b []byte) (int, error)      { return s.out.Write(b) }
func (s *stream) Close() error                     { return nil }
func (s *stream) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (s *stream) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// fuzzSeeds are streams of messages that reach every part of the server.
func fuzzSeeds(t testing.TB) [][]byte {
	msg := func(db string, command bson.D, sections ...[]byte) []byte {
		return opMsg(0, append([][]byte{bodySection(marshal(t, append(command, bson.E{Key: "$db", Value: db})))}, sections...)...)
	}
	doc := marshal(t, bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: bson.A{1, "x", bson.D{{Key: "b", Value: 2.5}}}}, {Key: "d", Value: bson.Decimal128{}}})
	statement := marshal(t, bson.D{{Key: "q", Value: bson.D{{Key: "a.b", Value: bson.D{{Key: "$gt", Value: 1}}}}},
		{Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: 1}}}}}, {Key: "upsert", Value: true}})
	removal := marshal(t, bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{1, 2}}}}}}, {Key: "limit", Value: 1}})
	start := []bson.E{{Key: "autocommit", Value: false}, {Key: "startTransaction", Value: true}}
	insert := msg("db", bson.D{{Key: "insert", Value: "c"}}, sequenceSection("documents", doc))
	return [][]byte{
		slices.Concat(queryMessage("admin.$cmd", marshal(t, bson.D{{Key: "isMaster", Value: 1}, {Key: "helloOk", Value: true},
			{Key: "client", Value: bson.D{{Key: "application", Value: bson.D{{Key: "name", Value: "x"}}}}}})),
			msg("admin", bson.D{{Key: "hello", Value: 1}, {Key: "saslSupportedMechs", Value: "admin.u"}, {Key: "speculativeAuthenticate",
				Value: bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: mechanism}, {Key: "db", Value: "admin"},
					{Key: "payload", Value: []byte("n,,n=u,r=abcdefghijklmnopqrstuvwx")}}}})),
		msg("admin", bson.D{{Key: "hello", Value: 1}, {Key: "maxAwaitTimeMS", Value: 1},
			{Key: "topologyVersion", Value: bson.D{{Key: "processId", Value: bson.ObjectID{}}, {Key: "counter", Value: int64(1)}}}}),
		slices.Concat(insert, msg("db", bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "a", Value: 1}}},
			{Key: "sort", Value: bson.D{{Key: "a", Value: -1}}}, {Key: "limit", Value: 3}, {Key: "projection", Value: bson.D{{Key: "a", Value: 1}}}}),
			msg("db", bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "c"}}}})),
		slices.Concat(insert, insert, msg("db", bson.D{{Key: "getMore", Value: int64(1)}, {Key: "collection", Value: "c"}}),
			msg("db", bson.D{{Key: "killCursors", Value: "c"}, {Key: "cursors", Value: bson.A{int64(1)}}})),
		slices.Concat(msg("db", numbered(bson.D{{Key: "update", Value: "c"}}, 1, 1), sequenceSection("updates", statement)),
			msg("db", numbered(bson.D{{Key: "delete", Value: "c"}}, 1, 2), sequenceSection("deletes", removal))),
		slices.Concat(msg("db", bson.D{{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: bson.A{bson.D{
			{Key: "key", Value: bson.D{{Key: "a", Value: 1}, {Key: "n", Value: -1}}}, {Key: "name", Value: "a"}}}}}), insert,
			msg("db", bson.D{{Key: "aggregate", Value: "c"}, {Key: "cursor", Value: bson.D{}}, {Key: "pipeline", Value: bson.A{
				bson.D{{Key: "$match", Value: bson.D{}}}, bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$a"}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}}}}})),
		slices.Concat(msg("db", bson.D{{Key: "create", Value: "c"}}), msg("db", numbered(insertDoc(1), 2, 1, start...)),
			msg("admin", numbered(bson.D{{Key: "commitTransaction", Value: 1}}, 2, 1, start[0])),
			msg("db", numbered(insertDoc(2), 2, 2, start...)), msg("admin", numbered(bson.D{{Key: "abortTransaction", Value: 1}}, 2, 2, start[0])),
			msg("admin", bson.D{{Key: "endSessions", Value: bson.A{sessionDoc(2)}}})),
		slices.Concat(msg("admin", bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: bson.D{{Key: "times", Value: 1}}},
			{Key: "data", Value: bson.D{{Key: "failCommands", Value: bson.A{"ping"}}, {Key: "errorCode", Value: 91}, {Key: "errorLabels", Value: bson.A{"x"}},
				{Key: "blockConnection", Value: true}, {Key: "blockTimeMS", Value: 1},
				{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 91}}}}}}), msg("admin", bson.D{{Key: "ping", Value: 1}})),
		slices.Concat(msg("admin", bson.D{{Key: "usersInfo", Value: bson.A{"u", bson.D{{Key: "user", Value: "u"}, {Key: "db", Value: "admin"}}}}}),
			msg("admin", bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: mechanism}, {Key: "payload", Value: []byte("n,,n=u,r=abcdefghijklmnopqrstuvwx")}}),
			msg("admin", bson.D{{Key: "saslContinue", Value: 1}, {Key: "conversationId", Value: 1}, {Key: "payload", Value: []byte("c=biws,r=x,p=eA==")}})),
		slices.Concat(msg("admin", bson.D{{Key: "serverStatus", Value: 1}, {Key: "mem", Value: 0}}), msg("admin", bson.D{{Key: "getParameter", Value: "*"}}),
			msg("admin", bson.D{{Key: "replSetGetStatus", Value: 1}}), msg("admin", bson.D{{Key: "replSetGetConfig", Value: 1}}),
			msg("admin", bson.D{{Key: "replSetStepDown", Value: 1}, {Key: "force", Value: true}})),
		slices.Concat(msg("admin", bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"}, {Key: "members", Value: bson.A{
			bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: "h:1"}, {Key: "tags", Value: bson.D{{Key: "a", Value: "b"}}}}}}}}}),
			msg("admin", bson.D{{Key: "sandboxHeartbeat", Value: 1}, {Key: "beat", Value: bson.D{{Key: "set", Value: "rs"}, {Key: "term", Value: int64(1)}}}}),
			msg("admin", bson.D{{Key: "sandboxConfig", Value: `{"name":"rs","version":1,"members":[{"id":0,"host":"h:1","priority":1,"votes":1}]}`}, {Key: "self", Value: 0}})),
		opMsg(flagMoreToCome|1<<16, bodySection(pingDoc(t))),
		append(header(headerSize+9, opCompressed), make([]byte, 9)...),
	}
}

// FuzzMessage sends arbitrary bytes to the connection handler: it must not
// panic, not hang, and answer in well-formed messages or not at all.
func FuzzMessage(f *testing.F) {
	for _, seed := range fuzzSeeds(f) {
		f.Add(seed)
	}
	s := startServer(f, Config{ReplicaSet: "rs", Initiate: true})
	f.Fuzz(func(t *testing.T, data []byte) {
		// What one input leaves behind is not the next one's.
		s.engine.Store(engine.New())
		s.failPoint.Store(nil)
		s.sessions.abortAll()
		s.repl.mu.Lock()
		s.repl.frozenUntil = time.Time{}
		s.repl.mu.Unlock()
		s.repl.evaluate()

		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		defer cancel()
		nc := &stream{in: bytes.NewReader(data)}
		start := time.Now()
		newConn(s, nc).serve(ctx)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		for out := nc.out.Bytes(); len(out) > 0; {
			n := int(int32At(out, 0))
			if n < headerSize || n > len(out) {
				t.Fatalf("reply of %d bytes, %d left", n, len(out))
			}
			var m message
			var err error
			if int32At(out, 12) == opReply {
				err = validate(out[headerSize+20 : n])
			} else {
				err = m.parseMsg(out[:n])
			}
			if err != nil {
				t.Fatalf("reply is broken: %v", err)
			}
			out = out[n:]
		}
	})
}
