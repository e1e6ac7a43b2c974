package environment

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// inventoryVersion is the version of the inventory's form that this program
// writes. It reads this one and older ones.
const inventoryVersion = 1

// ReadInventory reads what Write wrote. A missing file is an error for which
// errors.Is(err, fs.ErrNotExist) holds; an inventory of a newer program is
// refused.
func ReadInventory(path string) (*Inventory, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	inventory := &Inventory{}
	if err := json.Unmarshal(data, inventory); err != nil {
		return nil, fmt.Errorf("read inventory %s: %w", path, err)
	}
	switch {
	case inventory.SchemaVersion < 1:
		return nil, fmt.Errorf("read inventory %s: it has no schema_version", path)
	case inventory.SchemaVersion > inventoryVersion:
		return nil, fmt.Errorf("read inventory %s: it was written by a newer version of sandbox (schema_version %d, this one knows %d)", path, inventory.SchemaVersion, inventoryVersion)
	}
	return inventory, nil
}

// Write stores the inventory at path with mode 0600, replacing what was there
// in one step, and makes the folder if there is none. It sets SchemaVersion.
func (i *Inventory) Write(path string) error {
	i.SchemaVersion = inventoryVersion
	data, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	if err := secret.WriteFile(path, append(data, '\n')); err != nil {
		return fmt.Errorf("write inventory: %w", err)
	}
	return nil
}

// Address is where the member answers, as host:port.
func (m MemberState) Address() string { return net.JoinHostPort(m.Host, strconv.Itoa(m.Port)) }

// URI is the connection string of the deployment, without a password. It
// names the members with data; with an empty user it does not authenticate.
func (d DeploymentState) URI(user string) string {
	if user == "" {
		return d.uri("")
	}
	return d.uri(url.User(user).String())
}

// DisplayURI is URI with a placeholder where the password goes, for showing.
func (d DeploymentState) DisplayURI(user string) string {
	if user == "" {
		return d.uri("")
	}
	return d.uri(url.User(user).String() + ":<password>")
}

// URIWithPassword is the connection string that authenticates.
func (d DeploymentState) URIWithPassword(user string, password secret.Text) secret.Text {
	return secret.New(d.uri(url.UserPassword(user, password.Reveal()).String()))
}

func (d DeploymentState) uri(userinfo string) string {
	var hosts []string
	for _, member := range d.Endpoints {
		if member.Role != Arbiter {
			hosts = append(hosts, member.Address())
		}
	}
	query := "replicaSet=" + url.QueryEscape(d.ReplicaSet)
	if userinfo != "" {
		userinfo += "@"
		query += "&authSource=admin"
	}
	return "mongodb://" + userinfo + strings.Join(hosts, ",") + "/?" + query
}
