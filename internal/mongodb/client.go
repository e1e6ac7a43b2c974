// Package mongodb is the database as the rest of the program sees it.
//
// In go connection options, workload commands and administrative wishes; out
// come outcomes, typed states and flat facts. It wraps the official driver
// once, so that every error says what was attempted on whom, and none ever
// carries a password. It does not decide what to run, does not measure, and
// writes no files.
package mongodb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// Options say how to reach a deployment.
type Options struct {
	// URI is a connection string without user name and password; SplitURI
	// makes one of what a user typed.
	URI string
	// Username and Password authenticate as the URI's authSource and
	// authMechanism say. An empty Username connects without authentication.
	Username string
	Password secret.Text
	AppName  string
	// Direct talks to the one member the URI names, whatever its state.
	Direct bool
	// ReadPreference is primary, primaryPreferred, secondary,
	// secondaryPreferred or nearest; empty leaves it to the URI.
	ReadPreference string
	// WriteConcern is "majority" or a number of members, 1 to 50; empty leaves
	// it to the URI, and without one there to the server's default.
	WriteConcern string
	// OpTimeout bounds every operation, retries included; 0 is no bound.
	OpTimeout time.Duration
	// MaxPoolSize bounds the connections per member; 0 is the driver's
	// default of 100.
	MaxPoolSize int
	// MinPoolSize is how many connections per member are opened beforehand
	// and kept.
	MinPoolSize int
	// Digest makes Execute digest what reads return.
	Digest bool
	// Monitor, if set, sees every command the driver sends.
	Monitor *event.CommandMonitor
	// Dialer, if set, makes the connections, and with them resolves the
	// names of servers: they may be known to another machine only.
	Dialer Dialer
}

// Dialer makes connections, as net.Dialer does.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Client is a connection pool to one deployment, or to one member of it.
type Client struct {
	driver      *mongo.Client
	collections collectionCache // see execute.go
	scrub       scrubber
	reads       *readpref.ReadPref
	digest      bool
	// subject names the deployment in errors: the URI's hosts.
	subject string
}

// Connect prepares a client. It refuses options that cannot work and looks
// up an SRV name if the URI has one, but waits for no server: Ping does.
func Connect(ctx context.Context, o Options) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if _, user, _, err := SplitURI(o.URI); err != nil {
		return nil, err
	} else if user != "" {
		return nil, errors.New("connect: the connection string must not hold credentials here")
	}
	scrub := newScrubber(o.Password)
	uri := o.URI
	if o.Username != "" {
		// The driver checks mechanism and credentials together, while it
		// reads the string: they must be in it by then.
		scheme, rest, _ := strings.Cut(o.URI, "://")
		uri = scheme + "://" + escape(o.Username)
		if !o.Password.IsEmpty() {
			uri += ":" + escape(o.Password.Reveal())
		}
		uri += "@" + rest
	}
	opts := options.Client().ApplyURI(uri)
	if o.AppName != "" {
		opts.SetAppName(o.AppName)
	}
	if o.Direct {
		opts.SetDirect(true)
		// Nothing of interest would be pushed, and a monitor that is
		// waiting for a push can hold up Close for its ten seconds.
		opts.SetServerMonitoringMode(options.ServerMonitoringModePoll)
	}
	preference, concern, err := o.parse()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if preference != nil {
		opts.SetReadPreference(preference)
	}
	if concern != nil {
		opts.SetWriteConcern(concern)
	}
	if o.OpTimeout < 0 || o.MaxPoolSize < 0 || o.MinPoolSize < 0 {
		return nil, errors.New("connect: timeout and pool sizes must not be negative")
	}
	if o.OpTimeout > 0 {
		opts.SetTimeout(o.OpTimeout)
	}
	if o.MaxPoolSize > 0 {
		opts.SetMaxPoolSize(uint64(o.MaxPoolSize))
	}
	if o.MinPoolSize > 0 {
		opts.SetMinPoolSize(uint64(o.MinPoolSize))
	}
	if o.Monitor != nil {
		opts.SetMonitor(o.Monitor)
	}
	if o.Dialer != nil {
		opts.SetDialer(o.Dialer)
	}
	driver, err := mongo.Connect(opts)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", scrub.error(err))
	}
	reads := opts.ReadPreference
	if reads == nil {
		reads = readpref.Primary()
	}
	return &Client{driver: driver, scrub: scrub, reads: reads, digest: o.Digest, subject: hosts(o.URI)}, nil
}

// Close ends the client's connections and sessions.
func (c *Client) Close(ctx context.Context) error {
	if err := c.driver.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
		return fmt.Errorf("disconnect from %s: %w", c.subject, c.scrub.error(err))
	}
	return nil
}

// Driver is the driver's own client, for what this package has no word for.
func (c *Client) Driver() *mongo.Client { return c.driver }

// Check says whether the read preference and the write concern can be meant,
// without connecting.
func (o Options) Check() error {
	_, _, err := o.parse()
	return err
}

// parse reads the preference and the concern; nil where none is given.
func (o Options) parse() (preference *readpref.ReadPref, concern *writeconcern.WriteConcern, err error) {
	if o.ReadPreference != "" {
		mode, err := readpref.ModeFromString(o.ReadPreference)
		if err != nil {
			return nil, nil, fmt.Errorf("unknown read preference %q; known are primary, primaryPreferred, secondary, secondaryPreferred and nearest", o.ReadPreference)
		}
		if preference, err = readpref.New(mode); err != nil {
			return nil, nil, fmt.Errorf("read preference %q: %w", o.ReadPreference, err)
		}
	}
	switch n, err := strconv.Atoi(o.WriteConcern); {
	case o.WriteConcern == "":
	case o.WriteConcern == "majority":
		concern = writeconcern.Majority()
	case err != nil || n < 1 || n > 50:
		// 0 would not wait for the server: no latency, no outcome.
		return nil, nil, fmt.Errorf("write concern %q: want majority, or 1 to 50 members", o.WriteConcern)
	default:
		concern = &writeconcern.WriteConcern{W: n}
	}
	return preference, concern, nil
}

// secretParameters are the connection string's options that hold secrets.
var secretParameters = [...]string{"tlscertificatekeyfilepassword", "sslclientcertificatekeypassword", "authmechanismproperties", "proxypassword"}

// SplitURI takes the credentials out of a connection string as users type
// it. The string it returns holds no secret and may be shown and stored. Its
// errors do not quote the input.
func SplitURI(uri string) (clean, user string, password secret.Text, err error) {
	refuse := func(why string) (string, string, secret.Text, error) {
		return "", "", secret.New(""), errors.New("connection string: " + why)
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || (scheme != "mongodb" && scheme != "mongodb+srv") {
		return refuse("must start with mongodb:// or mongodb+srv://")
	}
	// Everything up to the last @ is taken for credentials, so that no part
	// of a password with an unescaped character stays behind.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		info := rest[:at]
		rest = rest[at+1:]
		name, pw, _ := strings.Cut(info, ":")
		if strings.ContainsAny(name, "/?#[]@") || strings.ContainsAny(pw, ":/?#[]@") {
			return refuse("percent-encode the characters : / ? # [ ] @ in user name, password and options")
		}
		var nameErr, pwErr error
		user, nameErr = url.PathUnescape(name)
		pw, pwErr = url.PathUnescape(pw)
		if nameErr != nil || pwErr != nil {
			return refuse("user name or password is not percent-encoded correctly: write % as %25")
		}
		if user == "" {
			return refuse("the user name is empty")
		}
		password = secret.New(pw)
	}
	hostList, _, _ := strings.Cut(rest, "/")
	if hostList == "" || strings.HasPrefix(rest, "?") {
		return refuse("names no host")
	}
	// The driver would quote what it takes for a port: with the host left
	// out, that is the password.
	hostList, _, _ = strings.Cut(hostList, "?")
	for host := range strings.SplitSeq(hostList, ",") {
		colon := strings.LastIndexByte(host, ':')
		if colon <= strings.LastIndexByte(host, ']') {
			continue
		}
		if port, err := strconv.ParseUint(host[colon+1:], 10, 16); err != nil || port == 0 {
			return refuse("a port is not a number from 1 to 65535; credentials end with @, and a host follows")
		}
	}
	_, query, _ := strings.Cut(rest, "?")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		key, _, _ := strings.Cut(pair, "=")
		for _, bad := range secretParameters {
			if strings.EqualFold(key, bad) {
				return refuse("the option " + key + " may hold a secret and is not supported")
			}
		}
	}
	return scheme + "://" + rest, user, password, nil
}

// escape percent-encodes user names and passwords as the driver reads them.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// hosts is the part of a connection string that names servers.
func hosts(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		rest = rest[:i]
	}
	return rest
}

// Hosts are the servers that a connection string names, as host:port. Of a
// mongodb+srv string it is the name that is looked up.
func Hosts(uri string) []string {
	list := strings.Split(hosts(uri), ",")
	for i, host := range list {
		if !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") && !strings.HasPrefix(uri, "mongodb+srv:") {
			list[i] = host + ":27017"
		}
	}
	return list
}
