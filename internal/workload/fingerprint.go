package workload

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// formatVersion names the algorithms of this package. Whatever changes a
// byte of any document or command changes it too.
const formatVersion = "sandbox workload 1"

// CheckpointEvery is how many commands lie between two checkpoints of a
// fingerprint.
const CheckpointEvery = 1000

// EarlyEvery is how many commands lie between two early states of a chain:
// those before its first checkpoint, by which commands can be compared that
// are too few for one.
const EarlyEvery = 10

// blockDigest is the SHA-256 of consecutive commands, each given as the
// length of its canonical form (4 bytes, little-endian) and that form.
type blockDigest struct {
	hash   hash.Hash
	length [4]byte // kept here so that writing it allocates nothing
}

func (b *blockDigest) add(canonical []byte) {
	binary.LittleEndian.PutUint32(b.length[:], uint32(len(canonical)))
	// A hash.Hash never returns an error.
	_, _ = b.hash.Write(b.length[:])
	_, _ = b.hash.Write(canonical)
}

// link is the chain's next state: SHA-256(state | block).
func link(state, block []byte) [sha256.Size]byte {
	var both [2 * sha256.Size]byte
	copy(both[:], state)
	copy(both[sha256.Size:], block)
	return sha256.Sum256(both[:])
}

// Chain is the running fingerprint of one worker's commands. With b1, b2, …
// the digests of consecutive blocks of CheckpointEvery commands, its states
// are c0 = 32 zero bytes and ck = SHA-256(c(k-1) | bk); the states after
// full blocks are the checkpoints. Blocks can so be digested in any order
// and by several processors, and two chains that agree at a checkpoint agree
// on every command before it. The state after a number of commands that is
// no multiple of CheckpointEvery is the last checkpoint linked with the
// digest of the commands since; such states are kept for every EarlyEvery
// commands of the first block, and there is one for the end (Sum).
type Chain struct {
	block       blockDigest
	count       int64
	state       [sha256.Size]byte
	checkpoints []byte            // SHA-256 sums, one after the other
	early       []byte            // likewise
	digest      [sha256.Size]byte // scratch
}

// NewChain returns the chain of no commands.
func NewChain() *Chain {
	return &Chain{
		block: blockDigest{hash: sha256.New()},
		early: make([]byte, 0, (CheckpointEvery/EarlyEvery-1)*sha256.Size),
	}
}

// Add appends a command, given in canonical form.
func (c *Chain) Add(canonical []byte) {
	c.block.add(canonical)
	c.count++
	switch {
	case c.count < CheckpointEvery && c.count%EarlyEvery == 0:
		state := link(c.state[:], c.block.hash.Sum(c.digest[:0]))
		c.early = append(c.early, state[:]...)
	case c.count%CheckpointEvery == 0:
		c.state = link(c.state[:], c.block.hash.Sum(c.digest[:0]))
		c.checkpoints = append(c.checkpoints, c.state[:]...)
		c.block.hash.Reset()
	}
}

// Count is the number of commands added.
func (c *Chain) Count() int64 { return c.count }

// Checkpoints returns the chain's states (32 bytes each) after every
// CheckpointEvery commands. They stay valid when commands are added.
func (c *Chain) Checkpoints() [][]byte { return cut(c.checkpoints) }

// Early returns the chain's states (32 bytes each) after every EarlyEvery
// commands before the first checkpoint. They stay valid likewise.
func (c *Chain) Early() [][]byte { return cut(c.early) }

// cut gives the SHA-256 sums that stand one after the other in all.
func cut(all []byte) [][]byte {
	states := make([][]byte, 0, len(all)/sha256.Size)
	for ; len(all) > 0; all = all[sha256.Size:] {
		states = append(states, all[:sha256.Size:sha256.Size])
	}
	return states
}

// Sum returns the chain's state after all commands added so far: the last
// checkpoint, or, inside a block, that state linked with the digest of the
// block's commands so far. The chain goes on unchanged.
func (c *Chain) Sum() []byte {
	state := c.state
	if c.count%CheckpointEvery != 0 {
		state = link(state[:], c.block.hash.Sum(nil))
	}
	return state[:]
}

// SequenceID is the hexadecimal SHA-256 of everything that defines the
// sequence of commands of an iteration: the settings, the iteration and the
// version of this package's algorithms.
func (w *Workload) SequenceID(iteration int) string {
	s := w.settings
	sum := sha256.Sum256(fmt.Appendf(nil,
		"%s\nworkload %s\nseed %d\nsize %d\nworkers %d\nops-per-worker %d\nmix %s\ninsert-batch %d\nfind-batch %d\nfind-limit %d\niteration %d\n",
		formatVersion, s.Workload, s.Seed, s.Size, s.Workers, s.OpsPerWorker, s.Mix, s.InsertBatch, s.FindBatch, s.FindLimit, iteration))
	return hex.EncodeToString(sum[:])
}

// Fingerprint is the hexadecimal SHA-256 over the SequenceID, the number of
// commands of each worker that it covers, and every worker's chain state
// (Chain.Sum) after that many commands, in the order of the workers.
func (w *Workload) Fingerprint(iteration int, perWorker int64, sums [][]byte) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%d\n", w.SequenceID(iteration), perWorker)
	for _, sum := range sums {
		_, _ = h.Write(sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// PrefixFingerprint computes the fingerprint of the first perWorker commands
// of every worker, 1 to OpsPerWorker (which is the whole pass), without a
// server, on all processors.
// progress, if not nil, is told the commands done and in total, from one
// goroutine at a time, with done growing. Apart from a number of commands out
// of range, the error is the context's.
func (w *Workload) PrefixFingerprint(ctx context.Context, iteration int, perWorker int64, progress func(done, total int64)) (string, error) {
	if perWorker < 1 || perWorker > w.settings.OpsPerWorker {
		return "", fmt.Errorf("fingerprint of %d commands: must be 1 to the %d of a pass", perWorker, w.settings.OpsPerWorker)
	}
	blocks := (perWorker + CheckpointEvery - 1) / CheckpointEvery
	goroutines := int(min(int64(runtime.GOMAXPROCS(0)), blocks))

	var reporting sync.Mutex
	var done int64
	report := func(commands int64) {
		reporting.Lock()
		defer reporting.Unlock()
		done += commands
		if progress != nil {
			progress(done, perWorker*int64(w.settings.Workers))
		}
	}

	digests := make([][sha256.Size]byte, blocks)
	sums := make([][]byte, w.settings.Workers)
	for worker := range w.settings.Workers {
		var next atomic.Int64
		group, ctx := errgroup.WithContext(ctx)
		for range goroutines {
			group.Go(func() error {
				generator := w.Generator(iteration, worker)
				block := blockDigest{hash: sha256.New()}
				var canonical []byte
				for k := next.Add(1) - 1; k < blocks; k = next.Add(1) - 1 {
					if err := ctx.Err(); err != nil {
						return err
					}
					first := k * CheckpointEvery
					end := min(first+CheckpointEvery, perWorker)
					block.hash.Reset()
					for i := first; i < end; i++ {
						canonical = generator.Command(i).AppendCanonical(canonical[:0])
						block.add(canonical)
					}
					block.hash.Sum(digests[k][:0])
					report(end - first)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return "", err
		}
		var state [sha256.Size]byte
		for k := range digests {
			state = link(state[:], digests[k][:])
		}
		sums[worker] = state[:]
	}
	return w.Fingerprint(iteration, perWorker, sums), nil
}
