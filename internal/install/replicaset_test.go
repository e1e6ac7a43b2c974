package install

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/embedded"
	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/remote/sshdtest"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// ground is a replica set of embedded servers on "machines" that are all this
// one, behind a real sshd.
type ground struct {
	dir   string
	port  int // of the sshd
	inv   *environment.Inventory
	state *environment.DeploymentState
	set   *replicaSet
}

func newGround(t *testing.T, version string, roles ...environment.Role) *ground {
	t.Helper()
	dir := t.TempDir()
	secrets, err := loadSecrets(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{dir: dir, state: &environment.DeploymentState{Deployment: environment.Deployment{
		Name: "d", ReplicaSet: "rs", Series: version[:3], Version: version}}}
	key, err := remote.LoadOrCreateKey(filepath.Join(dir, "id"), "test")
	if err != nil {
		t.Fatal(err)
	}
	server := sshdtest.New(t, key.AuthorizedKey())
	server.Home = dir
	server.Start()
	g.port = server.Port
	g.inv = &environment.Inventory{
		Username: BenchmarkUser, PasswordFile: BenchmarkPasswordFile,
		SSH: &environment.SSH{User: server.User, KeyFile: "id", KnownHosts: "known_hosts"},
	}
	g.set = &replicaSet{state: g.state, secrets: secrets, hosts: map[string]host{}, tell: func(Event) {}}
	for i, role := range roles {
		server, err := embedded.Start(context.Background(), embedded.Config{
			Version: version, ReplicaSet: "rs", KeyFile: secrets.key, Authorization: true, Heartbeat: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		_, number, err := net.SplitHostPort(server.Addr())
		if err != nil {
			t.Fatal(err)
		}
		m := environment.MemberState{Name: fmt.Sprintf("m%d", i), Role: role, Host: "127.0.0.1"}
		_, _ = fmt.Sscan(number, &m.Port)
		g.state.Members = append(g.state.Members, environment.Member{Name: m.Name, Role: role})
		g.state.Endpoints = append(g.state.Endpoints, m)
		g.inv.Machines = append(g.inv.Machines, environment.MachineState{
			Name: m.Name, Role: string(role), Deployment: "d", InternalIP: "127.0.0.1", ID: m.Name})
		g.set.hosts[m.Name] = g.dial(t)
	}
	g.inv.Deployments = []environment.DeploymentState{*g.state}
	return g
}

func (g *ground) dial(t *testing.T) *remote.Conn {
	t.Helper()
	key, err := remote.LoadKey(filepath.Join(g.dir, "id"), "")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := remote.Dial(t.Context(), remote.Machine{Address: "127.0.0.1", Port: g.port, User: g.inv.SSH.User},
		remote.Options{Key: key, KnownHosts: filepath.Join(g.dir, "known_hosts")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, fmt.Errorf("the test took too long"))
	t.Cleanup(cancel)
	return ctx
}

// as runs something on the primary as a user.
func (g *ground) as(t *testing.T, name string, password secret.Text, act func(*mongodb.Client) error) error {
	t.Helper()
	client, err := mongodb.Connect(testContext(t), mongodb.Options{URI: g.state.URI(""), Username: name, Password: password, Dialer: g.set.hosts["m0"]})
	if err != nil {
		t.Fatal(err)
	}
	defer disconnect(t.Context(), client)
	return act(client)
}

func TestBringUp(t *testing.T) {
	for _, roles := range [][]environment.Role{
		{environment.Data, environment.Data, environment.Data},
		{environment.Data, environment.Data, environment.Arbiter},
		{environment.Data},
	} {
		t.Run(fmt.Sprint(roles), func(t *testing.T) {
			t.Parallel()
			g := newGround(t, "8.0.34", roles...)
			var events []Event
			g.set.tell = func(e Event) { events = append(events, e) }
			for i := range 2 {
				events = nil
				if err := g.set.bringUp(testContext(t)); err != nil {
					t.Fatal(err)
				}
				if initiated := events[0].Stage == Initiating; initiated != (i == 0) {
					t.Errorf("run %d: events %v", i, events)
				}
			}
			if g.state.Engine != engineEmbedded || g.state.ActualVersion != "8.0.34" {
				t.Errorf("state %+v", g.state)
			}

			s := g.set.secrets
			err := g.as(t, BenchmarkUser, s.benchmark, func(c *mongodb.Client) error {
				if _, err := c.Driver().Database(Database).Collection("flights").InsertOne(t.Context(), map[string]int{"x": 1}); err != nil {
					return err
				}
				if err := c.Driver().Database(Database).Collection("flights").Drop(t.Context()); err != nil {
					return err
				}
				_, err := c.ReplicaSetStatus(t.Context())
				return err
			})
			if err != nil {
				t.Errorf("the benchmark user: %v", err)
			}
			err = g.as(t, BenchmarkUser, s.benchmark, func(c *mongodb.Client) error {
				_, err := c.Driver().Database("other").Collection("x").InsertOne(t.Context(), map[string]int{"x": 1})
				return err
			})
			if !mongodb.IsUnauthorized(err) {
				t.Errorf("the benchmark user in another database: %v", err)
			}
			err = g.as(t, MonitoringUser, s.monitoring, func(c *mongodb.Client) error {
				_, err := c.ReplicaSetStatus(t.Context())
				return err
			})
			if err != nil {
				t.Errorf("the monitoring user: %v", err)
			}
			g.checkStatus(t)
		})
	}
}

// checkStatus asks through connections of its own.
func (g *ground) checkStatus(t *testing.T) {
	t.Helper()
	o := StatusOptions{Dir: g.dir, Inventory: g.inv, dial: func(ctx context.Context, machine string) (host, error) {
		to, o, err := login(g.inv, g.dir, machine)
		if err != nil {
			return nil, err
		}
		to.Port = g.port
		return asHost(remote.Dial(ctx, to, o))
	}}
	status, err := Status(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	primaries := 0
	for i, m := range status.Deployments[0].Members {
		if m.State == "PRIMARY" {
			primaries++
		}
		if g.state.Endpoints[i].Role == environment.Arbiter && m.State != "ARBITER" || m.Error != "" || !m.Healthy {
			t.Errorf("member %+v", m)
		}
	}
	if primaries != 1 || !status.Deployments[0].Healthy {
		t.Errorf("%d primaries in %+v", primaries, status)
	}
	// While up is at work there may be no password yet: what needs none is
	// said all the same.
	early := *g.inv
	early.Username, early.PasswordFile = "", ""
	o.Inventory, o.Dir = &early, t.TempDir()
	without, err := Status(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if without.Healthy {
		t.Errorf("healthy without having been asked: %+v", without)
	}
	for _, m := range slices.Concat(status.Machines, without.Machines) {
		if !m.Reachable || m.UptimeS == 0 {
			t.Errorf("machine %+v", m)
		}
	}
}

func TestBringUpRefuses(t *testing.T) {
	g := newGround(t, "8.0.34", environment.Data)
	if err := g.set.bringUp(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what   string
		change func()
		want   string
	}{
		{"version", func() { g.state.Version = "8.0.35" }, "member m0 runs version 8.0.34 and not 8.0.35"},
		{"series", func() { g.state.Series = "8.3" }, "member m0 has feature compatibility version 8.0 and not 8.3"},
		{"name", func() { g.state.ReplicaSet = "other" }, "member m0 is in replica set rs already"},
		{"password", func() { g.set.secrets.admin = secret.New("another") }, "it has users already, and the password in admin.password is not that of admin"},
	} {
		state, secrets := *g.state, g.set.secrets
		test.change()
		err := g.set.bringUp(testContext(t))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("another %s: error %v, want %s", test.what, err, test.want)
		}
		*g.state, g.set.secrets = state, secrets
	}
}

// TestBringUpSaysTheLastCause: a member that never answers.
func TestBringUpSaysTheLastCause(t *testing.T) {
	g := newGround(t, "8.0.34", environment.Data)
	g.state.Endpoints[0].Port = 1
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, fmt.Errorf("not healthy after 1s"))
	defer cancel()
	err := g.set.bringUp(ctx)
	if err == nil || !strings.Contains(err.Error(), "not healthy after 1s; last cause: member m0: ") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error %v", err)
	}
}

func TestIsVersion(t *testing.T) {
	for _, test := range []struct {
		actual, asked string
		want          bool
	}{
		{"9.0.4", "9.0.4", true}, {"8.0.34-15", "8.0.34", true}, {"8.0.34", "8.0.34-15", true},
		{"8.0.34-15", "8.0.34-1", false}, {"8.0.34", "8.0.3", false}, {"8.0.3", "8.0.34", false}, {"8.0.34-15", "8.0.34-14", false},
	} {
		if got := isVersion(test.actual, test.asked); got != test.want {
			t.Errorf("isVersion(%s, %s) = %t", test.actual, test.asked, got)
		}
	}
}
