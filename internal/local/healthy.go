package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// becomeHealthy initiates the set, creates the user and waits, doing only
// what is not done yet.
func (u *bringUp) becomeHealthy(ctx context.Context) error {
	d := u.state()
	hellos, err := u.hellos(ctx, d, func(mongodb.Hello) error { return nil })
	if err != nil {
		return err
	}
	if err := foreignConfiguration(d, hellos); err != nil {
		return err
	}
	fresh := !slices.ContainsFunc(hellos, func(h mongodb.Hello) bool { return h.SetName != "" })
	if fresh {
		u.p.tell(Event{Deployment: d.Name, Stage: Initiating})
		if err := u.initiate(ctx, d); err != nil {
			return err
		}
	}
	u.p.tell(Event{Deployment: d.Name, Stage: Waiting})
	if err := u.createUser(ctx, d, fresh); err != nil {
		return err
	}
	if _, err := u.hellos(ctx, d, func(h mongodb.Hello) error {
		if h.SetName != d.ReplicaSet {
			return fmt.Errorf("is not in replica set %s yet", d.ReplicaSet)
		}
		if !mongodb.Settled(h.State()) {
			return errors.New("is in none of the states PRIMARY, SECONDARY, ARBITER yet")
		}
		return nil
	}); err != nil {
		return err
	}
	return u.verify(ctx, d)
}

// foreignConfiguration returns an error if a member lives by a configuration
// in which it is not one of the deployment's members, say because its data
// comes from elsewhere: waiting would not make it one.
func foreignConfiguration(d environment.DeploymentState, hellos []mongodb.Hello) error {
	for i, m := range d.Endpoints {
		h := hellos[i]
		known := slices.Concat(h.Hosts, h.Arbiters)
		if h.SetName != "" && len(known) > 0 && !slices.Contains(known, m.Address()) {
			return &memberError{m.Name, fmt.Errorf("its data says that its replica set is %s, without its own address %s: run `sandbox down` first",
				strings.Join(known, ","), m.Address()), true}
		}
	}
	return nil
}

// hellos waits until every member answers hello to the satisfaction of
// enough.
func (u *bringUp) hellos(ctx context.Context, d environment.DeploymentState, enough func(mongodb.Hello) error) ([]mongodb.Hello, error) {
	out := make([]mongodb.Hello, len(d.Endpoints))
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range d.Endpoints {
		group.Go(func() error {
			return u.poll(ctx, m, func(ctx context.Context) error {
				if err := reachable(ctx, m); err != nil {
					return err
				}
				client, err := connect(ctx, m, "", secret.Text{})
				if err != nil {
					return err
				}
				defer disconnect(ctx, client)
				if out[i], err = client.Hello(ctx); err != nil {
					return err
				}
				return enough(out[i])
			})
		})
	}
	return out, group.Wait()
}

// reachable asks without the driver, which would wait half a second before
// it tries again.
func reachable(ctx context.Context, m environment.MemberState) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", m.Address())
	if err != nil {
		return err
	}
	return conn.Close()
}

// poll repeats try until it succeeds, the member's process has ended, or ctx
// ends; then the error is the last one that says something.
func (u *bringUp) poll(ctx context.Context, m environment.MemberState, try func(context.Context) error) error {
	conf := u.p.member(m.Name).conf
	var last error
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := try(attempt)
		cancel()
		// Also after an answer: without the process, another program gave it.
		if process := m.Process; process != nil && !mayBeOurs(process, conf) {
			return &memberError{m.Name, fmt.Errorf("its process %d has ended", process.PID), true}
		}
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return &memberError{m.Name, fmt.Errorf("%w: %w", context.Cause(ctx), last), true}
		case <-timer.C:
		}
	}
}

// initiate goes to the first data-bearing member, through the localhost
// exception.
func (u *bringUp) initiate(ctx context.Context, d environment.DeploymentState) error {
	set := mongodb.ReplicaSet{Name: d.ReplicaSet}
	var first *environment.MemberState
	for i, m := range d.Endpoints {
		set.Members = append(set.Members, mongodb.ReplicaSetMember{Host: m.Address(), Arbiter: m.Role == environment.Arbiter})
		if first == nil && m.Role != environment.Arbiter {
			first = &d.Endpoints[i]
		}
	}
	if first == nil {
		return errors.New("has no data-bearing member")
	}
	client, err := connect(ctx, *first, "", secret.Text{})
	if err != nil {
		return err
	}
	defer disconnect(ctx, client)
	if err := client.Initiate(ctx, set); err != nil {
		return &memberError{first.Name, err, true}
	}
	return nil
}

// createUser waits for a primary and creates the user there, unless the
// password is known already.
func (u *bringUp) createUser(ctx context.Context, d environment.DeploymentState, fresh bool) error {
	return u.onPrimary(ctx, d, func(ctx context.Context, m environment.MemberState) error {
		if !fresh {
			err := u.ping(ctx, m)
			if !mongodb.IsAuthenticationFailure(err) {
				return err
			}
		}
		client, err := connect(ctx, m, "", secret.Text{})
		if err != nil {
			return err
		}
		defer disconnect(ctx, client)
		err = client.CreateAdmin(ctx, Username, u.password)
		if mongodb.IsUnauthorized(err) {
			// The localhost exception is over: some user exists.
			return u.ping(ctx, m)
		}
		return err
	})
}

func (u *bringUp) ping(ctx context.Context, m environment.MemberState) error {
	client, err := connect(ctx, m, Username, u.password)
	if err != nil {
		return err
	}
	defer disconnect(ctx, client)
	return client.Ping(ctx)
}

// onPrimary runs act against the member that is primary until it succeeds;
// elections in between are looked through.
func (u *bringUp) onPrimary(ctx context.Context, d environment.DeploymentState, act func(context.Context, environment.MemberState) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	var (
		mu   sync.Mutex
		done bool
	)
	for _, m := range d.Endpoints {
		if m.Role == environment.Arbiter {
			continue
		}
		group.Go(func() error {
			err := u.poll(ctx, m, func(ctx context.Context) error {
				client, err := connect(ctx, m, "", secret.Text{})
				if err != nil {
					return err
				}
				defer disconnect(ctx, client)
				hello, err := client.Hello(ctx)
				if err != nil {
					return err
				}
				if !hello.IsWritablePrimary {
					return errors.New("the deployment has no primary yet")
				}
				mu.Lock() // not two at once, should an election come between
				defer mu.Unlock()
				if done {
					return nil
				}
				if err := act(ctx, m); err != nil {
					return err
				}
				done = true
				cancel()
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if done {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// verify asks every member, authenticated, asks the primary what it thinks
// of the others, and writes down what the servers say they are.
func (u *bringUp) verify(ctx context.Context, d environment.DeploymentState) error {
	names := mongodb.Names{}
	for _, m := range d.Endpoints {
		names[m.Address()] = m.Name
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, m := range d.Endpoints {
		group.Go(func() error {
			err := u.poll(groupCtx, m, func(ctx context.Context) error { return u.ping(ctx, m) })
			if err == nil {
				u.p.tell(Event{Deployment: d.Name, Member: m.Name, Stage: Healthy, Detail: m.Address()})
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var info mongodb.BuildInfo
	err := u.onPrimary(ctx, d, func(_ context.Context, m environment.MemberState) error {
		client, err := connect(ctx, m, Username, u.password)
		if err != nil {
			return err
		}
		defer disconnect(ctx, client)
		if err := client.WaitHealthy(ctx, names); err != nil {
			return err
		}
		info, err = client.BuildInfo(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return u.book.change(func(inv *environment.Inventory) {
		state := &inv.Deployments[u.index]
		state.Engine, state.ActualVersion = engineMongod, info.Version
		if info.Embedded {
			state.Engine = engineEmbedded
		}
	})
}
