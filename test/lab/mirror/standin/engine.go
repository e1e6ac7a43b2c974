package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// engine is a container engine whose only container is PMM's server.
type engine struct {
	name string // docker or podman
	dir  string
}

// container is what is known of one, in the words of docker inspect.
type container struct {
	Name    string
	Image   string
	Created time.Time
	Port    string // on the machine, of 8443 inside
	Volume  string
	State   struct {
		Running bool
		Status  string
	}
	HostConfig struct {
		RestartPolicy struct{ Name string }
	}
	Config struct {
		Image string
		Env   []string // names and values, secrets as checksums
	}
}

func newEngine(program string) *engine {
	if program == "podman" {
		return &engine{name: program, dir: "/var/lib/containers/standin"}
	}
	return &engine{name: "docker", dir: "/var/lib/docker/standin"}
}

func (e *engine) run(program string, args []string) error {
	record(program, withoutSecrets(args))
	if os.Geteuid() != 0 {
		return exitf(1, "permission denied while trying to connect to the %s daemon socket", e.name)
	}
	if program == "dockerd" {
		return e.daemon(args)
	}
	if len(args) == 0 {
		return exitf(1, "Usage:  %s [OPTIONS] COMMAND", e.name)
	}
	command, args := args[0], args[1:]
	if command == "--version" || command == "-v" {
		fmt.Printf("%s version 28.5.2, a stand-in of a test\n", e.name)
		return nil
	}
	if command == "--container" { // what the unit of a container runs
		return serveContainer(e, args[0])
	}
	// The daemon's unit is active, or there is nobody to talk to. Podman has
	// no daemon.
	if e.name == "docker" && systemctl("is-active", "docker.service") != nil {
		return exitf(1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?")
	}
	commands := map[string]func([]string) error{
		"run": e.runContainer, "ps": e.ps, "inspect": e.inspect, "exec": e.exec, "start": e.start, "stop": e.stop,
		"restart": e.restart, "rm": e.remove, "logs": e.logs, "pull": e.pull, "version": e.version, "info": e.version,
		"volume": e.volume,
	}
	if command == "container" && len(args) > 0 { // docker container inspect …
		command, args = args[0], args[1:]
	}
	f := commands[command]
	if f == nil {
		return exitf(1, "%s: '%s' is not a %s command that this stand-in knows", e.name, command, e.name)
	}
	return f(args)
}

// daemon starts what is to run always, at the start of docker.service, and
// stops everything at its end.
func (e *engine) daemon(args []string) error {
	if len(args) == 1 && args[0] == "--stop" {
		return e.each(func(c *container) error { return systemctl("stop", e.unit(c.Name)) })
	}
	if len(args) != 0 {
		return exitf(1, "dockerd: unknown arguments %q", args)
	}
	return e.each(func(c *container) error {
		if c.HostConfig.RestartPolicy.Name != "always" {
			return nil
		}
		return e.launch(c)
	})
}

func (e *engine) unit(name string) string { return e.name + "-" + name + ".service" }

func (e *engine) file(name string) string { return filepath.Join(e.dir, name+".json") }

func (e *engine) socket(name string) string { return filepath.Join(e.dir, name+".sock") }

func (e *engine) load(name string) (*container, error) {
	data, err := os.ReadFile(e.file(filepath.Base(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, exitf(1, "Error: No such object: %s", name)
	}
	c := &container{}
	if err == nil {
		err = json.Unmarshal(data, c)
	}
	if err != nil {
		return nil, err
	}
	c.State.Running = systemctl("is-active", e.unit(c.Name)) == nil
	c.State.Status = "exited"
	if c.State.Running {
		c.State.Status = "running"
	}
	return c, nil
}

func (e *engine) save(c *container) error {
	if err := os.MkdirAll(e.dir, 0o700); err != nil {
		return err
	}
	return writeJSON(e.file(c.Name), c)
}

func (e *engine) each(do func(*container) error) error {
	names, err := filepath.Glob(e.file("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		c, err := e.load(strings.TrimSuffix(filepath.Base(name), ".json"))
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the container's process as a unit of its own, which outlives
// whoever asked for it.
func (e *engine) launch(c *container) error {
	if c.State.Running {
		return nil
	}
	_ = systemctl("reset-failed", e.unit(c.Name))
	out, err := exec.Command("systemd-run", "--quiet", "--unit="+e.unit(c.Name), "--property=KillMode=mixed",
		"/usr/bin/"+e.name, "--container", c.Name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("start container %s: %w: %s", c.Name, err, out)
	}
	return nil
}

// secretEnv are the variables whose values are not kept.
func secretEnv(name string) bool { return strings.Contains(name, "PASSWORD") }

func withoutSecrets(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if name, _, ok := strings.Cut(a, "="); ok && secretEnv(name) {
			out[i] = name + "=[redacted]"
		}
		if i > 0 && filepath.Base(out[i-1]) == "change-admin-password" {
			out[i] = "[redacted]"
		}
	}
	return out
}

var imageName = regexp.MustCompile(`^(docker\.io/)?percona/pmm-server:3(\.\d+)*$`)

// runContainer accepts the invocation that PMM's documentation gives and no
// other.
func (e *engine) runContainer(args []string) error {
	known := flags{"detach": "bool", "restart": "value", "publish": "value", "volume": "value", "name": "value",
		"env": "value", "env-file": "value", "pull": "value", "log-driver": "value", "log-opt": "value"}
	p, err := known.parse(args, map[string]string{"d": "detach", "p": "publish", "v": "volume", "e": "env"}, false)
	if err != nil {
		return exitf(125, "%v\n\nUsage:  %s run [OPTIONS] IMAGE [COMMAND] [ARG...]", err, e.name)
	}
	if len(p.rest) != 1 {
		return exitf(125, "stand-in %s run: want an image and no command, not %q", e.name, p.rest)
	}
	c := &container{Name: p.last("name"), Image: p.rest[0], Created: time.Now().UTC()}
	c.Config.Image = c.Image
	c.HostConfig.RestartPolicy.Name = p.last("restart")
	if !imageName.MatchString(c.Image) {
		return exitf(125, "Unable to find image '%s' locally\n%s: Error response from daemon: manifest for %s not found", c.Image, e.name, c.Image)
	}
	if e.name == "podman" && !strings.HasPrefix(c.Image, "docker.io/") {
		return exitf(125, "Error: short-name %q did not resolve to an alias and no unqualified-search registries are defined", c.Image)
	}
	if !p.has("detach") {
		return exitf(125, "stand-in %s run: without --detach it would stay in the foreground", e.name)
	}
	if c.Name == "" {
		return exitf(125, "stand-in %s run: --name is missing", e.name)
	}
	if _, err := e.load(c.Name); err == nil {
		return exitf(125, "%s: Error response from daemon: Conflict. The container name \"/%s\" is already in use", e.name, c.Name)
	}
	if c.HostConfig.RestartPolicy.Name != "always" {
		return exitf(125, "stand-in %s run: --restart is %q: the server would not come back after a reboot", e.name, c.HostConfig.RestartPolicy.Name)
	}
	host, inside, ok := strings.Cut(p.last("publish"), ":")
	if len(p.values["publish"]) != 1 || !ok || inside != "8443" || !regexp.MustCompile(`^\d+$`).MatchString(host) {
		return exitf(125, "stand-in %s run: want one --publish PORT:8443, not %q", e.name, p.values["publish"])
	}
	c.Port = host
	volume, at, ok := strings.Cut(p.last("volume"), ":")
	if len(p.values["volume"]) != 1 || !ok || at != "/srv" || !regexp.MustCompile(`^[a-z][a-z0-9_.-]*$`).MatchString(volume) {
		return exitf(125, "stand-in %s run: want one --volume NAME:/srv, not %q", e.name, p.values["volume"])
	}
	c.Volume = volume
	env, err := environment(p)
	if err != nil {
		return err
	}
	password := "admin" // the image's
	for name, value := range env {
		switch name {
		case "GF_SECURITY_ADMIN_PASSWORD":
			password = value
		case "PMM_ENABLE_TELEMETRY", "PMM_DATA_RETENTION", "PMM_ENABLE_UPDATES":
		default:
			return exitf(125, "stand-in %s run: PMM's server does not know the variable %s", e.name, name)
		}
		if secretEnv(name) {
			value = "[redacted]"
		}
		c.Config.Env = append(c.Config.Env, name+"="+value)
	}
	slices.Sort(c.Config.Env)
	// The password takes effect when the volume is new.
	s := &pmmServer{file: e.volumeFile(volume)}
	if err := s.load(); errors.Is(err, fs.ErrNotExist) {
		s.PasswordSum = checksum(password)
		err = s.save()
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := e.save(c); err != nil {
		return err
	}
	if err := e.launch(c); err != nil {
		return err
	}
	fmt.Println(checksum(c.Name))
	return nil
}

// environment collects --env and --env-file; a name alone takes the caller's
// value.
func environment(p *parsed) (map[string]string, error) {
	lines := []string{}
	for _, name := range p.values["env-file"] {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, exitf(125, "docker: open %s: %v", name, err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
	}
	env := map[string]string{}
	for _, line := range append(lines, p.values["env"]...) {
		name, value, given := strings.Cut(line, "=")
		if !given {
			if value, given = os.LookupEnv(name); !given {
				continue
			}
		}
		env[name] = value
	}
	return env, nil
}

func (e *engine) volumeFile(name string) string {
	return filepath.Join(e.dir, "volumes", name+".json")
}

func (e *engine) ps(args []string) error {
	p, err := flags{"all": "bool", "quiet": "bool", "filter": "value", "format": "value"}.parse(args, map[string]string{"a": "all", "q": "quiet", "f": "filter"}, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	type row struct{ ID, Names, Image, Status, State, Ports string }
	if !p.has("quiet") && !p.has("format") {
		fmt.Println("CONTAINER ID   IMAGE   STATUS   PORTS   NAMES")
	}
	return e.each(func(c *container) error {
		if !c.State.Running && !p.has("all") {
			return nil
		}
		for _, f := range p.values["filter"] {
			key, want, _ := strings.Cut(f, "=")
			switch {
			case key == "name" && strings.Contains(c.Name, strings.Trim(want, "^/$")):
			case key == "status" && want == c.State.Status:
			case key == "name" || key == "status":
				return nil
			default:
				return exitf(1, "stand-in %s ps: unknown filter %s", e.name, f)
			}
		}
		r := row{checksum(c.Name)[:12], c.Name, c.Image, "Up", c.State.Status, "0.0.0.0:" + c.Port + "->8443/tcp"}
		if !c.State.Running {
			r.Status = "Exited (0)"
		}
		switch {
		case p.has("format"):
			return printTemplate(p.last("format"), r)
		case p.has("quiet"):
			fmt.Println(r.ID)
		default:
			fmt.Println(r.ID, r.Image, r.Status, r.Ports, r.Names)
		}
		return nil
	})
}

func (e *engine) inspect(args []string) error {
	p, err := flags{"format": "value", "type": "value"}.parse(args, map[string]string{"f": "format"}, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	found := []*container{}
	for _, name := range p.rest {
		c, err := e.load(name)
		if err != nil {
			return err
		}
		found = append(found, c)
		if p.has("format") {
			if err := printTemplate(p.last("format"), c); err != nil {
				return err
			}
		}
	}
	if p.has("format") {
		return nil
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "    ")
	return encoder.Encode(found)
}

func printTemplate(text string, data any) error {
	t, err := template.New("format").Parse(strings.TrimPrefix(text, "table "))
	if err == nil {
		err = t.Execute(os.Stdout, data)
	}
	if err != nil {
		return exitf(1, "template parsing error: %v", err)
	}
	fmt.Println()
	return nil
}

// exec runs what the server's container has: curl against itself and the
// tool that sets the password.
func (e *engine) exec(args []string) error {
	p, err := flags{"interactive": "bool", "tty": "bool", "user": "value", "env": "value"}.
		parse(args, map[string]string{"i": "interactive", "t": "tty", "u": "user", "e": "env"}, false)
	if err != nil {
		return exitf(125, "%v", err)
	}
	if len(p.rest) < 2 {
		return exitf(1, "\"%s exec\" requires at least 2 arguments", e.name)
	}
	c, err := e.load(p.rest[0])
	if err != nil {
		return err
	}
	if !c.State.Running {
		return exitf(1, "Error response from daemon: container %s is not running", c.Name)
	}
	if p.has("tty") {
		// The real one wants a terminal only together with --interactive.
		if info, err := os.Stdin.Stat(); p.has("interactive") && (err != nil || info.Mode()&os.ModeCharDevice == 0) {
			return exitf(1, "the input device is not a TTY")
		}
	}
	inside := insideClient(e.socket(c.Name))
	switch command, rest := filepath.Base(p.rest[1]), p.rest[2:]; command {
	case "curl":
		return curl(inside, rest)
	case "change-admin-password":
		if len(rest) != 1 || rest[0] == "" {
			return exitf(1, "change-admin-password: want one password")
		}
		response, err := inside.Post("http://inside/standin/password", "text/plain", strings.NewReader(rest[0]))
		if err != nil {
			return exitf(1, "change-admin-password: %v", err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return exitf(1, "change-admin-password: the server is not ready: %s", response.Status)
		}
		fmt.Println("Admin password changed successfully")
		return nil
	default:
		return exitf(127, "OCI runtime exec failed: exec failed: unable to start container process: exec: %q: this stand-in does not have it", command)
	}
}

func curl(inside *http.Client, args []string) error {
	p, err := flags{"fail": "bool", "silent": "bool", "show-error": "bool", "max-time": "value"}.
		parse(args, map[string]string{"f": "fail", "s": "silent", "S": "show-error", "m": "max-time"}, true)
	if err != nil || len(p.rest) != 1 {
		return exitf(2, "curl in the stand-in: %q: %v", args, err)
	}
	path, ok := strings.CutPrefix(p.rest[0], "http://127.0.0.1:8080/")
	if !ok {
		return exitf(7, "curl: (7) Failed to connect to %s: inside the container the server answers at http://127.0.0.1:8080/", p.rest[0])
	}
	response, err := inside.Get("http://inside/" + path)
	if err != nil {
		return exitf(7, "curl: (7) Failed to connect: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	if p.has("fail") && response.StatusCode >= 400 {
		return exitf(22, "curl: (22) The requested URL returned error: %d", response.StatusCode)
	}
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

func (e *engine) start(args []string) error {
	p, err := flags{"all": "bool", "filter": "value"}.parse(args, nil, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	if p.has("all") {
		return e.each(func(c *container) error {
			if f := p.last("filter"); f != "" && f != "restart-policy="+c.HostConfig.RestartPolicy.Name {
				return nil
			}
			return e.launch(c)
		})
	}
	return e.named(p.rest, e.launch)
}

func (e *engine) stop(args []string) error {
	p, err := flags{"all": "bool", "filter": "value", "time": "value"}.parse(args, map[string]string{"t": "time"}, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	stop := func(c *container) error { return systemctl("stop", e.unit(c.Name)) }
	if p.has("all") {
		return e.each(stop)
	}
	return e.named(p.rest, stop)
}

func (e *engine) restart(args []string) error {
	return e.named(args, func(c *container) error {
		if err := systemctl("stop", e.unit(c.Name)); err != nil {
			return err
		}
		c.State.Running = false
		return e.launch(c)
	})
}

func (e *engine) remove(args []string) error {
	p, err := flags{"force": "bool", "volumes": "bool"}.parse(args, map[string]string{"f": "force", "v": "volumes"}, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	return e.named(p.rest, func(c *container) error {
		if c.State.Running && !p.has("force") {
			return exitf(1, "Error response from daemon: cannot remove container \"/%s\": container is running", c.Name)
		}
		if c.State.Running {
			if err := systemctl("stop", e.unit(c.Name)); err != nil {
				return err
			}
		}
		return os.Remove(e.file(c.Name))
	})
}

// named does something to containers by name and prints the names.
func (e *engine) named(names []string, do func(*container) error) error {
	if len(names) == 0 {
		return exitf(1, "requires at least 1 argument")
	}
	for _, name := range names {
		c, err := e.load(name)
		if err != nil {
			return err
		}
		if err := do(c); err != nil {
			return err
		}
		fmt.Println(name)
	}
	return nil
}

func (e *engine) logs(args []string) error {
	p, err := flags{"tail": "value"}.parse(args, map[string]string{"n": "tail"}, true)
	if err != nil {
		return exitf(125, "%v", err)
	}
	return e.named(p.rest, func(c *container) error {
		cmd := exec.Command("journalctl", "--no-pager", "--output=cat", "--unit="+e.unit(c.Name))
		cmd.Stdout = os.Stdout
		return cmd.Run()
	})
}

func (e *engine) pull(args []string) error {
	p, err := flags{"quiet": "bool"}.parse(args, map[string]string{"q": "quiet"}, true)
	if err != nil || len(p.rest) != 1 {
		return exitf(125, "stand-in %s pull: %q: %v", e.name, args, err)
	}
	if !imageName.MatchString(p.rest[0]) {
		return exitf(1, "Error response from daemon: manifest for %s not found", p.rest[0])
	}
	fmt.Println(p.rest[0])
	return nil
}

func (e *engine) version([]string) error {
	fmt.Printf("%s 28.5.2, a stand-in of a test\n", e.name)
	return nil
}

func (e *engine) volume(args []string) error {
	if len(args) == 2 {
		file := e.volumeFile(filepath.Base(args[1]))
		switch args[0] {
		case "create":
			fmt.Println(args[1]) // made when it is first used
			return nil
		case "rm":
			return os.Remove(file)
		case "inspect":
			_, err := os.Stat(file)
			return err
		}
	}
	return exitf(1, "stand-in %s volume: %q", e.name, args)
}

func systemctl(args ...string) error {
	out, err := exec.Command("systemctl", append([]string{"--quiet"}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// writeJSON replaces a file that only root may read.
func writeJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
