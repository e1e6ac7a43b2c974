package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Engines, as environment.DeploymentState.Engine spells them.
const (
	engineMongod   = "mongod"
	engineEmbedded = "embedded"
)

const (
	attemptTimeout = 15 * time.Second
	pollEvery      = 250 * time.Millisecond
	// silence is for how long a member may be out of reach of the others
	// while they catch up.
	silence = time.Minute
)

// replicaSet makes one of servers that run. Every server is reached through
// its own machine, at a loopback address: the first user can be created there
// only, and the ports are closed to others.
type replicaSet struct {
	state   *environment.DeploymentState
	secrets secrets
	hosts   map[string]host // by member
	// client is where the set is tried out from, as clients see it; nil is
	// the first member's machine.
	client host
	tell   func(Event)
}

// bringUp does what is not done yet: initiate, users, wait, verify.
func (s *replicaSet) bringUp(ctx context.Context) error {
	hellos, err := s.hellos(ctx)
	if err != nil {
		return err
	}
	initiated := false
	for i, hello := range hellos {
		if hello.SetName != "" && hello.SetName != s.state.ReplicaSet {
			return fmt.Errorf("member %s is in replica set %s already", s.state.Endpoints[i].Name, hello.SetName)
		}
		initiated = initiated || hello.SetName != ""
	}
	if !initiated {
		s.tell(Event{Deployment: s.state.Name, Stage: Initiating})
		if err := s.initiate(ctx); err != nil {
			return err
		}
	}
	s.tell(Event{Deployment: s.state.Name, Stage: Waiting})
	if err := s.onPrimary(ctx, s.createUsers); err != nil {
		return err
	}
	names := mongodb.Names{}
	for _, m := range s.state.Endpoints {
		names[m.Address()] = m.Name
	}
	err = s.onPrimary(ctx, func(ctx context.Context, m environment.MemberState) error {
		return s.with(ctx, m, AdminUser, s.secrets.admin, func(c *mongodb.Client) error {
			if err := c.WaitHealthy(ctx, names); err != nil {
				return err
			}
			return c.WaitCaughtUp(ctx, silence, names)
		})
	})
	if err != nil {
		return err
	}
	if err := s.verify(ctx); err != nil {
		return err
	}
	return s.try(ctx)
}

// hellos waits until every member answers.
func (s *replicaSet) hellos(ctx context.Context) ([]mongodb.Hello, error) {
	out := make([]mongodb.Hello, len(s.state.Endpoints))
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range s.state.Endpoints {
		group.Go(func() error {
			return poll(ctx, func(ctx context.Context) error {
				return s.with(ctx, m, "", secret.Text{}, func(c *mongodb.Client) error {
					var err error
					out[i], err = c.Hello(ctx)
					return err
				})
			})
		})
	}
	return out, group.Wait()
}

// initiate goes to the first member with data, through the localhost
// exception.
func (s *replicaSet) initiate(ctx context.Context) error {
	set := mongodb.ReplicaSet{Name: s.state.ReplicaSet}
	for _, m := range s.state.Endpoints {
		set.Members = append(set.Members, mongodb.ReplicaSetMember{Host: m.Address(), Arbiter: m.Role == environment.Arbiter})
	}
	first, err := s.first()
	if err != nil {
		return err
	}
	return s.with(ctx, first, "", secret.Text{}, func(c *mongodb.Client) error { return c.Initiate(ctx, set) })
}

func (s *replicaSet) first() (environment.MemberState, error) {
	for _, m := range s.state.Endpoints {
		if m.Role != environment.Arbiter {
			return m, nil
		}
	}
	return environment.MemberState{}, errors.New("has no member with data")
}

// createUsers creates, on the primary, the users that cannot log in.
func (s *replicaSet) createUsers(ctx context.Context, m environment.MemberState) error {
	err := s.login(ctx, m, AdminUser, s.secrets.admin)
	if mongodb.IsAuthenticationFailure(err) {
		err = s.with(ctx, m, "", secret.Text{}, func(c *mongodb.Client) error {
			err := c.CreateAdmin(ctx, AdminUser, s.secrets.admin)
			if mongodb.IsUnauthorized(err) {
				return fmt.Errorf("it has users already, and the password in %s is not that of %s: %w", AdminPasswordFile, AdminUser, err)
			}
			return err
		})
	}
	if err != nil {
		return err
	}
	return s.with(ctx, m, AdminUser, s.secrets.admin, func(c *mongodb.Client) error {
		info, err := c.BuildInfo(ctx)
		if err != nil {
			return err
		}
		for _, user := range s.users(info) {
			err := s.login(ctx, m, user.Name, user.Password)
			if mongodb.IsAuthenticationFailure(err) {
				err = c.SetUser(ctx, user)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// users are those beside the administrator.
func (s *replicaSet) users(info mongodb.BuildInfo) []mongodb.User {
	monitoring := []mongodb.Role{{Name: "clusterMonitor", Database: "admin"}, {Name: "read", Database: "local"}}
	major, _, _ := strings.Cut(s.state.Series, ".")
	// The client asks shards directly, which has needed a role since 8.0.
	// The embedded engine has no shards, and no such role.
	if n, err := strconv.Atoi(major); err == nil && n >= 8 && !info.Embedded {
		monitoring = append(monitoring, mongodb.Role{Name: "directShardOperations", Database: "admin"})
	}
	return []mongodb.User{
		{Name: MonitoringUser, Password: s.secrets.monitoring, Roles: monitoring},
		{Name: BenchmarkUser, Password: s.secrets.benchmark, Roles: []mongodb.Role{
			{Name: "readWrite", Database: Database}, {Name: "clusterMonitor", Database: "admin"},
		}},
	}
}

// verify asks every member with data what it is, and writes that down.
func (s *replicaSet) verify(ctx context.Context) error {
	for _, m := range s.state.Endpoints {
		if m.Role == environment.Arbiter {
			continue
		}
		var info mongodb.BuildInfo
		var fcv string
		err := poll(ctx, func(ctx context.Context) error {
			return s.with(ctx, m, AdminUser, s.secrets.admin, func(c *mongodb.Client) error {
				var err error
				if info, err = c.BuildInfo(ctx); err == nil {
					fcv, err = c.FeatureCompatibility(ctx)
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		if !isVersion(info.Version, s.state.Version) {
			return fmt.Errorf("member %s runs version %s and not %s", m.Name, info.Version, s.state.Version)
		}
		if fcv != s.state.Series {
			return fmt.Errorf("member %s has feature compatibility version %s and not %s: its data are those of another release; run `sandbox down` first", m.Name, fcv, s.state.Series)
		}
		s.state.Engine, s.state.ActualVersion = engineMongod, info.Version
		if info.Embedded {
			s.state.Engine = engineEmbedded
		}
	}
	return nil
}

// isVersion reports whether a server's version is the one asked for. Either may
// leave out the build number: which build is installed, the package manager
// has seen to.
func isVersion(actual, asked string) bool {
	return actual == asked || strings.HasPrefix(actual, asked+"-") || strings.HasPrefix(asked, actual+"-")
}

// try uses the set as the benchmark will: by its connection string, with the
// names that machines have among themselves.
func (s *replicaSet) try(ctx context.Context) error {
	from := s.client
	if from == nil {
		first, err := s.first()
		if err != nil {
			return err
		}
		from = s.hosts[first.Name]
	}
	return poll(ctx, func(ctx context.Context) error {
		client, err := mongodb.Connect(ctx, mongodb.Options{
			URI: s.state.URI(""), Username: BenchmarkUser, Password: s.secrets.benchmark, Dialer: from, ReadPreference: "primary",
		})
		if err != nil {
			return err
		}
		defer disconnect(ctx, client)
		return client.Ping(ctx)
	})
}

// onPrimary runs act on the member that is primary, until it succeeds there.
func (s *replicaSet) onPrimary(ctx context.Context, act func(context.Context, environment.MemberState) error) error {
	return poll(ctx, func(attempt context.Context) error {
		var last error
		for _, m := range s.state.Endpoints {
			if m.Role == environment.Arbiter {
				continue
			}
			var hello mongodb.Hello
			err := s.with(attempt, m, "", secret.Text{}, func(c *mongodb.Client) error {
				var err error
				hello, err = c.Hello(attempt)
				return err
			})
			if err == nil && hello.IsWritablePrimary {
				return act(ctx, m)
			}
			last = err
		}
		if last != nil {
			return last
		}
		return errors.New("no member is primary yet")
	})
}

func (s *replicaSet) login(ctx context.Context, m environment.MemberState, user string, password secret.Text) error {
	return s.with(ctx, m, user, password, func(c *mongodb.Client) error { return c.Ping(ctx) })
}

// with connects to a member from its own machine.
func (s *replicaSet) with(ctx context.Context, m environment.MemberState, user string, password secret.Text, act func(*mongodb.Client) error) error {
	if err := ask(ctx, s.hosts[m.Name], m, user, password, act); err != nil {
		return fmt.Errorf("member %s: %w", m.Name, err)
	}
	return nil
}

// ask connects to a member from its own machine.
func ask(ctx context.Context, h host, m environment.MemberState, user string, password secret.Text, act func(*mongodb.Client) error) error {
	client, err := mongodb.Connect(ctx, mongodb.Options{
		URI:      "mongodb://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port)),
		Username: user, Password: password, Direct: true, Dialer: h, AppName: "sandbox",
	})
	if err != nil {
		return err
	}
	defer disconnect(ctx, client)
	return act(client)
}

func disconnect(ctx context.Context, client *mongodb.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptTimeout)
	defer cancel()
	_ = client.Close(ctx) // what there was to do is done or has failed
}

// poll repeats try until it succeeds, fails for good, or ctx ends; then the
// error has the last cause.
func poll(ctx context.Context, try func(context.Context) error) error {
	var last error
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := try(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if mongodb.IsUnauthorized(err) || mongodb.IsAuthenticationFailure(err) {
			return err // will not get better
		}
		if ctx.Err() == nil || last == nil {
			last = err // what ctx's end did to an attempt explains nothing
		}
		timer := time.NewTimer(pollEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w; last cause: %w", context.Cause(ctx), last)
		case <-timer.C:
		}
	}
}
