package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Limits and numbers of the wire protocol, as hello announces them.
const (
	maxMessageSize    = 48_000_000       // bytes, header included
	maxDocumentSize   = 16 * 1024 * 1024 // bytes
	maxCommandSize    = maxDocumentSize + 16*1024
	maxWriteBatchSize = 100_000
	maxDepth          = 200 // nested documents
	maxWireVersion    = 25  // MongoDB 8.0
	headerSize        = 16

	opReply      = 1
	opQuery      = 2004
	opCompressed = 2012
	opMessage    = 2013

	flagChecksum   = 1 << 0
	flagMoreToCome = 1 << 1
	flagsRequired  = 0xffff // bits a receiver must know
)

// errMalformed is a message that cannot be taken apart: the connection is
// closed, for what follows on it has no known beginning.
var errMalformed = errors.New("malformed message")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// message is one request. Everything in it points into the connection's
// buffer and is valid until the next message is read.
type message struct {
	requestID  int32
	moreToCome bool // the client wants no reply
	query      bool // came as OP_QUERY, is answered with OP_REPLY
	database   string
	body       bson.Raw
	sequences  map[string][]bson.Raw
	spare      [maxSequences][]bson.Raw // slices that sequences are made of, reused
}

// maxSequences is more document sequences than any command has.
const maxSequences = 4

func int32At(b []byte, i int) int32 { return int32(binary.LittleEndian.Uint32(b[i:])) }
func int64At(b []byte, i int) int64 { return int64(binary.LittleEndian.Uint64(b[i:])) }

// parseMsg reads an OP_MSG. It returns errMalformed when the message's frame
// is broken, and an *engine.Error when only the body is. What is inside the
// documents of the sequences is not looked at.
func (m *message) parseMsg(buf []byte) error {
	if len(buf) < headerSize+4+1+5 {
		return errMalformed
	}
	m.requestID = int32At(buf, 4)
	flags := binary.LittleEndian.Uint32(buf[headerSize:])
	if flags&flagsRequired&^(flagChecksum|flagMoreToCome) != 0 {
		return errMalformed
	}
	if flags&flagChecksum != 0 {
		end := len(buf) - 4
		if end < headerSize+4+1+5 || crc32.Checksum(buf[:end], castagnoli) != binary.LittleEndian.Uint32(buf[end:]) {
			return errMalformed
		}
		buf = buf[:end]
	}
	m.moreToCome = flags&flagMoreToCome != 0
	m.query = false
	m.body = nil
	clear(m.sequences)
	for rest := buf[headerSize+4:]; len(rest) > 0; {
		kind := rest[0]
		rest = rest[1:]
		if len(rest) < 4 {
			return errMalformed
		}
		n := int(int32At(rest, 0))
		if n < 5 || n > len(rest) {
			return errMalformed
		}
		section := rest[:n]
		rest = rest[n:]
		switch kind {
		case 0:
			if m.body != nil {
				return errMalformed
			}
			m.body = section
		case 1:
			if err := m.parseSequence(section[4:]); err != nil {
				return err
			}
		default:
			return errMalformed
		}
	}
	if m.body == nil {
		return errMalformed
	}
	if len(m.body) > maxCommandSize {
		return failf(10334, "BSONObjectTooLarge", "command document of %d bytes is larger than %d", len(m.body), maxCommandSize)
	}
	return validate(m.body)
}

// parseSequence reads a section of kind 1 after its size.
func (m *message) parseSequence(section []byte) error {
	end := bytes.IndexByte(section, 0)
	if end <= 0 {
		return errMalformed
	}
	if _, twice := m.sequences[string(section[:end])]; twice || len(m.sequences) == maxSequences {
		return errMalformed
	}
	docs := m.spare[len(m.sequences)][:0]
	for rest := section[end+1:]; len(rest) > 0; {
		if len(rest) < 5 {
			return errMalformed
		}
		n := int(int32At(rest, 0))
		if n < 5 || n > len(rest) || n > maxCommandSize {
			return errMalformed
		}
		docs = append(docs, bson.Raw(rest[:n]))
		rest = rest[n:]
	}
	if m.sequences == nil {
		m.sequences = make(map[string][]bson.Raw)
	}
	if cap(docs) <= 4096 {
		m.spare[len(m.sequences)] = docs
	}
	m.sequences[sequenceName(section[:end])] = docs
	return nil
}

// sequenceName makes the usual identifiers without an allocation.
func sequenceName(id []byte) string {
	switch string(id) {
	case "documents":
		return "documents"
	case "updates":
		return "updates"
	case "deletes":
		return "deletes"
	}
	return string(id)
}

// parseQuery reads an OP_QUERY, which clients still send as the first
// message of a connection: {isMaster: 1} against "<database>.$cmd".
func (m *message) parseQuery(buf []byte) error {
	if len(buf) < headerSize+4+1+8+5 {
		return errMalformed
	}
	m.requestID = int32At(buf, 4)
	m.moreToCome, m.query = false, true
	clear(m.sequences)
	rest := buf[headerSize+4:]
	end := bytes.IndexByte(rest, 0)
	if end < 0 || len(rest) < end+1+8+5 {
		return errMalformed
	}
	database, isCommand := bytes.CutSuffix(rest[:end], []byte(".$cmd"))
	if !isCommand {
		return errMalformed
	}
	m.database = string(database)
	rest = rest[end+1+8:]
	n := int(int32At(rest, 0))
	if n < 5 || n > len(rest) || n > maxCommandSize {
		return errMalformed
	}
	m.body = rest[:n]
	return validate(m.body)
}

// appendMsgHeader begins an OP_MSG whose only section is a document;
// finishMsg sets its length once the document has been appended.
func appendMsgHeader(dst []byte, requestID, responseTo int32) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(requestID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	dst = binary.LittleEndian.AppendUint32(dst, opMessage)
	return append(dst, 0, 0, 0, 0, 0) // flags, section kind 0
}

// appendReplyHeader begins an OP_REPLY with one document.
func appendReplyHeader(dst []byte, requestID, responseTo int32) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(requestID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(responseTo))
	dst = binary.LittleEndian.AppendUint32(dst, opReply)
	dst = append(dst, 8, 0, 0, 0)                   // flags: await capable
	dst = append(dst, make([]byte, 8+4)...)         // cursor id, starting from
	return binary.LittleEndian.AppendUint32(dst, 1) // documents
}

func finishMsg(dst []byte) []byte {
	binary.LittleEndian.PutUint32(dst, uint32(len(dst)))
	return dst
}
