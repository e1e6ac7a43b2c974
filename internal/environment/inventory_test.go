package environment

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

func TestInventoryRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".sandbox", "env", "inventory.json")
	if _, err := ReadInventory(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing inventory: %v", err)
	}
	want := &Inventory{
		Environment: "env", Platform: Local, Username: "admin", PasswordFile: "password",
		Files: []File{{Name: "env.tfvars", SHA256: "00", Text: sound}},
		Deployments: []DeploymentState{{
			Deployment: Deployment{Name: "rs1", ReplicaSet: "rs1", Members: []Member{{"rs1-0", Data}}},
			Engine:     "embedded", ActualVersion: "0.1",
			Endpoints: []MemberState{{Name: "rs1-0", Role: Data, Host: "127.0.0.1", Port: 27017, Process: &Process{PID: 1, CreatedMS: 2, Command: []string{"x"}}}},
		}},
	}
	for range 2 { // the second replaces the first
		if err := want.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadInventory(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || got.SchemaVersion != inventoryVersion {
		t.Errorf("version %d\n%s", got.SchemaVersion, diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("files left behind: %v %v", entries, err)
	}
}

func TestInventoryRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.json")
	for text, want := range map[string]string{
		`{"schema_version": 2}`: "newer version",
		`{}`:                    "no schema_version",
		`{`:                     "unexpected end",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadInventory(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if err := (&Inventory{}).Write(filepath.Join(path, "below-a-file")); err == nil {
		t.Error("written below a file")
	}
}

func TestURI(t *testing.T) {
	d := DeploymentState{
		Deployment: Deployment{ReplicaSet: "My_RS"},
		Endpoints: []MemberState{
			{Role: Data, Host: "127.0.0.1", Port: 1}, {Role: Data, Host: "::1", Port: 2}, {Role: Arbiter, Host: "127.0.0.1", Port: 3},
		},
	}
	for _, c := range []struct{ got, want string }{
		{d.URI("admin"), "mongodb://admin@127.0.0.1:1,[::1]:2/?replicaSet=My_RS&authSource=admin"},
		{d.URI(""), "mongodb://127.0.0.1:1,[::1]:2/?replicaSet=My_RS"},
		{d.DisplayURI("admin"), "mongodb://admin:<password>@127.0.0.1:1,[::1]:2/?replicaSet=My_RS&authSource=admin"},
		{d.DisplayURI(""), "mongodb://127.0.0.1:1,[::1]:2/?replicaSet=My_RS"},
		{d.URI("a b@c/d"), "mongodb://a%20b%40c%2Fd@127.0.0.1:1,[::1]:2/?replicaSet=My_RS&authSource=admin"},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	// Whoever parses it must read back what went in.
	const user, password = "a b@c:d", "p+w%/@: ?&ü"
	d.Endpoints = d.Endpoints[:1]
	u, err := url.Parse(d.URIWithPassword(user, secret.New(password)).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := u.User.Password(); got != password || u.User.Username() != user || u.Query().Get("replicaSet") != "My_RS" {
		t.Errorf("read back %q %q %q", u.User.Username(), got, u.Query())
	}
}
