package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	configFile  = "/usr/local/percona/pmm/config/pmm-agent.yaml"
	agentListen = "127.0.0.1:7777"
)

// agentConfig is what setup leaves for the agent, which is JSON and so YAML.
type agentConfig struct {
	ID      string `json:"id"` // of the node
	Name    string `json:"node_name"`
	Address string `json:"server_address"`
	User    string `json:"server_username"`
	// Password is why only root and the agent may read the file.
	Password string `json:"server_password"`
	Insecure bool   `json:"server_insecure_tls"`
}

func loadConfig(name string) (*agentConfig, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c := &agentConfig{}
	if len(bytes.TrimSpace(data)) > 0 {
		err = json.Unmarshal(data, c)
	}
	return c, err
}

// request calls the server's API.
func (c *agentConfig) request(method, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequest(method, "https://"+c.Address+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	r.SetBasicAuth(c.User, c.Password)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure}, //nolint:gosec // what the flag asks
	}}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, bytes.TrimSpace(text))
	}
	return json.Unmarshal(text, into)
}

// setupFlags of pmm-agent, by the name of the environment variable that
// stands for each.
func setupFlags() map[string]string {
	return map[string]string{
		"config-file": "PMM_AGENT_CONFIG_FILE", "server-address": "PMM_AGENT_SERVER_ADDRESS",
		"server-username": "PMM_AGENT_SERVER_USERNAME", "server-password": "PMM_AGENT_SERVER_PASSWORD",
		"server-insecure-tls": "PMM_AGENT_SERVER_INSECURE_TLS", "force": "PMM_AGENT_SETUP_FORCE",
	}
}

func agent(args []string) error {
	known := flags{}
	for name := range setupFlags() {
		known[name] = "value"
	}
	known["server-insecure-tls"], known["force"], known["version"] = "bool", "bool", "bool"
	p, err := known.parse(args, nil, true)
	if err != nil {
		return exitf(1, "pmm-agent: error: %v, try --help", err)
	}
	if p.has("version") {
		fmt.Println("Version: stand-in of a test")
		return nil
	}
	value := func(name string) string {
		if p.has(name) {
			return p.last(name)
		}
		return os.Getenv(setupFlags()[name])
	}
	command := "run"
	if len(p.rest) > 0 {
		command = p.rest[0]
	}
	switch command {
	case "run":
		return runAgent(value("config-file"))
	case "setup":
		record("pmm-agent", hidePassword(args))
		if len(p.rest) > 4 {
			return exitf(1, "pmm-agent: error: unexpected %s", p.rest[4])
		}
		file := value("config-file")
		if file == "" {
			return exitf(1, "pmm-agent: error: required flag --config-file not provided")
		}
		c := &agentConfig{Address: value("server-address"), User: value("server-username"), Password: value("server-password"),
			Insecure: value("server-insecure-tls") == "true" || value("server-insecure-tls") == "1"}
		force := value("force") == "true" || value("force") == "1"
		return setup(file, c, p.rest[1:], force)
	}
	return exitf(1, "pmm-agent: error: expected command but got %q", command)
}

// setup registers this machine with the server. node is address, type and
// name, of which the last may be left out.
func setup(file string, c *agentConfig, node []string, force bool) error {
	if os.Geteuid() != 0 {
		return exitf(1, "pmm-agent setup requires root permissions")
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	n := pmmNode{Name: host, Type: "generic", Force: force}
	for i, into := range []*string{&n.Address, &n.Type, &n.Name} {
		if i < len(node) {
			*into = node[i]
		}
	}
	if net.ParseIP(n.Address) == nil || n.Type != "generic" && n.Type != "container" {
		return exitf(1, "pmm-agent: error: bad node address or type in %q", node)
	}
	fmt.Println("Checking local pmm-agent status...")
	if agentStatus() == nil {
		fmt.Println("pmm-agent is running.")
	} else {
		fmt.Println("pmm-agent is not running.")
	}
	fmt.Println("Registering pmm-agent on PMM Server...")
	if err := c.request(http.MethodPost, "/v1/management/nodes", n, &n); err != nil {
		return exitf(1, "Failed to register pmm-agent on PMM Server: %v.", err)
	}
	c.ID, c.Name = n.ID, n.Name
	fmt.Println("Registered.")
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	// In place: the file belongs to the agent's user.
	if err := os.WriteFile(file, append(data, '\n'), 0o660); err != nil { //nolint:gosec // the package's mode, of a group of one
		return err
	}
	fmt.Printf("Configuration file %s updated.\n", file)
	return nil
}

// runAgent answers pmm-admin until it is told to stop.
func runAgent(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	l, err := net.Listen("tcp", agentListen)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c, err := loadConfig(file); err != nil || c.ID == "" {
			http.Error(w, "not set up", http.StatusServiceUnavailable)
			return
		}
		answer(w, struct{}{})
	})}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	_ = server.Close()
	return err
}

// agentStatus asks the running agent whether it is set up.
func agentStatus() error {
	response, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + agentListen + "/local/Status")
	if err != nil {
		return fmt.Errorf("Failed to get PMM Agent status from local pmm-agent: pmm-agent is not running: %w", err) //nolint:staticcheck // pmm-admin's wording
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New("Failed to get PMM Agent status from local pmm-agent: pmm-agent is running, but not set up.\nPlease run `pmm-admin config` with --server-url flag") //nolint:staticcheck // pmm-admin's wording
	}
	return nil
}

func hidePassword(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		name, _, hasValue := strings.Cut(a, "=")
		switch {
		case !strings.HasSuffix(name, "password") && name != "--server-url":
		case hasValue:
			out[i] = name + "=[redacted]"
		case i+1 < len(out):
			out[i+1] = "[redacted]"
		}
	}
	return out
}

func admin(args []string) error {
	record("pmm-admin", hidePassword(args))
	global := flags{"server-url": "value", "server-insecure-tls": "bool", "json": "bool", "debug": "bool", "trace": "bool", "version": "bool"}
	with := func(more flags) flags {
		all := flags{}
		for _, set := range []flags{global, more} {
			for name, kind := range set {
				all[name] = kind
			}
		}
		return all
	}
	known := with(nil)
	command := ""
	for _, a := range args {
		if !strings.HasPrefix(a, "-") {
			command = a
			break
		}
	}
	switch command {
	case "config":
		known = with(flags{"force": "bool", "region": "value", "az": "value", "node-model": "value", "agent-password": "value",
			"metrics-mode": "value", "disable-collectors": "value", "custom-labels": "value", "paths-base": "value", "log-level": "value", "log-lines-count": "value"})
	case "add":
		known = with(flags{"socket": "value", "node-id": "value", "pmm-agent-id": "value", "username": "value", "password": "value",
			"agent-password": "value", "credentials-source": "value", "query-source": "value", "environment": "value", "cluster": "value",
			"replication-set": "value", "custom-labels": "value", "skip-connection-check": "bool", "max-query-length": "value",
			"tls": "bool", "tls-skip-verify": "bool", "tls-certificate-key-file": "value", "tls-certificate-key-file-password": "value",
			"tls-ca-file": "value", "authentication-mechanism": "value", "authentication-database": "value", "metrics-mode": "value",
			"enable-all-collectors": "bool", "disable-collectors": "value", "stats-collections": "value", "max-collections-limit": "value",
			"expose-exporter": "bool", "service-name": "value", "host": "value", "port": "value", "log-level": "value"})
	case "status":
		known = with(flags{"wait": "value"})
	}
	p, err := known.parse(args, nil, true)
	if err != nil {
		return exitf(80, "pmm-admin: error: %v", err)
	}
	if p.has("version") {
		fmt.Println("ProjectName: pmm-admin\nVersion: stand-in of a test")
		return nil
	}
	if len(p.rest) == 0 {
		return exitf(80, "pmm-admin: error: expected one of \"config\", \"add\", \"list\", \"status\"")
	}
	if command == "config" {
		return adminConfig(p)
	}
	wait := time.Duration(0)
	if v := p.last("wait"); v != "" {
		if wait, err = time.ParseDuration(v); err != nil {
			return exitf(80, "pmm-admin: error: --wait: %v", err)
		}
	}
	for end := time.Now().Add(wait); ; time.Sleep(200 * time.Millisecond) {
		if err = agentStatus(); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		return err
	}
	c, err := loadConfig(configFile)
	if err != nil {
		return err
	}
	switch command {
	case "add":
		if len(p.rest) < 2 || p.rest[1] != "mongodb" {
			return exitf(80, "pmm-admin: error: this stand-in adds mongodb only")
		}
		return addMongoDB(c, p)
	case "list", "status":
		return adminList(c)
	}
	return exitf(80, "pmm-admin: error: unexpected argument %s", command)
}

func adminConfig(p *parsed) error {
	u, err := url.Parse(p.last("server-url"))
	if err != nil || u.Scheme != "https" || u.User == nil {
		return exitf(1, "pmm-admin: error: --server-url must be https://user:password@host:port")
	}
	if u.Port() == "" {
		u.Host += ":443"
	}
	password, _ := u.User.Password()
	node := p.rest[1:]
	if len(node) == 0 {
		address, err := ownAddress(u.Host)
		if err != nil {
			return err
		}
		node = []string{address}
	}
	c := &agentConfig{Address: u.Host, User: u.User.Username(), Password: password, Insecure: p.has("server-insecure-tls")}
	return setup(configFile, c, node, p.has("force"))
}

// ownAddress is the one that the server sees.
func ownAddress(server string) (string, error) {
	conn, err := net.Dial("udp", server)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

func adminList(c *agentConfig) error {
	var all map[string][]pmmService
	if err := c.request(http.MethodGet, "/v1/inventory/services", struct{}{}, &all); err != nil {
		return exitf(1, "%v", err)
	}
	fmt.Println("Service type        Service name         Address and port        Service ID")
	for _, v := range all["mongodb"] {
		if v.NodeID == c.ID {
			fmt.Println("MongoDB            ", v.Name, "        ", v.Address, "        ", v.ID)
		}
	}
	fmt.Println("\nAgent type           Status           Metrics Mode        Agent ID        Service ID        Port")
	fmt.Println("pmm_agent            Connected                            ", c.ID)
	return nil
}

func addMongoDB(c *agentConfig, p *parsed) error {
	if p.has("server-url") {
		return exitf(80, "pmm-admin: error: this stand-in uses the server that it is registered with")
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	v := pmmService{Name: host + "-mongodb", NodeID: c.ID, Address: "127.0.0.1:27017", Cluster: p.last("cluster"),
		ReplicationSet: p.last("replication-set"), Environment: p.last("environment"), QuerySource: "profiler"}
	if p.has("service-name") {
		v.Name = p.last("service-name")
	}
	for i, into := range []*string{&v.Name, &v.Address} {
		if i+2 < len(p.rest) {
			*into = p.rest[i+2]
		}
	}
	if p.has("query-source") {
		v.QuerySource = p.last("query-source")
	}
	if !slices.Contains([]string{"profiler", "mongolog", "none"}, v.QuerySource) {
		return exitf(80, "pmm-admin: error: --query-source must be one of \"profiler\",\"mongolog\",\"none\" but got %q", v.QuerySource)
	}
	username, password := p.last("username"), p.last("password")
	if source := p.last("credentials-source"); source != "" {
		data, err := os.ReadFile(source)
		if err != nil {
			return exitf(80, "pmm-admin: error: --credentials-source: %v", err)
		}
		var credentials struct{ Username, Password, AgentPassword string }
		if err := strict(bytes.NewReader(data), &credentials); err != nil {
			return exitf(1, "failed to retrieve credentials from %s: %v", source, err)
		}
		username, password = credentials.Username, credentials.Password
	}
	if !p.has("skip-connection-check") {
		if err := checkMongoDB(v.Address, username, password); err != nil {
			return exitf(1, "Connection check failed: %v.", err)
		}
	}
	if err := c.request(http.MethodPost, "/v1/management/services", v, &v); err != nil {
		return exitf(1, "%v", err)
	}
	fmt.Printf("MongoDB Service added.\nService ID  : %s\nService name: %s\n", v.ID, v.Name)
	return nil
}

// checkMongoDB connects as the exporter would and reads what it reads.
func checkMongoDB(address, username, password string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	o := options.Client().SetHosts([]string{address}).SetDirect(true).SetServerSelectionTimeout(5 * time.Second)
	if username != "" {
		o.SetAuth(options.Credential{Username: username, Password: password, AuthSource: "admin"})
	}
	client, err := mongo.Connect(o)
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	for _, command := range []string{"ping", "buildInfo", "serverStatus", "replSetGetStatus"} {
		err := client.Database("admin").RunCommand(ctx, bson.D{{Key: command, Value: 1}}).Err()
		if e := (mongo.CommandError{}); errors.As(err, &e) && e.Name == "NoReplicationEnabled" {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", command, err)
		}
	}
	return nil
}
