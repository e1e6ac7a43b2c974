package embedded

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func writeFile(t testing.TB, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestParseOptions(t *testing.T) {
	key := writeFile(t, "keyfile", "abc def\nghi=\n", 0o600)
	o, err := parseOptions(writeFile(t, "mongod.conf", `
# a comment
net:
  port: 27117
  bindIp: localhost, 127.0.0.2
  maxIncomingConnections: 500
  unixDomainSocket: {enabled: true, pathPrefix: /run/x}
storage:
  dbPath: /data/x
  wiredTiger:
    engineConfig:
      cacheSizeGB: 0.5
systemLog:
  destination: file
  path: /log/x.log
  logAppend: true
processManagement:
  fork: false
  pidFilePath: /run/x.pid
  timeZoneInfo: /usr/share/zoneinfo
replication:
  replSetName: "rs0"
security:
  keyFile: `+key+`
  authorization: enabled
setParameter:
  transactionLifetimeLimitSeconds: 30
  diagnosticDataCollectionEnabled: false
`, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	if o.Port != 27117 || strings.Join(o.BindIPs, " ") != "127.0.0.1 127.0.0.2" || o.MaxConns != 500 ||
		o.UnixSocket != "/run/x/mongodb-27117.sock" || o.DBPath != "/data/x" || o.logPath != "/log/x.log" || !o.logAppend ||
		o.pidFile != "/run/x.pid" || o.ReplicaSet != "rs0" || o.KeyFile.Reveal() != "abcdefghi=" || !o.Authorization ||
		o.parameters.lifetime != 30*time.Second {
		t.Errorf("got %+v", o)
	}
	parsed, err := bson.MarshalExtJSON(o.Parsed, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"port":27117`, `"cacheSizeGB":0.5`, `"keyFile":"` + key + `"`, `"fork":false`} {
		if !strings.Contains(string(parsed), want) {
			t.Errorf("getCmdLineOpts would lack %s: %s", want, parsed)
		}
	}
	if strings.Contains(string(parsed), "abcdef") {
		t.Errorf("the key is shown: %s", parsed)
	}
}

func TestBadOptionsEndWithCode2(t *testing.T) {
	open := writeFile(t, "keyfile", "abcdefghi", 0o644)
	short := writeFile(t, "keyfile", "abc", 0o600)
	odd := writeFile(t, "keyfile", "abcdef-ghi", 0o600)
	for name, tc := range map[string]struct{ conf, message string }{
		"unknown option":      {"net: {prot: 1}", "Unrecognized option: net.prot"},
		"unknown section":     {"web: {port: 1}", "Unrecognized option: web"},
		"not YAML":            {"net: [", "Error parsing YAML config file"},
		"port a word":         {"net: {port: high}", "net.port"},
		"port out of range":   {"net: {port: 65536}", "net.port"},
		"TLS":                 {"net: {tls: {mode: requireTLS}}", "net.tls is not supported"},
		"fork":                {"processManagement: {fork: true}", "processManagement.fork"},
		"audit":               {"auditLog: {destination: file}", "auditLog is not supported"},
		"syslog":              {"systemLog: {destination: syslog}", "only file is supported"},
		"engine":              {"storage: {engine: mmapv1}", "unknown storage engine: mmapv1"},
		"unknown parameter":   {"setParameter: {warp: 9}", `Illegal --setParameter parameter: "warp"`},
		"authorization maybe": {"security: {authorization: maybe}", "must be enabled or disabled"},
		"no keyfile":          {"security: {authorization: enabled}\nreplication: {replSetName: rs}", "security.keyFile is required"},
		"keyfile missing":     {"security: {keyFile: /nowhere/key}", "Unable to acquire security key"},
		"keyfile open":        {"security: {keyFile: " + open + "}", "others may read it"},
		"keyfile short":       {"security: {keyFile: " + short + "}", "must be between 6 and 1024"},
		"keyfile odd":         {"security: {keyFile: " + odd + "}", "invalid char"},
		"profiling":           {"operationProfiling: {mode: all}", "only off is supported"},
		"section with value":  {"net: 5", "Unrecognized option: net"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			got := Main(context.Background(), []string{"--config", writeFile(t, "mongod.conf", tc.conf, 0o600)}, &out, &errs)
			if got != exitBadOptions || !strings.Contains(errs.String(), tc.message) {
				t.Errorf("exit code %d, message %q; want 2 and %q", got, errs.String(), tc.message)
			}
		})
	}
	for _, args := range [][]string{{"--dbpath", "/x"}, {"--config"}, {"-f"}, {"extra"}, {"-f", "/nowhere/mongod.conf"}} {
		var out, errs bytes.Buffer
		if got := Main(context.Background(), args, &out, &errs); got != exitBadOptions || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, message %q", args, got, errs.String())
		}
	}
}

func TestVersion(t *testing.T) {
	for version, second := range map[string]string{
		Version: "This is the sandbox embedded server, not a MongoDB build.",
		"9.0.4": "This is a stand-in for that version: the sandbox embedded server, not a MongoDB build.",
	} {
		var out bytes.Buffer
		if got := MainAs(context.Background(), version, []string{"--version"}, &out, &out); got != 0 {
			t.Errorf("exit code %d", got)
		}
		lines := strings.Split(out.String(), "\n")
		if lines[0] != "db version v"+version || lines[1] != second || !strings.Contains(out.String(), `"sandboxEmbedded": true`) {
			t.Errorf("printed %s", out.String())
		}
	}
}

func TestMainRunsAndStops(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "mongod.conf")
	port := freePort(t)
	text := "net: {port: " + itoa(port) + ", unixDomainSocket: {enabled: true, pathPrefix: " + dir + "}}\nstorage: {dbPath: " + dir + "/db}\n" +
		"systemLog: {destination: file, path: " + dir + "/mongod.log}\nprocessManagement: {pidFilePath: " + dir + "/mongod.pid}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context) (<-chan int, *bytes.Buffer) {
		code, errs := make(chan int, 1), &bytes.Buffer{}
		go func() { code <- Main(ctx, []string{"-f", conf}, errs, errs) }()
		return code, errs
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended, errs := run(ctx)
	client := connect(t, "mongodb://127.0.0.1:"+itoa(port)+"/?directConnection=true")
	if err := client.Ping(testContext(t), nil); err != nil {
		t.Fatal(err, errs.String())
	}
	overSocket := connect(t, "mongodb://"+strings.ReplaceAll(dir, "/", "%2F")+"%2Fmongodb-"+itoa(port)+".sock/?directConnection=true")
	if err := overSocket.Ping(testContext(t), nil); err != nil {
		t.Error("over the socket:", err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "mongod.pid"))
	if err != nil || strings.TrimSpace(string(pid)) != itoa(os.Getpid()) {
		t.Errorf("pid file %q, error %v", pid, err)
	}
	options := runOK(t, client, bson.D{{Key: "getCmdLineOpts", Value: 1}})
	if options.Lookup("parsed", "storage", "dbPath").StringValue() != dir+"/db" {
		t.Errorf("getCmdLineOpts: %v", options)
	}

	// A second server on the same data or port is refused.
	second, errs := run(context.Background())
	if got := <-second; got != exitUncaught || !strings.Contains(errs.String(), "DBPathInUse") {
		t.Errorf("second on the same dbPath: exit code %d, %s", got, errs.String())
	}
	other := writeFile(t, "mongod.conf", "net: {port: "+itoa(port)+"}\nstorage: {dbPath: "+t.TempDir()+"}\n", 0o600)
	var out bytes.Buffer
	if got := Main(context.Background(), []string{"-f", other}, &out, &out); got != exitNetError {
		t.Errorf("second on the same port: exit code %d, %s", got, out.String())
	}

	cancel()
	if got := <-ended; got != 0 {
		t.Errorf("exit code %d", got)
	}
	for _, gone := range []string{"mongod.pid", "mongodb-" + itoa(port) + ".sock"} {
		if _, err := os.Stat(filepath.Join(dir, gone)); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
	if lock, err := os.ReadFile(filepath.Join(dir, "db", "mongod.lock")); err != nil || len(lock) != 0 {
		t.Errorf("mongod.lock after a clean end: %q, %v", lock, err)
	}

	// Again, ended by a client this time.
	ended, _ = run(context.Background())
	again := connect(t, "mongodb://127.0.0.1:"+itoa(port)+"/?directConnection=true")
	err = again.Database("admin").RunCommand(testContext(t), bson.D{{Key: "shutdown", Value: 1}}).Err()
	if err == nil || !mongo.IsNetworkError(err) {
		t.Errorf("shutdown answered %v, want a closed connection", err)
	}
	if got := <-ended; got != 0 {
		t.Errorf("exit code %d after shutdown", got)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "mongod.log*"))
	if err != nil || len(logs) < 2 {
		t.Errorf("log files %v: a start without logAppend moves the old one aside", logs)
	}
	log, err := os.ReadFile(filepath.Join(dir, "mongod.log"))
	if err != nil || !strings.Contains(string(log), "in memory only") || !strings.Contains(string(log), `"msg":"stopped"`) {
		t.Errorf("log: %s", log)
	}
}
