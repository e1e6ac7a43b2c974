package remote

import (
	"fmt"
	"strings"
)

// Quote joins words into a line that a POSIX shell splits back into exactly
// these words, whatever bytes they are made of. The one byte that no shell
// can pass on, NUL, is refused.
func Quote(words ...string) (string, error) {
	quoted := make([]string, len(words))
	for i, word := range words {
		if strings.Contains(word, "\x00") {
			return "", fmt.Errorf("quote word %d: it contains a NUL byte", i+1)
		}
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, " "), nil
}

// plain holds the bytes that mean nothing to a shell, wherever they stand in
// a word. "~" and "=" are not among them: they can at a word's start.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@"

// quoteWord quotes a word without NUL.
func quoteWord(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
