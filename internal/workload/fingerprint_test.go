package workload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The bytes of documents and commands are pinned: they are what makes runs
// comparable across versions of this program, machines and architectures.
// Whoever changes them on purpose changes formatVersion as well.
func TestGolden(t *testing.T) {
	var text strings.Builder
	line := func(sum []byte, format string, args ...any) {
		fmt.Fprintf(&text, "%s  %s\n", hex.EncodeToString(sum), fmt.Sprintf(format, args...))
	}
	for _, seed := range []uint64{178477, 0, 1<<64 - 1} {
		w := newWorkload(t, func(s *Settings) { s.Seed = seed })
		digest := sha256.New()
		var buffer []byte
		for j := range int64(10_000) {
			buffer = w.AppendDocument(buffer[:0], j)
			digest.Write(buffer)
		}
		line(digest.Sum(nil), "seed %d: documents 0 to 9,999", seed)
	}
	aggregating := Mix{Find: 3, Update: 2, Delete: 1, Insert: 1, BulkInsert: 1, Aggregate: 2}
	for _, tc := range []struct {
		size                          int64
		mix                           Mix
		insertBatch, findBatch, limit int
		iteration, worker             int
	}{
		{1_000_000, DefaultMix(), 10, 10, 5, 1, 0},
		{1_000_000, DefaultMix(), 10, 10, 5, 1, 15},
		{1_000_000, DefaultMix(), 10, 10, 5, 3, 7},
		{1000, DefaultMix(), 10, 10, 5, 1, 0},
		{2000, aggregating, 3, 7, 0, 2, 5},
		{MaxSize, DefaultMix(), 10, 10, 5, 1, 1},
	} {
		w := newWorkload(t, func(s *Settings) {
			s.Size, s.Mix, s.InsertBatch, s.FindBatch, s.FindLimit = tc.size, tc.mix, tc.insertBatch, tc.findBatch, tc.limit
		})
		g, chain := w.Generator(tc.iteration, tc.worker), NewChain()
		var buffer []byte
		for i := range int64(10_000) {
			buffer = g.Command(i).AppendCanonical(buffer[:0])
			chain.Add(buffer)
		}
		line(chain.Sum(), "size %s mix %s batches %d %d limit %d iteration %d worker %d: chain of commands 0 to 9,999",
			FormatSize(tc.size), tc.mix, tc.insertBatch, tc.findBatch, tc.limit, tc.iteration, tc.worker)
	}
	w := newWorkload(t, func(s *Settings) { s.OpsPerWorker = 1500; s.Workers = 3; s.Size = 1000 })
	fmt.Fprintf(&text, "%s  sequence\n", w.SequenceID(2))
	pass, err := w.PrefixFingerprint(t.Context(), 2, 1500, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&text, "%s  pass\n", pass)

	golden := filepath.Join("testdata", "golden.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("documents or commands changed (-want +got):\n%s", diff)
	}
}

// The chain is checked against its definition, written out once more.
func TestChain(t *testing.T) {
	chain := NewChain()
	state := make([]byte, 32)
	var block []byte
	var checkpoints, early [][]byte
	if !bytes.Equal(chain.Sum(), state) {
		t.Errorf("sum of no commands is %x", chain.Sum())
	}
	for i := range 3500 {
		command := bytes.Repeat([]byte{byte(i)}, i%70)
		chain.Add(command)
		block = binary.LittleEndian.AppendUint32(block, uint32(len(command)))
		block = append(block, command...)
		digest := sha256.Sum256(block)
		now := sha256.Sum256(append(bytes.Clone(state), digest[:]...))
		if i%350 == 0 || i%1000 == 999 {
			if !bytes.Equal(chain.Sum(), now[:]) {
				t.Fatalf("sum after %d commands is %x, want %x", i+1, chain.Sum(), now)
			}
		}
		if i%1000 == 999 {
			state, block = now[:], nil
			checkpoints = append(checkpoints, state)
		}
		if i < 999 && i%10 == 9 {
			early = append(early, bytes.Clone(now[:]))
		}
		if chain.Count() != int64(i+1) {
			t.Fatalf("count %d after %d commands", chain.Count(), i+1)
		}
	}
	if diff := cmp.Diff(checkpoints, chain.Checkpoints()); diff != "" {
		t.Errorf("checkpoints (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(early, chain.Early()); diff != "" || len(early) != 99 {
		t.Errorf("%d early states (-want +got):\n%s", len(early), diff)
	}
}

func TestChainNoticesEverything(t *testing.T) {
	sum := func(commands ...string) string {
		c := NewChain()
		for _, command := range commands {
			c.Add([]byte(command))
		}
		return string(c.Sum())
	}
	base := sum("ab", "c")
	for name, other := range map[string]string{
		"order":      sum("c", "ab"),
		"boundaries": sum("a", "bc"),
		"one more":   sum("ab", "c", ""),
		"one less":   sum("ab"),
	} {
		if other == base {
			t.Errorf("%s is not noticed", name)
		}
	}
}

func TestFingerprintOfAPass(t *testing.T) {
	for _, pass := range []int64{1, 999, 1000, 4321} {
		w := newWorkload(t, func(s *Settings) { s.Size, s.Workers, s.OpsPerWorker = 1000, 3, pass })
		var sums [][]byte
		for worker := range 3 {
			g, chain := w.Generator(1, worker), NewChain()
			for i := range pass {
				chain.Add(g.Command(i).AppendCanonical(nil))
			}
			sums = append(sums, chain.Sum())
		}
		want := w.Fingerprint(1, pass, sums)
		for _, processors := range []int{1, 8} {
			before := runtime.GOMAXPROCS(processors)
			var last, total int64
			got, err := w.PrefixFingerprint(t.Context(), 1, pass, func(done, all int64) {
				if done <= last {
					t.Errorf("progress from %d to %d", last, done)
				}
				last, total = done, all
			})
			runtime.GOMAXPROCS(before)
			if err != nil || got != want {
				t.Errorf("pass of %d on %d processors: %s, %v; want %s", pass, processors, got, err, want)
			}
			if last != 3*pass || total != 3*pass {
				t.Errorf("progress ended at %d of %d, want %d", last, total, 3*pass)
			}
		}
	}
}

// A prefix of the pass has the fingerprint of its commands, and is another
// sequence than a pass of that length.
func TestPrefixFingerprint(t *testing.T) {
	w := newWorkload(t, func(s *Settings) { s.Size, s.Workers, s.OpsPerWorker = 1000, 3, 5000 })
	for _, n := range []int64{1, 10, 790, 1000, 1001, 5000} {
		var sums [][]byte
		for worker := range 3 {
			g, chain := w.Generator(1, worker), NewChain()
			for i := range n {
				chain.Add(g.Command(i).AppendCanonical(nil))
			}
			sums = append(sums, chain.Sum())
		}
		var total int64
		got, err := w.PrefixFingerprint(t.Context(), 1, n, func(_, all int64) { total = all })
		if want := w.Fingerprint(1, n, sums); err != nil || got != want || total != 3*n {
			t.Errorf("%d commands: %s of %d, %v; want %s", n, got, total, err, want)
		}
	}
	for _, n := range []int64{-1, 0, 5001} {
		if got, err := w.PrefixFingerprint(t.Context(), 1, n, nil); err == nil {
			t.Errorf("%d commands have the fingerprint %s", n, got)
		}
	}
}

func TestFingerprintStops(t *testing.T) {
	w := newWorkload(t, func(s *Settings) { s.OpsPerWorker = maxOpsPerWorker / 1000 })
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.PrefixFingerprint(ctx, 1, maxOpsPerWorker/1000, func(done, _ int64) {
		if done > 2000 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// Everything that defines the sequence is in its ID and in the fingerprint.
func TestSequenceIDCoversTheSettings(t *testing.T) {
	seen := map[string]string{}
	note := func(name, id string) {
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have one ID", name, other)
		}
		seen[id] = name
	}
	note("iteration 1", newWorkload(t, nil).SequenceID(1))
	note("iteration 2", newWorkload(t, nil).SequenceID(2))
	for name, change := range map[string]func(*Settings){
		"seed":         func(s *Settings) { s.Seed++ },
		"size":         func(s *Settings) { s.Size++ },
		"workers":      func(s *Settings) { s.Workers++ },
		"pass":         func(s *Settings) { s.OpsPerWorker++ },
		"mix":          func(s *Settings) { s.Mix.Find++ },
		"aggregate":    func(s *Settings) { s.Mix.Aggregate++ },
		"insert batch": func(s *Settings) { s.InsertBatch++ },
		"find batch":   func(s *Settings) { s.FindBatch++ },
		"find limit":   func(s *Settings) { s.FindLimit++ },
	} {
		note(name, newWorkload(t, change).SequenceID(1))
	}
	w := newWorkload(t, nil)
	sum, other := make([]byte, 32), bytes.Repeat([]byte{1}, 32)
	note("fingerprint", w.Fingerprint(1, 10, [][]byte{sum, other}))
	note("fingerprint of another iteration", w.Fingerprint(2, 10, [][]byte{sum, other}))
	note("fingerprint of more commands", w.Fingerprint(1, 11, [][]byte{sum, other}))
	note("fingerprint of exchanged workers", w.Fingerprint(1, 10, [][]byte{other, sum}))
}
