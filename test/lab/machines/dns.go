//go:build linux

package machines

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// dnsServer answers for some names with one address and denies all others
// (RFC 1035; one question a message, over UDP, as resolvers ask).
type dnsServer struct {
	conn    net.PacketConn
	done    chan struct{}
	address [4]byte
	hosts   map[string]bool

	mu    sync.Mutex
	asked map[string]bool // in vain
}

func serveDNS(address string, hosts []string) (*dnsServer, error) {
	conn, err := net.ListenPacket("udp4", net.JoinHostPort(address, "53"))
	if err != nil {
		return nil, fmt.Errorf("name server: %w", err)
	}
	s := &dnsServer{
		conn: conn, done: make(chan struct{}), address: netip.MustParseAddr(address).As4(),
		hosts: map[string]bool{}, asked: map[string]bool{},
	}
	for _, host := range hosts {
		s.hosts[strings.ToLower(host)] = true
	}
	go s.serve()
	return s, nil
}

func (s *dnsServer) close() {
	_ = s.conn.Close()
	<-s.done
}

func (s *dnsServer) unknown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.asked))
	for name := range s.asked {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *dnsServer) serve() {
	defer close(s.done)
	query := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(query)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		if reply := s.answer(query[:n]); reply != nil {
			_, _ = s.conn.WriteTo(reply, from) // a resolver asks again
		}
	}
}

const (
	dnsHeader   = 12 // bytes
	dnsTypeA    = 1
	dnsNotFound = 3 // RCODE "name error"
)

// answer is the reply to a query, nil if it is none.
func (s *dnsServer) answer(query []byte) []byte {
	name, end := question(query)
	if end == 0 {
		return nil
	}
	reply := slices.Clone(query[:end])
	// A response, authoritative, recursion available; the query's own bit for
	// recursion desired.
	flags := 0x8480 | binary.BigEndian.Uint16(query[2:])&0x0100
	var answers uint16
	switch kind := binary.BigEndian.Uint16(query[end-4:]); {
	case !s.hosts[name]:
		flags |= dnsNotFound
		// The name of an address is asked for out of curiosity.
		if !strings.HasSuffix(name, ".in-addr.arpa") {
			s.mu.Lock()
			s.asked[name] = true
			s.mu.Unlock()
		}
	case kind == dnsTypeA:
		answers = 1
		reply = append(reply, 0xc0, dnsHeader, 0, dnsTypeA, 0, 1, 0, 0, 0, 60, 0, 4) // the question's name, A, IN, 60 s
		reply = append(reply, s.address[:]...)
	}
	binary.BigEndian.PutUint16(reply[2:], flags)
	binary.BigEndian.PutUint16(reply[6:], answers)
	clear(reply[8:dnsHeader])
	return reply
}

// question is the name that a query asks for and where the question ends, 0 if
// the message is no query with one question.
func question(query []byte) (string, int) {
	if len(query) < dnsHeader || query[2]&0xf8 != 0 || binary.BigEndian.Uint16(query[4:]) != 1 {
		return "", 0
	}
	var labels []string
	at := dnsHeader
	for at < len(query) && query[at] != 0 {
		n := int(query[at])
		if n > 63 || at+1+n >= len(query) {
			return "", 0
		}
		labels = append(labels, strings.ToLower(string(query[at+1:at+1+n])))
		at += 1 + n
	}
	if end := at + 5; end <= len(query) {
		return strings.Join(labels, "."), end
	}
	return "", 0
}
