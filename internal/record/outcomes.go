package record

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"

	"github.com/klauspost/compress/zstd"
)

// Limits on what is read of outcomes.
const (
	maxOutcomeWindow = 8 << 20  // what a zstd frame may look back on
	maxOutcomeBytes  = 16 << 30 // decompressed: some 500 million commands
	maxOutcomeLine   = 4 << 10
	maxOutcomeNames  = 4096 // operation types and error names
)

// Outcome is what the server answered to one command: a line of
// outcomes.csv.zst, which has no head and the fields
//
//	worker,command,operation,error,documents,modified,digest
//
// A worker's lines are in the order of its commands, without a gap. A count
// of zero may be left empty, and so is what does not apply. Files of earlier
// programs have no digest and no comma before it.
type Outcome struct {
	Worker    int    // from 0
	Command   int64  // of the worker, from 0
	Operation string // operation type
	Error     string // its name; empty: the command succeeded
	// Documents were returned, matched, inserted or deleted.
	Documents int64
	Modified  int64 // by an update
	// Digest is that of the documents a read returned, if Digested. Equal
	// documents have equal digests; of different ones, one pair in four
	// billion has, too.
	Digest   uint32
	Digested bool
}

// AppendTo appends the outcome's line. What would end a field or the line is
// replaced in names.
func (o *Outcome) AppendTo(dst []byte) []byte {
	dst = strconv.AppendInt(dst, int64(o.Worker), 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, o.Command, 10)
	dst = append(dst, ',')
	dst = appendName(dst, o.Operation)
	dst = append(dst, ',')
	dst = appendName(dst, o.Error)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, o.Documents, 10)
	dst = append(dst, ',')
	if o.Modified != 0 {
		dst = strconv.AppendInt(dst, o.Modified, 10)
	}
	dst = append(dst, ',')
	if o.Digested {
		const digits = "0123456789abcdef"
		for shift := 28; shift >= 0; shift -= 4 {
			dst = append(dst, digits[o.Digest>>shift&0xf])
		}
	}
	return append(dst, '\n')
}

// appendName: error names come from servers and may hold anything.
func appendName(dst []byte, name string) []byte {
	for i := range min(len(name), maxOutcomeLine/4) {
		c := name[i]
		if c == ',' || c == '"' || c < ' ' || c == 0x7f {
			c = '_'
		}
		dst = append(dst, c)
	}
	return dst
}

// OutcomeReader reads outcomes one after the other, in memory that does not
// grow with their number.
type OutcomeReader struct {
	name    string // of the file, for errors
	file    io.Closer
	decoder *zstd.Decoder
	lines   *bufio.Reader
	limit   *io.LimitedReader
	number  int64   // of the line
	next    []int64 // by worker: the command that is due
	names   map[string]string
}

// NewOutcomeReader reads the content of an outcomes.csv.zst.
func NewOutcomeReader(r io.Reader) (*OutcomeReader, error) {
	decoder, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxOutcomeWindow))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", outcomesFile, err)
	}
	limit := &io.LimitedReader{R: decoder, N: maxOutcomeBytes}
	return &OutcomeReader{
		name: outcomesFile, decoder: decoder, limit: limit, lines: bufio.NewReaderSize(limit, 64<<10), names: map[string]string{},
	}, nil
}

// Outcomes opens outcomes.csv.zst. The error is fs.ErrNotExist when the
// attempt has none. The caller closes the reader.
func (c *CellRecord) Outcomes() (*OutcomeReader, error) {
	name := path.Join(c.dir, outcomesFile)
	f, err := openFile(c.files, name)
	if err != nil {
		return nil, fmt.Errorf("open outcomes: %w", err)
	}
	r, err := NewOutcomeReader(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r.name, r.file = name, f
	return r, nil
}

// Close ends reading.
func (r *OutcomeReader) Close() error {
	r.decoder.Close()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// Next reads the next outcome into o. The error is io.EOF at the end; after
// any error there is nothing more to read. A last line without a newline is
// torn and passed over.
func (r *OutcomeReader) Next(o *Outcome) error {
	r.number++
	line, err := r.lines.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && r.limit.N <= 0:
		err = fmt.Errorf("more than %d bytes", int64(maxOutcomeBytes))
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxOutcomeLine:
		err = fmt.Errorf("longer than %d bytes", maxOutcomeLine)
	case err == nil:
		err = r.parse(line[:len(line)-1], o)
	}
	if err != nil {
		return fmt.Errorf("read %s: line %d: %w", r.name, r.number, err)
	}
	return nil
}

func (r *OutcomeReader) parse(line []byte, o *Outcome) error {
	const most = 7
	var fields [most][]byte
	count := 0
	for rest, more := line, true; more; count++ {
		if count == most {
			return fmt.Errorf("more than %d fields", most)
		}
		fields[count], rest, more = bytes.Cut(rest, []byte{','})
	}
	if count < most-1 {
		return fmt.Errorf("%d fields, want %d", count, most)
	}
	var parsed Outcome
	number := func(field []byte, bits int) (int64, bool) {
		if len(field) == 0 {
			return 0, true
		}
		n, err := strconv.ParseUint(string(field), 10, bits)
		return int64(n), err == nil
	}
	worker, workerOK := number(fields[0], 31)
	command, commandOK := number(fields[1], 63)
	if !workerOK || !commandOK || worker >= maxWorkers || len(fields[0]) == 0 || len(fields[1]) == 0 {
		return fmt.Errorf("worker %.20q, command %.20q", fields[0], fields[1])
	}
	parsed.Worker, parsed.Command = int(worker), command
	for len(r.next) <= parsed.Worker {
		r.next = append(r.next, 0)
	}
	if due := r.next[parsed.Worker]; command != due {
		return fmt.Errorf("command %d of worker %d, want %d", command, worker, due)
	}
	var ok bool
	if parsed.Operation, ok = r.intern(fields[2]); !ok || parsed.Operation == "" {
		return fmt.Errorf("operation %.20q", fields[2])
	}
	if parsed.Error, ok = r.intern(fields[3]); !ok {
		return fmt.Errorf("one error name more than %d", maxOutcomeNames)
	}
	var documentsOK, modifiedOK bool
	parsed.Documents, documentsOK = number(fields[4], 63)
	parsed.Modified, modifiedOK = number(fields[5], 63)
	if !documentsOK || !modifiedOK {
		return fmt.Errorf("counts %.20q and %.20q", fields[4], fields[5])
	}
	if digest := fields[6]; len(digest) > 0 {
		n, err := strconv.ParseUint(string(digest), 16, 32)
		if err != nil || len(digest) != 8 {
			return fmt.Errorf("digest %.20q", digest)
		}
		parsed.Digest, parsed.Digested = uint32(n), true
	}
	r.next[parsed.Worker]++
	*o = parsed
	return nil
}

// intern returns the name's one copy: there are few of them.
func (r *OutcomeReader) intern(name []byte) (string, bool) {
	if s, ok := r.names[string(name)]; ok {
		return s, true
	}
	if len(r.names) == maxOutcomeNames {
		return "", false
	}
	s := string(name)
	r.names[s] = s
	return s, true
}
