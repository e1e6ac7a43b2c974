package mongodb

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/mongo-sandbox/sandbox/internal/secret"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// Server error codes that have a meaning here (src/mongo/base/error_codes.yml).
const (
	codeUnauthorized         = 13
	codeAuthenticationFailed = 18
	codeAlreadyInitialized   = 23
	codeCommandNotFound      = 59
	codeNoReplicationEnabled = 76
	codeNotYetInitialized    = 94
	codeUserExists           = 51003
)

// run sends a command to "admin" and decodes the reply into out, if given.
// The read preference is nearest: administrative questions are for whoever
// answers, and a direct connection has one member only.
func (c *Client) run(ctx context.Context, command bson.D, out any) error {
	return c.runOn(ctx, readpref.Nearest(), "admin", command, out)
}

func (c *Client) runOn(ctx context.Context, where *readpref.ReadPref, database string, command bson.D, out any) error {
	result := c.driver.Database(database).RunCommand(ctx, command, options.RunCmd().SetReadPreference(where))
	err := result.Err()
	if err == nil && out != nil {
		err = result.Decode(out)
	}
	if err != nil {
		return fmt.Errorf("%s on %s: %w", command[0].Key, c.subject, c.scrub.error(err))
	}
	return nil
}

// hasCode reports whether the server answered with one of the codes.
func hasCode(err error, codes ...int) bool {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return false
	}
	for _, code := range codes {
		if server.HasErrorCode(code) {
			return true
		}
	}
	return false
}

// IsAuthenticationFailure reports whether err means that user or password
// are wrong, or that the user does not exist yet.
func IsAuthenticationFailure(err error) bool {
	return hasCode(err, codeAuthenticationFailed)
}

// IsUnauthorized reports whether err means that the connection may not do
// what it asked for.
func IsUnauthorized(err error) bool { return hasCode(err, codeUnauthorized) }

// Ping asks any member for a sign of life, authenticated if the client is.
func (c *Client) Ping(ctx context.Context) error {
	return c.run(ctx, bson.D{{Key: "ping", Value: 1}}, nil)
}

// Hello is what a member says of its place in the topology.
type Hello struct {
	SetName           string   `bson:"setName"`
	Primary           string   `bson:"primary"`
	Hosts             []string `bson:"hosts"`
	Arbiters          []string `bson:"arbiters"`
	IsWritablePrimary bool     `bson:"isWritablePrimary"`
	Secondary         bool     `bson:"secondary"`
	ArbiterOnly       bool     `bson:"arbiterOnly"`
	Message           string   `bson:"msg"` // "isdbgrid" from a mongos
}

// State is the member's state as far as hello tells it: PRIMARY, SECONDARY,
// ARBITER, MONGOS, STANDALONE, or OTHER while it is becoming one of them.
func (h Hello) State() string {
	switch {
	case h.Message == "isdbgrid":
		return "MONGOS"
	case h.ArbiterOnly:
		return "ARBITER"
	case h.Secondary:
		return "SECONDARY"
	case h.IsWritablePrimary && h.SetName != "":
		return "PRIMARY"
	case h.IsWritablePrimary:
		return "STANDALONE"
	default:
		return "OTHER"
	}
}

// Hello asks a member, which needs no authentication.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	var hello Hello
	err := c.run(ctx, bson.D{{Key: "hello", Value: 1}}, &hello)
	return hello, err
}

// BuildInfo is what a server says of its build.
type BuildInfo struct {
	Version    string   `bson:"version"`
	GitVersion string   `bson:"gitVersion"`
	Modules    []string `bson:"modules"`
	Allocator  string   `bson:"allocator"`
	// Embedded marks the stand-in engine; no MongoDB build says so.
	Embedded bool `bson:"sandboxEmbedded"`
}

// BuildInfo asks a member. Servers since 8.1 want authentication for it.
func (c *Client) BuildInfo(ctx context.Context) (BuildInfo, error) {
	var info BuildInfo
	err := c.run(ctx, bson.D{{Key: "buildInfo", Value: 1}}, &info)
	return info, err
}

// ReplicaSet is a replica set to be initiated.
type ReplicaSet struct {
	Name    string
	Members []ReplicaSetMember
}

// ReplicaSetMember is one of its members.
type ReplicaSetMember struct {
	Host    string // host:port as the others reach it
	Arbiter bool
}

// Initiate sends replSetInitiate through a direct connection to a
// data-bearing member. A set that exists already is left as it is.
func (c *Client) Initiate(ctx context.Context, set ReplicaSet) error {
	members := make(bson.A, len(set.Members))
	for i, m := range set.Members {
		member := bson.D{{Key: "_id", Value: i}, {Key: "host", Value: m.Host}}
		if m.Arbiter {
			member = append(member, bson.E{Key: "arbiterOnly", Value: true}, bson.E{Key: "priority", Value: 0})
		}
		members[i] = member
	}
	err := c.run(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{
		{Key: "_id", Value: set.Name}, {Key: "members", Value: members},
	}}}, nil)
	if hasCode(err, codeAlreadyInitialized) {
		return nil
	}
	return err
}

// CreateAdmin creates a user with the role root in "admin", through the
// localhost exception on the primary or as an authenticated user. A user of
// that name that exists already is left as it is.
func (c *Client) CreateAdmin(ctx context.Context, user string, password secret.Text) error {
	err := c.runOn(ctx, readpref.Primary(), "admin", bson.D{
		{Key: "createUser", Value: user},
		{Key: "pwd", Value: password.Reveal()},
		{Key: "roles", Value: bson.A{"root"}},
	}, nil)
	if hasCode(err, codeUserExists) {
		return nil
	}
	return newScrubber(password).error(err)
}

// User is a user of the database "admin".
type User struct {
	Name     string
	Password secret.Text
	Roles    []Role
}

// Role is a built-in role on a database.
type Role struct {
	Name     string
	Database string
}

// SetUser creates a user, or gives the one that exists this password and
// these roles. It wants an authenticated connection that may do so.
func (c *Client) SetUser(ctx context.Context, user User) error {
	roles := make(bson.A, len(user.Roles))
	for i, role := range user.Roles {
		roles[i] = bson.D{{Key: "role", Value: role.Name}, {Key: "db", Value: role.Database}}
	}
	set := func(command string) error {
		return c.runOn(ctx, readpref.Primary(), "admin", bson.D{
			{Key: command, Value: user.Name},
			{Key: "pwd", Value: user.Password.Reveal()},
			{Key: "roles", Value: roles},
		}, nil)
	}
	err := set("createUser")
	if hasCode(err, codeUserExists) {
		err = set("updateUser")
	}
	return newScrubber(user.Password).error(err)
}

// FeatureCompatibility asks a member for its feature compatibility version,
// X.Y.
func (c *Client) FeatureCompatibility(ctx context.Context) (string, error) {
	var reply struct {
		FCV struct {
			Version string `bson:"version"`
		} `bson:"featureCompatibilityVersion"`
	}
	err := c.run(ctx, bson.D{{Key: "getParameter", Value: 1}, {Key: "featureCompatibilityVersion", Value: 1}}, &reply)
	return reply.FCV.Version, err
}

// CreateIndexes creates the collection with its indexes, in their order.
func (c *Client) CreateIndexes(ctx context.Context, collection workload.Collection) error {
	indexes := make(bson.A, len(collection.Indexes))
	for i, index := range collection.Indexes {
		indexes[i] = bson.D{{Key: "key", Value: index.Keys}, {Key: "name", Value: index.Name}}
	}
	command := bson.D{{Key: "createIndexes", Value: collection.Name}, {Key: "indexes", Value: indexes}}
	if len(indexes) == 0 {
		command = bson.D{{Key: "create", Value: collection.Name}}
	}
	if err := c.runOn(ctx, readpref.Primary(), collection.Database, command, nil); err != nil {
		return fmt.Errorf("collection %s.%s: %w", collection.Database, collection.Name, err)
	}
	return nil
}

// Explain returns the server's plan of a command with executionStats; writes
// are planned but not applied. Inserts have no plan.
func (c *Client) Explain(ctx context.Context, command *workload.Command) (bson.Raw, error) {
	explained, err := explainable(command)
	if err != nil {
		return nil, err
	}
	where := readpref.Primary()
	if command.Type == workload.Find || command.Type == workload.Aggregate {
		where = c.reads
	}
	var reply bson.Raw
	err = c.runOn(ctx, where, command.Database, bson.D{
		{Key: "explain", Value: explained},
		{Key: "verbosity", Value: "executionStats"},
	}, &reply)
	if err != nil {
		return nil, fmt.Errorf("%s of %s.%s: %w", command.Type, command.Database, command.Collection, err)
	}
	return reply, nil
}

// explainable is the command document that explain wraps.
func explainable(c *workload.Command) (bson.D, error) {
	switch c.Type {
	case workload.Find:
		find := bson.D{{Key: "find", Value: c.Collection}, {Key: "filter", Value: c.Filter}}
		if len(c.Projection) > 0 {
			find = append(find, bson.E{Key: "projection", Value: c.Projection})
		}
		if c.Limit > 0 {
			find = append(find, bson.E{Key: "limit", Value: c.Limit})
		}
		if c.BatchSize > 0 {
			find = append(find, bson.E{Key: "batchSize", Value: c.BatchSize})
		}
		return find, nil
	case workload.Aggregate:
		return bson.D{
			{Key: "aggregate", Value: c.Collection},
			{Key: "pipeline", Value: bson.RawValue{Type: bson.TypeArray, Value: c.Pipeline}},
			{Key: "cursor", Value: bson.D{}},
		}, nil
	case workload.UpdateOne, workload.UpdateMany:
		return bson.D{{Key: "update", Value: c.Collection}, {Key: "updates", Value: bson.A{bson.D{
			{Key: "q", Value: c.Filter}, {Key: "u", Value: c.Update}, {Key: "multi", Value: c.Type == workload.UpdateMany},
		}}}}, nil
	case workload.DeleteOne, workload.DeleteMany:
		limit := 0 // no limit
		if c.Type == workload.DeleteOne {
			limit = 1
		}
		return bson.D{{Key: "delete", Value: c.Collection}, {Key: "deletes", Value: bson.A{bson.D{
			{Key: "q", Value: c.Filter}, {Key: "limit", Value: limit},
		}}}}, nil
	default:
		return nil, fmt.Errorf("explain %s: the server has no plan for it", c.Shape)
	}
}
