// Command standin is, by the name it is called, one of the programs that the
// packages of the lab install and that cannot run there:
//
//   - docker, podman and dockerd: a container engine that knows one image,
//     PMM's server, and the exact way to run it. The container is a systemd
//     unit with the parts of the server that provisioning talks to.
//   - pmm-agent and pmm-admin: PMM's client. It registers with that server
//     over its API, with password and certificate checks, and connects to the
//     mongod that it is to watch with the credentials it is given.
//
// Flags that the real programs do not know are refused, and those that they
// know and that would be ignored here too. What they were asked is recorded,
// without secrets, in /var/log/standin.ndjson.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// exitError ends the program with a code of the real one's.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func exitf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

func main() {
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	var err error
	switch name {
	case "docker", "podman", "dockerd":
		err = newEngine(name).run(name, args)
	case "pmm-admin":
		err = admin(args)
	case "pmm-agent":
		err = agent(args)
	default:
		err = fmt.Errorf("called as %s: no such stand-in", name)
	}
	if err == nil {
		return
	}
	code := 1
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(code)
}

// record adds a call to the log. Values of the flags and variables that hold
// secrets are not in it.
func record(program string, args []string) {
	line, err := json.Marshal(struct {
		Program string   `json:"program"`
		Args    []string `json:"args"`
	}{program, args})
	if err != nil {
		return
	}
	f, err := os.OpenFile("/var/log/standin.ndjson", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // no secrets
	if err != nil {
		return // a user without rights
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

// flags are those a command knows: "bool" or "value" by name without dashes.
type flags map[string]string

// parsed are the flags given, in order, and the other arguments.
type parsed struct {
	values map[string][]string
	rest   []string
}

func (p *parsed) has(name string) bool { return len(p.values[name]) > 0 }

func (p *parsed) last(name string) string {
	if v := p.values[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// parse reads --name, --name=value, --name value and short flags. With
// interspersed unset, the first other argument ends them, as for docker run.
// aliases name the long form of short flags.
func (f flags) parse(args []string, aliases map[string]string, interspersed bool) (*parsed, error) {
	p := &parsed{values: map[string][]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			p.rest = append(p.rest, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if !interspersed {
				p.rest = append(p.rest, args[i:]...)
				break
			}
			p.rest = append(p.rest, arg)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "--") {
			// -it is -i -t; -p80:80 is not used here.
			if len(name) > 1 && !hasValue {
				letters := []string{}
				for _, c := range name {
					letters = append(letters, "-"+string(c))
				}
				args = slices.Concat(args[:i:i], letters, args[i+1:])
				i--
				continue
			}
			long, known := aliases[name]
			if !known {
				return nil, fmt.Errorf("unknown shorthand flag: '%s' in -%s", name, name)
			}
			name = long
		}
		switch kind := f[name]; {
		case kind == "":
			return nil, fmt.Errorf("unknown flag: --%s", name)
		case kind == "bool" && !hasValue:
			value = "true"
		case kind == "value" && !hasValue:
			if i++; i == len(args) {
				return nil, fmt.Errorf("flag needs an argument: --%s", name)
			}
			value = args[i]
		}
		p.values[name] = append(p.values[name], value)
	}
	return p, nil
}
