package local

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"net"
	"os"
	"strconv"

	"github.com/goccy/go-yaml"

	"github.com/mongo-sandbox/sandbox/internal/secret"
)

// cacheGB is the WiredTiger cache of a real mongod here unless the file says
// another: nine members on one machine must fit, and 0.25 is the least that
// MongoDB allows.
const cacheGB = 0.25

// mongodConf is a mongod.conf. The options used exist from 7.0 to 9.0.
type mongodConf struct {
	Net struct {
		Port             int    `yaml:"port"`
		BindIP           string `yaml:"bindIp"`
		UnixDomainSocket struct {
			Enabled bool `yaml:"enabled"`
		} `yaml:"unixDomainSocket"`
	} `yaml:"net"`
	Storage struct {
		DBPath     string          `yaml:"dbPath"`
		WiredTiger *wiredTigerConf `yaml:"wiredTiger,omitempty"`
	} `yaml:"storage"`
	SystemLog struct {
		Destination string `yaml:"destination"`
		Path        string `yaml:"path"`
		LogAppend   bool   `yaml:"logAppend"`
	} `yaml:"systemLog"`
	Replication struct {
		ReplSetName string `yaml:"replSetName"`
	} `yaml:"replication"`
	Security struct {
		KeyFile string `yaml:"keyFile"` // turns authorization on as well
	} `yaml:"security"`
}

type wiredTigerConf struct {
	EngineConfig struct {
		CacheSizeGB float64 `yaml:"cacheSizeGB"`
	} `yaml:"engineConfig"`
}

// conf renders the configuration of one member; a cache of 0 GB is none.
func (p *Platform) conf(name, replicaSet string, port int, cacheGB float64) ([]byte, error) {
	files := p.member(name)
	var c mongodConf
	c.Net.Port = port
	c.Net.BindIP = loopback
	c.Storage.DBPath = files.data
	if cacheGB > 0 {
		c.Storage.WiredTiger = &wiredTigerConf{}
		c.Storage.WiredTiger.EngineConfig.CacheSizeGB = cacheGB
	}
	c.SystemLog.Destination = "file"
	c.SystemLog.Path = files.log
	c.SystemLog.LogAppend = true
	c.Replication.ReplSetName = replicaSet
	c.Security.KeyFile = p.path(keyFile)
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("configuration of member %s: %w", name, err)
	}
	return append([]byte("# Written by sandbox; replaced whenever the member is started.\n"), text...), nil
}

// secrets loads or generates the password and the keyfile.
func (p *Platform) secrets() (password secret.Text, err error) {
	password, err = secret.LoadOrCreate(p.path(passwordFile), 24)
	if err != nil {
		return secret.Text{}, err
	}
	if _, err := secret.Read(p.path(keyFile)); errors.Is(err, fs.ErrNotExist) {
		// MongoDB takes 6 to 1024 characters of the base64 set.
		key := base64.StdEncoding.EncodeToString([]byte(secret.Generate(96).Reveal()))
		return password, secret.New(key).Write(p.path(keyFile))
	} else if err != nil {
		return secret.Text{}, err
	}
	return password, nil
}

// loopback is where every member listens.
const loopback = "127.0.0.1"

// Ports come from below the ranges that systems hand out for outgoing
// connections (Linux from 32768, darwin from 49152), so that a member that
// is down does not lose its port to a client.
const (
	firstPort = 20000
	lastPort  = 32000
)

// choosePort finds a free port that is not in taken, and adds it. Every
// environment starts looking at a place of its own.
func (p *Platform) choosePort(taken map[int]bool) (int, error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.dir))
	offset := int(h.Sum32() % (lastPort - firstPort))
	for i := range lastPort - firstPort {
		port := firstPort + (offset+i)%(lastPort-firstPort)
		if !taken[port] && portFree(port) == nil {
			taken[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port on %s between %d and %d", loopback, firstPort, lastPort)
}

// portFree returns why a port cannot be listened on, or nil.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}

// configuredPort is the port in the member's configuration, or 0: what an
// earlier Up chose, should the inventory be lost.
func (p *Platform) configuredPort(name string) int {
	text, err := os.ReadFile(p.member(name).conf)
	if err != nil {
		return 0
	}
	var c mongodConf
	if err := yaml.Unmarshal(text, &c); err != nil || c.Net.Port < 1 || c.Net.Port > 65535 {
		return 0
	}
	return c.Net.Port
}
