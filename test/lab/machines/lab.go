//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Gateway is the test's own address, as machines and the test see it.
const Gateway = "100.64.0.1"

// gatewayNet is the network of the gateway. Each machine has an address in it,
// from which it speaks to the gateway and on which nothing is to be reached.
const gatewayNet = "100.64.0.0/10"

const (
	bridge    = "br0"
	bridgeMAC = "02:64:00:00:00:01"
)

// Options say what machines are given.
type Options struct {
	// CA is certificates in PEM that machines trust.
	CA []byte
	// Hosts are the names that machines resolve, to Gateway.
	Hosts []string
	// Files, if set, is what else a machine with an image has from the start.
	Files func(Image) []File
}

// File is one in the root file system of a machine.
type File struct {
	Path   string // absolute
	Data   []byte
	Mode   fs.FileMode // 0: 0644
	Append bool        // to what is there
}

// Lab is a network with machines. Its methods may be called at any time, by
// several goroutines.
type Lab struct {
	options Options
	folder  string
	image   string
	dns     *dnsServer
	choices *choices

	mu       sync.Mutex
	machines map[string]*machine
	created  int // machines, ever
}

// New makes the network. There is one lab at a time, in a process that Main
// has prepared.
func New(options Options) (*Lab, error) {
	l := &Lab{
		options: options, folder: os.Getenv(labVariable), image: os.Getenv(imageVariable),
		machines: map[string]*machine{},
	}
	if l.folder == "" {
		return nil, errors.New("new lab: not in a process that Main prepared")
	}
	err := ip("",
		"link set lo up",
		"link add "+bridge+" address "+bridgeMAC+" type bridge",
		"addr add "+Gateway+"/"+strings.Split(gatewayNet, "/")[1]+" dev "+bridge,
		"link set "+bridge+" up")
	if err != nil {
		return nil, fmt.Errorf("new lab: %w", err)
	}
	if l.dns, err = serveDNS(Gateway, options.Hosts); err == nil {
		if l.choices, err = newChoices(); err == nil {
			return l, nil
		}
		l.dns.close()
	}
	return nil, errors.Join(fmt.Errorf("new lab: %w", err), ip("", "link del "+bridge))
}

// Close removes all machines and the network.
func (l *Lab) Close() error {
	var wg sync.WaitGroup
	names := l.Names()
	errs := make([]error, len(names))
	for i, name := range names {
		wg.Go(func() { errs[i] = l.Delete(name) })
	}
	wg.Wait()
	l.dns.close()
	l.choices.close()
	return errors.Join(append(errs, ip("", "link del "+bridge))...)
}

// Names is the machines that exist, sorted.
func (l *Lab) Names() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make([]string, 0, len(l.machines))
	for name := range l.machines {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Lookups is the names that machines asked for and that do not exist.
func (l *Lab) Lookups() []string { return l.dns.unknown() }

// machine finds a machine and locks it: what is done to one is done in turn.
func (l *Lab) machine(name string) (*machine, error) {
	return l.claim(name, func() (*machine, error) { return nil, fmt.Errorf("there is no machine %s", name) })
}

// claim finds a machine, or makes it known, and locks it.
func (l *Lab) claim(name string, create func() (*machine, error)) (*machine, error) {
	for {
		l.mu.Lock()
		m := l.machines[name]
		if m == nil {
			var err error
			if m, err = create(); err != nil {
				l.mu.Unlock()
				return nil, err
			}
			l.machines[name] = m
		}
		l.mu.Unlock()
		m.mu.Lock()
		if !m.deleted {
			return m, nil
		}
		m.mu.Unlock() // while this waited
	}
}

// forget is the end of a machine that is locked.
func (l *Lab) forget(m *machine) {
	m.deleted = true
	l.mu.Lock()
	delete(l.machines, m.name)
	l.mu.Unlock()
}

// Start creates a machine and turns it on, or turns one on that is off: with
// its files and disks, and the addresses and keys of m. It is on when Start
// returns, and booting.
func (l *Lab) Start(ctx context.Context, m Machine) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("start machine %s: %w", m.Name, err)
	}
	known, _ := l.claim(m.Name, func() (*machine, error) {
		l.created++
		return l.newMachine(m.Name, l.created), nil
	})
	defer known.mu.Unlock()
	if err := known.start(ctx, m); err != nil {
		if !known.exists {
			l.forget(known)
		}
		return fmt.Errorf("start machine %s: %w", m.Name, err)
	}
	return nil
}

// PowerOn turns on a machine that is off, as it was.
func (l *Lab) PowerOn(ctx context.Context, name string) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("power on: %w", err)
	}
	defer m.mu.Unlock()
	if err := m.start(ctx, m.spec); err != nil {
		return fmt.Errorf("power on %s: %w", name, err)
	}
	return nil
}

// Stop shuts a machine down in good order, or turns it off after half a
// minute, and returns when it is off. Its disks stay.
func (l *Lab) Stop(name string) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	defer m.mu.Unlock()
	m.shutDown()
	return nil
}

// Kill turns a machine off, as by cutting its power, and returns when it is
// off.
func (l *Lab) Kill(name string) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	defer m.mu.Unlock()
	m.powerOff()
	return nil
}

// Reboot shuts a machine down in good order and turns it on again. It is
// booting when Reboot returns.
func (l *Lab) Reboot(ctx context.Context, name string) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	defer m.mu.Unlock()
	if !m.running() {
		return fmt.Errorf("reboot %s: it is off", name)
	}
	m.shutDown()
	if err := m.start(ctx, m.spec); err != nil {
		return fmt.Errorf("reboot %s: %w", name, err)
	}
	return nil
}

// Running tells whether a machine is on. It is off when it has shut itself
// down.
func (l *Lab) Running(name string) bool {
	m, err := l.machine(name)
	if err != nil {
		return false
	}
	defer m.mu.Unlock()
	return m.running()
}

// Partition cuts a machine off from all networks, or ends that. Connections
// notice nothing but silence.
func (l *Lab) Partition(name string, cut bool) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("partition: %w", err)
	}
	defer m.mu.Unlock()
	port := "master " + bridge
	if cut {
		port = "nomaster"
	}
	if err := ip("", "link set "+m.port+" "+port); err != nil {
		return fmt.Errorf("partition %s: %w", name, err)
	}
	return nil
}

// Delete turns a machine off and removes it, with those of its disks that do
// not Outlive it.
func (l *Lab) Delete(name string) error {
	m, err := l.machine(name)
	if err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	defer m.mu.Unlock()
	if err := m.remove(); err != nil {
		return fmt.Errorf("delete machine %s: %w", name, err)
	}
	l.forget(m)
	return nil
}

// Disks is the data disks that exist, with a machine or without, sorted.
func (l *Lab) Disks() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(l.folder, disksFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, nil
}

// DeleteDisk removes a data disk that no machine has. One that does not exist,
// since no machine ever had it, is no error.
func (l *Lab) DeleteDisk(name string) error {
	if !diskName.MatchString(name) {
		return fmt.Errorf("delete disk: %q cannot be the name of one", name)
	}
	if err := os.Remove(filepath.Join(l.folder, disksFolder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete disk: %w", err)
	}
	return nil
}

// Console is the end of what a machine has said: its container, and as long as
// it is on, its journal. It is for people who wonder why it does not answer.
func (l *Lab) Console(name string) string {
	m, err := l.machine(name)
	if err != nil {
		return err.Error()
	}
	defer m.mu.Unlock()
	text, _ := os.ReadFile(m.in("console")) // none before the first boot
	console := lastLines(string(text), 20)
	if !m.running() {
		return console
	}
	journal, err := m.inside("journalctl", "--boot", "--lines=60", "--no-pager", "--no-hostname")
	if err != nil {
		journal = err.Error()
	}
	return strings.TrimSpace(console + "\n" + journal)
}

// ip runs commands of ip(8) in a network namespace, "" for the lab's own.
func ip(namespace string, commands ...string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = append([]string{"-netns", namespace}, args...)
	}
	cmd := exec.Command("ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func isIPv4(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && a.Is4()
}
