package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxSize is the largest number of seeded documents, 10^12.
const MaxSize = 1_000_000_000_000

// ParseSize reads a number of documents: digits, optionally followed by k or
// K (thousands) or M (millions), as in 2500, 8k and 4M. The result is 1 to
// MaxSize. Anything else is refused: signs, fractions, spaces, other
// suffixes, and the small m, which could mean a thousandth.
func ParseSize(text string) (int64, error) {
	digits, factor := text, int64(1)
	if trimmed, ok := strings.CutSuffix(text, "M"); ok {
		digits, factor = trimmed, 1_000_000
	} else if trimmed, ok := strings.CutSuffix(text, "k"); ok {
		digits, factor = trimmed, 1000
	} else if trimmed, ok := strings.CutSuffix(text, "K"); ok {
		digits, factor = trimmed, 1000
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n == 0 || n > uint64(MaxSize/factor) {
		return 0, fmt.Errorf("size %q is not a number of documents from 1 to %s, such as 2500, 8k or 4M", text, FormatSize(MaxSize))
	}
	return int64(n) * factor, nil
}

// FormatSize writes a number of documents as ParseSize reads it, in the
// shortest exact form: 4M, 2500k, 2501.
func FormatSize(size int64) string {
	switch {
	case size != 0 && size%1_000_000 == 0:
		return strconv.FormatInt(size/1_000_000, 10) + "M"
	case size != 0 && size%1000 == 0:
		return strconv.FormatInt(size/1000, 10) + "k"
	}
	return strconv.FormatInt(size, 10)
}
