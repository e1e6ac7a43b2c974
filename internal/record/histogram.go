package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The geometry of every histogram in a record.
const (
	// MinLatencyUS and MaxLatencyUS bound the latencies that a histogram
	// can hold, in microseconds: 1 µs to 60 s. Callers clamp to them.
	MinLatencyUS int64 = 1
	MaxLatencyUS int64 = 60_000_000

	// latencyDigits is the number of significant decimal digits kept.
	latencyDigits = 3

	// maxEncodedHistogram bounds the text of a histogram: 17,408 counters of
	// at most 9 bytes each, in base64, with room for the headers.
	maxEncodedHistogram = 256 << 10
)

// NewHistogram returns an empty histogram of latencies in microseconds,
// 1 µs to 60 s with 3 significant digits (about 140 kB).
func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(MinLatencyUS, MaxLatencyUS, latencyDigits)
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

// DecodeHistogram reads what EncodeHistogram wrote. The empty text is an
// empty histogram. Any other geometry than NewHistogram's is refused before
// memory is taken for it, so hostile text costs no more than an honest one.
func DecodeHistogram(text string) (*hdrhistogram.Histogram, error) {
	if text == "" {
		return NewHistogram(), nil
	}
	if err := checkHistogram(text); err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}

// checkHistogram looks at the header inside the text: two 32-bit words, then
// a deflated stream that starts with cookie, payload length, normalizing
// offset, digits (32 bits each), lowest and highest value (64 bits each), all
// big-endian (HdrHistogram V2 encoding).
func checkHistogram(text string) error {
	if len(text) > maxEncodedHistogram {
		return fmt.Errorf("%d bytes of text, more than the %d a histogram can need", len(text), maxEncodedHistogram)
	}
	encoded := base64.NewDecoder(base64.StdEncoding, strings.NewReader(text))
	if _, err := io.CopyN(io.Discard, encoded, 8); err != nil {
		return errors.New("too short or not base64")
	}
	inflate, err := zlib.NewReader(encoded)
	if err != nil {
		return err
	}
	var header struct {
		Cookie, PayloadLength, Offset, Digits int32
		Lowest, Highest                       int64
	}
	raw := make([]byte, binary.Size(header))
	if _, err := io.ReadFull(inflate, raw); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if err := binary.Read(bytes.NewReader(raw), binary.BigEndian, &header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	if header.Lowest != MinLatencyUS || header.Highest != MaxLatencyUS || header.Digits != latencyDigits {
		return fmt.Errorf("covers %d to %d with %d digits, want %d to %d with %d",
			header.Lowest, header.Highest, header.Digits, MinLatencyUS, MaxLatencyUS, latencyDigits)
	}
	return nil
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
