package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func startServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = 50 * time.Millisecond
	}
	s, err := Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// connect returns a driver client of uri that is disconnected before the
// server ends.
func connect(t testing.TB, uri string, more ...*options.ClientOptions) *mongo.Client {
	t.Helper()
	base := options.Client().ApplyURI(uri).SetServerSelectionTimeout(20 * time.Second)
	client, err := mongo.Connect(append([]*options.ClientOptions{base}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The driver looks for a server to end its sessions on: not for long.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx)
	})
	return client
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wire is a client without a driver.
type wire struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

func dialWire(t testing.TB, s *Server) *wire {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &wire{t: t, nc: nc, r: bufio.NewReader(nc)}
}

func marshal(t testing.TB, d bson.D) []byte {
	t.Helper()
	raw, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// opMsg builds an OP_MSG around sections given as they are on the wire.
func opMsg(flags uint32, sections ...[]byte) []byte {
	msg := appendMsgHeader(nil, 7, 0)
	msg = msg[:len(msg)-1]
	binary.LittleEndian.PutUint32(msg[headerSize:], flags)
	for _, s := range sections {
		msg = append(msg, s...)
	}
	return finishMsg(msg)
}

func bodySection(doc []byte) []byte { return append([]byte{0}, doc...) }

func sequenceSection(id string, docs ...[]byte) []byte {
	s := []byte{1, 0, 0, 0, 0}
	s = append(append(s, id...), 0)
	for _, d := range docs {
		s = append(s, d...)
	}
	binary.LittleEndian.PutUint32(s[1:], uint32(len(s)-1))
	return s
}

func (w *wire) write(msg []byte) {
	w.t.Helper()
	if _, err := w.nc.Write(msg); err != nil {
		w.t.Fatal(err)
	}
}

// readReply returns the document of the next reply, or the error that the
// connection ended with.
func (w *wire) readReply() (bson.Raw, error) {
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(w.r, head); err != nil {
		return nil, err
	}
	rest := make([]byte, int(int32At(head, 0))-headerSize)
	if _, err := io.ReadFull(w.r, rest); err != nil {
		return nil, err
	}
	if int32At(head, 12) == opReply {
		return rest[20:], nil
	}
	return rest[5:], nil
}

// run sends a command to database db and returns the reply, ok or not.
func (w *wire) run(db string, command bson.D) bson.Raw {
	w.t.Helper()
	w.write(opMsg(0, bodySection(marshal(w.t, append(command, bson.E{Key: "$db", Value: db})))))
	reply, err := w.readReply()
	if err != nil {
		w.t.Fatalf("reply to %v: %v", command[0].Key, err)
	}
	return reply
}

// code is the error code of a reply, 0 when it is ok.
func code(reply bson.Raw) int32 {
	if ok, _ := reply.Lookup("ok").AsFloat64OK(); ok == 1 {
		return 0
	}
	return reply.Lookup("code").Int32()
}

func labels(reply bson.Raw) []string {
	var all []string
	if list, ok := reply.Lookup("errorLabels").ArrayOK(); ok {
		values, _ := list.Values()
		for _, v := range values {
			all = append(all, v.StringValue())
		}
	}
	return all
}

func sessionDoc(n byte) bson.D {
	return bson.D{{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: append(make([]byte, 15), n)}}}
}

// login authenticates by SCRAM-SHA-256 against admin.
func (w *wire) login(name, password string) {
	w.t.Helper()
	if reply := w.tryLogin("admin", name, password); code(reply) != 0 {
		w.t.Fatalf("login: %v", reply)
	}
}

func (w *wire) tryLogin(db, name, password string) bson.Raw {
	w.t.Helper()
	client, err := scram.SHA256.NewClient(name, password, "")
	if err != nil {
		w.t.Fatal(err)
	}
	conversation := client.NewConversation()
	payload, err := conversation.Step("")
	if err != nil {
		w.t.Fatal(err)
	}
	reply := w.run(db, bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"},
		{Key: "payload", Value: []byte(payload)}, {Key: "options", Value: bson.D{{Key: "skipEmptyExchange", Value: true}}}})
	for code(reply) == 0 && !reply.Lookup("done").Boolean() {
		_, data := reply.Lookup("payload").Binary()
		if payload, err = conversation.Step(string(data)); err != nil {
			w.t.Fatal(err)
		}
		reply = w.run(db, bson.D{{Key: "saslContinue", Value: 1}, {Key: "conversationId", Value: 1}, {Key: "payload", Value: []byte(payload)}})
	}
	return reply
}
