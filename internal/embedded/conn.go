package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

const (
	readBuffer = 32 * 1024
	// keepBuffer is what a connection keeps between messages; one that had a
	// larger message gives the memory back.
	keepBuffer = 4 << 20
	// firstRead is how much is allocated on the word of a message's length
	// alone.
	firstRead = 1 << 20
)

// conn is one client's connection. One goroutine reads, runs and answers its
// commands in turn.
type conn struct {
	s        *Server
	nc       net.Conn
	id       int64
	loopback bool // from this machine
	r        *bufio.Reader
	in, out  []byte
	msg      message
	req      request
	replyID  int32

	appName  string
	login    login
	sasl     saslState
	internal bool // authenticated as a member of the set
	lastTxn  *session

	forwarded []byte // the primary's reply to a forwarded command
	closing   bool   // after this reply
}

func newConn(s *Server, nc net.Conn) *conn {
	return &conn{
		s:        s,
		nc:       nc,
		id:       s.counters.totalCreated.Add(1),
		loopback: isLoopback(nc.RemoteAddr()),
		r:        bufio.NewReaderSize(nc, readBuffer),
	}
}

func isLoopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// serve answers messages until the client or the server has had enough, or
// a message cannot be understood.
func (c *conn) serve(ctx context.Context) {
	defer func() {
		_ = c.nc.Close()
		c.s.sessions.connectionEnded(c.lastTxn, c)
	}()
	for !c.closing {
		if err := c.read(); err != nil {
			c.logBroken(err)
			return
		}
		op := int32At(c.in, 12)
		var err error
		switch op {
		case opMessage:
			err = c.msg.parseMsg(c.in)
		case opQuery:
			err = c.msg.parseQuery(c.in)
		case opCompressed:
			c.msg = message{requestID: int32At(c.in, 4)}
			c.closing = true
			err = badValue("compression was not offered")
		default:
			err = errMalformed
		}
		if errors.Is(err, errMalformed) {
			c.logBroken(err)
			return
		}
		if !c.answer(ctx, err) {
			return
		}
	}
}

func (c *conn) logBroken(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && c.s.ctx.Err() == nil {
		c.s.log.Warn("connection closed", "client", c.nc.RemoteAddr(), "cause", err.Error())
	}
}

// read fills c.in with the next message.
func (c *conn) read() error {
	head, err := c.r.Peek(4)
	if err != nil {
		return err
	}
	n := int(int32At(head, 0))
	if n < headerSize || n > maxMessageSize {
		return errMalformed
	}
	if cap(c.in) > keepBuffer && n <= keepBuffer {
		c.in = nil
		c.msg.spare = [maxSequences][]bson.Raw{}
	}
	// Memory grows with what really arrives, not with what is announced.
	c.in = c.in[:0]
	for len(c.in) < n {
		step := min(n-len(c.in), max(firstRead, len(c.in)))
		start := len(c.in)
		if need := start + step; need > cap(c.in) {
			grown := make([]byte, need, max(need, 4096))
			copy(grown, c.in)
			c.in = grown
		} else {
			c.in = c.in[:need]
		}
		if _, err := io.ReadFull(c.r, c.in[start:]); err != nil {
			return err
		}
	}
	c.s.counters.bytesIn.Add(int64(n))
	c.s.counters.requests.Add(1)
	return nil
}

// answer runs the message's command, if there is one, and sends the reply.
// It returns false when the connection is to be closed without one.
func (c *conn) answer(ctx context.Context, broken error) bool {
	var reply bson.Raw
	err := broken
	if err == nil {
		if err = c.req.parse(&c.msg, c.s.commands); err == nil {
			reply, err = c.s.dispatch(ctx, c, &c.req)
		} else {
			c.s.counters.command.Add(1)
		}
	}
	if errors.Is(err, errHangUp) {
		return false
	}
	if c.msg.moreToCome {
		return true
	}
	c.replyID++
	c.out = c.out[:0]
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	if c.msg.query {
		c.out = appendReplyHeader(c.out, c.replyID, c.msg.requestID)
	} else {
		c.out = appendMsgHeader(c.out, c.replyID, c.msg.requestID)
	}
	if err != nil {
		c.out = c.s.appendError(c.out, asError(err))
	} else {
		c.out = append(c.out, reply...)
	}
	finishMsg(c.out)
	c.s.counters.bytesOut.Add(int64(len(c.out)))
	_, werr := c.nc.Write(c.out)
	return werr == nil
}

// errHangUp closes the connection without a reply.
var errHangUp = errors.New("hang up")

// appendError renders a failed command.
func (s *Server) appendError(dst []byte, e *engine.Error) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = appendDouble(dst, "ok", 0)
	dst = appendString(dst, "errmsg", e.Message)
	dst = appendInt32(dst, "code", e.Code)
	dst = appendString(dst, "codeName", e.Name)
	if len(e.Labels) > 0 {
		dst = appendLabels(dst, e.Labels)
	}
	switch e.Code {
	case codeNotWritablePrimary, codeNotPrimaryNoOk, codeNotPrimaryOrSec, 11602, 189, 91, 11600:
		if s.repl != nil {
			dst = appendTopologyVersion(dst, s.processID, s.repl.view.Load().topology)
		}
	}
	return closeDocument(dst, start)
}

// The append functions write BSON elements.

func appendKey(dst []byte, t bson.Type, key string) []byte {
	dst = append(dst, byte(t))
	dst = append(dst, key...)
	return append(dst, 0)
}

func appendDouble(dst []byte, key string, v float64) []byte {
	return binary.LittleEndian.AppendUint64(appendKey(dst, bson.TypeDouble, key), math.Float64bits(v))
}

func appendInt32(dst []byte, key string, v int32) []byte {
	return binary.LittleEndian.AppendUint32(appendKey(dst, bson.TypeInt32, key), uint32(v))
}

func appendString(dst []byte, key, v string) []byte {
	dst = appendKey(dst, bson.TypeString, key)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v)+1))
	dst = append(dst, v...)
	return append(dst, 0)
}

func appendLabels(dst []byte, labels []string) []byte {
	dst = appendKey(dst, bson.TypeArray, "errorLabels")
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i, label := range labels {
		dst = appendString(dst, string(rune('0'+i%10)), label)
	}
	return closeDocument(dst, start)
}

func appendTopologyVersion(dst []byte, process bson.ObjectID, counter int64) []byte {
	dst = appendKey(dst, bson.TypeEmbeddedDocument, "topologyVersion")
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = append(appendKey(dst, bson.TypeObjectID, "processId"), process[:]...)
	dst = binary.LittleEndian.AppendUint64(appendKey(dst, bson.TypeInt64, "counter"), uint64(counter))
	return closeDocument(dst, start)
}

// closeDocument ends the document that began at start.
func closeDocument(dst []byte, start int) []byte {
	dst = append(dst, 0)
	binary.LittleEndian.PutUint32(dst[start:], uint32(len(dst)-start))
	return dst
}

// extend returns reply with more elements, given without their document.
func extend(reply bson.Raw, elements []byte) bson.Raw {
	longer := make([]byte, 0, len(reply)+len(elements))
	longer = append(longer, reply[:len(reply)-1]...)
	longer = append(longer, elements...)
	return closeDocument(longer, 0)
}

// deadlineContext ends at a time without a timer: Err and Deadline tell, Done
// does not. The engine asks between documents.
type deadlineContext struct {
	context.Context
	at time.Time
}

func (d deadlineContext) Deadline() (time.Time, bool) { return d.at, true }

func (d deadlineContext) Err() error {
	if err := d.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(d.at) {
		return context.DeadlineExceeded
	}
	return nil
}
