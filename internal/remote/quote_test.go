package remote

import (
	"os/exec"
	"strings"
	"testing"
)

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{"ls", "-l", "/a/b.c"}, "ls -l /a/b.c"},
		{[]string{""}, "''"},
		{[]string{"a b", "it's"}, `'a b' 'it'\''s'`},
		{[]string{"$HOME", "~", "A=1", "*", "!x", "#"}, `'$HOME' '~' 'A=1' '*' '!x' '#'`},
	} {
		if got, err := Quote(c.words...); err != nil || got != c.want {
			t.Errorf("Quote(%q) = %s, %v; want %s", c.words, got, err, c.want)
		}
	}
	if _, err := Quote("a", "b\x00c"); err == nil || err.Error() != "quote word 2: it contains a NUL byte" {
		t.Errorf("a NUL byte: %v", err)
	}
}

// FuzzQuote shows that a shell receives exactly the words that were quoted.
func FuzzQuote(f *testing.F) {
	for _, seed := range [][2]string{
		{"", ""}, {"a b", "it's"}, {"'", `\`}, {"$(id)", "`id`"}, {"\n", "\r\t"}, {"-n", "--"},
		{"~root", "A=b"}, {"\xff\xfe", "é—日"}, {"*", "[a-z]?"}, {"!!", "#x"}, {"''", `'\''`}, {"{a,b}", "a&&b;c|d>e<f"},
	} {
		f.Add(seed[0], seed[1])
	}
	shells := []string{"sh"}
	if _, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, "bash")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 1<<14 {
			t.Skip("longer than worth a process")
		}
		line, err := Quote("printf", `<%s>\0`, a, b)
		if strings.Contains(a+b, "\x00") {
			if err == nil {
				t.Fatal("a NUL byte was not refused")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		// Twice: as ssh hands the line to a shell, and as that shell hands
		// it to another.
		nested, err := Quote("sh", "-c", line)
		if err != nil {
			t.Fatal(err)
		}
		want := "<" + a + ">\x00<" + b + ">\x00"
		for _, shell := range shells {
			for _, l := range []string{line, nested} {
				got, err := exec.Command(shell, "-c", l).Output()
				if err != nil {
					t.Fatalf("%s -c %s: %v", shell, l, err)
				}
				if string(got) != want {
					t.Fatalf("%s -c %s: printed %q, want %q", shell, l, got, want)
				}
			}
		}
	})
}
