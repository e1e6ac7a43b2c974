package install

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/mongo-sandbox/sandbox/internal/environment"
	"github.com/mongo-sandbox/sandbox/internal/remote"
	"github.com/mongo-sandbox/sandbox/scripts"
)

// Where things are on a machine. The scripts know these names too.
const (
	scriptDir      = "/usr/local/lib/sandbox"
	parameterDir   = "/etc/sandbox"
	parameterFile  = parameterDir + "/machine.env"
	scriptLog      = "/var/log/sandbox-provision.log"
	lostConnection = 5 // how often to connect again
)

// VersionError says that a package does not exist in the version asked for.
type VersionError struct {
	Package   string
	Version   string
	Available []string // the newest last
}

func (e *VersionError) Error() string {
	if len(e.Available) == 0 {
		return fmt.Sprintf("the repository has no package %s for this system", e.Package)
	}
	return fmt.Sprintf("there is no version %s of %s; there are %s", e.Version, e.Package, strings.Join(e.Available, ", "))
}

// ScriptError says that a script failed on its machine.
type ScriptError struct {
	Step string // what it was doing
	Err  error
}

func (e *ScriptError) Error() string {
	text := e.Err.Error()
	var exit *remote.ExitError
	if errors.As(e.Err, &exit) && exit.Stderr != "" {
		text = exit.Stderr
	}
	return fmt.Sprintf("%s: %s (the full log is in %s there)", e.Step, text, scriptLog)
}

// Unwrap returns the cause.
func (e *ScriptError) Unwrap() error { return e.Err }

// machine is one machine during Run.
type machine struct {
	run   *run
	state environment.MachineState

	done   chan struct{} // closed at the end of install
	failed bool          // set before done is closed

	mu   sync.Mutex
	conn host // nil when not connected
}

// install makes the machine what it is to be, apart from what takes others.
func (m *machine) install(ctx context.Context) error {
	defer close(m.done)
	err := m.work(ctx)
	if err != nil {
		m.failed = true
		m.tell(Event{Stage: Failed, Err: err})
		return &MachineError{m.state.Name, err}
	}
	return nil
}

func (m *machine) work(ctx context.Context) error {
	m.tell(Event{Stage: Connecting})
	if _, err := m.connect(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, m.run.opts.MachineTimeout, fmt.Errorf("not finished after %s", m.run.opts.MachineTimeout))
	defer cancel()
	m.tell(Event{Stage: Installing, Detail: "copying scripts"})
	if err := m.persist(ctx, m.copyScripts); err != nil {
		return err
	}
	var build string
	for _, script := range m.scripts() {
		results, err := m.script(ctx, script, Installing)
		if err != nil {
			return err
		}
		if results["BUILD"] != "" {
			build = results["BUILD"]
		}
	}
	m.tell(Event{Stage: Installed, Detail: build})
	return nil
}

// scripts are what makes a machine of its role.
func (m *machine) scripts() []string {
	switch m.state.Role {
	case string(environment.Data), string(environment.Arbiter):
		return []string{"host.sh", "disk.sh", "tune.sh", "mongod.sh"}
	case environment.Monitoring:
		return []string{"host.sh", "disk.sh", "pmm-server.sh"}
	default:
		return []string{"host.sh"}
	}
}

// monitor registers a member with the PMM server.
func (m *machine) monitor(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, m.run.opts.MachineTimeout, fmt.Errorf("not finished after %s", m.run.opts.MachineTimeout))
	defer cancel()
	results, err := m.script(ctx, "pmm-client.sh", Monitoring)
	if err != nil {
		m.tell(Event{Stage: Failed, Err: err})
		return err
	}
	m.tell(Event{Stage: Installed, Detail: "pmm-client " + results["PMM_BUILD"]})
	return nil
}

func (m *machine) tell(e Event) {
	e.Machine, e.Deployment = m.state.Name, m.state.Deployment
	m.run.tell(e)
}

// connect returns the connection, and makes it if there is none.
func (m *machine) connect(ctx context.Context) (host, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		return m.conn, nil
	}
	timeout := m.run.opts.ReachTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not reached within %s", timeout))
	defer cancel()
	conn, err := m.run.opts.dial(ctx, m.state.Name)
	if err != nil {
		return nil, err
	}
	m.conn = conn
	return conn, nil
}

// drop closes a connection that is of no use any more.
func (m *machine) drop(conn host) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if conn != nil && m.conn == conn {
		_ = conn.Close()
		m.conn = nil
	}
}

func (m *machine) close() {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	m.drop(conn)
}

// persist does something on the machine, again when the connection is lost
// under it: everything that is done here may be done twice.
func (m *machine) persist(ctx context.Context, act func(context.Context, host) error) error {
	for attempt := 1; ; attempt++ {
		conn, err := m.connect(ctx)
		if err != nil {
			return err
		}
		err = act(ctx, conn)
		var lost *remote.LostError
		if !errors.As(err, &lost) || attempt > lostConnection || ctx.Err() != nil {
			return err
		}
		m.drop(conn)
	}
}

// The machine is a host whose connection is made again when it was lost.

func (m *machine) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = m.persist(ctx, func(ctx context.Context, h host) error {
		conn, err = h.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

func (m *machine) Run(ctx context.Context, cmd remote.Command) error {
	return m.persist(ctx, func(ctx context.Context, h host) error { return h.Run(ctx, cmd) })
}

func (m *machine) WriteFile(ctx context.Context, path string, data []byte, o remote.CopyOptions) (written bool, err error) {
	err = m.persist(ctx, func(ctx context.Context, h host) error {
		written, err = h.WriteFile(ctx, path, data, o)
		return err
	})
	return written, err
}

func (m *machine) Close() error {
	m.close()
	return nil
}

// copyScripts puts the scripts and their parameters on the machine.
func (m *machine) copyScripts(ctx context.Context, h host) error {
	bundle, err := bundle()
	if err != nil {
		return err
	}
	err = h.Run(ctx, remote.Command{
		Name: "copy scripts", Sudo: true, Stdin: bytes.NewReader(bundle),
		Script: "install -d -m 700 " + parameterDir + " && install -d -m 755 " + scriptDir + " && tar -x --no-same-owner -f - -C " + scriptDir,
	})
	if err != nil {
		return err
	}
	text, err := m.parameters()
	if err != nil {
		return err
	}
	_, err = h.WriteFile(ctx, parameterFile, text, remote.CopyOptions{Mode: 0o600, Sudo: true})
	return err
}

// bundle is a tar file of all scripts.
func bundle() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := fs.WalkDir(scripts.Provision, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(scripts.Provision, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: path.Base(name), Mode: 0o755, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// cacheGB is the parameter CACHE_GB, "" for the server's default.
func cacheGB(d *environment.DeploymentState, m environment.MachineState) string {
	if d.CacheGB == 0 || m.Role != string(environment.Data) {
		return ""
	}
	return strconv.FormatFloat(d.CacheGB, 'f', -1, 64)
}

// parameters are the lines of the file that the scripts read.
func (m *machine) parameters() ([]byte, error) {
	var hosts []string
	for _, other := range m.run.inv.Machines {
		hosts = append(hosts, other.InternalIP+" "+other.Name)
	}
	disk := "0"
	if m.state.Disk {
		disk = "1"
	}
	values := [][2]string{
		{"NAME", m.state.Name}, {"ROLE", m.state.Role}, {"INTERNAL_IP", m.state.InternalIP},
		{"HOSTS", strings.Join(hosts, "\n")}, {"DISK", disk},
	}
	pmm := m.run.inv.PMM
	if d := m.run.deployment(m.state); d != nil {
		values = append(values, [][2]string{
			{"DEPLOYMENT", d.Name}, {"REPLICA_SET", d.ReplicaSet}, {"DISTRIBUTION", d.Distribution},
			{"RELEASE", d.Release}, {"SERIES", d.Series}, {"VERSION", d.Version}, {"REPOSITORY", d.Repository},
			{"CACHE_GB", cacheGB(d, m.state)}, {"KEYFILE", m.run.secrets.key.Reveal()},
		}...)
		if d.Monitored && pmm != nil {
			values = append(values, [][2]string{
				{"PMM_HOST", pmm.Machine}, {"PMM_VERSION", d.PMMVersion}, {"PMM_REPOSITORY", d.PMMRepository},
				{"ENV_TAG", d.EnvTag}, {"MONITORING_USER", MonitoringUser},
				{"MONITORING_PASSWORD", m.run.secrets.monitoring.Reveal()},
			}...)
		} else {
			pmm = nil
		}
	} else if m.state.Role != environment.Monitoring {
		pmm = nil
	}
	if pmm != nil {
		values = append(values, [][2]string{
			{"PMM_IMAGE", pmm.Image}, {"PMM_PORT", strconv.Itoa(pmm.Port)}, {"PMM_PASSWORD", m.run.secrets.pmm.Reveal()},
		}...)
	}
	var text strings.Builder
	text.WriteString("# Written by sandbox. It holds secrets.\n")
	for _, v := range values {
		quoted, err := remote.Quote(v[1])
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", v[0], err)
		}
		text.WriteString(v[0] + "=" + quoted + "\n")
	}
	return []byte(text.String()), nil
}

// script runs a script and returns its results. Its steps are told as they
// come.
func (m *machine) script(ctx context.Context, name string, stage Stage) (map[string]string, error) {
	out := &results{values: map[string]string{}, step: func(step string) { m.tell(Event{Stage: stage, Detail: step}) }}
	err := m.Run(ctx, remote.Command{Name: name, Args: []string{path.Join(scriptDir, name)}, Sudo: true, Stdout: out})
	var exit *remote.ExitError
	switch {
	case err == nil:
		return out.values, nil
	case errors.As(err, &exit) && out.values["PACKAGE"] != "":
		return nil, &VersionError{out.values["PACKAGE"], out.values["UNKNOWN_VERSION"], strings.Fields(out.values["AVAILABLE"])}
	case out.values["STEP"] == "":
		return nil, &ScriptError{name, err}
	default:
		return nil, &ScriptError{out.values["STEP"], err}
	}
}

// results reads the NAME=VALUE lines of a script.
type results struct {
	values map[string]string
	step   func(string)
	rest   []byte // of a line that is not complete
}

// Write implements io.Writer; it never fails.
func (r *results) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		r.rest = rest
		if name, value, ok := strings.Cut(string(line), "="); ok {
			r.values[name] = strings.TrimSpace(value)
			if name == "STEP" {
				r.step(r.values[name])
			}
		}
	}
}
