package workload

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// wireServer is the least server that a driver talks to: it says it is the
// primary of a replica set, answers everything with ok, and keeps what it
// received of the workload's commands.
type wireServer struct {
	listener net.Listener
	group    sync.WaitGroup

	mu       sync.Mutex
	received [][]byte // canonical forms
	fields   []string // names of all top-level fields seen
	errs     []error
}

func startWireServer(t *testing.T) *wireServer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &wireServer{listener: listener}
	s.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.group.Go(func() {
				defer func() { _ = conn.Close() }()
				if err := s.serve(conn); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
					s.mu.Lock()
					s.errs = append(s.errs, err)
					s.mu.Unlock()
				}
			})
		}
	})
	return s
}

func (s *wireServer) serve(conn net.Conn) error {
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return err
		}
		message := make([]byte, binary.LittleEndian.Uint32(size[:]))
		copy(message, size[:])
		if _, err := io.ReadFull(conn, message[4:]); err != nil {
			return err
		}
		_, request, _, opcode, rest, _ := wiremessage.ReadHeader(message)
		var reply []byte
		var start int32
		if opcode != wiremessage.OpMsg { // the first hello, a legacy query
			start, reply = wiremessage.AppendHeaderStart(nil, 1, request, wiremessage.OpReply)
			reply = wiremessage.AppendReplyFlags(reply, 0)
			reply = wiremessage.AppendReplyCursorID(reply, 0)
			reply = wiremessage.AppendReplyStartingFrom(reply, 0)
			reply = wiremessage.AppendReplyNumberReturned(reply, 1)
			reply = append(reply, s.hello()...)
		} else {
			_, rest, _ := wiremessage.ReadMsgFlags(rest)
			var body bson.Raw
			sequences := map[string][]bson.Raw{}
			for len(rest) > 0 {
				var kind wiremessage.SectionType
				kind, rest, _ = wiremessage.ReadMsgSectionType(rest)
				if kind == wiremessage.SingleDocument {
					var doc bsoncore.Document
					doc, rest, _ = wiremessage.ReadMsgSectionSingleDocument(rest)
					body = bson.Raw(doc)
					continue
				}
				name, docs, more, ok := wiremessage.ReadMsgSectionDocumentSequence(rest)
				if !ok {
					return errors.New("malformed document sequence")
				}
				for _, doc := range docs {
					sequences[name] = append(sequences[name], bson.Raw(doc))
				}
				rest = more
			}
			answer, err := s.answer(body, sequences)
			if err != nil {
				return err
			}
			start, reply = wiremessage.AppendHeaderStart(nil, 1, request, wiremessage.OpMsg)
			reply = wiremessage.AppendMsgFlags(reply, 0)
			reply = wiremessage.AppendMsgSectionType(reply, wiremessage.SingleDocument)
			reply = append(reply, answer...)
		}
		reply = bsoncore.UpdateLength(reply, start, int32(len(reply)))
		if _, err := conn.Write(reply); err != nil {
			return err
		}
	}
}

func (s *wireServer) hello() []byte {
	address := s.listener.Addr().String()
	answer, err := bson.Marshal(bson.D{
		{Key: "isWritablePrimary", Value: true},
		{Key: "ismaster", Value: true},
		{Key: "setName", Value: "rs"},
		{Key: "hosts", Value: bson.A{address}},
		{Key: "me", Value: address},
		{Key: "primary", Value: address},
		{Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)},
		{Key: "maxMessageSizeBytes", Value: int32(48_000_000)},
		{Key: "maxWriteBatchSize", Value: int32(100_000)},
		{Key: "minWireVersion", Value: int32(0)},
		{Key: "maxWireVersion", Value: int32(25)},
		{Key: "ok", Value: 1.0},
	})
	if err != nil {
		panic(err)
	}
	return answer
}

func (s *wireServer) answer(body bson.Raw, sequences map[string][]bson.Raw) ([]byte, error) {
	elements, err := body.Elements()
	if err != nil {
		return nil, err
	}
	switch name := elements[0].Key(); name {
	case "hello", "isMaster", "ismaster":
		return s.hello(), nil
	case "find", "aggregate", "insert", "update", "delete":
		canonical, err := CanonicalFromWire(body, sequences)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.received = append(s.received, canonical)
		for _, e := range elements {
			if !slices.Contains(s.fields, e.Key()) {
				s.fields = append(s.fields, e.Key())
			}
		}
		s.mu.Unlock()
		if name == "find" || name == "aggregate" {
			return bson.Marshal(bson.D{
				{Key: "cursor", Value: bson.D{
					{Key: "id", Value: int64(0)},
					{Key: "ns", Value: "airline.flights"},
					{Key: "firstBatch", Value: bson.A{}},
				}},
				{Key: "ok", Value: 1.0},
			})
		}
		return bson.Marshal(bson.D{{Key: "n", Value: int32(1)}, {Key: "nModified", Value: int32(1)}, {Key: "ok", Value: 1.0}})
	}
	return bson.Marshal(bson.D{{Key: "ok", Value: 1.0}})
}

// send sends a command as a user of the driver would.
func send(ctx context.Context, coll *mongo.Collection, c *Command) error {
	switch c.Type {
	case Find:
		o := options.Find().SetProjection(c.Projection).SetBatchSize(c.BatchSize)
		if c.Limit != 0 {
			o.SetLimit(c.Limit)
		}
		cursor, err := coll.Find(ctx, c.Filter, o)
		if err != nil {
			return err
		}
		return cursor.Close(ctx)
	case UpdateOne:
		_, err := coll.UpdateOne(ctx, c.Filter, c.Update)
		return err
	case UpdateMany:
		_, err := coll.UpdateMany(ctx, c.Filter, c.Update)
		return err
	case DeleteOne:
		_, err := coll.DeleteOne(ctx, c.Filter)
		return err
	case DeleteMany:
		_, err := coll.DeleteMany(ctx, c.Filter)
		return err
	case InsertOne:
		_, err := coll.InsertOne(ctx, c.Documents[0])
		return err
	case InsertMany:
		_, err := coll.InsertMany(ctx, c.Documents)
		return err
	case Aggregate:
		cursor, err := coll.Aggregate(ctx, bsoncore.Array(c.Pipeline))
		if err != nil {
			return err
		}
		return cursor.Close(ctx)
	}
	return errors.New("unknown operation type")
}

// What the driver sends for a command is, in canonical form, the command.
func TestCanonicalFromDriver(t *testing.T) {
	server := startWireServer(t)
	client, err := mongo.Connect(options.Client().
		ApplyURI("mongodb://" + server.listener.Addr().String() + "/?replicaSet=rs&w=majority&readConcernLevel=majority&readPreference=primaryPreferred").
		SetTimeout(10 * time.Second).
		SetServerAPIOptions(options.ServerAPI(options.ServerAPIVersion1)))
	if err != nil {
		t.Fatal(err)
	}
	coll := client.Database(databaseName).Collection(collectionName)

	var sent [][]byte
	var types [NumOpTypes]int
	for _, limit := range []int{5, 0} {
		w := newWorkload(t, func(s *Settings) {
			s.Size, s.FindLimit, s.InsertBatch = 2000, limit, 13
			s.Mix.Aggregate = 10
		})
		g := w.Generator(1, 2)
		for i := range int64(110) {
			c := g.Command(i)
			types[c.Type]++
			sent = append(sent, c.AppendCanonical(nil))
			if err := send(t.Context(), coll, c); err != nil {
				t.Fatalf("command %d, %s: %v", i, c.Type, err)
			}
		}
	}
	if err := client.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.listener.Close(); err != nil {
		t.Fatal(err)
	}
	server.group.Wait()

	if len(server.errs) > 0 {
		t.Fatalf("server: %v", errors.Join(server.errs...))
	}
	if slices.Contains(types[:], 0) {
		t.Fatalf("types sent: %v: not all", types)
	}
	if len(server.received) != len(sent) {
		t.Fatalf("%d commands received, %d sent", len(server.received), len(sent))
	}
	for i := range sent {
		if !bytes.Equal(server.received[i], sent[i]) {
			t.Fatalf("command %d:\nsent     %s\nreceived %s", i, bson.Raw(sent[i]), bson.Raw(server.received[i]))
		}
		if err := bson.Raw(sent[i]).Validate(); err != nil {
			t.Fatalf("command %d: %v", i, err)
		}
	}
	// The test would prove nothing if the driver had added nothing.
	for _, field := range []string{"lsid", "txnNumber", "writeConcern", "readConcern", "$readPreference", "maxTimeMS", "apiVersion"} {
		if !slices.Contains(server.fields, field) {
			t.Errorf("the driver did not add %s: %q", field, server.fields)
		}
	}
}

func raw(t testing.TB, doc bson.D) bson.Raw {
	t.Helper()
	b, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCanonicalFromWireOrdersFields(t *testing.T) {
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	filter, set := bson.D{e("a", 1)}, bson.D{e("$set", bson.D{e("b", 2)})}
	for _, tc := range []struct {
		name       string
		body, want bson.D
		sequences  map[string][]bson.Raw
	}{
		{
			name: "find",
			body: bson.D{e("find", "c"), e("$db", "d"), e("lsid", 1), e("batchSize", 3), e("sort", 9), e("limit", 2), e("filter", filter), e("projection", filter)},
			want: bson.D{e("find", "c"), e("filter", filter), e("projection", filter), e("limit", 2), e("batchSize", 3), e("sort", 9), e("$db", "d")},
		}, {
			name: "update in the body",
			body: bson.D{e("update", "c"), e("ordered", true), e("updates", bson.A{bson.D{e("multi", true), e("hint", "x"), e("u", set), e("q", filter)}}), e("let", 1), e("$db", "d")},
			want: bson.D{e("update", "c"), e("updates", bson.A{bson.D{e("q", filter), e("u", set), e("multi", true), e("hint", "x")}}), e("ordered", true), e("let", 1), e("$db", "d")},
		}, {
			name:      "delete in a sequence",
			body:      bson.D{e("delete", "c"), e("txnNumber", 7), e("$db", "d"), e("ordered", true)},
			sequences: map[string][]bson.Raw{"deletes": {raw(t, bson.D{e("limit", 1), e("q", filter)}), raw(t, bson.D{e("q", filter), e("limit", 0)})}},
			want:      bson.D{e("delete", "c"), e("deletes", bson.A{bson.D{e("q", filter), e("limit", 1)}, bson.D{e("q", filter), e("limit", 0)}}), e("ordered", true), e("$db", "d")},
		}, {
			name:      "insert keeps documents as they are",
			body:      bson.D{e("insert", "c"), e("$db", "d"), e("ordered", false)},
			sequences: map[string][]bson.Raw{"documents": {raw(t, bson.D{e("q", 1), e("_id", 2)})}},
			want:      bson.D{e("insert", "c"), e("documents", bson.A{bson.D{e("q", 1), e("_id", 2)}}), e("ordered", false), e("$db", "d")},
		}, {
			name: "aggregate",
			body: bson.D{e("aggregate", "c"), e("cursor", bson.D{}), e("allowDiskUse", true), e("pipeline", bson.A{}), e("$clusterTime", 1), e("$db", "d")},
			want: bson.D{e("aggregate", "c"), e("pipeline", bson.A{}), e("cursor", bson.D{}), e("allowDiskUse", true), e("$db", "d")},
		},
	} {
		got, err := CanonicalFromWire(raw(t, tc.body), tc.sequences)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if want := raw(t, tc.want); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%s, want\n%s", tc.name, bson.Raw(got), want)
		}
	}
}

func TestCanonicalFromWireRefuses(t *testing.T) {
	e := func(key string, value any) bson.E { return bson.E{Key: key, Value: value} }
	one := []bson.Raw{raw(t, bson.D{e("q", 1)})}
	for _, tc := range []struct {
		body      bson.Raw
		sequences map[string][]bson.Raw
		want      string
	}{
		{nil, nil, "not a BSON document"},
		{bson.Raw{5, 0, 0, 0, 1}, nil, "not a BSON document"},
		{bson.Raw{0xff, 0xff, 0xff, 0xff, 0}, nil, "not a BSON document"},
		{bson.Raw{5, 0, 0, 0, 0}, nil, "empty document"},
		{bson.Raw{8, 0, 0, 0, 2, 'a', 0, 0}, nil, "malformed BSON element"},
		{raw(t, bson.D{e("hello", 1), e("$db", "d")}), nil, `command "hello" is not of this workload`},
		{raw(t, bson.D{e("find", "c")}), nil, "command find: no $db"},
		{raw(t, bson.D{e("find", "c"), e("$db", "d")}), map[string][]bson.Raw{"documents": one}, `unexpected document sequence "documents"`},
		{raw(t, bson.D{e("update", "c"), e("updates", bson.A{}), e("$db", "d")}), map[string][]bson.Raw{"updates": one}, "updates twice"},
		{raw(t, bson.D{e("update", "c"), e("updates", 1), e("$db", "d")}), nil, "not an array"},
		{raw(t, bson.D{e("update", "c"), e("updates", bson.A{1}), e("$db", "d")}), nil, "element 0 is not a document"},
		{raw(t, bson.D{e("insert", "c"), e("$db", "d")}), map[string][]bson.Raw{"documents": {{1, 2}}}, "documents 0: not a BSON document"},
	} {
		if _, err := CanonicalFromWire(tc.body, tc.sequences); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: error %v, want one with %q", tc.body, err, tc.want)
		}
	}
}

func TestExtJSONRoundTrip(t *testing.T) {
	g := newWorkload(t, func(s *Settings) { s.Mix.Aggregate = 10 }).Generator(1, 0)
	for i := range int64(110) {
		c := g.Command(i)
		text, err := c.ExtJSON()
		if err != nil {
			t.Fatal(err)
		}
		var doc bson.D
		if err := bson.UnmarshalExtJSON(text, true, &doc); err != nil {
			t.Fatal(err)
		}
		if got, want := raw(t, doc), c.AppendCanonical(nil); !bytes.Equal(got, want) {
			t.Fatalf("%s\nreads as\n%s", text, got)
		}
	}
}

func FuzzCanonicalFromWire(f *testing.F) {
	g := newWorkload(f, func(s *Settings) { s.Mix.Aggregate, s.FindBatch, s.InsertBatch = 10, 2, 1 }).Generator(1, 0)
	g.arrange(0)
	for op := range OpType(NumOpTypes) {
		f.Add(g.Command(int64(slices.Index(g.ops, op))).AppendCanonical(nil), []byte{}, "")
	}
	body := raw(f, bson.D{{Key: "delete", Value: "c"}, {Key: "$db", Value: "d"}})
	f.Add([]byte(body), []byte(raw(f, bson.D{{Key: "limit", Value: int32(1)}, {Key: "q", Value: bson.D{}}})), "deletes")
	f.Fuzz(func(t *testing.T, body, document []byte, sequence string) {
		var sequences map[string][]bson.Raw
		if sequence != "" {
			sequences = map[string][]bson.Raw{sequence: {document}}
		}
		canonical, err := CanonicalFromWire(body, sequences)
		if err != nil {
			return
		}
		// A canonical form is its own canonical form.
		again, err := CanonicalFromWire(canonical, nil)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Errorf("%x is not stable: %x, %v", canonical, again, err)
		}
	})
}
