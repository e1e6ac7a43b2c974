package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The geometry of every histogram in a record.
const (
	// MinLatencyUS and MaxLatencyUS bound the latencies that a histogram
	// can hold, in microseconds: 1 µs to 60 s. Callers clamp to them.
	MinLatencyUS int64 = 1
	MaxLatencyUS int64 = 60_000_000

	// LatencyDigits is the number of significant decimal digits kept.
	LatencyDigits = 3

	// histogramBuckets are the counters of a histogram, maxCounterBytes the
	// most that one takes when it is written. maxEncodedHistogram bounds a
	// histogram's text: all of them in base64, with room for the headers.
	histogramBuckets    = 17_408
	maxCounterBytes     = 9
	maxEncodedHistogram = 256 << 10
)

// NewHistogram returns an empty histogram of latencies in microseconds,
// 1 µs to 60 s with 3 significant digits (about 140 kB).
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(MinLatencyUS, MaxLatencyUS, LatencyDigits)
}

// EncodeHistogram returns h as text: HdrHistogram V2, deflated, base64, as in
// .hlog files. A nil histogram is the empty text.
func EncodeHistogram(h *hdrhistogram.Histogram) (string, error) {
	if h == nil {
		return "", nil
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("encode histogram: %w", err)
	}
	return string(encoded), nil
}

// Buckets are what a histogram of NewHistogram's geometry holds: the buckets
// that are not empty, by ascending place in the array of counters, and their
// counts. A report reads thousands of histograms, which are nearly empty.
type Buckets struct {
	Index []int32
	Count []int64
}

// DecodeHistogram reads what EncodeHistogram wrote. The empty text is an
// empty histogram. Any other geometry than NewHistogram's is refused before
// memory is taken for it, so hostile text costs no more than an honest one.
//
// The text is base64 of two big-endian 32-bit words, cookie and length, and a
// deflated stream: cookie, payload length, normalizing offset, digits (32
// bits each), lowest and highest value (64 bits each), a conversion ratio,
// and the payload. That is the counters in order, each a zigzag LEB128 of up
// to nine bytes; a negative one stands for so many zeros (HdrHistogram V2
// encoding).
func DecodeHistogram(text string) (Buckets, error) {
	if text == "" {
		return Buckets{}, nil
	}
	payload, err := histogramPayload(text)
	if err != nil {
		return Buckets{}, fmt.Errorf("decode histogram: %w", err)
	}
	b, err := decodeBuckets(payload)
	if err != nil {
		return Buckets{}, fmt.Errorf("decode histogram: %w", err)
	}
	return b, nil
}

func histogramPayload(text string) ([]byte, error) {
	if len(text) > maxEncodedHistogram {
		return nil, fmt.Errorf("%d bytes of text, more than the %d a histogram can need", len(text), maxEncodedHistogram)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) < 8 {
		return nil, errors.New("too short or not base64")
	}
	const encodings = 0xf0 // bits of a cookie that say how counters are written
	if cookie := int32(binary.BigEndian.Uint32(data)) &^ encodings; cookie != hdrhistogram.V2CompressedEncodingCookieBase {
		return nil, fmt.Errorf("cookie %#x: not a compressed V2 histogram", cookie)
	}
	deflated := data[8:]
	length := binary.BigEndian.Uint32(data[4:])
	if uint64(length) > uint64(len(deflated)) {
		return nil, fmt.Errorf("cut off: %d of %d bytes", len(deflated), length)
	}
	inflate, err := zlib.NewReader(bytes.NewReader(deflated[:length]))
	if err != nil {
		return nil, err
	}
	var header [40]byte
	if _, err := io.ReadFull(inflate, header[:]); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	word := func(at int) int32 { return int32(binary.BigEndian.Uint32(header[at:])) }
	if cookie := word(0) &^ encodings; cookie != hdrhistogram.V2EncodingCookieBase {
		return nil, fmt.Errorf("cookie %#x: not a V2 histogram", cookie)
	}
	lowest, highest := int64(binary.BigEndian.Uint64(header[16:])), int64(binary.BigEndian.Uint64(header[24:]))
	if digits := word(12); lowest != MinLatencyUS || highest != MaxLatencyUS || digits != LatencyDigits {
		return nil, fmt.Errorf("covers %d to %d with %d digits, want %d to %d with %d",
			lowest, highest, digits, MinLatencyUS, MaxLatencyUS, LatencyDigits)
	}
	size := int64(word(4))
	if size < 0 || size > histogramBuckets*maxCounterBytes {
		return nil, fmt.Errorf("a payload of %d bytes, more than %d counters can need", size, histogramBuckets)
	}
	// One byte more: at the end, the checksum is compared.
	payload := make([]byte, size+1)
	switch n, err := io.ReadFull(inflate, payload); {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, err
	case int64(n) != size:
		return nil, fmt.Errorf("the payload does not have the %d bytes it should", size)
	}
	return payload[:size], nil
}

func decodeBuckets(payload []byte) (Buckets, error) {
	// Most counters of a few bytes are not zero.
	b := Buckets{Index: make([]int32, 0, len(payload)), Count: make([]int64, 0, len(payload))}
	var at, total int64
	for len(payload) > 0 {
		counter, n := decodeCounter(payload)
		if n == 0 {
			return Buckets{}, errors.New("a counter is cut off")
		}
		payload = payload[n:]
		if counter <= 0 {
			zeros := max(-counter, 1)
			if counter == math.MinInt64 || zeros > histogramBuckets-at {
				return Buckets{}, fmt.Errorf("more than %d counters", histogramBuckets)
			}
			at += zeros
			continue
		}
		if at == histogramBuckets || counter > math.MaxInt64-total {
			return Buckets{}, fmt.Errorf("more than %d counters, or more values than can be counted", histogramBuckets)
		}
		b.Index, b.Count = append(b.Index, int32(at)), append(b.Count, counter)
		total += counter
		at++
	}
	return b, nil
}

// decodeCounter reads a zigzag LEB128 of at most nine bytes, the last of
// which has eight bits. It returns the number of bytes, 0 if it is cut off.
func decodeCounter(data []byte) (value int64, n int) {
	var u uint64
	for n < len(data) {
		c := data[n]
		if n == maxCounterBytes-1 {
			u |= uint64(c) << 56
			return int64(u>>1) ^ -int64(u&1), n + 1
		}
		u |= uint64(c&0x7f) << (7 * n)
		n++
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), n
		}
	}
	return 0, 0
}

// LatencyOf summarises a histogram of microseconds in milliseconds. Values
// are exact to the histogram's 3 digits; an empty or nil histogram is all
// zero.
func LatencyOf(h *hdrhistogram.Histogram) Latency {
	if h == nil || h.TotalCount() == 0 {
		return Latency{}
	}
	const usPerMS = 1000
	at := func(percent float64) float64 { return float64(h.ValueAtPercentile(percent)) / usPerMS }
	return Latency{
		Mean: h.Mean() / usPerMS,
		P50:  at(50),
		P95:  at(95),
		P99:  at(99),
		P999: at(99.9),
		Max:  float64(h.Max()) / usPerMS,
	}
}
