package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/mongo-sandbox/sandbox/internal/secret"
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

// store keeps saved in a file of mode 0600, replaced in one step.
type store struct {
	path string // empty: memory only
	mu   sync.Mutex
	now  saved
}

func openStore(dir string) (*store, error) {
	s := &store{now: saved{Schema: 1}}
	if dir == "" {
		return s, nil
	}
	s.path = filepath.Join(dir, "sandbox-embedded.json")
	data, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(data, &s.now); err != nil {
		return nil, fmt.Errorf("read state %s: %w", s.path, err)
	}
	if s.now.Schema != 1 {
		return nil, fmt.Errorf("read state %s: schema %d is not known", s.path, s.now.Schema)
	}
	if c := s.now.Config; c != nil && (s.now.Self < 0 || s.now.Self >= len(c.Members)) {
		return nil, fmt.Errorf("read state %s: member %d is not in the configuration", s.path, s.now.Self)
	}
	return s, nil
}

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
	if s.path != "" {
		data, err := json.MarshalIndent(next, "", "  ")
		if err != nil {
			return fmt.Errorf("write state: %w", err)
		}
		if err := secret.New(string(data)).Write(s.path); err != nil {
			return fmt.Errorf("write state: %w", err)
		}
	}
	s.now = next
	return nil
}
