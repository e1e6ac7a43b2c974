package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func pingDoc(t testing.TB) []byte {
	return marshal(t, bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "admin"}})
}

func header(length, op int32) []byte {
	h := make([]byte, headerSize)
	binary.LittleEndian.PutUint32(h, uint32(length))
	binary.LittleEndian.PutUint32(h[12:], uint32(op))
	return h
}

func TestMalformedMessagesCloseTheConnection(t *testing.T) {
	s := startServer(t, Config{})
	ping := pingDoc(t)
	truncatedSequence := sequenceSection("documents", ping)
	truncatedSequence[len("documents")+6] = 200 // the document's length
	checksummed := func(sum uint32) []byte {
		msg := opMsg(flagChecksum, bodySection(ping))
		msg = append(msg, 0, 0, 0, 0)
		finishMsg(msg)
		binary.LittleEndian.PutUint32(msg[len(msg)-4:], sum)
		return msg
	}
	for name, msg := range map[string][]byte{
		"length below header":       header(15, opMessage),
		"negative length":           header(-1, opMessage),
		"length above 48 MB":        header(maxMessageSize+1, opMessage),
		"header only":               header(headerSize, opMessage),
		"unknown opcode":            append(header(headerSize+4, 9999), 0, 0, 0, 0),
		"legacy insert":             append(header(headerSize+4, 2002), 0, 0, 0, 0),
		"unknown required flag":     opMsg(1<<5, bodySection(ping)),
		"no body":                   opMsg(0, sequenceSection("documents", ping)),
		"two bodies":                opMsg(0, bodySection(ping), bodySection(ping)),
		"unknown section":           opMsg(0, append([]byte{2}, ping...)),
		"section longer than frame": opMsg(0, append([]byte{0, 0xff, 0, 0, 0}, ping[4:]...)),
		"sequence without name":     opMsg(0, bodySection(ping), sequenceSection("", ping)),
		"twice the same sequence":   opMsg(0, bodySection(ping), sequenceSection("a", ping), sequenceSection("a", ping)),
		"document over sequence":    opMsg(0, bodySection(ping), truncatedSequence),
		"wrong checksum":            checksummed(1),
		"query not a command":       queryMessage("admin.things", ping),
		"query without document":    append(header(headerSize+10, opQuery), make([]byte, 10)...),
	} {
		t.Run(name, func(t *testing.T) {
			w := dialWire(t, s)
			w.write(msg)
			if reply, err := w.readReply(); !errors.Is(err, io.EOF) && !isReset(err) {
				t.Errorf("got reply %v, error %v; want the connection closed", reply, err)
			}
		})
	}
	// The server is none the worse for it.
	if got := code(dialWire(t, s).run("admin", bson.D{{Key: "ping", Value: 1}})); got != 0 {
		t.Errorf("ping after malformed messages: code %d", got)
	}
}

func isReset(err error) bool { return err != nil && strings.Contains(err.Error(), "reset") }

func queryMessage(namespace string, doc []byte) []byte {
	msg := append(header(0, opQuery), 0, 0, 0, 0)
	msg = append(append(msg, namespace...), 0)
	msg = append(msg, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	return finishMsg(append(msg, doc...))
}

func TestBrokenDocumentsAreAnswered(t *testing.T) {
	s := startServer(t, Config{})
	deep := bson.D{}
	for range maxDepth + 1 {
		deep = bson.D{{Key: "a", Value: deep}}
	}
	// The first element's string claims more bytes than the document has.
	broken := marshal(t, bson.D{{Key: "ping", Value: "x"}, {Key: "$db", Value: "admin"}})
	broken[4+1+5] = 200
	for name, tc := range map[string]struct {
		msg  []byte
		code int32
	}{
		"broken string":    {opMsg(0, bodySection(broken)), 22},
		"too deep":         {opMsg(0, bodySection(marshal(t, deep))), 15},
		"empty command":    {opMsg(0, bodySection(marshal(t, bson.D{}))), 59},
		"no database":      {opMsg(0, bodySection(marshal(t, bson.D{{Key: "ping", Value: 1}}))), 40571},
		"bad database":     {opMsg(0, bodySection(marshal(t, bson.D{{Key: "ping", Value: 1}, {Key: "$db", Value: "a.b"}}))), 73},
		"unknown":          {opMsg(0, bodySection(marshal(t, bson.D{{Key: "getLog", Value: "global"}, {Key: "$db", Value: "admin"}}))), 59},
		"unknown field":    {opMsg(0, bodySection(marshal(t, bson.D{{Key: "ping", Value: 1}, {Key: "loud", Value: 1}, {Key: "$db", Value: "admin"}}))), 40415},
		"query, not hello": {queryMessage("admin.$cmd", marshal(t, bson.D{{Key: "ping", Value: 1}})), 352},
	} {
		t.Run(name, func(t *testing.T) {
			w := dialWire(t, s)
			w.write(tc.msg)
			reply, err := w.readReply()
			if err != nil {
				t.Fatal(err)
			}
			if got := code(reply); got != tc.code {
				t.Errorf("code %d, want %d: %v", got, tc.code, reply)
			}
			if got := code(w.run("admin", bson.D{{Key: "ping", Value: 1}})); got != 0 {
				t.Errorf("the connection is unusable after it: code %d", got)
			}
		})
	}
}

func TestWireForms(t *testing.T) {
	s := startServer(t, Config{})
	t.Run("checksum", func(t *testing.T) {
		w := dialWire(t, s)
		msg := append(opMsg(flagChecksum, bodySection(pingDoc(t))), 0, 0, 0, 0)
		finishMsg(msg)
		binary.LittleEndian.PutUint32(msg[len(msg)-4:], crc32.Checksum(msg[:len(msg)-4], castagnoli))
		w.write(msg)
		if reply, err := w.readReply(); err != nil || code(reply) != 0 {
			t.Errorf("reply %v, error %v", reply, err)
		}
	})
	t.Run("moreToCome is not answered", func(t *testing.T) {
		w := dialWire(t, s)
		w.write(opMsg(flagMoreToCome, bodySection(pingDoc(t))))
		reply := w.run("admin", bson.D{{Key: "buildInfo", Value: 1}})
		if _, err := reply.LookupErr("version"); err != nil {
			t.Errorf("the first reply is not buildInfo's: %v", reply)
		}
	})
	t.Run("exhaust allowed gets one reply", func(t *testing.T) {
		w := dialWire(t, s)
		w.write(opMsg(1<<16, bodySection(pingDoc(t))))
		if reply, err := w.readReply(); err != nil || code(reply) != 0 {
			t.Errorf("reply %v, error %v", reply, err)
		}
	})
	t.Run("isMaster as query", func(t *testing.T) {
		w := dialWire(t, s)
		w.write(queryMessage("admin.$cmd", marshal(t, bson.D{{Key: "isMaster", Value: 1}, {Key: "helloOk", Value: true}})))
		reply, err := w.readReply()
		if err != nil {
			t.Fatal(err)
		}
		if !reply.Lookup("ismaster").Boolean() || !reply.Lookup("helloOk").Boolean() || reply.Lookup("maxWireVersion").Int32() != 25 {
			t.Errorf("reply %v", reply)
		}
	})
	t.Run("compression is refused", func(t *testing.T) {
		w := dialWire(t, s)
		w.write(append(header(headerSize+9, opCompressed), make([]byte, 9)...))
		reply, err := w.readReply()
		if err != nil || code(reply) != codeBadValue {
			t.Errorf("reply %v, error %v", reply, err)
		}
		if _, err := w.readReply(); !errors.Is(err, io.EOF) {
			t.Errorf("connection still open: %v", err)
		}
	})
	t.Run("messages in one packet", func(t *testing.T) {
		w := dialWire(t, s)
		one := opMsg(0, bodySection(pingDoc(t)))
		w.write(slices.Concat(one, one, one))
		for range 3 {
			if reply, err := w.readReply(); err != nil || code(reply) != 0 {
				t.Errorf("reply %v, error %v", reply, err)
			}
		}
	})
}

func TestGenericArguments(t *testing.T) {
	s := startServer(t, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(t, s)
	field := func(e ...bson.E) bson.D { return append(bson.D{{Key: "ping", Value: 1}}, e...) }
	uuid := sessionDoc(1)
	for name, tc := range map[string]struct {
		command bson.D
		code    int32
	}{
		"all good": {field(bson.E{Key: "lsid", Value: uuid}, bson.E{Key: "maxTimeMS", Value: 5},
			bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "majority"}}}, bson.E{Key: "comment", Value: 1},
			bson.E{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "nearest"}}},
			bson.E{Key: "apiVersion", Value: "1"}, bson.E{Key: "apiStrict", Value: true}), 0},
		"lsid not a document":     {field(bson.E{Key: "lsid", Value: 1}), 14},
		"lsid without id":         {field(bson.E{Key: "lsid", Value: bson.D{}}), 40414},
		"lsid not a UUID":         {field(bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: "x"}}}), 14},
		"lsid short":              {field(bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: []byte{1}}}}}), 207},
		"lsid with more":          {field(bson.E{Key: "lsid", Value: append(uuid, bson.E{Key: "x", Value: 1})}), 40415},
		"txnNumber without lsid":  {field(bson.E{Key: "txnNumber", Value: int64(1)}), 72},
		"txnNumber as int":        {field(bson.E{Key: "lsid", Value: uuid}, bson.E{Key: "txnNumber", Value: int32(1)}), 14},
		"autocommit true":         {field(bson.E{Key: "autocommit", Value: true}), 72},
		"autocommit alone":        {field(bson.E{Key: "autocommit", Value: false}), 72},
		"start false":             {field(bson.E{Key: "startTransaction", Value: false}), 72},
		"start alone":             {field(bson.E{Key: "startTransaction", Value: true}), 72},
		"read concern level":      {field(bson.E{Key: "readConcern", Value: bson.D{{Key: "level", Value: "strong"}}}), 2},
		"read concern field":      {field(bson.E{Key: "readConcern", Value: bson.D{{Key: "depth", Value: 1}}}), 40415},
		"w negative":              {field(bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: -1}}}), 9},
		"w a document":            {field(bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: bson.D{}}}}), 9},
		"w 51":                    {field(bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 51}}}), 9},
		"write concern field":     {field(bson.E{Key: "writeConcern", Value: bson.D{{Key: "x", Value: 1}}}), 9},
		"read preference":         {field(bson.E{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "closest"}}}), 9},
		"maxTimeMS negative":      {field(bson.E{Key: "maxTimeMS", Value: -1}), 2},
		"maxTimeMS text":          {field(bson.E{Key: "maxTimeMS", Value: "1"}), 14},
		"apiVersion 2":            {field(bson.E{Key: "apiVersion", Value: "2"}), 322},
		"apiStrict alone":         {field(bson.E{Key: "apiStrict", Value: true}), 322},
		"not a retryable command": {field(bson.E{Key: "lsid", Value: uuid}, bson.E{Key: "txnNumber", Value: int64(1)}), 50768},
	} {
		t.Run(name, func(t *testing.T) {
			reply := w.run("admin", tc.command)
			if got := code(reply); got != tc.code {
				t.Errorf("code %d, want %d: %v", got, tc.code, reply)
			}
		})
	}
	reply := w.run("admin", bson.D{{Key: "serverStatus", Value: 1}, {Key: "apiVersion", Value: "1"}, {Key: "apiStrict", Value: true}})
	if code(reply) != 323 {
		t.Errorf("serverStatus is not in API version 1: %v", reply)
	}
}
