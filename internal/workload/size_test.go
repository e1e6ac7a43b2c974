package workload

import "testing"

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1":             1,
		"2500":          2500,
		"1k":            1000,
		"8K":            8000,
		"4M":            4_000_000,
		"0010k":         10_000,
		"1000000M":      MaxSize,
		"1000000000000": MaxSize,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "k", "M", "0", "0k", "-1", "+1", "1.5M", "1e6", "4m", "4G", "4 M", " 4M", "1kk", "1_000", "0x10",
		"1000000000001", "1000001M", "9223372036854775808", "99999999999999999999M",
	} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}

func TestFormatSize(t *testing.T) {
	for size, want := range map[int64]string{
		0: "0", 1: "1", 999: "999", 1000: "1k", 2500: "2500", 8000: "8k", 1_000_000: "1M",
		2_500_000: "2500k", 8_000_000: "8M", MaxSize: "1000000M",
	} {
		if got := FormatSize(size); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", size, got, want)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"1k", "4M", "2500", "9223372036854775807M", "k"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			return
		}
		if size < 1 || size > MaxSize {
			t.Errorf("%q is %d, outside the range", text, size)
		}
		if again, err := ParseSize(FormatSize(size)); err != nil || again != size {
			t.Errorf("%q is %d, written %q and read as %d, %v", text, size, FormatSize(size), again, err)
		}
	})
}
