package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

const (
	mechanism = "SCRAM-SHA-256"
	// userIterations is MongoDB's default scramSHA256IterationCount.
	userIterations = 15000
	saltSize       = 28
)

// role is a built-in role on a database.
type role struct {
	Role string `json:"role"`
	DB   string `json:"db"`
}

// user is a user with what SCRAM needs to know of the password, from which
// it cannot be had back.
type user struct {
	DB         string `json:"db"`
	Name       string `json:"name"`
	Roles      []role `json:"roles"`
	Salt       []byte `json:"salt"`
	Iterations int    `json:"iterations"`
	StoredKey  []byte `json:"stored_key"`
	ServerKey  []byte `json:"server_key"`
}

// usersVersion orders the states of the users: the primary's term, then a
// number that grows with every change.
type usersVersion struct {
	Term int64 `json:"term" bson:"term"`
	N    int64 `json:"n" bson:"n"`
}

func (v usersVersion) less(w usersVersion) bool {
	return v.Term < w.Term || v.Term == w.Term && v.N < w.N
}

// newUser derives the keys of a password.
func newUser(db, name string, password secret.Text, roles []role) (user, error) {
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	client, err := scram.SHA256.NewClient(name, password.Reveal(), "")
	if err != nil {
		return user{}, badValue("password of %s cannot be prepared", name)
	}
	keys, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: userIterations})
	if err != nil {
		return user{}, badValue("password of %s cannot be prepared", name)
	}
	return user{DB: db, Name: name, Roles: roles, Salt: salt, Iterations: userIterations,
		StoredKey: keys.StoredKey, ServerKey: keys.ServerKey}, nil
}

func (u *user) credentials() scram.StoredCredentials {
	return scram.StoredCredentials{
		KeyFactors: scram.KeyFactors{Salt: string(u.Salt), Iters: u.Iterations},
		StoredKey:  u.StoredKey,
		ServerKey:  u.ServerKey,
	}
}

// users are the users that this member knows.
type users struct {
	store      *store
	generation atomic.Int64 // grows with every change
	mu         sync.RWMutex
	all        []user // never changed in place
	version    usersVersion
}

func newUsers(s *store) *users {
	now := s.load()
	return &users{store: s, all: now.Users, version: now.UsersVersion}
}

func (u *users) list() ([]user, usersVersion) {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.all, u.version
}

func (u *users) find(db, name string) *user {
	all, _ := u.list()
	for i := range all {
		if all[i].DB == db && all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func (u *users) exists(db, name string) bool { return u.find(db, name) != nil }

func (u *users) empty() bool {
	all, _ := u.list()
	return len(all) == 0
}

// replace stores a newer state of the users and ignores an older one.
func (u *users) replace(all []user, version usersVersion) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.version.less(version) {
		return nil
	}
	err := u.store.change(func(s *saved) { s.Users, s.UsersVersion = all, version })
	if err != nil {
		return err
	}
	u.all, u.version = all, version
	u.generation.Add(1)
	return nil
}

// changeUsers makes a new state of the users and brings it to every member
// that can be reached.
func (s *Server) changeUsers(ctx context.Context, change func([]user) []user) error {
	all, version := s.users.list()
	next := usersVersion{Term: version.Term, N: version.N + 1}
	if s.repl != nil {
		next.Term = s.repl.currentTerm()
	}
	if err := s.users.replace(change(slices.Clone(all)), next); err != nil {
		return err
	}
	if s.repl != nil {
		s.repl.pushUsers(ctx)
	}
	return nil
}

func (s *Server) createUser(ctx context.Context, c *conn, q *request) (bson.D, error) {
	name, ok := q.first.text()
	if !ok || name == "" {
		return nil, badValue("createUser needs the user's name")
	}
	if err := q.only("pwd", "roles", "mechanisms", "digestPassword"); err != nil {
		return nil, err
	}
	pwd, ok := find(q.Body, "pwd")
	if !ok {
		return nil, badValue("Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db")
	}
	password, ok := pwd.text()
	if !ok {
		return nil, typeMismatch(q.Name, "pwd", pwd.kind, "string")
	}
	if password == "" {
		return nil, failf(50687, "Location50687", "Password cannot be empty")
	}
	if e, given := find(q.Body, "mechanisms"); given {
		names, isTexts := e.texts()
		if !isTexts || len(names) == 0 {
			return nil, typeMismatch(q.Name, "mechanisms", e.kind, "array")
		}
		for _, m := range names {
			if m != mechanism {
				return nil, badValue("'%s' is not an enabled authentication mechanism", m)
			}
		}
	}
	if e, given := find(q.Body, "digestPassword"); given {
		if on, isBool := e.truth(); !isBool || !on {
			return nil, badValue("Use of SCRAM-SHA-256 requires undigested passwords: digestPassword must be true")
		}
	}
	e, ok := find(q.Body, "roles")
	if !ok {
		return nil, failf(40414, "IDLFailedToParse", "BSON field 'createUser.roles' is missing but a required field")
	}
	roles, err := parseRoles(e, q.Database)
	if err != nil {
		return nil, err
	}
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	if err := s.acceptsWrites(); err != nil {
		return nil, err
	}
	// Again, now that nobody else can make the first user.
	if c.login.user == nil && s.cfg.Authorization && !c.internal && !s.users.empty() {
		return nil, unauthorized(q)
	}
	if s.users.exists(q.Database, name) {
		return nil, failf(51003, "Location51003", "User \"%s@%s\" already exists", name, q.Database)
	}
	u, err := newUser(q.Database, name, secret.New(password), roles)
	if err != nil {
		return nil, err
	}
	if err := s.changeUsers(ctx, func(all []user) []user { return append(all, u) }); err != nil {
		return nil, err
	}
	s.log.Info("user created", "user", name, "db", q.Database)
	return bson.D{}, nil
}

func (s *Server) dropUser(ctx context.Context, _ *conn, q *request) (bson.D, error) {
	name, ok := q.first.text()
	if !ok {
		return nil, typeMismatch(q.Name, q.Name, q.first.kind, "string")
	}
	if err := q.only(); err != nil {
		return nil, err
	}
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	if err := s.acceptsWrites(); err != nil {
		return nil, err
	}
	if !s.users.exists(q.Database, name) {
		return nil, failf(11, "UserNotFound", "User '%s@%s' not found", name, q.Database)
	}
	err := s.changeUsers(ctx, func(all []user) []user {
		return slices.DeleteFunc(all, func(u user) bool { return u.DB == q.Database && u.Name == name })
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("user dropped", "user", name, "db", q.Database)
	return bson.D{}, nil
}

// usersInfo answers {usersInfo: 1}, a name, {user, db}, an array of those, or
// {forAllDBs: true}.
func (s *Server) usersInfo(_ context.Context, _ *conn, q *request) (bson.D, error) {
	if err := q.only("showCredentials", "showCustomData", "showPrivileges", "showAuthenticationRestrictions"); err != nil {
		return nil, err
	}
	match, err := userMatcher(q.first, q.Database)
	if err != nil {
		return nil, err
	}
	found := bson.A{}
	all, _ := s.users.list()
	for _, u := range all {
		if !match(&u) {
			continue
		}
		found = append(found, bson.D{
			{Key: "_id", Value: u.DB + "." + u.Name}, {Key: "user", Value: u.Name}, {Key: "db", Value: u.DB},
			{Key: "roles", Value: roleDocs(u.Roles)}, {Key: "mechanisms", Value: bson.A{mechanism}},
		})
	}
	return bson.D{{Key: "users", Value: found}}, nil
}

func userMatcher(e element, db string) (func(*user) bool, error) {
	if name, ok := e.text(); ok {
		return func(u *user) bool { return u.DB == db && u.Name == name }, nil
	}
	if n, ok := e.number(); ok && n == 1 {
		return func(u *user) bool { return u.DB == db }, nil
	}
	if doc, ok := e.document(); ok {
		if all, given := find(doc, "forAllDBs"); given {
			if on, isBool := all.truth(); isBool && on {
				return func(*user) bool { return true }, nil
			}
		}
		nameField, hasName := find(doc, "user")
		dbField, hasDB := find(doc, "db")
		name, isName := nameField.text()
		where, isDB := dbField.text()
		if hasName && hasDB && isName && isDB {
			return func(u *user) bool { return u.DB == where && u.Name == name }, nil
		}
	}
	if list, ok := e.array(); ok {
		var matchers []func(*user) bool
		for f := fieldsOf(list); ; {
			item, more := f.next()
			if !more {
				break
			}
			if item.kind == bson.TypeArray {
				return nil, badValue("usersInfo: an array in an array")
			}
			match, err := userMatcher(item, db)
			if err != nil {
				return nil, err
			}
			matchers = append(matchers, match)
		}
		return func(u *user) bool {
			return slices.ContainsFunc(matchers, func(match func(*user) bool) bool { return match(u) })
		}, nil
	}
	return nil, badValue("usersInfo takes 1, a user's name, {user, db}, an array of those, or {forAllDBs: true}")
}

func roleDocs(roles []role) bson.A {
	docs := bson.A{}
	for _, r := range roles {
		docs = append(docs, bson.D{{Key: "role", Value: r.Role}, {Key: "db", Value: r.DB}})
	}
	return docs
}

// parseRoles reads an array of role names and {role, db}.
func parseRoles(e element, db string) ([]role, error) {
	list, ok := e.array()
	if !ok {
		return nil, typeMismatch("createUser", "roles", e.kind, "array")
	}
	roles := []role{}
	for f := fieldsOf(list); ; {
		item, more := f.next()
		if !more {
			return roles, nil
		}
		r := role{DB: db}
		if name, isText := item.text(); isText {
			r.Role = name
		} else {
			doc, isDoc := item.document()
			if !isDoc {
				return nil, badValue("Role names must be either strings or objects")
			}
			for g := fieldsOf(doc); ; {
				e, more := g.next()
				if !more {
					break
				}
				value, isText := e.text()
				switch {
				case string(e.key) == "role" && isText:
					r.Role = value
				case string(e.key) == "db" && isText:
					r.DB = value
				default:
					return nil, badValue("a role is {role: <name>, db: <name>}")
				}
			}
		}
		rights, known := builtinRoles[r.Role]
		if !known || rights.adminOnly && r.DB != "admin" {
			return nil, failf(31, "RoleNotFound", "Could not find role: %s@%s", r.Role, r.DB)
		}
		roles = append(roles, r)
	}
}

// privilege is a class of commands.
type privilege uint8

const (
	privAny     privilege = iota // any user
	privRead                     // of a database's data
	privWrite                    // and changes to collections and indexes
	privDBAdmin                  // dropping a database
	privUsers                    // users of a database
	privMonitor                  // the server's state
	privCluster                  // the server itself
	privMember                   // other members of the replica set only
)

// rights are what a built-in role allows, after the manual's Built-In Roles.
type rights struct {
	privileges []privilege
	everywhere bool // on every database, not the role's own only
	adminOnly  bool // exists in the database admin only
}

var builtinRoles = map[string]rights{
	"read":                 {privileges: []privilege{privRead}},
	"readWrite":            {privileges: []privilege{privRead, privWrite}},
	"dbAdmin":              {privileges: []privilege{privDBAdmin}},
	"userAdmin":            {privileges: []privilege{privUsers}},
	"dbOwner":              {privileges: []privilege{privRead, privWrite, privDBAdmin, privUsers}},
	"readAnyDatabase":      {privileges: []privilege{privRead}, everywhere: true, adminOnly: true},
	"readWriteAnyDatabase": {privileges: []privilege{privRead, privWrite}, everywhere: true, adminOnly: true},
	"dbAdminAnyDatabase":   {privileges: []privilege{privDBAdmin}, everywhere: true, adminOnly: true},
	"userAdminAnyDatabase": {privileges: []privilege{privUsers}, everywhere: true, adminOnly: true},
	"clusterMonitor":       {privileges: []privilege{privMonitor}, everywhere: true, adminOnly: true},
	"clusterManager":       {privileges: []privilege{privMonitor, privCluster}, everywhere: true, adminOnly: true},
	"hostManager":          {privileges: []privilege{privMonitor, privCluster}, everywhere: true, adminOnly: true},
	"clusterAdmin":         {privileges: []privilege{privMonitor, privCluster, privDBAdmin}, everywhere: true, adminOnly: true},
	"root": {privileges: []privilege{privRead, privWrite, privDBAdmin, privUsers, privMonitor, privCluster},
		everywhere: true, adminOnly: true},
}

// may reports whether the roles allow a command of class p on a database.
func may(roles []role, p privilege, db string) bool {
	if p == privAny {
		return true
	}
	for _, r := range roles {
		rights := builtinRoles[r.Role]
		if (rights.everywhere || r.DB == db) && slices.Contains(rights.privileges, p) {
			return true
		}
	}
	return false
}

// memberKeys are both sides of the authentication between members: SCRAM as
// the user __system with the keyfile's content.
type memberKeys struct {
	client *scram.Client // remembers derived keys
	stored scram.StoredCredentials
}

const memberUser = "__system"

func newMemberKeys(key secret.Text) (*memberKeys, error) {
	client, err := scram.SHA256.NewClientUnprepped(memberUser, key.Reveal(), "")
	if err != nil {
		return nil, errors.New("prepare keyfile: its content cannot be used")
	}
	salt := make([]byte, saltSize)
	_, _ = rand.Read(salt) // never fails
	// The keyfile is random: many rounds would add nothing but start-up time.
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: string(salt), Iters: 4096})
	if err != nil {
		return nil, fmt.Errorf("prepare keyfile: %w", err)
	}
	return &memberKeys{client: client, stored: stored}, nil
}
