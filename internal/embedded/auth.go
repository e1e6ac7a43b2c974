package embedded

import (
	"context"
	"errors"

	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// login is who a connection is authenticated as.
type login struct {
	user       *user
	generation int64 // of the users when user was looked up
}

// saslState is an authentication that is under way.
type saslState struct {
	conversation *scram.ServerConversation
	id           int32
	db           string
	skipEmpty    bool // done is true with the server's last message
	verified     bool
}

func unauthorized(q *request) *engine.Error {
	return failf(codeUnauthorized, "Unauthorized", "Command %s requires authentication", q.Name)
}

// authorize decides whether the connection may run the command.
func (s *Server) authorize(c *conn, q *request) error {
	cmd := q.cmd
	if cmd.open || c.internal {
		return nil
	}
	if !s.cfg.Authorization {
		return nil
	}
	if c.login.user == nil {
		if s.localhostException(c, q) {
			return nil
		}
		return unauthorized(q)
	}
	if generation := s.users.generation.Load(); generation != c.login.generation {
		u := s.users.find(c.login.user.DB, c.login.user.Name)
		c.login = login{u, generation}
		if u == nil {
			return unauthorized(q)
		}
	}
	if !may(c.login.user.Roles, cmd.privilege, q.Database) {
		return failf(codeUnauthorized, "Unauthorized", "not authorized on %s to execute command %s", q.Database, q.Name)
	}
	return nil
}

// localhostException lets a client on this machine set up a server that has
// no user yet: the replica set and the first user.
func (s *Server) localhostException(c *conn, q *request) bool {
	if !c.loopback || !s.users.empty() || q.Database != "admin" {
		return false
	}
	switch q.Name {
	case "createUser", "replSetInitiate", "replSetGetStatus", "replSetGetConfig":
		return true
	}
	return false
}

func authenticationFailed() *engine.Error {
	return failf(codeAuthenticationFailed, "AuthenticationFailed", "Authentication failed.")
}

func (s *Server) saslStart(_ context.Context, c *conn, q *request) (bson.D, error) {
	return s.startSASL(c, q.Body, q.Database, false)
}

// startSASL begins an authentication: saslStart's document, on its own or as
// hello's speculativeAuthenticate.
func (s *Server) startSASL(c *conn, body []byte, db string, speculative bool) (bson.D, error) {
	c.sasl = saslState{}
	name, _ := find(body, "mechanism")
	if got, ok := name.text(); !ok || got != mechanism {
		return nil, failf(334, "MechanismUnavailable", "Received authentication for mechanism %s which is not enabled", got)
	}
	if e, ok := find(body, "db"); ok && speculative {
		db, _ = e.text()
	}
	state := saslState{id: 1, db: db}
	if e, ok := find(body, "options"); ok {
		if doc, isDoc := e.document(); isDoc {
			if skip, given := find(doc, "skipEmptyExchange"); given {
				state.skipEmpty, _ = skip.truth()
			}
		}
	}
	server, err := scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		return s.credentials(db, name)
	})
	if err != nil {
		return nil, err
	}
	state.conversation = server.NewConversation()
	c.sasl = state
	return s.stepSASL(c, body)
}

var errNoSuchUser = errors.New("no such user")

func (s *Server) credentials(db, name string) (scram.StoredCredentials, error) {
	if name == memberUser && db == "local" && s.keys != nil {
		return s.keys.stored, nil
	}
	u := s.users.find(db, name)
	if u == nil {
		return scram.StoredCredentials{}, errNoSuchUser
	}
	return u.credentials(), nil
}

func (s *Server) saslContinue(_ context.Context, c *conn, q *request) (bson.D, error) {
	id, _ := find(q.Body, "conversationId")
	n, ok := id.number()
	if c.sasl.conversation == nil || !ok || int32(n) != c.sasl.id {
		return nil, failf(17, "ProtocolError", "No SASL session state found")
	}
	return s.stepSASL(c, q.Body)
}

// stepSASL takes the client's next message.
func (s *Server) stepSASL(c *conn, body []byte) (bson.D, error) {
	e, _ := find(body, "payload")
	_, payload, ok := e.binary()
	if !ok {
		c.sasl = saslState{}
		return nil, typeMismatch("sasl", "payload", e.kind, "binData")
	}
	var answer string
	done := false
	if c.sasl.verified { // the empty exchange at the end
		if len(payload) != 0 {
			return nil, s.loginFailed(c, errors.New("unexpected payload"))
		}
		done = true
	} else {
		var err error
		answer, err = c.sasl.conversation.Step(string(payload))
		if err != nil {
			return nil, s.loginFailed(c, err)
		}
		if c.sasl.conversation.Done() {
			if !c.sasl.conversation.Valid() {
				return nil, s.loginFailed(c, errors.New("wrong password"))
			}
			c.sasl.verified = true
			done = c.sasl.skipEmpty
		}
	}
	id := c.sasl.id
	if done {
		if err := s.loggedIn(c); err != nil {
			return nil, err
		}
	}
	return bson.D{
		{Key: "conversationId", Value: id}, {Key: "done", Value: done},
		{Key: "payload", Value: bson.Binary{Data: []byte(answer)}},
	}, nil
}

func (s *Server) loggedIn(c *conn) error {
	name, db := c.sasl.conversation.Username(), c.sasl.db
	c.sasl = saslState{}
	if name == memberUser && db == "local" {
		c.internal = true
		return nil
	}
	generation := s.users.generation.Load()
	u := s.users.find(db, name)
	if u == nil {
		return authenticationFailed()
	}
	c.login = login{u, generation}
	return nil
}

func (s *Server) loginFailed(c *conn, cause error) error {
	name, db := c.sasl.conversation.Username(), c.sasl.db
	c.sasl = saslState{}
	s.counters.failedLogins.Add(1)
	s.log.Warn("authentication failed", "user", name, "db", db, "client", c.nc.RemoteAddr().String(), "cause", cause.Error())
	return authenticationFailed()
}

func (s *Server) logout(_ context.Context, c *conn, q *request) (bson.D, error) {
	if err := q.only(); err != nil {
		return nil, err
	}
	c.login, c.sasl = login{}, saslState{}
	return bson.D{}, nil
}

func (s *Server) connectionStatus(_ context.Context, c *conn, q *request) (bson.D, error) {
	if err := q.only("showPrivileges"); err != nil {
		return nil, err
	}
	names, roles := bson.A{}, bson.A{}
	if c.internal {
		names = append(names, bson.D{{Key: "user", Value: memberUser}, {Key: "db", Value: "local"}})
	} else if u := c.login.user; u != nil {
		names = append(names, bson.D{{Key: "user", Value: u.Name}, {Key: "db", Value: u.DB}})
		roles = roleDocs(u.Roles)
	}
	return bson.D{{Key: "authInfo", Value: bson.D{
		{Key: "authenticatedUsers", Value: names}, {Key: "authenticatedUserRoles", Value: roles},
	}}}, nil
}
