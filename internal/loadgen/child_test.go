package loadgen

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/workload"
)

// The test binary starts itself again as a null server whose CPU time is not
// the client's, and as a client whose memory is not the tests'.
const roleVariable = "SANDBOX_LOADGEN_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		goleak.VerifyTestMain(m)
	case "server":
		childServer()
	default:
		childClient(strings.TrimPrefix(role, "client "))
	}
}

// childServer prints its URI and serves until its standard input ends, which
// it does when the parent is gone.
func childServer() {
	s, err := startNullServer()
	if err != nil {
		panic(err)
	}
	s.found = someFound()
	fmt.Println(s.uri())
	go s.serve()
	_, _ = io.Copy(io.Discard, os.Stdin)
	if len(s.unknown) > 0 {
		panic(fmt.Sprint("the null server does not know ", s.unknown))
	}
}

// startServerProcess returns the URI of a null server on one CPU in a
// process of its own.
func startServerProcess(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), roleVariable+"=server", "GOMAXPROCS=1", "GOGC=400")
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := child.Wait(); err != nil {
			t.Errorf("null server: %v", err)
		}
	})
	uri, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(uri)
}

// childClient seeds 20,000 documents, runs 50,000 commands of a workload of
// a million documents, and prints what it used.
func childClient(uri string) {
	client, err := mongodb.Connect(context.Background(), mongodb.Options{URI: uri, Monitor: NewMonitor()})
	if err != nil {
		panic(err)
	}
	small := workload.DefaultSettings()
	small.Size = 20_000
	w, err := workload.New(small)
	if err != nil {
		panic(err)
	}
	if _, err := Seed(context.Background(), SeedOptions{Workload: w, Client: client}); err != nil {
		panic(err)
	}
	settings := workload.DefaultSettings()
	settings.Size = 1_000_000
	if w, err = workload.New(settings); err != nil {
		panic(err)
	}
	r, err := Run(context.Background(), Options{
		Workload: w, Iteration: 1, Client: client, OpsLimit: 50_000 / int64(settings.Workers), Duration: time.Minute,
		Sink: &memorySink{discard: true},
	})
	if err != nil {
		panic(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(r.Cell)
}

func clientProcess(t testing.TB, uri string) []byte {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), roleVariable+"=client "+uri)
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
