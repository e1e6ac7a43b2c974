package embedded

import (
	"net"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/embedded/engine"
)

// Limits of replica sets (manual, "Replica Set Members").
const (
	maxMembers = 50
	maxVoters  = 7
)

// replConfig is a replica set's configuration.
type replConfig struct {
	Name            string         `json:"name"`
	ID              bson.ObjectID  `json:"id"` // settings.replicaSetId
	Version         int64          `json:"version"`
	Members         []memberConfig `json:"members"`
	ElectionTimeout int64          `json:"election_timeout_ms"`
}

type memberConfig struct {
	ID       int32    `json:"id"`
	Host     string   `json:"host"`
	Arbiter  bool     `json:"arbiter,omitempty"`
	Hidden   bool     `json:"hidden,omitempty"`
	Priority float64  `json:"priority"`
	Votes    int      `json:"votes"`
	Tags     []string `json:"tags,omitempty"` // name, value, name, value
}

// majority is how many votes elect a primary.
func (c *replConfig) majority() int {
	votes := 0
	for _, m := range c.Members {
		votes += m.Votes
	}
	return votes/2 + 1
}

func (c *replConfig) voters() (n int) {
	for _, m := range c.Members {
		n += m.Votes
	}
	return n
}

func (c *replConfig) dataMembers() (n int) {
	for _, m := range c.Members {
		if !m.Arbiter {
			n++
		}
	}
	return n
}

func (c *replConfig) electionTimeout() time.Duration {
	return time.Duration(c.ElectionTimeout) * time.Millisecond
}

func invalidConfig(format string, args ...any) *engine.Error {
	return failf(93, "InvalidReplicaSetConfig", format, args...)
}

// parseConfig reads replSetInitiate's document.
func parseConfig(doc bson.Raw) (*replConfig, error) {
	c := &replConfig{Version: 1, ElectionTimeout: 10_000, ID: bson.NewObjectID()}
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			break
		}
		ok := true
		switch string(e.key) {
		case "_id":
			c.Name, ok = e.text()
		case "version":
			c.Version, ok = e.number()
		case "term", "protocolVersion":
			_, ok = e.number()
		case "configsvr":
			if on, _ := e.truth(); on {
				return nil, invalidConfig("config servers are not supported by the sandbox embedded server")
			}
		case "writeConcernMajorityJournalDefault":
			_, ok = e.truth()
		case "members":
			var list bson.Raw
			if list, ok = e.array(); ok {
				for g := fieldsOf(list); ; {
					item, more := g.next()
					if !more {
						break
					}
					m, err := parseMember(item)
					if err != nil {
						return nil, err
					}
					c.Members = append(c.Members, m)
				}
			}
		case "settings":
			var settings bson.Raw
			if settings, ok = e.document(); ok {
				if err := c.parseSettings(settings); err != nil {
					return nil, err
				}
			}
		default:
			return nil, unknownField("ReplSetConfig", string(e.key))
		}
		if !ok {
			return nil, typeMismatch("ReplSetConfig", string(e.key), e.kind, "another type")
		}
	}
	return c, c.check()
}

func (c *replConfig) parseSettings(doc bson.Raw) error {
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			return nil
		}
		switch string(e.key) {
		case "electionTimeoutMillis":
			n, ok := e.number()
			if !ok || n <= 0 || n > int64(time.Hour/time.Millisecond) {
				return invalidConfig("settings.electionTimeoutMillis must be a positive number")
			}
			c.ElectionTimeout = n
		case "chainingAllowed", "heartbeatIntervalMillis", "heartbeatTimeoutSecs", "catchUpTimeoutMillis",
			"catchUpTakeoverDelayMillis", "getLastErrorModes", "getLastErrorDefaults", "replicaSetId":
			// Nothing here depends on them: no member copies from another.
		default:
			return unknownField("ReplSetConfig.settings", string(e.key))
		}
	}
}

func parseMember(item element) (m memberConfig, err error) {
	doc, ok := item.document()
	if !ok {
		return m, invalidConfig("members must be objects")
	}
	m.Priority, m.Votes, m.ID = 1, 1, -1
	prioritySet := false
	for f := fieldsOf(doc); ; {
		e, more := f.next()
		if !more {
			break
		}
		ok := true
		var n int64
		switch string(e.key) {
		case "_id":
			if n, ok = e.number(); ok {
				m.ID = int32(n)
			}
		case "host":
			m.Host, ok = e.text()
		case "arbiterOnly":
			m.Arbiter, ok = e.truth()
		case "hidden":
			m.Hidden, ok = e.truth()
		case "priority":
			prioritySet = true
			if e.kind == bson.TypeDouble {
				m.Priority = bson.RawValue{Type: e.kind, Value: e.value}.Double()
			} else if n, ok = e.number(); ok {
				m.Priority = float64(n)
			}
		case "votes":
			if n, ok = e.number(); ok {
				m.Votes = int(n)
			}
		case "buildIndexes":
			if on, isBool := e.truth(); !isBool || !on {
				return m, invalidConfig("buildIndexes: false is not supported by the sandbox embedded server")
			}
		case "secondaryDelaySecs":
			if n, ok = e.number(); ok && n != 0 {
				return m, invalidConfig("secondaryDelaySecs is not supported by the sandbox embedded server")
			}
		case "tags":
			var tags bson.Raw
			if tags, ok = e.document(); ok {
				for g := fieldsOf(tags); ; {
					tag, more := g.next()
					if !more {
						break
					}
					value, isText := tag.text()
					ok = ok && isText
					m.Tags = append(m.Tags, string(tag.key), value)
				}
			}
		default:
			return m, unknownField("MemberConfig", string(e.key))
		}
		if !ok {
			return m, typeMismatch("MemberConfig", string(e.key), e.kind, "another type")
		}
	}
	if m.Arbiter {
		if prioritySet && m.Priority > 1 {
			return m, invalidConfig("priority must be 0 when arbiterOnly is true")
		}
		m.Priority = 0
	}
	if !strings.Contains(m.Host, ":") {
		m.Host += ":27017"
	}
	return m, nil
}

// check follows the server's own validation of a configuration.
func (c *replConfig) check() error {
	if c.Name == "" {
		return invalidConfig("Replica set configuration must have a non-empty _id")
	}
	if c.Version < 1 {
		return invalidConfig("version field value of %d is out of range", c.Version)
	}
	if n := len(c.Members); n < 1 || n > maxMembers {
		return invalidConfig("Replica set configuration contains %d members, but must have at least 1 and no more than %d", n, maxMembers)
	}
	voters, electable := 0, 0
	for i, m := range c.Members {
		host, port, err := net.SplitHostPort(m.Host)
		if n, perr := strconv.Atoi(port); err != nil || host == "" || perr != nil || n < 1 || n > 65535 {
			return invalidConfig("'%s' is not a host and port", m.Host)
		}
		switch {
		case m.ID < 0 || m.ID > 255:
			return invalidConfig("_id field value of %d is out of range", m.ID)
		case m.Votes < 0 || m.Votes > 1:
			return invalidConfig("votes field value is %d but must be 0 or 1", m.Votes)
		case m.Priority < 0 || m.Priority > 1000:
			return invalidConfig("priority field value of %g is out of range", m.Priority)
		case m.Votes == 0 && m.Priority > 0:
			return invalidConfig("priority must be 0 when non-voting (votes:0)")
		case m.Hidden && m.Priority > 0:
			return invalidConfig("priority must be 0 when hidden=true")
		case m.Votes == 0 && m.Arbiter:
			return invalidConfig("Arbiter must vote (cannot have 0 votes)")
		}
		voters += m.Votes
		if m.Priority > 0 {
			electable++
		}
		for _, before := range c.Members[:i] {
			if before.ID == m.ID {
				return invalidConfig("Found two member configurations with same _id field, %d", m.ID)
			}
			if sameHost(before.Host, m.Host) {
				return invalidConfig("Found two member configurations with same host field, %s", m.Host)
			}
		}
	}
	if voters < 1 || voters > maxVoters {
		return invalidConfig("Replica set configuration contains %d voting members, but must be at least 1 and no more than %d", voters, maxVoters)
	}
	if electable == 0 {
		return invalidConfig("Replica set configuration must contain at least one non-arbiter member with priority > 0")
	}
	return nil
}

// document is the configuration as replSetGetConfig shows it.
func (c *replConfig) document(term int64, heartbeat time.Duration) bson.D {
	members := bson.A{}
	for _, m := range c.Members {
		members = append(members, bson.D{
			{Key: "_id", Value: m.ID}, {Key: "host", Value: m.Host}, {Key: "arbiterOnly", Value: m.Arbiter},
			{Key: "buildIndexes", Value: true}, {Key: "hidden", Value: m.Hidden}, {Key: "priority", Value: m.Priority},
			{Key: "tags", Value: m.tags()}, {Key: "secondaryDelaySecs", Value: int64(0)}, {Key: "votes", Value: int32(m.Votes)},
		})
	}
	return bson.D{
		{Key: "_id", Value: c.Name}, {Key: "version", Value: int32(c.Version)}, {Key: "term", Value: term},
		{Key: "members", Value: members}, {Key: "protocolVersion", Value: int64(1)},
		{Key: "writeConcernMajorityJournalDefault", Value: true},
		{Key: "settings", Value: bson.D{
			{Key: "chainingAllowed", Value: true},
			{Key: "heartbeatIntervalMillis", Value: int32(heartbeat.Milliseconds())},
			{Key: "electionTimeoutMillis", Value: int32(c.ElectionTimeout)},
			{Key: "getLastErrorModes", Value: bson.D{}},
			{Key: "getLastErrorDefaults", Value: bson.D{{Key: "w", Value: int32(1)}, {Key: "wtimeout", Value: int32(0)}}},
			{Key: "replicaSetId", Value: c.ID},
		}},
	}
}

func (m *memberConfig) tags() bson.D {
	d := bson.D{}
	for i := 0; i+1 < len(m.Tags); i += 2 {
		d = append(d, bson.E{Key: m.Tags[i], Value: m.Tags[i+1]})
	}
	return d
}
