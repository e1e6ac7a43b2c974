package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Version is what the server reports as its own version.
const Version = "0.1.0-sandbox-embedded"

// Config says what a server is to be. The zero value is a standalone without
// authentication on a free loopback port that leaves no files.
type Config struct {
	// Version is reported by buildInfo; empty is Version. A stand-in for a
	// package of another version sets it. hello and buildInfo say
	// sandboxEmbedded: true in any case.
	Version string

	BindIPs    []string // empty is 127.0.0.1
	Port       int      // 0 is a free one
	UnixSocket string   // path of the socket; empty is none
	MaxConns   int      // connections at a time; 0 is no limit

	// DBPath is a folder, created if need be and locked, for users, replica
	// set configuration and election term; empty keeps them in memory.
	DBPath string

	// ReplicaSet is the name of the set the server can become a member of;
	// empty is a standalone.
	ReplicaSet string
	// Initiate makes the server the only member, and primary, of its replica
	// set before Start returns.
	Initiate bool
	// Heartbeat is the time between two heartbeats to a member; 0 is 500 ms.
	Heartbeat time.Duration

	// KeyFile is the content members know each other by. It turns
	// authorization on.
	KeyFile       secret.Text
	Authorization bool
	// Username and Password make a user of role root before Start returns,
	// if there is no such user. They need a server that accepts writes: a
	// standalone, or Initiate.
	Username string
	Password secret.Text

	// Log receives a JSON object per line and event; nil discards them.
	Log io.Writer

	// Argv and Parsed are what getCmdLineOpts answers.
	Argv   []string
	Parsed bson.D

	parameters parameters
}

// counters of serverStatus.
type counters struct {
	totalCreated                              atomic.Int64
	bytesIn, bytesOut, requests               atomic.Int64
	insert, query, update, deletes            atomic.Int64
	getmore, command                          atomic.Int64
	txnStarted, txnCommitted, txnAborted      atomic.Int64
	retriedWrites, failedLogins, forwardedOps atomic.Int64
}

// Server is a running server.
type Server struct {
	cfg       Config
	log       *slog.Logger
	started   time.Time
	processID bson.ObjectID
	hostname  string
	addr      string // host:port

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ended  sync.Once
	done   chan struct{} // closed when somebody asked for the end

	listeners []net.Listener
	dir       *os.Root // the dbPath; nil if there is none
	lock      *lockFile
	mu        sync.Mutex
	conns     map[*conn]struct{}
	stopped   bool

	commands  map[string]*command
	engine    atomic.Pointer[engine.Engine]
	gate      sync.RWMutex // held for reading by data commands, for writing while roles change hands
	failPoint atomic.Pointer[failPoint]
	sessions  *sessions
	store     *store
	users     *users
	keys      *memberKeys
	repl      *replica // nil on a standalone
	counters  counters
	hostFacts func() hostFacts // read when first asked for
	usersMu   sync.Mutex       // serialises changes of users
	lastOp    atomic.Uint64    // a timestamp: seconds<<32 | ordinal
}

// Start starts a server. It ends when Close is called or ctx is done, but
// Close must be called in any case.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Version == "" {
		cfg.Version = Version
	}
	if len(cfg.BindIPs) == 0 {
		cfg.BindIPs = []string{"127.0.0.1"}
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 500 * time.Millisecond
	}
	if !cfg.KeyFile.IsEmpty() {
		cfg.Authorization = true
	}
	if cfg.Authorization && cfg.ReplicaSet != "" && cfg.KeyFile.IsEmpty() {
		if !cfg.Initiate {
			return nil, errors.New("start server: security.keyFile is required when authorization is enabled with replica sets")
		}
		cfg.KeyFile = secret.Generate(64)
	}
	if cfg.parameters.lifetime == 0 {
		cfg.parameters = defaultParameters()
	}
	s := &Server{
		cfg:       cfg,
		log:       slog.New(slog.DiscardHandler),
		started:   time.Now(),
		processID: bson.NewObjectID(),
		conns:     map[*conn]struct{}{},
		done:      make(chan struct{}),
		sessions:  newSessions(),
		hostFacts: sync.OnceValue(readHostFacts),
	}
	if cfg.Log != nil {
		s.log = slog.New(slog.NewJSONHandler(cfg.Log, nil))
	}
	s.hostname, _ = os.Hostname()
	s.engine.Store(engine.New())
	s.tick()
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.start(); err != nil {
		s.Close()
		return nil, fmt.Errorf("start server: %w", err)
	}
	return s, nil
}

func (s *Server) start() (err error) {
	if s.cfg.DBPath != "" {
		if err = os.MkdirAll(s.cfg.DBPath, 0o700); err != nil {
			return fmt.Errorf("create dbPath: %w", err)
		}
		if s.dir, err = os.OpenRoot(s.cfg.DBPath); err != nil {
			return fmt.Errorf("open dbPath: %w", err)
		}
		if s.lock, err = acquireLock(s.dir); err != nil {
			return err
		}
	}
	if s.store, err = openStore(s.dir); err != nil {
		return err
	}
	s.users = newUsers(s.store)
	if !s.cfg.KeyFile.IsEmpty() {
		if s.keys, err = newMemberKeys(s.cfg.KeyFile); err != nil {
			return err
		}
	}
	if err = s.listen(); err != nil {
		return err
	}
	if s.cfg.ReplicaSet != "" {
		s.repl = newReplica(s)
	}
	s.commands = s.commandTable()
	for _, l := range s.listeners {
		s.wg.Go(func() { s.accept(l) })
	}
	s.wg.Go(s.housekeep)
	context.AfterFunc(s.ctx, s.hangUp)
	if s.repl != nil {
		s.repl.start()
	}
	s.log.Info("started", "sandboxEmbedded", true, "version", s.cfg.Version, "pid", os.Getpid(), "address", s.addr,
		"replicaSet", s.cfg.ReplicaSet, "dbPath", s.cfg.DBPath, "data", "in memory only: none survives the process")
	if s.cfg.Initiate {
		if err = s.repl.initiateAlone(s.ctx); err != nil {
			return err
		}
	}
	if s.cfg.Username != "" && !s.users.exists("admin", s.cfg.Username) {
		u, err := newUser("admin", s.cfg.Username, s.cfg.Password, []role{{"root", "admin"}})
		if err != nil {
			return err
		}
		if err := s.changeUsers(s.ctx, func(all []user) []user { return append(all, u) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) listen() error {
	port := s.cfg.Port
	for i, host := range s.cfg.BindIPs {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return &listenError{err}
		}
		s.listeners = append(s.listeners, l)
		if i == 0 {
			port = l.Addr().(*net.TCPAddr).Port
			s.addr = net.JoinHostPort(host, strconv.Itoa(port))
			if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
				s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			}
		}
	}
	if path := s.cfg.UnixSocket; path != "" {
		// A socket that a killed server left behind is in the way; a live
		// server's port would have been.
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSocket {
			_ = os.Remove(path)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			return &listenError{err}
		}
		s.listeners = append(s.listeners, l)
		if err := os.Chmod(path, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// listenError is an address that could not be listened on; mongod has an
// exit code of its own for it.
type listenError struct{ err error }

func (e *listenError) Error() string { return e.err.Error() }
func (e *listenError) Unwrap() error { return e.err }

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			if s.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, for one: give others time to free some.
			s.log.Warn("accept failed", "cause", err.Error())
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-s.ctx.Done():
				return
			}
		}
		c := newConn(s, nc)
		if !s.register(c) {
			_ = nc.Close()
			continue
		}
		s.wg.Go(func() {
			c.serve(s.ctx)
			s.unregister(c)
		})
	}
}

func (s *Server) register(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.cfg.MaxConns > 0 && len(s.conns) >= s.cfg.MaxConns {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// hangUp closes every listener and connection.
func (s *Server) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		_ = c.nc.Close()
	}
	if s.repl != nil {
		s.repl.closePeers()
	}
}

// housekeep ends transactions and sessions that have had their time, and
// moves the operation clock on.
func (s *Server) housekeep() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			s.tick()
			s.counters.txnAborted.Add(s.sessions.expire(time.Now()))
			if s.repl != nil {
				s.repl.cursors.expire(time.Now())
			}
		}
	}
}

// tick moves the operation clock to the present second.
func (s *Server) tick() {
	now := uint64(time.Now().Unix()) << 32
	for {
		last := s.lastOp.Load()
		if last >= now || s.lastOp.CompareAndSwap(last, now) {
			return
		}
	}
}

// askForEnd makes Done's channel ready.
func (s *Server) askForEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.done:
	default:
		close(s.done)
	}
}

// Done is closed when a client has sent the shutdown command. The server is
// closed by whoever started it.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close ends the server and returns when nothing of it is left running.
func (s *Server) Close() {
	s.cancel()
	s.hangUp()
	s.wg.Wait()
	s.sessions.abortAll()
	if path := s.cfg.UnixSocket; path != "" && len(s.listeners) > len(s.cfg.BindIPs) {
		_ = os.Remove(path)
	}
	if s.lock != nil {
		s.lock.release()
		s.lock = nil
	}
	if s.dir != nil {
		_ = s.dir.Close()
	}
	s.ended.Do(func() { s.log.Info("stopped", "pid", os.Getpid(), "address", s.addr) })
}

// Addr is the server's host:port.
func (s *Server) Addr() string { return s.addr }

// URI is the connection string of the server, without user and password.
func (s *Server) URI() string {
	uri := "mongodb://" + s.addr + "/"
	if s.cfg.ReplicaSet != "" {
		uri += "?replicaSet=" + s.cfg.ReplicaSet
	}
	return uri
}

// UnixSocketPath is where mongod puts its socket in folder prefix.
func UnixSocketPath(prefix string, port int) string {
	return filepath.Join(prefix, fmt.Sprintf("mongodb-%d.sock", port))
}
