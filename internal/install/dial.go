package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/mongodb"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// host is a machine as far as this package needs it; *remote.Conn is one.
type host interface {
	mongodb.Dialer
	Run(ctx context.Context, cmd remote.Command) error
	WriteFile(ctx context.Context, path string, data []byte, o remote.CopyOptions) (written bool, err error)
	Close() error
}

// asHost keeps a nil connection from becoming an interface that is not nil.
func asHost(c *remote.Conn, err error) (host, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Dial connects to a machine of the inventory once, directly where it has an
// external address, else through the load host, and with a gateway always
// through that. Dir is the environment's state folder. The caller closes the
// connection.
func Dial(ctx context.Context, inv *environment.Inventory, dir, machine string) (*remote.Conn, error) {
	m, o, err := login(inv, dir, machine)
	if err != nil {
		return nil, err
	}
	return remote.Dial(ctx, m, o)
}

// reach is Dial for a machine that may still be starting.
func reach(ctx context.Context, inv *environment.Inventory, dir, machine string, w remote.WaitOptions) (*remote.Conn, error) {
	m, o, err := login(inv, dir, machine)
	if err != nil {
		return nil, err
	}
	return remote.WaitReachable(ctx, m, o, w)
}

func login(inv *environment.Inventory, dir, name string) (remote.Machine, remote.Options, error) {
	m, err := Target(inv, name)
	if err != nil {
		return remote.Machine{}, remote.Options{}, err
	}
	key, err := remote.LoadKey(inDir(dir, inv.SSH.KeyFile), agentSocket())
	return m, remote.Options{Key: key, KnownHosts: inDir(dir, inv.SSH.KnownHosts)}, err
}

// Target says how a machine of the inventory is reached by SSH.
func Target(inv *environment.Inventory, name string) (remote.Machine, error) {
	if inv.SSH == nil {
		return remote.Machine{}, errors.New("the inventory does not say how machines are reached")
	}
	var found, loadHost *environment.MachineState
	for i, m := range inv.Machines {
		if m.Name == name {
			found = &inv.Machines[i]
		}
		if m.Role == environment.LoadHost {
			loadHost = &inv.Machines[i]
		}
	}
	if found == nil {
		return remote.Machine{}, fmt.Errorf("there is no machine %s in this environment", name)
	}
	at := func(m *environment.MachineState) remote.Machine {
		to := remote.Machine{Name: m.Name, Address: m.ExternalIP, User: inv.SSH.User}
		if to.Address == "" {
			to.Address = m.InternalIP
		}
		return to
	}
	to := at(found)
	if found.ExternalIP == "" && loadHost != nil && found != loadHost && loadHost.ExternalIP != "" {
		jump := at(loadHost)
		to.Jump = &jump
	}
	return to, nil
}

// inDir makes a path of the inventory one of this process.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// machinesFile remembers which machine was last seen at which address.
const machinesFile = "machines.json"

func readMachines(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var known map[string]string
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return known, nil
}

func writeMachines(path string, known map[string]string) error {
	data, err := json.Marshal(known)
	if err != nil {
		return err
	}
	return secret.WriteFile(path, data)
}
