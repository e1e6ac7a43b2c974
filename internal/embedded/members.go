package embedded

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// pushConfig brings a configuration to a member.
func (r *replica) pushConfig(ctx context.Context, client *peerClient, cfg *replConfig, index int) error {
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	_, err = client.call(ctx, bson.D{{Key: "sandboxConfig", Value: string(text)}, {Key: "self", Value: int32(index)}})
	return err
}

func (r *replica) pushUsersTo(ctx context.Context, client *peerClient) error {
	all, version := r.s.users.list()
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	_, err = client.call(ctx, bson.D{{Key: "sandboxUsers", Value: string(text)}, {Key: "version", Value: version}})
	return err
}

// pushUsers brings the users to every data-bearing member in reach. Members
// out of reach get them with a later heartbeat.
func (r *replica) pushUsers(ctx context.Context) {
	r.mu.Lock()
	now := time.Now()
	var clients []*peerClient
	for i, p := range r.peers {
		if p != nil && r.with(p, now) && !r.cfg.Members[i].Arbiter {
			clients = append(clients, p.client)
		}
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, memberCallTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, client := range clients {
		wg.Go(func() {
			if err := r.pushUsersTo(ctx, client); err != nil {
				r.s.log.Warn("users not taken", "member", client.host, "cause", err.Error())
			}
		})
	}
	wg.Wait()
}

// memberCommands are what members say to each other.
func (r *replica) memberCommands() []*command {
	return []*command{
		{name: "sandboxWho", adminOnly: true, privilege: privMember, run: r.who},
		{name: "sandboxHeartbeat", adminOnly: true, privilege: privMember, run: r.heartbeat},
		{name: "sandboxVote", adminOnly: true, privilege: privMember, run: r.vote},
		{name: "sandboxConfig", adminOnly: true, privilege: privMember, run: r.takeConfig},
		{name: "sandboxUsers", adminOnly: true, privilege: privMember, run: r.takeUsers},
		{name: "sandboxReceive", adminOnly: true, privilege: privMember, run: r.receive},
	}
}

// who lets a member find out which of the hosts in a configuration is which
// process.
func (r *replica) who(context.Context, *conn, *request) (bson.D, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bson.D{{Key: "process", Value: r.s.processID}, {Key: "beat", Value: r.ownBeat()}}, nil
}

// takeConfig takes the first or a newer configuration of the set.
func (r *replica) takeConfig(_ context.Context, _ *conn, q *request) (bson.D, error) {
	text, ok := q.first.text()
	self, _ := find(q.Body, "self")
	index, isNumber := self.number()
	if !ok || !isNumber {
		return nil, badValue("%s needs a configuration and a member", q.Name)
	}
	cfg := &replConfig{}
	if err := json.Unmarshal([]byte(text), cfg); err != nil {
		return nil, badValue("configuration: %v", err)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if index < 0 || index >= int64(len(cfg.Members)) {
		return nil, badValue("member %d is not in the configuration", index)
	}
	return bson.D{}, r.install(cfg, int(index))
}

// install stores the first configuration and starts to live by it.
func (r *replica) install(cfg *replConfig, self int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cfg.Name != r.s.cfg.ReplicaSet {
		return invalidConfig("Attempting to initiate a replica set with name %s, but command line reports %s; rejecting",
			cfg.Name, r.s.cfg.ReplicaSet)
	}
	if r.cfg != nil {
		if r.cfg.ID == cfg.ID && r.cfg.Version == cfg.Version {
			return nil
		}
		return failf(23, "AlreadyInitialized", "already initialized")
	}
	if err := r.s.store.change(func(s *saved) { s.Config, s.Self = cfg, self }); err != nil {
		return err
	}
	r.adopt(cfg, self)
	r.publish()
	r.startPeers()
	r.s.log.Info("member of a replica set", "set", cfg.Name, "member", cfg.Members[self].Host, "members", len(cfg.Members))
	return nil
}

func (r *replica) takeUsers(_ context.Context, _ *conn, q *request) (bson.D, error) {
	text, ok := q.first.text()
	e, _ := find(q.Body, "version")
	doc, isDoc := e.document()
	if !ok || !isDoc {
		return nil, badValue("%s needs users and a version", q.Name)
	}
	var all []user
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, badValue("users: %v", err)
	}
	var version usersVersion
	if err := bson.Unmarshal(doc, &version); err != nil {
		return nil, badValue("version: %v", err)
	}
	return bson.D{}, r.s.users.replace(all, version)
}
