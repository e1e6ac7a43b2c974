//go:build linux

package machines

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// MaxDisk is the size of the largest data disk, in GB: file systems on larger
// ones would take room on the disk underneath while they are empty.
const MaxDisk = 2

// shutdownTime is how long a machine may take to shut down.
const shutdownTime = 30 * time.Second

// Machine is one as the compute API describes it.
type Machine struct {
	Name       string
	InternalIP string   // in any network; machines reach each other
	ExternalIP string   // "": only other machines reach it
	Image      string   // name at the API, see ImageOf
	SSHKeys    []string // "user:key" lines of the metadata; each user may use sudo
	Disks      []Disk   // the boot disk is passed over
}

// Disk is one attached to a machine.
type Disk struct {
	DeviceName string // the machine finds it as /dev/disk/by-id/google-<DeviceName>
	Name       string // what the disk itself is called; unique in the lab
	GB         int64
	Boot       bool
	Outlives   bool // it stays, with its data, when its machine is deleted
}

var (
	machineName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	userName    = regexp.MustCompile(`^[a-z_][-a-z0-9_]{0,31}$`)
	diskName    = regexp.MustCompile(`^[a-zA-Z0-9][-_.a-zA-Z0-9]{0,62}$`)
)

func (m Machine) check() error {
	if !machineName.MatchString(m.Name) {
		return errors.New("that is no name of a machine")
	}
	if !isIPv4(m.InternalIP) || m.ExternalIP != "" && !isIPv4(m.ExternalIP) {
		return fmt.Errorf("%q and %q are not its addresses", m.InternalIP, m.ExternalIP)
	}
	if _, err := ImageOf(m.Image); err != nil {
		return err
	}
	for _, line := range m.SSHKeys {
		if user, _, ok := strings.Cut(line, ":"); !ok || !userName.MatchString(user) {
			return fmt.Errorf("%q is not a user and a key", line)
		}
	}
	for _, d := range m.Disks {
		if !d.Boot && (!diskName.MatchString(d.DeviceName) || !diskName.MatchString(d.Name)) {
			return fmt.Errorf("disk %q with device name %q cannot be", d.Name, d.DeviceName)
		}
	}
	return nil
}

// machine is one that exists. Who calls its methods holds mu.
type machine struct {
	lab     *Lab
	name    string
	folder  string
	port    string // its end of the cable at the bridge; also names its namespace and cgroup
	mac     string
	address string // in gatewayNet

	mu      sync.Mutex
	spec    Machine
	exists  bool // its root file system and network do
	deleted bool
	loops   []*os.File
	off     chan struct{} // closed when it is off; nil before the first start

	power    sync.Mutex // guards what follows; never held for long
	stopping bool       // it is not to boot again
	process  *os.Process
}

func (l *Lab) newMachine(name string, n int) *machine {
	return &machine{
		lab: l, name: name, folder: filepath.Join(l.folder, "machines", name), port: "m" + strconv.Itoa(n),
		mac:     fmt.Sprintf("02:64:01:00:%02x:%02x", n>>8, n&0xff),
		address: fmt.Sprintf("100.64.%d.%d", 1+n>>8, n&0xff),
	}
}

func (m *machine) in(name string) string     { return filepath.Join(m.folder, name) }
func (m *machine) inRoot(name string) string { return filepath.Join(m.folder, "root", name) }
func (m *machine) cgroup() string            { return filepath.Join(cgroupOf(m.lab.folder), m.port) }

func (m *machine) running() bool {
	if m.off == nil {
		return false
	}
	select {
	case <-m.off:
		return false
	default:
		return true
	}
}

// start creates the machine if it does not exist, and turns it on.
func (m *machine) start(ctx context.Context, spec Machine) error {
	if m.running() {
		return errors.New("it is on")
	}
	m.release()
	before := m.spec
	m.spec = spec
	if !m.exists {
		if err := m.create(ctx); err != nil {
			return errors.Join(err, m.remove())
		}
		m.exists = true
	}
	if err := m.connect(before.ExternalIP); err != nil {
		return err
	}
	if err := m.authorize(ctx); err != nil {
		return err
	}
	if err := m.attachDisks(); err != nil {
		return err
	}
	return m.boot()
}

// create makes the root file system and the network interface.
func (m *machine) create(ctx context.Context) error {
	for _, folder := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(m.in(folder), 0o755); err != nil {
			return err
		}
	}
	image, err := ImageOf(m.spec.Image)
	if err != nil {
		return err
	}
	layers := fmt.Sprintf("lowerdir=%s:%s,upperdir=%s,workdir=%s,volatile",
		filepath.Join(m.lab.image, string(image)), filepath.Join(m.lab.image, "base"), m.in("upper"), m.in("work"))
	if err := unix.Mount("overlay", m.inRoot(""), "overlay", 0, layers); err != nil {
		return fmt.Errorf("mount the root file system: %w", err)
	}
	if err := m.writeFiles(image); err != nil {
		return err
	}
	if _, err := output(ctx, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "root@"+m.spec.Name,
		"-f", m.inRoot("etc/ssh/ssh_host_ed25519_key")); err != nil {
		return err
	}
	return ip("",
		"netns add "+m.port,
		fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %s", m.port, m.mac, m.port),
		"link set "+m.port+" master "+bridge+" up")
}

func (m *machine) writeFiles(image Image) error {
	domain := m.spec.Name + ".c.lab.internal"
	files := []File{
		{Path: "/etc/hostname", Data: []byte(m.spec.Name + "\n")},
		// The last line is what Google's agent adds.
		{Path: "/etc/hosts", Data: []byte("127.0.0.1 localhost\n" + m.spec.InternalIP + " " + domain + " " + m.spec.Name + "  # Added by Google\n")},
		{Path: "/etc/resolv.conf", Data: []byte("nameserver " + Gateway + "\n")},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Data: m.lab.options.CA, Append: true},
	}
	if m.lab.options.Files != nil {
		files = append(files, m.lab.options.Files(image)...)
	}
	for _, f := range files {
		place := m.inRoot(f.Path)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		text := f.Data
		if f.Append {
			before, err := os.ReadFile(place)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			text = slices.Concat(before, text)
		}
		mode := f.Mode
		if mode == 0 {
			mode = 0o644
		}
		if err := replace(place, text, mode); err != nil {
			return err
		}
	}
	return nil
}

// connect gives the machine its addresses. All networks are one wire: whoever
// is asked for answers.
func (m *machine) connect(formerExternal string) error {
	inside := []string{
		"link set lo up",
		"addr flush dev eth0",
		"link set eth0 up",
		"addr add " + m.spec.InternalIP + "/32 dev eth0",
		"addr add " + m.address + "/32 dev eth0",
		"route add default dev eth0 src " + m.spec.InternalIP,
		"route add " + gatewayNet + " dev eth0 src " + m.address,
	}
	if m.spec.ExternalIP != "" {
		inside = append(inside, "addr add "+m.spec.ExternalIP+"/32 dev eth0")
	}
	if err := ip(m.port, inside...); err != nil {
		return err
	}
	m.forgetAddress(formerExternal)
	if m.spec.ExternalIP == "" {
		return nil
	}
	// The fixed neighbour makes a machine that is off or cut off silent, as on
	// the internet, instead of unreachable.
	return ip("",
		"route replace "+m.spec.ExternalIP+"/32 dev "+bridge+" src "+Gateway,
		"neigh replace "+m.spec.ExternalIP+" lladdr "+m.mac+" dev "+bridge+" nud permanent")
}

func (m *machine) forgetAddress(external string) {
	if external != "" { // the commands fail if it was not set
		_ = ip("", "route del "+external+"/32 dev "+bridge)
		_ = ip("", "neigh del "+external+" dev "+bridge)
	}
}

// authorize makes the users of the metadata's keys, as Google's agent does.
func (m *machine) authorize(ctx context.Context) error {
	keys := map[string][]string{}
	for _, line := range m.spec.SSHKeys {
		user, key, _ := strings.Cut(line, ":")
		keys[user] = append(keys[user], strings.TrimSpace(key))
	}
	for user, lines := range keys {
		home, uid, gid, err := m.account(user)
		if err != nil {
			return err
		}
		if home == "" {
			if _, err := output(ctx, m.inRoot(""), "/usr/sbin/useradd", "--create-home", "--shell", "/bin/bash",
				"--groups", "adm,google-sudoers", user); err != nil {
				return err
			}
			if home, uid, gid, err = m.account(user); err != nil {
				return err
			}
		}
		folder := m.inRoot(filepath.Join(home, ".ssh"))
		file := filepath.Join(folder, "authorized_keys")
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600),
			os.Chown(folder, uid, gid), os.Chown(file, uid, gid)); err != nil {
			return err
		}
	}
	return nil
}

// account finds a user in the machine's passwd, with home "" if there is none.
func (m *machine) account(user string) (home string, uid, gid int, err error) {
	f, err := os.Open(m.inRoot("etc/passwd"))
	if err != nil {
		return "", 0, 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Split(lines.Text(), ":"); len(fields) == 7 && fields[0] == user {
			uid, err1 := strconv.Atoi(fields[2])
			gid, err2 := strconv.Atoi(fields[3])
			return fields[5], uid, gid, errors.Join(err1, err2)
		}
	}
	return "", 0, 0, lines.Err()
}

// attachDisks makes the data disks known to the machine: the first is sdb.
func (m *machine) attachDisks() error {
	var table strings.Builder
	for _, d := range m.spec.Disks {
		if d.Boot {
			continue
		}
		path := m.diskFile(d)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			if err := os.Truncate(path, min(d.GB, MaxDisk)<<30); err != nil {
				return err
			}
		}
		loop, err := attachLoop(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&table, "%s %s\n", node(len(m.loops)), d.DeviceName)
		m.loops = append(m.loops, loop)
	}
	return os.WriteFile(m.inRoot("var/lib/machine/disks"), []byte(table.String()), 0o644)
}

func node(disk int) string { return "sd" + string(rune('b'+disk)) }

// disksFolder has the files of all data disks, by name.
const disksFolder = "disks"

func (m *machine) diskFile(d Disk) string { return filepath.Join(m.lab.folder, disksFolder, d.Name) }

// boot starts the container and, whenever it reboots, starts it again.
func (m *machine) boot() error {
	knobs := m.inRoot("var/lib/machine/knobs")
	if err := copyKnobs(knobs); err != nil {
		return err
	}
	if err := m.lab.choices.watch(knobs); err != nil {
		return err
	}
	console, err := os.OpenFile(m.in("console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	group, err := newCgroup(m.cgroup())
	if err != nil {
		return errors.Join(err, console.Close())
	}
	// Its process 1 is one of a machine as far as possible: all capabilities,
	// an own cgroup, no one to register with.
	args := []string{
		"--quiet", "--boot", "--register=no", "--keep-unit", "--link-journal=no", "--console=pipe",
		"--directory=" + m.inRoot(""), "--machine=" + m.spec.Name, "--hostname=" + m.spec.Name,
		"--network-namespace-path=/run/netns/" + m.port, "--resolv-conf=off", "--timezone=off",
		"--capability=all", "--rlimit=NOFILE=1024:524288", "--rlimit=MEMLOCK=8388608",
	}
	for i, loop := range m.loops {
		args = append(args, "--bind="+loop.Name()+":/dev/"+node(i))
	}
	start := func() (*exec.Cmd, error) {
		cmd := exec.Command("systemd-nspawn", args...)
		cmd.Stdout, cmd.Stderr = console, console
		// In a network namespace of its own it may set what belongs to that.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"}
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Setsid: true}
		return cmd, cmd.Start()
	}
	m.power.Lock()
	defer m.power.Unlock()
	cmd, err := start()
	if err != nil {
		return errors.Join(err, console.Close(), group.Close())
	}
	m.stopping, m.process, m.off = false, cmd.Process, make(chan struct{})
	go func(off chan struct{}) {
		defer close(off)
		defer func() { _, _ = console.Close(), group.Close() }()
		for cmd != nil && rebooting(cmd) {
			cmd = m.bootAgain(start, knobs)
		}
	}(m.off)
	return nil
}

// rebooting waits for the container to end and tells whether it is to be
// started again.
func rebooting(cmd *exec.Cmd) bool {
	const reboot = 133
	_ = cmd.Wait() // the state says it
	return cmd.ProcessState.ExitCode() == reboot
}

// bootAgain starts the container anew, unless the machine is being turned off.
func (m *machine) bootAgain(start func() (*exec.Cmd, error), knobs string) *exec.Cmd {
	m.power.Lock()
	defer m.power.Unlock()
	if m.stopping || copyKnobs(knobs) != nil || m.lab.choices.watch(knobs) != nil {
		return nil
	}
	cmd, err := start()
	if err != nil {
		return nil
	}
	m.process = cmd.Process
	return cmd
}

// inside runs a program of a machine that is on, beside its process 1.
func (m *machine) inside(program string, args ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join(m.cgroup(), "payload/init.scope/cgroup.procs"))
	if err != nil {
		return "", err
	}
	pids := strings.Fields(string(text))
	if len(pids) == 0 {
		return "", errors.New("it has no process 1")
	}
	args = append([]string{"--target", pids[0], "--all", "--", program}, args...)
	return output(context.Background(), "", "nsenter", args...)
}

// shutDown turns the machine off in good order, if that does not take too long.
func (m *machine) shutDown() {
	if !m.running() {
		return
	}
	m.power.Lock()
	m.stopping = true
	_ = m.process.Signal(unix.SIGTERM) // tells its process 1 to shut down
	m.power.Unlock()
	select {
	case <-m.off:
		m.release()
	case <-time.After(shutdownTime):
		m.powerOff()
	}
}

// powerOff turns the machine off at once.
func (m *machine) powerOff() {
	if m.running() {
		m.power.Lock()
		m.stopping = true
		killCgroup(m.cgroup())
		m.power.Unlock()
		<-m.off
	}
	m.release()
}

// release gives up what a machine has only while it is on.
func (m *machine) release() {
	for _, loop := range m.loops {
		_ = loop.Close()
	}
	m.loops = nil
}

// remove turns the machine off and removes it, whatever of it there is.
func (m *machine) remove() error {
	m.powerOff()
	m.exists = false
	m.forgetAddress(m.spec.ExternalIP)
	// The interface goes with the namespace, but later.
	_ = ip("", "link del "+m.port)
	_ = ip("", "netns del "+m.port)
	err := removeCgroup(m.cgroup())
	if unmount := unix.Unmount(m.inRoot(""), unix.MNT_DETACH); unmount != nil && !errors.Is(unmount, unix.EINVAL) && !errors.Is(unmount, unix.ENOENT) {
		err = errors.Join(err, fmt.Errorf("unmount: %w", unmount))
	}
	for _, d := range m.spec.Disks {
		if !d.Boot && !d.Outlives {
			err = errors.Join(err, os.RemoveAll(m.diskFile(d)))
		}
	}
	return errors.Join(err, os.RemoveAll(m.folder))
}
