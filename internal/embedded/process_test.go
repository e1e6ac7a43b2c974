package embedded

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

func itoa(n int) string { return strconv.Itoa(n) }

// program is a member as a process of its own.
type program struct {
	conf   string
	port   int
	cmd    *exec.Cmd
	output *bytes.Buffer
	ended  chan struct{}
}

func (p *program) start(t testing.TB, binary string) {
	t.Helper()
	p.output = &bytes.Buffer{}
	p.cmd = exec.Command(binary, "--config", p.conf)
	p.cmd.Env = append(os.Environ(), "SANDBOX_STANDIN_VERSION=9.0.4")
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(p.cmd, p.ended)
}

func (p *program) end(t testing.TB, sig os.Signal) {
	t.Helper()
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		t.Errorf("process on port %d does not end by %v: %s", p.port, sig, p.output)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

func buildStandIn(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "mongod")
	build := exec.Command("go", "build", "-o", binary, "../../test/mongod")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return binary
}

func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	binary := buildStandIn(t)
	version := exec.Command(binary, "--version")
	version.Env = append(os.Environ(), "SANDBOX_STANDIN_VERSION=9.0.4")
	if out, err := version.Output(); err != nil || !strings.HasPrefix(string(out), "db version v9.0.4\n") {
		t.Fatalf("version: %s, %v", out, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(binary), "mongod.version"), []byte("8.0.34\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "--version").Output(); err != nil || !strings.HasPrefix(string(out), "db version v8.0.34\n") {
		t.Fatalf("version from the file beside it: %s, %v", out, err)
	}

	key := writeFile(t, "keyfile", testKey, 0o600)
	var members []*program
	var hosts []string
	config := bson.A{}
	for i := range 3 {
		p := &program{port: freePort(t)}
		dir := t.TempDir()
		p.conf = filepath.Join(dir, "mongod.conf")
		text := fmt.Sprintf("net: {port: %d, bindIp: 127.0.0.1}\nstorage: {dbPath: %s/db}\nreplication: {replSetName: rs}\nsecurity: {keyFile: %s}\n",
			p.port, dir, key)
		if err := os.WriteFile(p.conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		members = append(members, p)
		host := "127.0.0.1:" + itoa(p.port)
		hosts = append(hosts, host)
		config = append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host}})
	}
	t.Cleanup(func() {
		for _, p := range members {
			if p.cmd != nil {
				_ = p.cmd.Process.Kill()
				<-p.ended
			}
		}
	})
	start := time.Now()
	for _, p := range members {
		p.start(t, binary)
	}
	ctx := testContext(t)
	first := connect(t, "mongodb://"+hosts[0]+"/?directConnection=true")
	// The others may need a moment more than the first to listen.
	for {
		err := first.Database("admin").RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs"}, {Key: "members", Value: config}}}}).Err()
		if err == nil {
			break
		}
		if !hasCode(err, 74) {
			t.Fatal(err, members[0].output)
		}
		time.Sleep(10 * time.Millisecond)
	}
	wait := func(client *mongo.Client, what string, ok func(hello bson.Raw) bool) {
		t.Helper()
		for {
			hello, err := client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
			if err == nil && ok(hello) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %v, %v", what, hello, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	primary := func(hello bson.Raw) bool { return hello.Lookup("isWritablePrimary").Boolean() }
	wait(first, "first primary", primary)
	t.Logf("3 processes are up after %v", time.Since(start))
	runOK(t, first, bson.D{{Key: "createUser", Value: "admin"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}})

	auth := options.Client().SetAuth(options.Credential{Username: "admin", Password: "pw"})
	client := connect(t, "mongodb://"+strings.Join(hosts, ",")+"/?replicaSet=rs", auth)
	coll := client.Database("db").Collection("c")
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	secondary := client.Database("db").Collection("c", options.Collection().SetReadPreference(readpref.Secondary()))
	if n, err := secondary.CountDocuments(ctx, bson.D{}); err != nil || n != 1 {
		t.Errorf("%d documents through a secondary, error %v", n, err)
	}
	info := runOK(t, client, bson.D{{Key: "buildInfo", Value: 1}})
	if info.Lookup("version").StringValue() != "9.0.4" || !info.Lookup("sandboxEmbedded").Boolean() {
		t.Errorf("buildInfo: %v", info)
	}

	// kill -9 of the primary: another follows, users are still there, the data
	// was in the memory of the killed process.
	members[0].end(t, syscall.SIGKILL)
	killed := time.Now()
	second := connect(t, "mongodb://"+hosts[1]+"/?directConnection=true", auth)
	wait(second, "second primary", primary)
	t.Logf("elected again %v after kill -9", time.Since(killed))
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 2}}); err != nil {
		t.Errorf("insert after the election: %v", err)
	}
	members[0].start(t, binary)
	again := connect(t, "mongodb://"+hosts[0]+"/?directConnection=true", auth)
	wait(again, "return of the first", func(hello bson.Raw) bool {
		host, _ := hello.Lookup("primary").StringValueOK()
		return hello.Lookup("secondary").Boolean() && host == hosts[1]
	})

	// All of them end and come back.
	for _, p := range members {
		p.end(t, syscall.SIGTERM)
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d: %s", code, p.output)
		}
	}
	for _, p := range members {
		p.start(t, binary)
	}
	if err := client.Ping(ctx, readpref.Primary()); err != nil {
		t.Fatalf("ping after the restart of all: %v", err)
	}
	if n, err := coll.CountDocuments(ctx, bson.D{}); err != nil || n != 0 {
		t.Errorf("%d documents after the restart of all, error %v; the data is in memory", n, err)
	}
	if _, err := coll.InsertOne(ctx, bson.D{{Key: "_id", Value: 3}}); err != nil {
		t.Error(err)
	}
	if err := client.Disconnect(context.Background()); err != nil {
		t.Error(err)
	}
}
