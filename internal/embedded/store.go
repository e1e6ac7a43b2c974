package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	storeFile = "sandbox-embedded.json"
	storeNext = storeFile + ".next" // being written; only the holder of the lock writes
)

// saved is what survives a restart.
type saved struct {
	Schema       int          `json:"schema"`
	Users        []user       `json:"users,omitempty"`
	UsersVersion usersVersion `json:"users_version"`
	Config       *replConfig  `json:"config,omitempty"`
	Self         int          `json:"self"` // index in Config.Members
	Term         int64        `json:"term"`
	VotedTerm    int64        `json:"voted_term"` // the last term a vote was given in
}

// store keeps saved in a file of mode 0600 in the dbPath, replaced in one
// step. It holds on to the folder itself, not to its name: should the dbPath
// be removed under a running server and made again for another one, nothing
// of the old server gets into the new one's.
type store struct {
	dir *os.Root // nil: memory only
	mu  sync.Mutex
	now saved
}

func openStore(dir *os.Root) (*store, error) {
	s := &store{dir: dir, now: saved{Schema: 1}}
	if dir == nil {
		return s, nil
	}
	data, err := dir.ReadFile(storeFile)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(data, &s.now); err != nil {
		return nil, fmt.Errorf("read state %s: %w", s.path(), err)
	}
	if s.now.Schema != 1 {
		return nil, fmt.Errorf("read state %s: schema %d is not known", s.path(), s.now.Schema)
	}
	if c := s.now.Config; c != nil && (s.now.Self < 0 || s.now.Self >= len(c.Members)) {
		return nil, fmt.Errorf("read state %s: member %d is not in the configuration", s.path(), s.now.Self)
	}
	return s, nil
}

// path is for messages only.
func (s *store) path() string { return filepath.Join(s.dir.Name(), storeFile) }

// load returns what is stored.
func (s *store) load() saved {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// change alters what is stored and returns once it is on the disk; the old
// state stays when it cannot be.
func (s *store) change(f func(*saved)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.now
	f(&next)
	if s.dir != nil {
		data, err := json.MarshalIndent(next, "", "  ")
		if err == nil {
			err = s.replace(data)
		}
		if err != nil {
			return fmt.Errorf("write state %s: %w", s.path(), err)
		}
	}
	s.now = next
	return nil
}

// replace writes the file anew.
func (s *store) replace(data []byte) error {
	f, err := s.dir.OpenFile(storeNext, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return s.dir.Rename(storeNext, storeFile)
}
