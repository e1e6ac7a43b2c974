package embedded

import (
	"bytes"
	"context"
	"io"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// endless is a client that sends the same messages again and again, without
// a socket in between.
type endless struct {
	stream
	messages [][]byte
	next     int
	left     int // messages still to send
	rest     []byte
}

func (e *endless) Read(b []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		e.left--
		e.rest = e.messages[e.next]
		e.next = (e.next + 1) % len(e.messages)
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func (e *endless) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkOverhead is what the server adds to the engine for one command:
// reading, parsing, authorisation, sessions, the reply. The bar is 10 µs.
func BenchmarkOverhead(b *testing.B) {
	s := startServer(b, Config{ReplicaSet: "rs", Initiate: true})
	w := dialWire(b, s)
	w.run("db", insertDoc(1))
	lsid := bson.E{Key: "lsid", Value: sessionDoc(1)}
	message := func(command bson.D, sections ...[]byte) []byte {
		command = append(command, bson.E{Key: "$db", Value: "db"})
		return opMsg(0, append([][]byte{bodySection(marshal(b, command))}, sections...)...)
	}
	find := message(bson.D{{Key: "find", Value: "c"}, {Key: "filter", Value: bson.D{{Key: "_id", Value: 1}}}, lsid})
	statement := marshal(b, bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}}})
	update := func(number int64) []byte {
		return message(numbered(bson.D{{Key: "update", Value: "c"}}, 2, number), sequenceSection("updates", statement))
	}
	for _, tc := range []struct {
		name     string
		messages func(n int) [][]byte
	}{
		{"ping", func(int) [][]byte { return [][]byte{message(bson.D{{Key: "ping", Value: 1}, lsid})} }},
		{"find", func(int) [][]byte { return [][]byte{find} }},
		{"retryable update", func(n int) [][]byte {
			all := make([][]byte, n)
			for i := range all {
				all[i] = update(s.counters.update.Load() + int64(i) + 1)
			}
			return all
		}},
	} {
		b.Run(tc.name, func(b *testing.B) {
			e := &endless{stream: stream{in: bytes.NewReader(nil)}, messages: tc.messages(b.N), left: b.N}
			c := newConn(s, e)
			b.ReportAllocs()
			b.ResetTimer()
			c.serve(context.Background())
		})
	}
}
