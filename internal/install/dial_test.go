package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
)

func TestTarget(t *testing.T) {
	machines := []environment.MachineState{
		{Name: "a", Role: "data", InternalIP: "10.0.0.1", ExternalIP: "192.0.2.1"},
		{Name: "b", Role: "data", InternalIP: "10.0.0.2"},
		{Name: "load", Role: environment.LoadHost, InternalIP: "10.0.0.3", ExternalIP: "192.0.2.3"},
	}
	load := &remote.Machine{Name: "load", Address: "192.0.2.3", User: "me"}
	inv := &environment.Inventory{Machines: machines, SSH: &environment.SSH{User: "me"}}
	for _, want := range []remote.Machine{
		{Name: "a", Address: "192.0.2.1", User: "me"},
		*load,
		{Name: "b", Address: "10.0.0.2", User: "me", Jump: load},
	} {
		got, err := Target(inv, want.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	if _, err := Target(inv, "c"); err == nil || err.Error() != "there is no machine c in this environment" {
		t.Errorf("a machine that does not exist: %v", err)
	}
}

// TestForgetReplaced: a machine that took the address of another is met as a
// new one, others keep their pinned keys.
func TestForgetReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "known_hosts")
	inv := example(t).Inventory
	inv.Machines = inv.Machines[:2]
	if err := forgetReplaced(dir, inv); err != nil {
		t.Fatal(err)
	}
	key, err := remote.LoadOrCreateKey(filepath.Join(dir, "host"), "")
	if err != nil {
		t.Fatal(err)
	}
	pinned := "192.0.2.1 " + key.AuthorizedKey() + "\n192.0.2.2 " + key.AuthorizedKey() + "\n"
	if err := os.WriteFile(path, []byte(pinned), 0o600); err != nil {
		t.Fatal(err)
	}
	inv.Machines[0].ID = "another"
	for range 2 {
		if err := forgetReplaced(dir, inv); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(left), "192.0.2.1 ") || !strings.Contains(string(left), "192.0.2.2 ") {
			t.Errorf("known hosts %q: %v", left, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, machinesFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := forgetReplaced(dir, inv); err == nil || !strings.Contains(err.Error(), machinesFile) {
		t.Errorf("error %v", err)
	}
}
