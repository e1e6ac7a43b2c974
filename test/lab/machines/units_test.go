//go:build linux

package machines

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// query is a message that asks for a name, without the name's terminator and
// with the type and class.
func query(labels string, kind byte) []byte {
	header := []byte{0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1} // recursion desired, one additional record
	return slices.Concat(header, []byte(labels), []byte{0, 0, kind, 0, 1}, []byte("\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"))
}

func TestNameServerAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		query []byte
		flags [2]byte
		count byte
		tail  []byte
	}{
		{"known", query("\x04Repo\x04test", 1), [2]byte{0x85, 0x80}, 1, []byte{0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 100, 64, 0, 1}},
		{"known, IPv6", query("\x04repo\x04test", 28), [2]byte{0x85, 0x80}, 0, nil},
		{"unknown", query("\x05other\x04test", 1), [2]byte{0x85, 0x83}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &dnsServer{address: [4]byte{100, 64, 0, 1}, hosts: map[string]bool{"repo.test": true}, asked: map[string]bool{}}
			question := c.query[dnsHeader : len(c.query)-11]
			want := slices.Concat([]byte{0xab, 0xcd, c.flags[0], c.flags[1], 0, 1, 0, c.count, 0, 0, 0, 0}, question, c.tail)
			if got := s.answer(c.query); !bytes.Equal(got, want) {
				t.Errorf("\ngot  %x\nwant %x", got, want)
			}
			if asked := s.unknown(); (len(asked) == 1 && asked[0] == "other.test") != (c.name == "unknown") {
				t.Errorf("unknown: %q", asked)
			}
		})
	}
}

func FuzzNameServer(f *testing.F) {
	f.Add(query("\x04repo\x04test", 1))
	f.Add([]byte("\x00\x00\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3fshort"))
	s := &dnsServer{hosts: map[string]bool{"repo.test": true}, asked: map[string]bool{}}
	f.Fuzz(func(t *testing.T, query []byte) {
		if reply := s.answer(query); reply != nil && (reply[2]&0x80 == 0 || !bytes.Equal(reply[:2], query[:2])) {
			t.Errorf("%x is no reply to %x", reply, query)
		}
	})
}

func TestImageOf(t *testing.T) {
	for name, want := range map[string]Image{
		"centos-stream-9-v20260801": CentOSStream9,
		"https://api.test/compute/v1/projects/debian-cloud/global/images/debian-12-bookworm-v20260801": Debian12,
		"ubuntu-2404-lts-amd64": Ubuntu2404,
		"ubuntu-2204-lts":       "",
		"my-debian-12":          "",
	} {
		if got, err := ImageOf(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestChoices(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "enabled")
	plain := filepath.Join(folder, "plain")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "always [madvise] never\n")
	write(plain, "60\n")
	c, err := newChoices()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.watch(folder); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ written, want string }{
		{"never", "always madvise [never]\n"},
		{"always\n", "[always] madvise never\n"},
		{"sometimes\n", "[always] madvise never\n"},
	} {
		write(path, step.written)
		var got []byte
		for deadline := time.Now().Add(10 * time.Second); string(got) != step.want && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if got, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != step.want {
			t.Errorf("after writing %q it is %q, not %q", step.written, got, step.want)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); c.watched() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a file that was removed is still watched")
		}
	}
	write(plain, "1")
	if got, _ := os.ReadFile(plain); string(got) != "1" {
		t.Errorf("a file without choices is %q", got)
	}
}

func (c *choices) watched() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files)
}
