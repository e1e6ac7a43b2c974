package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// Checkpoints are the fingerprint chains of a cell (checkpoints.json): for
// every worker the states (SHA-256, hexadecimal) that the chain of its
// commands had after so many of them.
type Checkpoints struct {
	Every   int64      `json:"every"`   // commands between two checkpoints
	Workers [][]string `json:"workers"` // by worker: the states at its checkpoints
	// Early are the states before the first checkpoint, one every EarlyEvery
	// commands, by which commands can be compared that are too few for one.
	EarlyEvery int64      `json:"early_every,omitempty"`
	Early      [][]string `json:"early,omitempty"`
	// Last is the end of every worker's chain, wherever that fell.
	Last []ChainEnd `json:"last,omitempty"`
}

// ChainEnd is the state of a worker's chain after all its commands.
type ChainEnd struct {
	Commands int64  `json:"commands"` // of the pass
	State    string `json:"state"`
}

// State is the state of a worker's chain after its first so many commands;
// false if it is not among those that were kept.
func (v *Checkpoints) State(worker int, commands int64) (string, bool) {
	switch {
	case commands < 1 || worker < 0:
		return "", false
	case worker < len(v.Last) && v.Last[worker].Commands == commands:
		return v.Last[worker].State, true
	case v.Every > 0 && commands%v.Every == 0:
		return nth(v.Workers, worker, commands/v.Every)
	case v.EarlyEvery > 0 && commands%v.EarlyEvery == 0:
		return nth(v.Early, worker, commands/v.EarlyEvery)
	}
	return "", false
}

func nth(states [][]string, worker int, n int64) (string, bool) {
	if worker >= len(states) || n > int64(len(states[worker])) {
		return "", false
	}
	return states[worker][n-1], true
}

// Fingerprint is the fingerprint of the first perWorker commands of every
// worker: the SHA-256 of the sequence's ID, a newline, perWorker in decimal,
// a newline, and every worker's state. False if some state was not kept.
func (v *Checkpoints) Fingerprint(sequenceID string, perWorker int64) (string, bool) {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%s\n%d\n", sequenceID, perWorker)
	for w := range v.Workers {
		text, ok := v.State(w, perWorker)
		state, err := hex.DecodeString(text)
		if !ok || err != nil {
			return "", false
		}
		_, _ = h.Write(state)
	}
	return hex.EncodeToString(h.Sum(nil)), len(v.Workers) > 0
}

// Checkpoints returns the fingerprint chains; the zero value when the
// attempt has none.
func (c *CellRecord) Checkpoints() (Checkpoints, error) {
	data, err := readFile(c.files, path.Join(c.dir, checkpointsFile), maxCheckpointBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Checkpoints{}, nil
	}
	var v Checkpoints
	if err == nil {
		err = decode(data, &v, 3*maxWorkers+8)
	}
	if err == nil {
		err = v.check()
	}
	if err != nil {
		return Checkpoints{}, fmt.Errorf("read %s/%s: %w", c.dir, checkpointsFile, err)
	}
	return v, nil
}

func (v *Checkpoints) check() error {
	workers := len(v.Workers)
	switch {
	case workers > maxWorkers:
		return fmt.Errorf("%d workers, more than %d", workers, maxWorkers)
	case v.Every < 1 && workers > 0:
		return fmt.Errorf("a checkpoint every %d commands", v.Every)
	case len(v.Early) > 0 && (v.EarlyEvery < 1 || len(v.Early) != workers):
		return fmt.Errorf("early states every %d commands, of %d workers of %d", v.EarlyEvery, len(v.Early), workers)
	case len(v.Last) > 0 && len(v.Last) != workers:
		return fmt.Errorf("the ends of %d workers of %d", len(v.Last), workers)
	}
	for _, states := range [][][]string{v.Workers, v.Early} {
		for w, chain := range states {
			for i, state := range chain {
				if !isDigest(state) {
					return fmt.Errorf("worker %d, state %d: not a SHA-256 digest", w, i)
				}
			}
		}
	}
	for w, end := range v.Last {
		if end.Commands < 0 || !isDigest(end.State) {
			return fmt.Errorf("worker %d: its end is after %d commands, in state %q", w, end.Commands, end.State)
		}
	}
	return nil
}

func isDigest(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && len(text) == hex.EncodedLen(sha256.Size)
}
