package loadgen

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// nullServer speaks the wire protocol of a replica set's primary and does
// nothing: finds return the same documents, writes say that they were done.
// What it does not know is an error.
type nullServer struct {
	listener net.Listener
	found    []bson.Raw // what finds return, in one batch each
	// digest makes it take down a digest of the commands.
	digest bool
	// fault may be set before commands come. It is asked before each data
	// command.
	fault func(command string) fault

	mu       sync.Mutex
	unknown  []string
	received digest
	counts   map[string]int64
	cursors  map[int64]int // batches left
	conns    map[net.Conn]bool
	running  sync.WaitGroup
}

// fault is what goes wrong with one command.
type fault struct {
	delay   time.Duration
	code    int32  // the command fails
	name    string // codeName
	write   int32  // the write fails with a writeError of that code
	concern int32  // the write succeeds with a writeConcernError
	hangUp  bool   // the connection is closed without a reply
	batches int    // a find's cursor has so many batches after the first
	labels  []string
}

// digest of a set of commands, whatever their order, and, for a single
// connection, of their sequence.
type digest struct {
	sum   [4]uint64
	count int64
	chain *workload.Chain
}

func newDigest() digest { return digest{chain: workload.NewChain()} }

func (d *digest) add(canonical []byte) {
	h := sha256.Sum256(canonical)
	for i := range d.sum {
		d.sum[i] += binary.LittleEndian.Uint64(h[8*i:])
	}
	d.count++
	d.chain.Add(canonical)
}

func startNullServer() (*nullServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &nullServer{
		listener: l, received: newDigest(), counts: map[string]int64{},
		cursors: map[int64]int{}, conns: map[net.Conn]bool{},
	}
	return s, nil
}

func (s *nullServer) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.running.Go(func() { s.handle(conn) })
	}
}

// newNullServer starts a server for a test, which fails if it got a command
// it does not know.
func newNullServer(t *testing.T) *nullServer {
	t.Helper()
	s, err := startNullServer()
	if err != nil {
		t.Fatal(err)
	}
	s.running.Go(s.serve)
	t.Cleanup(func() {
		s.close()
		if len(s.unknown) > 0 {
			t.Errorf("the null server does not know %v", s.unknown)
		}
	})
	return s
}

func (s *nullServer) close() {
	_ = s.listener.Close()
	s.hangUp()
	s.running.Wait()
}

// hangUp closes all connections.
func (s *nullServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.conns {
		_ = conn.Close()
	}
}

func (s *nullServer) uri() string {
	return "mongodb://" + s.listener.Addr().String() + "/?replicaSet=null"
}

const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

func (s *nullServer) handle(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	var message, reply []byte
	for {
		var header [16]byte
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		length := int(binary.LittleEndian.Uint32(header[:]))
		message = slices.Grow(message[:0], length)[:length-16]
		if _, err := io.ReadFull(conn, message); err != nil {
			return
		}
		id := binary.LittleEndian.Uint32(header[4:])
		reply = append(reply[:0], make([]byte, 16)...)
		var op uint32
		var ok bool
		switch binary.LittleEndian.Uint32(header[12:]) {
		case opMsg:
			op = opMsg
			reply = append(reply, 0, 0, 0, 0, 0) // flags, section kind 0
			if reply, ok = s.answer(reply, message); !ok {
				return
			}
		case opQuery: // the driver's first hello
			op = opReply
			reply = append(reply, make([]byte, 20)...)
			reply[16+16] = 1 // documents in the reply
			reply = append(reply, s.hello()...)
		default:
			return
		}
		binary.LittleEndian.PutUint32(reply[0:], uint32(len(reply)))
		binary.LittleEndian.PutUint32(reply[8:], id)
		binary.LittleEndian.PutUint32(reply[12:], op)
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

// answer appends the reply to an OP_MSG. It is false when the connection is
// to be closed.
func (s *nullServer) answer(dst, message []byte) ([]byte, bool) {
	flags, rest := binary.LittleEndian.Uint32(message), message[4:]
	if flags&1 != 0 { // checksum
		rest = rest[:len(rest)-4]
	}
	var body bson.Raw
	sequences := map[string][]bson.Raw{}
	documents := 0
	for len(rest) > 0 {
		kind := rest[0]
		size := int(binary.LittleEndian.Uint32(rest[1:]))
		section := rest[1 : 1+size]
		rest = rest[1+size:]
		if kind == 0 {
			body = bson.Raw(section)
			continue
		}
		name, data, _ := bytes.Cut(section[4:], []byte{0})
		for len(data) > 0 {
			n := binary.LittleEndian.Uint32(data)
			if s.digest {
				sequences[string(name)] = append(sequences[string(name)], bson.Raw(data[:n]))
			}
			data = data[n:]
			documents++
		}
	}
	end := bytes.IndexByte(body[5:], 0)
	name := string(body[5 : 5+end])
	var f fault
	switch name {
	case "find", "insert", "update", "delete", "aggregate":
		if s.digest {
			canonical, err := workload.CanonicalFromWire(body, sequences)
			if err != nil {
				return s.note(dst, fmt.Sprintf("%s (%v)", name, err)), true
			}
			s.mu.Lock()
			s.received.add(canonical)
			s.mu.Unlock()
		}
		if s.fault != nil {
			s.mu.Lock()
			s.counts[name]++
			s.mu.Unlock()
			f = s.fault(name)
		}
	}
	if f.delay > 0 {
		time.Sleep(f.delay)
	}
	if f.hangUp {
		return nil, false
	}
	if f.code != 0 {
		d := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: f.code}, {Key: "errmsg", Value: "injected"}}
		if f.name != "" {
			d = append(d, bson.E{Key: "codeName", Value: f.name})
		}
		if len(f.labels) > 0 {
			d = append(d, bson.E{Key: "errorLabels", Value: f.labels})
		}
		return appendDocument(dst, d), true
	}
	ok := bson.E{Key: "ok", Value: 1.0}
	switch name {
	case "find", "aggregate":
		return s.cursor(dst, "firstBatch", f.batches, 0), true
	case "getMore":
		id := body.Lookup("getMore").Int64()
		s.mu.Lock()
		left := s.cursors[id] - 1
		s.mu.Unlock()
		return s.cursor(dst, "nextBatch", left, id), true
	case "insert", "delete":
		return s.write(dst, f, bson.D{{Key: "n", Value: int32(documents)}, ok}), true
	case "update":
		return s.write(dst, f, bson.D{{Key: "n", Value: int32(1)}, {Key: "nModified", Value: int32(1)}, ok}), true
	case "hello", "isMaster":
		return append(dst, s.hello()...), true
	case "ping", "endSessions", "createIndexes", "drop", "killCursors":
		return appendDocument(dst, bson.D{ok}), true
	}
	return s.note(dst, name), true
}

func (s *nullServer) write(dst []byte, f fault, d bson.D) []byte {
	if f.write != 0 {
		d = bson.D{{Key: "n", Value: int32(0)}, {Key: "ok", Value: 1.0}, {Key: "writeErrors", Value: bson.A{
			bson.D{{Key: "index", Value: int32(0)}, {Key: "code", Value: f.write}, {Key: "errmsg", Value: "injected"}},
		}}}
	}
	if f.concern != 0 {
		d = append(d, bson.E{Key: "writeConcernError", Value: bson.D{
			{Key: "code", Value: f.concern}, {Key: "codeName", Value: f.name}, {Key: "errmsg", Value: "injected"},
		}})
	}
	if len(f.labels) > 0 {
		d = append(d, bson.E{Key: "errorLabels", Value: f.labels})
	}
	return appendDocument(dst, d)
}

func (s *nullServer) cursor(dst []byte, batch string, more int, id int64) []byte {
	if more > 0 {
		s.mu.Lock()
		if id == 0 {
			id = int64(len(s.cursors) + 1)
		}
		s.cursors[id] = more
		s.mu.Unlock()
	} else {
		id = 0
	}
	found := make(bson.A, len(s.found))
	for i := range s.found {
		found[i] = s.found[i]
	}
	return appendDocument(dst, bson.D{
		{Key: "cursor", Value: bson.D{{Key: batch, Value: found}, {Key: "id", Value: id}, {Key: "ns", Value: "airline.flights"}}},
		{Key: "ok", Value: 1.0},
	})
}

func (s *nullServer) note(dst []byte, what string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unknown = append(s.unknown, what)
	return appendDocument(dst, bson.D{
		{Key: "ok", Value: 0.0}, {Key: "code", Value: int32(59)}, {Key: "codeName", Value: "CommandNotFound"},
		{Key: "errmsg", Value: "no such command: " + what},
	})
}

func (s *nullServer) hello() []byte {
	address := s.listener.Addr().String()
	return appendDocument(nil, bson.D{
		{Key: "isWritablePrimary", Value: true}, {Key: "ismaster", Value: true}, {Key: "helloOk", Value: true},
		{Key: "setName", Value: "null"}, {Key: "setVersion", Value: int32(1)}, {Key: "hosts", Value: bson.A{address}},
		{Key: "primary", Value: address}, {Key: "me", Value: address}, {Key: "secondary", Value: false},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)}, {Key: "maxMessageSizeBytes", Value: int32(48000000)},
		{Key: "maxWriteBatchSize", Value: int32(100000)}, {Key: "localTime", Value: bson.DateTime(0)},
		{Key: "logicalSessionTimeoutMinutes", Value: int32(30)}, {Key: "minWireVersion", Value: int32(0)},
		{Key: "maxWireVersion", Value: int32(25)}, {Key: "readOnly", Value: false}, {Key: "ok", Value: 1.0},
	})
}

func appendDocument(dst []byte, d bson.D) []byte {
	raw, err := bson.Marshal(d)
	if err != nil {
		panic(err)
	}
	return append(dst, raw...)
}

// someFound are five documents of the size a find's projection leaves.
func someFound() []bson.Raw {
	var docs []bson.Raw
	for i := range 5 {
		docs = append(docs, appendDocument(nil, bson.D{
			{Key: "_id", Value: int64(i)}, {Key: "flight_id", Value: int64(i)}, {Key: "status", Value: "On time"},
			{Key: "note", Value: strings.Repeat("x", 60)},
		}))
	}
	return docs
}
