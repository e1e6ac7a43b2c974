package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func TestHistogramRoundTrip(t *testing.T) {
	h := NewHistogram()
	for _, us := range []int64{MinLatencyUS, 90, 1234, 1234, 567_890, MaxLatencyUS} {
		if err := h.RecordValue(us); err != nil {
			t.Fatal(err)
		}
	}
	text, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeHistogram(text)
	if err != nil {
		t.Fatal(err)
	}
	if !dense(back).Equals(h) {
		t.Errorf("decoded histogram differs: %+v", back)
	}
}

// dense is a decoded histogram as the library has it.
func dense(b Buckets) *hdrhistogram.Histogram {
	s := NewHistogram().Export()
	for i, index := range b.Index {
		s.Counts[index] = b.Count[i]
	}
	return hdrhistogram.Import(s)
}

// What this package reads, the library reads likewise, up to the last
// bucket and the widest counter.
func TestHistogramAsTheLibraryReadsIt(t *testing.T) {
	if n := len(NewHistogram().Export().Counts); n != histogramBuckets {
		t.Fatalf("a histogram has %d counters, not %d", n, histogramBuckets)
	}
	h := NewHistogram()
	for us := MinLatencyUS; us <= MaxLatencyUS; us += us/1000 + 1 + us%3 {
		if err := h.RecordValues(us, 1+us*us%100_000); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.RecordValues(77, math.MaxInt64/2); err != nil {
		t.Fatal(err)
	}
	text, err := EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := DecodeHistogram(text)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if !dense(mine).Equals(theirs) || !theirs.Equals(h) {
		t.Error("the two read different histograms")
	}
}

func TestEmptyHistogram(t *testing.T) {
	text, err := EncodeHistogram(nil)
	if text != "" || err != nil {
		t.Errorf("EncodeHistogram(nil) = %q, %v", text, err)
	}
	h, err := DecodeHistogram("")
	if err != nil || len(h.Index) != 0 {
		t.Fatalf("DecodeHistogram(\"\") = %v, %v", h, err)
	}
	if got := LatencyOf(dense(h)); got != (Latency{}) {
		t.Errorf("LatencyOf(empty) = %+v", got)
	}
	if got := LatencyOf(nil); got != (Latency{}) {
		t.Errorf("LatencyOf(nil) = %+v", got)
	}
}

func TestLatencyOf(t *testing.T) {
	h := NewHistogram()
	for us := int64(1); us <= 1000; us++ {
		if err := h.RecordValue(us * 10); err != nil { // 0.01 to 10 ms
			t.Fatal(err)
		}
	}
	got := LatencyOf(h)
	want := Latency{Mean: 5.005, P50: 5, P95: 9.5, P99: 9.9, P999: 9.99, Max: 10}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"mean", got.Mean, want.Mean}, {"p50", got.P50, want.P50}, {"p95", got.P95, want.P95},
		{"p99", got.P99, want.P99}, {"p99.9", got.P999, want.P999}, {"max", got.Max, want.Max},
	} {
		if math.Abs(c.got-c.want) > c.want/1000 {
			t.Errorf("%s = %g ms, want %g within 0.1 %%", c.name, c.got, c.want)
		}
	}
}

// hostileHistogram deflates a header with the geometry given and size zero
// bytes after it.
func hostileHistogram(t testing.TB, highest int64, digits int32, size int) string {
	t.Helper()
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	header := []any{hdrhistogram.V2EncodingCookieBase | 0x10, int32(size), int32(0), digits, MinLatencyUS, highest, 1.0}
	for _, field := range header {
		if err := binary.Write(z, binary.BigEndian, field); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := z.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, word := range []int32{hdrhistogram.V2CompressedEncodingCookieBase | 0x10, int32(deflated.Len())} {
		if err := binary.Write(&out, binary.BigEndian, word); err != nil {
			t.Fatal(err)
		}
	}
	out.Write(deflated.Bytes())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func TestDecodeHistogramRefuses(t *testing.T) {
	cases := map[string]struct{ text, message string }{
		"not base64":     {"!!!!", "base64"},
		"too short":      {"HISTFAAA", "base64"},
		"too long":       {strings.Repeat("A", maxEncodedHistogram+1), "more than"},
		"other words":    {"AAAAAAAAAAA=", "cookie 0x0"},
		"wide geometry":  {hostileHistogram(t, math.MaxInt64, 5, 0), "with 5 digits"},
		"other range":    {hostileHistogram(t, 3_600_000_000, 3, 0), "covers 1 to 3600000000"},
		"inflating bomb": {hostileHistogram(t, MaxLatencyUS, 3, 4<<20), "a payload of 4194304 bytes"},
		"cut off":        {hostileHistogram(t, MaxLatencyUS, 3, 0)[:40], "cut off"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeHistogram(c.text)
			if err == nil || !strings.Contains(err.Error(), c.message) {
				t.Errorf("error %v, want one about %q", err, c.message)
			}
		})
	}
}

func TestDecodeHistogramTakesLittleMemory(t *testing.T) {
	bomb := hostileHistogram(t, math.MaxInt64, 5, 4<<20) // a geometry of 50 MB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := DecodeHistogram(bomb); err == nil {
		t.Fatal("accepted")
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 512<<10 {
		t.Errorf("a refused histogram took %d bytes of memory", got)
	}
}
