package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// replSetInitiate makes the set. Every member must answer, have the set's
// name and no configuration yet.
func (s *Server) replSetInitiate(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	if s.repl == nil {
		return nil, failf(76, "NoReplicationEnabled", "This node was not started with replication enabled.")
	}
	if err := q.only("force"); err != nil {
		return nil, err
	}
	var cfg *replConfig
	doc, isDoc := q.first.document()
	switch {
	case isDoc && count(doc) > 0:
		var err error
		if cfg, err = parseConfig(doc); err != nil {
			return nil, err
		}
	default:
		cfg = s.repl.aloneConfig(s.hostPort())
	}
	return bson.D{}, s.repl.initiate(ctx, cfg)
}

func (r *replica) aloneConfig(host string) *replConfig {
	return &replConfig{Name: r.s.cfg.ReplicaSet, ID: bson.NewObjectID(), Version: 1, ElectionTimeout: 10_000,
		Members: []memberConfig{{Host: host, Priority: 1, Votes: 1}}}
}

func (r *replica) initiate(ctx context.Context, cfg *replConfig) error {
	if cfg.Name != r.s.cfg.ReplicaSet {
		return invalidConfig("Attempting to initiate a replica set with name %s, but command line reports %s; rejecting",
			cfg.Name, r.s.cfg.ReplicaSet)
	}
	if r.view.Load().cfg != nil {
		return failf(23, "AlreadyInitialized", "already initialized")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	clients := make([]*peerClient, len(cfg.Members))
	processes := make([]bson.ObjectID, len(cfg.Members))
	failures := make([]error, len(cfg.Members))
	var wg sync.WaitGroup
	for i, m := range cfg.Members {
		clients[i] = newPeerClient(m.Host, r.s.keys)
		wg.Go(func() { processes[i], failures[i] = r.ask(ctx, clients[i], cfg) })
	}
	wg.Wait()
	defer func() {
		for _, client := range clients {
			client.close()
		}
	}()
	self := -1
	for i, m := range cfg.Members {
		var e *engine.Error
		switch {
		case errors.As(failures[i], &e) && e.Code == 93:
			return e
		case failures[i] != nil:
			return failf(74, "NodeNotFound", "replSetInitiate quorum check failed because not all proposed set members responded "+
				"affirmatively: %s failed with %v", m.Host, failures[i])
		case processes[i] == r.s.processID:
			self = i
		}
	}
	if self < 0 {
		return invalidConfig("No host described in new configuration with {version: %d} for replica set %s maps to this node", cfg.Version, cfg.Name)
	}
	if cfg.Members[self].Priority <= 0 {
		return failf(93, "InvalidReplicaSetConfig", "This node, %s, with _id %d is not electable under the new configuration",
			cfg.Members[self].Host, cfg.Members[self].ID)
	}
	if err := r.install(cfg, self); err != nil {
		return err
	}
	for i, client := range clients {
		if i != self {
			// A member that misses it now gets it with the first heartbeat.
			wg.Go(func() { _ = r.pushConfig(ctx, client, cfg, i) })
		}
	}
	wg.Wait()
	r.mu.Lock()
	r.kickAll()
	r.mu.Unlock()
	r.evaluate()
	return nil
}

// ask finds out which process a host is, and whether it is free to join.
func (r *replica) ask(ctx context.Context, client *peerClient, cfg *replConfig) (id bson.ObjectID, err error) {
	reply, err := client.call(ctx, bson.D{{Key: "sandboxWho", Value: 1}})
	if err != nil {
		var e *engine.Error
		if errors.As(err, &e) && e.Code == 59 {
			return id, fmt.Errorf("%s is not a sandbox embedded server with replication enabled", client.host)
		}
		return id, err
	}
	var answer struct {
		Process bson.ObjectID `bson:"process"`
		Beat    beat          `bson:"beat"`
	}
	if err := bson.Unmarshal(reply, &answer); err != nil {
		return id, err
	}
	if answer.Beat.Set != cfg.Name {
		return id, invalidConfig("Our set name did not match that of %s: it is %q there", client.host, answer.Beat.Set)
	}
	if answer.Beat.ConfigVersion > 0 {
		return id, invalidConfig("'%s' has data already, cannot initiate set.", client.host)
	}
	return answer.Process, nil
}

// initiateAlone makes this server the primary of a set of its own.
func (r *replica) initiateAlone(ctx context.Context) error {
	if r.view.Load().cfg == nil {
		cfg := r.aloneConfig(r.s.addr)
		if err := r.install(cfg, 0); err != nil {
			return err
		}
	}
	r.evaluate()
	for {
		view := r.view.Load()
		if view.state == statePrimary {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("initiate replica set: %w", err)
		}
		r.await(ctx, view.topology, time.Second)
	}
}
