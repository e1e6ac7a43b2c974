//go:build linux

package machines

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A test process that calls Main becomes three: the first stays outside and
// starts the second as the init of new namespaces; that one prepares them,
// starts the third, which runs the tests, and cleans up after it. The
// variables tell them apart.
const (
	stageVariable = "SANDBOX_LAB_STAGE"
	labVariable   = "SANDBOX_LAB"       // the lab's folder
	imageVariable = "SANDBOX_LAB_IMAGE" // the root file systems' folder
	ownerVariable = "SANDBOX_LAB_OWNER" // the pid of the first, as it is outside
)

// cgroupRoot is where the lab has the unified hierarchy alone, whatever the
// machine around it has.
const cgroupRoot = "/sys/fs/cgroup"

// Main runs a test's TestMain, or any other function, inside a lab and returns
// its exit status:
//
//	func TestMain(m *testing.M) { os.Exit(machines.Main(m.Run)) }
//
// First it builds the root file systems if they are not there yet, which takes
// a minute or two, and calls the functions that prepare something else for
// which the network is needed. Then it enters the lab, removes what labs left
// whose process is dead, and calls run. When that has returned, nothing is left
// of the lab. The process is started anew on the way, with the same arguments
// and environment, so it must have done nothing before it calls Main.
func Main(run func() int, prepare ...func(context.Context) error) int {
	var status int
	var err error
	switch os.Getenv(stageVariable) {
	case "init":
		status, err = beInit()
	case "tests":
		// What the tests start is not to take itself for a stage.
		if err = os.Unsetenv(stageVariable); err == nil {
			return run()
		}
	default:
		status, err = outside(prepare)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "lab: %v\n", err)
		return 1
	}
	return status
}

// outside starts the init of a lab and waits for it. When this process is
// killed, the kernel kills the init and all that is in its namespaces.
func outside(prepare []func(context.Context) error) (int, error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("root is needed for namespaces and mounts")
	}
	image, err := BuildImage(context.Background(), os.Stderr)
	if err != nil {
		return 0, err
	}
	for _, f := range prepare {
		if err := f(context.Background()); err != nil {
			return 0, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	defer signal.Stop(signals)

	// The death signal comes when the thread dies that started the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	init := exec.Command(self, os.Args[1:]...)
	init.Stdin, init.Stdout, init.Stderr = os.Stdin, os.Stdout, os.Stderr
	init.Env = append(os.Environ(), stageVariable+"=init", imageVariable+"="+image, ownerVariable+"="+strconv.Itoa(os.Getpid()))
	init.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := init.Start(); err != nil {
		return 0, fmt.Errorf("start init: %w", err)
	}
	done := make(chan struct{})
	defer close(done)
	go forward(signals, init.Process, done)
	if err := init.Wait(); init.ProcessState == nil {
		return 0, fmt.Errorf("wait for init: %w", err)
	}
	return exitStatus(init.ProcessState.Sys().(syscall.WaitStatus)), nil
}

func forward(signals <-chan os.Signal, to *os.Process, done <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			_ = to.Signal(s) // it may be dead
		case <-done:
			return
		}
	}
}

func exitStatus(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// beInit prepares the namespaces, runs the tests, ends all that they have left
// running and removes the lab's files.
func beInit() (status int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGHUP)
	if err := prepareMounts(); err != nil {
		return 0, err
	}
	folder, err := newLabFolder(os.Getenv(ownerVariable))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, folder.remove()) }()
	image, err := lock(os.Getenv(imageVariable), unix.LOCK_SH) // or it might be pruned
	if err != nil {
		return 0, err
	}
	defer func() { _ = image.Close() }()

	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.Setenv(stageVariable, "tests"), os.Setenv(labVariable, folder.path)); err != nil {
		return 0, err
	}
	tests, err := os.StartProcess(self, os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 0, fmt.Errorf("start the tests: %w", err)
	}
	done := make(chan struct{})
	go forward(signals, tests, done)
	result := reap(tests.Pid)
	close(done)
	// As the init of the namespace it may: this reaches everybody but itself.
	_ = unix.Kill(-1, unix.SIGKILL)
	reap(0)
	return exitStatus(result), nil
}

// reap waits for children, which here are also those whose parents are dead,
// until the one with the pid has ended, or with pid 0 until there are none.
func reap(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		switch got, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, unix.ECHILD):
			return status
		case err == nil && got == pid:
			return status
		}
	}
}

// prepareMounts gives the lab a /proc of its own, an empty /run and the unified
// hierarchy of cgroups. None of it is seen outside.
func prepareMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range []struct{ kind, target, options string }{
		{"proc", "/proc", ""},
		{"tmpfs", "/run", "mode=755"},
		{"cgroup2", cgroupRoot, ""},
	} {
		if m.kind == "cgroup2" && hasUnified() {
			continue // it cannot be mounted on itself
		}
		if err := unix.Mount(m.kind, m.target, m.kind, unix.MS_NOSUID|unix.MS_NODEV, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	for _, folder := range []string{"/run/netns", "/run/lock", "/run/systemd/nspawn"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func hasUnified() bool {
	var fs unix.Statfs_t
	return unix.Statfs(cgroupRoot, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC
}

// labFolder has the files of one lab. Who holds the lock on it is alive.
type labFolder struct {
	path string
	lock *os.File
}

// newLabFolder removes what dead labs left and makes a folder for this one.
func newLabFolder(owner string) (*labFolder, error) {
	root, err := cacheFolder("labs")
	if err != nil {
		return nil, err
	}
	// A folder has no lock for a moment; nobody sweeps in it.
	turn, err := os.Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turn.Close() }()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	if err := sweep(root); err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	path, err := os.MkdirTemp(root, "lab-"+owner+"-")
	if err != nil {
		return nil, err
	}
	f := &labFolder{path: path}
	if f.lock, err = lock(path, unix.LOCK_EX); err != nil {
		return nil, err
	}
	if err := os.Mkdir(f.cgroup(), 0o755); err != nil {
		return nil, fmt.Errorf("cgroup of the lab: %w", err)
	}
	return f, nil
}

func (f *labFolder) cgroup() string { return cgroupOf(f.path) }

func cgroupOf(labPath string) string {
	return filepath.Join(cgroupRoot, "sandbox-"+filepath.Base(labPath))
}

func (f *labFolder) remove() error {
	err := removeLab(f.path)
	_ = f.lock.Close()
	return err
}

// sweep removes the labs in a folder whose process is dead.
func sweep(root string) error {
	paths, err := filepath.Glob(filepath.Join(root, "lab-*"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		held, err := lock(path, unix.LOCK_EX)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = removeLab(path)
		_ = held.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// lock takes a lock on a folder, or fails with EWOULDBLOCK. It ends with the
// process.
func lock(folder string, kind int) (*os.File, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), kind|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", folder, err)
	}
	return f, nil
}

// removeLab removes a lab's mounts, cgroups and files, in which nothing runs
// any more.
func removeLab(path string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], path+"/") {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH) // the files tell if not
		}
	}
	return errors.Join(removeCgroup(cgroupOf(path)), os.RemoveAll(path))
}

// newCgroup makes a cgroup anew and opens it. What is started in one that was
// killed before may die of that, too.
func newCgroup(path string) (*os.File, error) {
	if err := removeCgroup(path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, err
	}
	return os.Open(path)
}

// removeCgroup kills what runs in a cgroup and removes it with all below it.
func removeCgroup(path string) error {
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	killCgroup(path)
	// A killed process leaves its cgroup in its own time.
	var err error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = rmdirTree(path); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
	}
	return fmt.Errorf("remove cgroup: %w", err)
}

func killCgroup(path string) {
	_ = os.WriteFile(filepath.Join(path, "cgroup.kill"), []byte("1"), 0) // may be gone
}

func rmdirTree(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := rmdirTree(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	return unix.Rmdir(path)
}

// cacheFolder is a folder for what outlives a test, made if need be.
func cacheFolder(name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "sandbox-e2e", name)
	return path, os.MkdirAll(path, 0o755)
}
