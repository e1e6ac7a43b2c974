package embedded

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// settings are what mongod.conf says beyond Config.
type settings struct {
	Config
	logPath   string // empty: standard output
	logAppend bool
	pidFile   string
}

// unsupported are options of mongod that would change what the server does
// and that it cannot do; to ignore them would be a lie.
var unsupported = []string{
	"net.tls", "net.ssl", "net.compression", "net.http", "security.ldap", "security.kmip", "security.sasl",
	"security.enableEncryption", "security.encryptionKeyFile", "security.clusterAuthMode", "security.javascriptEnabled",
	"security.vault", "auditLog", "snmp", "sharding", "operationProfiling.slowOpThresholdMs", "operationProfiling.filter",
	"replication.enableMajorityReadConcern", "storage.inMemory", "storage.encryption", "processManagement.windowsService",
}

// parseOptions reads mongod.conf. Errors are worded as mongod words them.
func parseOptions(path string) (*settings, error) {
	o := &settings{Config: Config{BindIPs: []string{"127.0.0.1"}, Port: 27017, DBPath: "/data/db", parameters: defaultParameters()}}
	if path == "" {
		return o, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("Error reading config file %s: %w", path, errors.Unwrap(err))
	}
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(text, &root, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("Error parsing YAML config file: %s", yaml.FormatError(err, false, false))
	}
	o.Parsed = bson.D{{Key: "config", Value: path}}
	r := confReader{o: o, folder: filepath.Dir(path)}
	doc, err := r.section("", root)
	if err != nil {
		return nil, err
	}
	o.Parsed = append(o.Parsed, doc...)
	return o, r.finish()
}

type confReader struct {
	o            *settings
	folder       string
	keyFile      string
	auth         *bool
	socket       *bool // net.unixDomainSocket.enabled
	socketPrefix string
}

// section reads a map of options and returns it as getCmdLineOpts shows it.
func (r *confReader) section(prefix string, m yaml.MapSlice) (bson.D, error) {
	d := bson.D{}
	for _, item := range m {
		key, ok := item.Key.(string)
		if !ok {
			return nil, fmt.Errorf("Unrecognized option: %s%v", prefix, item.Key) //nolint:staticcheck // mongod's wording
		}
		name := prefix + key
		var value any
		var err error
		switch {
		case slices.Contains(unsupported, name):
			err = fmt.Errorf("option %s is not supported by the sandbox embedded server", name)
		case name == "setParameter":
			parameters, isMap := item.Value.(yaml.MapSlice)
			if !isMap {
				return nil, wrongType(name, "a map")
			}
			value, err = r.setParameters(parameters)
		default:
			if inner, isMap := item.Value.(yaml.MapSlice); isMap {
				if !isSection(name) {
					return nil, unrecognized(name)
				}
				value, err = r.section(name+".", inner)
			} else if isSection(name) && item.Value == nil {
				continue // a heading with nothing under it
			} else {
				value, err = r.option(name, item.Value)
			}
		}
		if err != nil {
			return nil, err
		}
		d = append(d, bson.E{Key: key, Value: value})
	}
	return d, nil
}

func unrecognized(name string) error { return fmt.Errorf("Unrecognized option: %s", name) } //nolint:staticcheck // mongod's wording

func wrongType(name, want string) error {
	return fmt.Errorf("The value of option %s is not %s", name, want) //nolint:staticcheck // mongod's wording
}

func isSection(name string) bool {
	switch name {
	case "systemLog", "systemLog.component", "net", "net.unixDomainSocket", "storage", "storage.wiredTiger",
		"storage.wiredTiger.engineConfig", "storage.wiredTiger.collectionConfig", "storage.wiredTiger.indexConfig",
		"processManagement", "replication", "security", "operationProfiling", "setParameter":
		return true
	}
	return false
}

// option takes one option and returns its value with its proper type.
func (r *confReader) option(name string, v any) (any, error) {
	o := r.o
	switch name {
	case "net.port":
		n, err := integer(name, v, 0, 65535)
		o.Port = int(n)
		return int32(n), err
	case "net.bindIp":
		text, err := word(name, v)
		if err != nil {
			return nil, err
		}
		o.BindIPs = nil
		for part := range strings.SplitSeq(text, ",") {
			switch part = strings.TrimSpace(part); {
			case part == "localhost":
				part = "127.0.0.1"
			case part == "":
				continue
			case strings.HasPrefix(part, "/"):
				return nil, fmt.Errorf("option %s: sockets are given by net.unixDomainSocket.pathPrefix here, not %s", name, part)
			}
			if !slices.Contains(o.BindIPs, part) {
				o.BindIPs = append(o.BindIPs, part)
			}
		}
		if len(o.BindIPs) == 0 {
			return nil, wrongType(name, "a list of addresses")
		}
		return text, nil
	case "net.bindIpAll":
		on, err := boolean(name, v)
		if on {
			o.BindIPs = []string{"0.0.0.0"}
		}
		return on, err
	case "net.maxIncomingConnections":
		n, err := integer(name, v, 1, math.MaxInt32)
		o.MaxConns = int(n)
		return int32(n), err
	case "net.unixDomainSocket.enabled":
		on, err := boolean(name, v)
		r.socket = &on
		return on, err
	case "net.unixDomainSocket.pathPrefix":
		text, err := word(name, v)
		r.socketPrefix = text
		return text, err
	case "storage.dbPath":
		text, err := word(name, v)
		o.DBPath = text
		return text, err
	case "storage.engine":
		text, err := word(name, v)
		if err == nil && text != "wiredTiger" {
			err = fmt.Errorf("Cannot start server with an unknown storage engine: %s", text) //nolint:staticcheck // mongod's wording
		}
		return text, err
	case "storage.wiredTiger.engineConfig.cacheSizeGB":
		return float(name, v)
	case "systemLog.destination":
		text, err := word(name, v)
		if err == nil && text != "file" {
			err = fmt.Errorf("option %s: only file is supported by the sandbox embedded server, not %s", name, text)
		}
		return text, err
	case "systemLog.path":
		text, err := word(name, v)
		o.logPath = text
		return text, err
	case "systemLog.logAppend":
		on, err := boolean(name, v)
		o.logAppend = on
		return on, err
	case "processManagement.fork":
		on, err := boolean(name, v)
		if on {
			err = fmt.Errorf("option %s: true is not supported by the sandbox embedded server: it stays in the foreground", name)
		}
		return on, err
	case "processManagement.pidFilePath":
		text, err := word(name, v)
		o.pidFile = text
		return text, err
	case "replication.replSetName":
		text, err := word(name, v)
		o.ReplicaSet = text
		return text, err
	case "security.keyFile":
		text, err := word(name, v)
		r.keyFile = text
		return text, err
	case "security.authorization":
		text, err := word(name, v)
		switch on := text == "enabled"; {
		case err != nil:
		case on || text == "disabled":
			r.auth = &on
		default:
			err = fmt.Errorf("security.authorization must be enabled or disabled, not %q", text)
		}
		return text, err
	case "operationProfiling.mode":
		text, err := word(name, v)
		if err == nil && text != "off" {
			err = fmt.Errorf("option %s: only off is supported by the sandbox embedded server, not %s", name, text)
		}
		return text, err

	// Options that may be given and change nothing here: there is no journal,
	// no cache, no oplog and no file per collection.
	case "storage.wiredTiger.engineConfig.cacheSizePct":
		return float(name, v)
	case "replication.oplogSizeMB", "storage.syncPeriodSecs", "storage.oplogMinRetentionHours", "systemLog.verbosity":
		return float(name, v)
	case "storage.directoryPerDB", "storage.wiredTiger.engineConfig.directoryForIndexes", "net.ipv6", "systemLog.quiet",
		"systemLog.traceAllExceptions":
		return boolean(name, v)
	case "storage.wiredTiger.engineConfig.journalCompressor", "storage.wiredTiger.collectionConfig.blockCompressor",
		"systemLog.logRotate", "systemLog.timeStampFormat", "processManagement.timeZoneInfo":
		return word(name, v)
	case "storage.wiredTiger.indexConfig.prefixCompression", "net.wireObjectCheck":
		return boolean(name, v)
	case "net.unixDomainSocket.filePermissions":
		n, err := integer(name, v, 0, 0o777)
		return int32(n), err
	}
	return nil, unrecognized(name)
}

// setParameters takes the server parameters that are known here.
func (r *confReader) setParameters(m yaml.MapSlice) (bson.D, error) {
	d := bson.D{}
	for _, item := range m {
		name := fmt.Sprint(item.Key)
		full := "setParameter." + name
		var value any
		var err error
		switch name {
		case "transactionLifetimeLimitSeconds":
			var n int64
			n, err = integer(full, item.Value, 1, math.MaxInt32)
			r.o.parameters.lifetime = time.Duration(n) * time.Second
			value = int32(n)
		case "authenticationMechanisms":
			var text string
			if text, err = word(full, item.Value); err == nil && !slices.Contains(strings.Split(text, ","), mechanism) {
				err = fmt.Errorf("option %s must name %s, the only mechanism here", full, mechanism)
			}
			value = text
		case "enableTestCommands", "diagnosticDataCollectionEnabled", "enableLocalhostAuthBypass", "disableTelemetry",
			"featureFlagQueryStats", "ttlMonitorEnabled", "notablescan", "enableDetailedConnectionHealthMetricLogLines":
			var on bool
			on, err = boolean(full, item.Value)
			if name == "notablescan" && on || name == "enableLocalhostAuthBypass" && !on && err == nil {
				err = fmt.Errorf("option %s: %v is not supported by the sandbox embedded server", full, on)
			}
			value = on
		case "logLevel", "honorSystemUmask", "maxNumActiveUserIndexBuilds", "tcmallocReleaseRate", "cursorTimeoutMillis",
			"internalQueryStatsRateLimit", "internalQueryStatsSampleRate", "wiredTigerConcurrentReadTransactions",
			"wiredTigerConcurrentWriteTransactions", "storageEngineConcurrentReadTransactions",
			"storageEngineConcurrentWriteTransactions", "diagnosticDataCollectionPeriodMillis":
			value, err = float(full, item.Value)
		default:
			err = fmt.Errorf("Illegal --setParameter parameter: \"%s\"", name) //nolint:staticcheck // mongod's wording
		}
		if err != nil {
			return nil, err
		}
		d = append(d, bson.E{Key: name, Value: value})
	}
	r.o.parameters.set = d
	return d, nil
}

// finish checks what only makes sense together.
func (r *confReader) finish() error {
	o := r.o
	if r.keyFile != "" {
		key, err := readKeyFile(r.keyFile)
		if err != nil {
			return err
		}
		o.KeyFile = key
	}
	if r.auth != nil {
		o.Authorization = *r.auth
	}
	if o.Authorization && o.ReplicaSet != "" && o.KeyFile.IsEmpty() {
		return errors.New("BadValue: security.keyFile is required when authorization is enabled with replica sets")
	}
	// Unlike mongod, no socket is made unless one is asked for.
	if r.socket != nil && *r.socket || r.socket == nil && r.socketPrefix != "" {
		prefix := r.socketPrefix
		if prefix == "" {
			prefix = os.TempDir()
		}
		o.UnixSocket = UnixSocketPath(prefix, o.Port)
	}
	return nil
}

// readKeyFile reads a keyfile as mongod does: 6 to 1024 characters of the
// base64 set once white space is taken out, and nobody else may read it.
func readKeyFile(path string) (secret.Text, error) {
	key, err := secret.Read(path)
	if err != nil {
		return key, fmt.Errorf("Unable to acquire security key[s]: %w", err) //nolint:staticcheck // mongod's wording
	}
	text := strings.Join(strings.Fields(key.Reveal()), "")
	if n := len(text); n < 6 || n > 1024 {
		return secret.Text{}, fmt.Errorf("security key in %s has length %d, must be between 6 and 1024 chars", path, n)
	}
	for _, c := range text {
		if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", c) {
			return secret.Text{}, fmt.Errorf("invalid char in key file %s: %q", path, c)
		}
	}
	return secret.New(text), nil
}

func word(name string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v), nil
	}
	return "", wrongType(name, "a string")
}

func boolean(name string, v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case string:
		if on, err := strconv.ParseBool(v); err == nil {
			return on, nil
		}
	case uint64:
		if v <= 1 {
			return v == 1, nil
		}
	}
	return false, wrongType(name, "true or false")
}

func float(name string, v any) (float64, error) {
	switch v := v.(type) {
	case uint64:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f, nil
		}
	}
	return 0, wrongType(name, "a number")
}

func integer(name string, v any, low, high int64) (int64, error) {
	f, err := float(name, v)
	if err != nil {
		return 0, err
	}
	if f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		return 0, fmt.Errorf("%s must be an integer between %d and %d", name, low, high)
	}
	return int64(f), nil
}
