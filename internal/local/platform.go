// Package local is the platform on which members are processes on this
// machine.
//
// In goes a Spec; out come running replica sets on loopback ports and the
// Inventory that says where they answer. A real mongod of the requested
// version is used where one is found; otherwise an embedded engine stands
// in. Both go through one flow, only the executable differs: a generated
// mongod.conf, a keyfile, detached processes, replSetInitiate, the first
// user, and a wait until every member is healthy. The processes outlive the
// program that started them. What is on disk is enough to go on after being
// killed at any moment: a process is known by the configuration file its
// command line names, whether or not the inventory has heard of it.
//
// The package does not read variable files, does not generate load, and
// touches no process that it did not start.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Engines, as environment.DeploymentState.Engine spells them.
const (
	engineMongod   = "mongod"
	engineEmbedded = "embedded"
)

// Username is the user that Up creates; its password is in the state
// folder's file "password".
const Username = "sandbox"

// ErrNoEnvironment means that there is nothing in the state folder: the
// environment was never brought up, or was taken down.
var ErrNoEnvironment = errors.New("the environment is not up")

// Options say where things are.
type Options struct {
	// Dir is the environment's state folder, .sandbox/<environment>.
	Dir string
	// MongodDir holds real servers as <version>/bin/mongod; may be empty.
	MongodDir string
	// EmbeddedCommand starts the embedded engine when followed by
	// "--config FILE", and tells its version when followed by "--version".
	EmbeddedCommand []string
	// Progress, if set, is told what happens, one event at a time.
	Progress func(Event)
	// ReadyTimeout bounds the wait for one deployment to become healthy;
	// 0 is two minutes.
	ReadyTimeout time.Duration
}

// Stage is what happens to a member or a deployment.
type Stage string

// The stages, in the order a deployment passes through them.
const (
	Kept       Stage = "kept"       // member: runs already
	Starting   Stage = "starting"   // member
	Initiating Stage = "initiating" // deployment
	Waiting    Stage = "waiting"    // deployment: for a primary and its members
	Healthy    Stage = "healthy"    // member, then deployment
	Failed     Stage = "failed"     // deployment
	Stopping   Stage = "stopping"   // member
	Ended      Stage = "ended"      // member
)

// Event is one step of Up or Down.
type Event struct {
	Deployment string
	Member     string // empty: the deployment as a whole
	Stage      Stage
	Detail     string
}

// Platform runs one environment.
type Platform struct {
	opts Options
	dir  string // absolute, without symbolic links

	progress sync.Mutex
}

// New prepares a platform; it touches nothing.
func New(opts Options) *Platform {
	if opts.ReadyTimeout <= 0 {
		opts.ReadyTimeout = 2 * time.Minute
	}
	if command := opts.EmbeddedCommand; len(command) > 0 && strings.ContainsRune(command[0], filepath.Separator) {
		// Members run in folders of their own.
		if path, err := filepath.Abs(command[0]); err == nil {
			opts.EmbeddedCommand = append([]string{path}, command[1:]...)
		}
	}
	return &Platform{opts: opts, dir: canonical(opts.Dir)}
}

// Environments names what there is in root, which holds a state folder per
// environment, in alphabetical order: the folders, and those that have lost
// theirs while their members run on.
func Environments(ctx context.Context, root string) ([]string, error) {
	root = canonical(root)
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list environments: %w", err)
	}
	found, err := runningBelow(ctx, root)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, entry := range entries {
		if entry.IsDir() {
			names[entry.Name()] = true
		}
	}
	for conf := range found {
		name, _, _ := strings.Cut(strings.TrimPrefix(conf, root+string(filepath.Separator)), string(filepath.Separator))
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// canonical makes a path absolute and resolves the links in the part of it
// that exists, so that the same folder always has the same spelling on
// command lines.
func canonical(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path // the working directory is gone: the first access will say so
	}
	rest := ""
	for dir := abs; ; dir = filepath.Dir(dir) {
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(resolved, rest)
		}
		if dir == filepath.Dir(dir) {
			return abs
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}

func (p *Platform) tell(e Event) {
	if p.opts.Progress == nil {
		return
	}
	p.progress.Lock()
	defer p.progress.Unlock()
	p.opts.Progress(e)
}

// The files of the state folder. membersDir has a folder per member.
const (
	inventoryFile = "inventory.json"
	passwordFile  = "password"
	keyFile       = "keyfile"
	lockFile      = "lock"
	benchFile     = "bench.lock"
	membersDir    = "members"
)

func (p *Platform) path(elements ...string) string {
	return filepath.Join(append([]string{p.dir}, elements...)...)
}

// memberPaths are the files of one member.
type memberPaths struct{ dir, conf, data, log, output string }

func (p *Platform) member(name string) memberPaths {
	dir := p.path(membersDir, name)
	return memberPaths{
		dir:    dir,
		conf:   filepath.Join(dir, "mongod.conf"),
		data:   filepath.Join(dir, "data"),
		log:    filepath.Join(dir, "log", "mongod.log"),
		output: filepath.Join(dir, "log", "output.log"), // what it prints before and beside its log
	}
}

// Inventory reads what Up has stored. The error is ErrNoEnvironment if
// nothing is.
func (p *Platform) Inventory() (*environment.Inventory, error) {
	inv, err := readInventory(p.path(inventoryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (no %s)", ErrNoEnvironment, p.path(inventoryFile))
	}
	return inv, err
}

// Password reads the password that goes with the inventory's Username.
func (p *Platform) Password() (secret.Text, error) { return secret.Read(p.path(passwordFile)) }

// connect prepares a direct client to one member. Arbiters hold no users:
// without authentication they answer what is asked of them here.
func connect(ctx context.Context, m environment.MemberState, user string, password secret.Text) (*mongodb.Client, error) {
	o := mongodb.Options{URI: "mongodb://" + m.Address() + "/", AppName: "sandbox", Direct: true}
	if m.Role != environment.Arbiter {
		o.Username, o.Password = user, password
	}
	return mongodb.Connect(ctx, o)
}

// disconnect closes a client even when ctx has ended.
func disconnect(ctx context.Context, c *mongodb.Client) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = c.Close(ctx) // the connections die with the process at the latest
}

// exists reports whether there is something at path.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
