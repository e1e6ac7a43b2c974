package remote

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ConfigHost is one Host entry of an ssh_config.
type ConfigHost struct {
	// Names are what a user may type: the host's name and its aliases.
	Names []string
	// Machine is what they stand for. Its jump host, if any, must be a host of
	// the same file, found by its name.
	Machine Machine
	// Forwards are the ports to tunnel whenever the user logs in.
	Forwards []ConfigForward
	// Comment is put above the entry.
	Comment string
}

// ConfigForward is one LocalForward.
type ConfigForward struct {
	Listen string // "host:port" on the user's side
	Target string // "host:port" as seen from the machine
}

// Config is an ssh_config for machines that share a key and host keys.
type Config struct {
	IdentityFile string // path of the private key
	KnownHosts   string // path of the known_hosts file
	Hosts        []ConfigHost
}

var (
	configName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	configAddr = regexp.MustCompile(`^[A-Za-z0-9:][A-Za-z0-9._:-]*$`)
)

// Text renders the file for OpenSSH, or says what cannot be written in it.
func (c Config) Text() (string, error) {
	identity, err := configPath(c.IdentityFile)
	if err != nil {
		return "", fmt.Errorf("ssh_config: identity file: %w", err)
	}
	known, err := configPath(c.KnownHosts)
	if err != nil {
		return "", fmt.Errorf("ssh_config: known hosts: %w", err)
	}
	listed := map[string]bool{}
	for _, h := range c.Hosts {
		for _, name := range h.Names {
			if !configName.MatchString(name) {
				return "", fmt.Errorf("ssh_config: %q cannot be a host's name", name)
			}
			if listed[name] {
				return "", fmt.Errorf("ssh_config: host %s is listed twice", name)
			}
			listed[name] = true
		}
	}
	var b strings.Builder
	b.WriteString("# Generated: changes are overwritten.\n")
	for _, h := range c.Hosts {
		if err := h.text(&b, identity, known, listed); err != nil {
			return "", fmt.Errorf("ssh_config: host %s: %w", strings.Join(h.Names, " "), err)
		}
	}
	return b.String(), nil
}

func (h ConfigHost) text(b *strings.Builder, identity, known string, listed map[string]bool) error {
	m := h.Machine
	switch {
	case len(h.Names) == 0:
		return errors.New("it has no name")
	case !configAddr.MatchString(m.Address):
		return fmt.Errorf("%q is not an address", m.Address)
	case !configName.MatchString(m.User):
		return fmt.Errorf("%q is not a user", m.User)
	case m.Jump != nil && !listed[m.Jump.Name]:
		return fmt.Errorf("its jump host %q is not in the file", m.Jump.Name)
	}
	b.WriteByte('\n')
	for line := range strings.Lines(h.Comment) {
		fmt.Fprintf(b, "# %s\n", strings.TrimSpace(line))
	}
	set := func(keyword, value string) { fmt.Fprintf(b, "  %s %s\n", keyword, value) }
	fmt.Fprintf(b, "Host %s\n", strings.Join(h.Names, " "))
	set("HostName", m.Address)
	if m.Port != 0 && m.Port != 22 {
		set("Port", strconv.Itoa(m.Port))
	}
	set("User", m.User)
	set("IdentityFile", identity)
	set("IdentitiesOnly", "yes")
	set("UserKnownHostsFile", known)
	set("GlobalKnownHostsFile", "/dev/null")
	set("StrictHostKeyChecking", "accept-new")
	set("ServerAliveInterval", "15")
	if m.Jump != nil {
		set("ProxyJump", m.Jump.Name)
	}
	for _, f := range h.Forwards {
		listen, err := configEndpoint(f.Listen)
		if err != nil {
			return err
		}
		target, err := configEndpoint(f.Target)
		if err != nil {
			return err
		}
		set("LocalForward", listen+" "+target)
	}
	return nil
}

// Write renders the file and puts it at path, mode 0600, in one step.
//
// OpenSSH hands the path after -F to the ssh of a jump host without quoting
// it. If it holds blanks or "%", run ssh in its directory with the bare name.
func (c Config) Write(path string) error {
	text, err := c.Text()
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // 0600 by definition
	if err != nil {
		return fmt.Errorf("write ssh_config: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.WriteString(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close(), os.Rename(tmp.Name(), path)); err != nil {
		return fmt.Errorf("write ssh_config: %w", err)
	}
	return nil
}

// configPath writes a path as OpenSSH reads it: absolute, because ssh may run
// anywhere; in quotes, with its tokens escaped. What has no escape in every
// version of OpenSSH is refused.
func configPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(path, "\"\\\n\r\x00") || strings.Contains(path, "${") {
		return "", fmt.Errorf("OpenSSH cannot read %q: rename it", path)
	}
	return `"` + strings.ReplaceAll(path, "%", "%%") + `"`, nil
}

func configEndpoint(endpoint string) (string, error) {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil {
		return "", err
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not a port", port)
	}
	if !configAddr.MatchString(host) {
		return "", fmt.Errorf("%q is not an address", host)
	}
	return net.JoinHostPort(host, port), nil
}
