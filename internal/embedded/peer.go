package embedded

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

const (
	peerDialTimeout = 2 * time.Second
	peerIdleConns   = 64
)

// peerClient speaks to another member over connections that are
// authenticated with the keyfile and used again.
type peerClient struct {
	host string
	keys *memberKeys

	mu     sync.Mutex
	closed bool
	free   []*peerConn
	all    map[*peerConn]struct{}
}

type peerConn struct {
	nc      net.Conn
	r       *bufio.Reader
	buf     []byte
	request int32
	used    bool // has answered before: may have been closed meanwhile
}

func newPeerClient(host string, keys *memberKeys) *peerClient {
	return &peerClient{host: host, keys: keys, all: map[*peerConn]struct{}{}}
}

var errPeerClosed = errors.New("member connection pool is closed")

func (p *peerClient) get(ctx context.Context) (*peerConn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errPeerClosed
	}
	if n := len(p.free); n > 0 {
		pc := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return pc, nil
	}
	p.mu.Unlock()
	return p.dial(ctx)
}

func (p *peerClient) dial(ctx context.Context) (*peerConn, error) {
	dialer := net.Dialer{Timeout: peerDialTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", p.host)
	if err != nil {
		return nil, err
	}
	pc := &peerConn{nc: nc, r: bufio.NewReaderSize(nc, readBuffer)}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		_ = nc.Close()
		return nil, errPeerClosed
	}
	p.all[pc] = struct{}{}
	p.mu.Unlock()
	if p.keys != nil {
		if err := pc.authenticate(ctx, p.keys); err != nil {
			p.drop(pc)
			return nil, err
		}
	}
	return pc, nil
}

func (p *peerClient) put(pc *peerConn) {
	pc.used = true
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= peerIdleConns {
		_ = pc.nc.Close()
		delete(p.all, pc)
		return
	}
	if cap(pc.buf) > keepBuffer {
		pc.buf = nil
	}
	p.free = append(p.free, pc)
}

func (p *peerClient) drop(pc *peerConn) {
	_ = pc.nc.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, pc)
}

// dropIdle closes the connections that nobody uses, all of which are likely
// to be as broken as the one that has just failed.
func (p *peerClient) dropIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pc := range p.free {
		_ = pc.nc.Close()
		delete(p.all, pc)
	}
	p.free = nil
}

func (p *peerClient) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for pc := range p.all {
		_ = pc.nc.Close()
	}
}

// exchange sends a message whose request id it sets, and calls use with the
// reply, which is valid until use returns. A connection that turns out to
// have been closed while it lay idle is replaced once.
func (p *peerClient) exchange(ctx context.Context, msg []byte, use func(reply []byte) error) error {
	for {
		pc, err := p.get(ctx)
		if err != nil {
			return err
		}
		reply, err := pc.roundTrip(ctx, msg)
		if err != nil {
			p.drop(pc)
			if pc.used && ctx.Err() == nil && !errors.Is(err, syscall.ETIMEDOUT) && connectionLost(err) {
				p.dropIdle()
				continue
			}
			return err
		}
		err = use(reply)
		p.put(pc)
		return err
	}
}

func connectionLost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// call runs a command on the member. The reply is the caller's.
func (p *peerClient) call(ctx context.Context, body bson.D, docs ...bson.Raw) (bson.Raw, error) {
	raw, err := bson.Marshal(append(body, bson.E{Key: "$db", Value: "admin"}))
	if err != nil {
		return nil, err
	}
	msg := append(appendMsgHeader(nil, 0, 0), raw...)
	if len(docs) > 0 {
		start := len(msg) + 1
		msg = append(msg, 1, 0, 0, 0, 0)
		msg = append(msg, "documents\x00"...)
		for _, doc := range docs {
			msg = append(msg, doc...)
		}
		binary.LittleEndian.PutUint32(msg[start:], uint32(len(msg)-start))
	}
	var reply bson.Raw
	err = p.exchange(ctx, finishMsg(msg), func(answer []byte) error {
		var m message
		if err := m.parseMsg(answer); err != nil {
			return err
		}
		reply = append(bson.Raw(nil), m.body...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return reply, replyError(reply)
}

// replyError is the error that a reply carries.
func replyError(reply bson.Raw) error {
	ok, _ := find(reply, "ok")
	if on, isBool := ok.truth(); isBool && on {
		return nil
	}
	code, _ := find(reply, "code")
	n, _ := code.number()
	name, _ := find(reply, "codeName")
	codeName, _ := name.text()
	msg, _ := find(reply, "errmsg")
	text, _ := msg.text()
	failed := &engine.Error{Code: int32(n), Name: codeName, Message: text}
	if labels, found := find(reply, "errorLabels"); found {
		failed.Labels, _ = labels.texts()
	}
	return failed
}

// roundTrip sends msg and reads the reply into the connection's buffer.
func (pc *peerConn) roundTrip(ctx context.Context, msg []byte) ([]byte, error) {
	deadline, _ := ctx.Deadline() // the zero time is none
	if err := pc.nc.SetDeadline(deadline); err != nil {
		return nil, err
	}
	pc.request++
	binary.LittleEndian.PutUint32(msg[4:], uint32(pc.request))
	if _, err := pc.nc.Write(msg); err != nil {
		return nil, err
	}
	head, err := pc.r.Peek(headerSize)
	if err != nil {
		return nil, err
	}
	n := int(int32At(head, 0))
	if n < headerSize+5 || n > maxMessageSize || int32At(head, 8) != pc.request || int32At(head, 12) != opMessage {
		return nil, errMalformed
	}
	if cap(pc.buf) < n {
		pc.buf = make([]byte, n)
	}
	pc.buf = pc.buf[:n]
	if _, err := io.ReadFull(pc.r, pc.buf); err != nil {
		return nil, err
	}
	return pc.buf, nil
}

// authenticate logs in as a member of the set.
func (pc *peerConn) authenticate(ctx context.Context, keys *memberKeys) error {
	conversation := keys.client.NewConversation()
	step := func(command bson.D, challenge string) (string, error) {
		payload, err := conversation.Step(challenge)
		if err != nil {
			return "", err
		}
		raw, err := bson.Marshal(append(command,
			bson.E{Key: "payload", Value: bson.Binary{Data: []byte(payload)}},
			bson.E{Key: "$db", Value: "local"}))
		if err != nil {
			return "", err
		}
		answer, err := pc.roundTrip(ctx, finishMsg(append(appendMsgHeader(nil, 0, 0), raw...)))
		if err != nil {
			return "", err
		}
		var m message
		if err := m.parseMsg(answer); err != nil {
			return "", err
		}
		if err := replyError(m.body); err != nil {
			return "", err
		}
		e, _ := find(m.body, "payload")
		_, data, ok := e.binary()
		if !ok {
			return "", errMalformed
		}
		return string(data), nil
	}
	first, err := step(bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: mechanism},
		{Key: "options", Value: bson.D{{Key: "skipEmptyExchange", Value: true}}}}, "")
	if err != nil {
		return fmt.Errorf("authenticate with keyfile: %w", err)
	}
	final, err := step(bson.D{{Key: "saslContinue", Value: 1}, {Key: "conversationId", Value: int32(1)}}, first)
	if err != nil {
		return fmt.Errorf("authenticate with keyfile: %w", err)
	}
	if _, err := conversation.Step(final); err != nil || !conversation.Valid() {
		return errors.New("authenticate with keyfile: the member could not prove that it knows it")
	}
	return nil
}

// nobodyThere reports whether an error proves that no server listens on the
// other side, as against one that may only be slow.
func nobodyThere(err error) bool {
	var dns *net.DNSError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &dns) && dns.IsNotFound
}

// sameHost compares two host:port strings as typed.
func sameHost(a, b string) bool { return strings.EqualFold(a, b) }
