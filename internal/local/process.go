package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shirou/gopsutil/v4/process"
	"golang.org/x/sys/unix"

	"github.com/mongo-sandbox/sandbox/internal/environment"
)

// startTolerance is how far two readings of a process's start may differ:
// systems compute it from the boot time, which moves with the clock.
const startTolerance = 2 * time.Second

// start runs command detached: in a session of its own, with nothing of the
// terminal, so that it outlives this program and sees no Ctrl-C.
func start(command []string, dir, output string) (environment.Process, error) {
	out, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return environment.Process{}, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return environment.Process{}, err
	}
	p := environment.Process{PID: cmd.Process.Pid, Command: command}
	p.CreatedMS, _ = created(p.PID) // 0 if it has ended already, and then it matches nothing
	return p, cmd.Process.Release()
}

// created is when a process started, in Unix milliseconds.
func created(pid int) (int64, error) {
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return 0, err
	}
	return p.CreateTime()
}

// commandLine of a process; empty for one that does not exist, that has
// ended but was not reaped, or that is not ours to look at.
func commandLine(pid int) []string {
	argv, err := (&process.Process{Pid: int32(pid)}).CmdlineSlice()
	if err != nil {
		return nil
	}
	return argv
}

// configOf is the file after "--config" on a command line, or "".
func configOf(argv []string) string {
	for i, arg := range argv[:max(0, len(argv)-1)] {
		if arg == "--config" {
			return argv[i+1]
		}
	}
	return ""
}

// isOurs reports whether the recorded process still is the one that runs
// with this configuration file, and not another that got its pid.
func isOurs(p *environment.Process, conf string) bool {
	return p != nil && p.PID > 0 && configOf(commandLine(p.PID)) == conf && sameStart(p)
}

// mayBeOurs is isOurs, but for a process without a command line: it is ending,
// or a wrapper script that is just executing the server.
func mayBeOurs(p *environment.Process, conf string) bool {
	return isOurs(p, conf) || isEnding(p) || isOurs(p, conf)
}

// sameStart reports whether there is a process of that pid that started when
// the recorded one did.
func sameStart(p *environment.Process) bool {
	ms, err := created(p.PID)
	difference := time.Duration(ms-p.CreatedMS) * time.Millisecond
	return err == nil && difference.Abs() <= startTolerance
}

// isEnding reports whether the recorded process has lost its command line
// already but may hold its port and files for a moment longer.
func isEnding(p *environment.Process) bool {
	if p == nil || p.PID <= 0 || !sameStart(p) || len(commandLine(p.PID)) > 0 {
		return false
	}
	status, err := (&process.Process{Pid: int32(p.PID)}).Status()
	return err == nil && !slices.Contains(status, process.Zombie)
}

// running finds every process whose command line names a configuration file
// of one of this environment's members, by that file's path.
func (p *Platform) running(ctx context.Context) (map[string][]environment.Process, error) {
	return runningBelow(ctx, p.path(membersDir))
}

// runningBelow finds every process whose command line names a configuration
// file below dir, by that file's path.
func runningBelow(ctx context.Context, dir string) (map[string][]environment.Process, error) {
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	prefix := dir + string(filepath.Separator)
	found := map[string][]environment.Process{}
	for _, pid := range pids {
		argv := commandLine(int(pid))
		conf := configOf(argv)
		if !strings.HasPrefix(conf, prefix) || int(pid) == os.Getpid() {
			continue
		}
		ms, err := created(int(pid))
		if err != nil {
			continue // ended while we looked
		}
		found[conf] = append(found[conf], environment.Process{PID: int(pid), CreatedMS: ms, Command: argv})
	}
	return found, nil
}

// end stops a process that runs with conf: politely, then after patience by
// force. It reports whether force was needed. A process that is no longer
// the one that was found is left alone.
func end(ctx context.Context, p environment.Process, conf string, patience time.Duration) (forced bool, err error) {
	// The handle is taken before the identity is checked: where the system
	// has handles for processes, what is signalled is what was checked.
	handle, err := os.FindProcess(p.PID)
	if err != nil {
		return false, nil
	}
	defer func() { _ = handle.Release() }()
	if !isOurs(&p, conf) {
		return false, nil
	}
	if err := handle.Signal(syscall.SIGTERM); err != nil && isOurs(&p, conf) {
		return false, fmt.Errorf("end process %d: %w", p.PID, err)
	}
	polite, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if gone(polite, &p, conf) {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if err := handle.Signal(syscall.SIGKILL); err != nil && isOurs(&p, conf) {
		return true, fmt.Errorf("kill process %d: %w", p.PID, err)
	}
	hard, cancelHard := context.WithTimeout(ctx, 5*time.Second)
	defer cancelHard()
	if !gone(hard, &p, conf) {
		return true, fmt.Errorf("process %d did not end when killed", p.PID)
	}
	return true, nil
}

// gone waits until the process has ended and let go of everything; false if
// ctx ends before.
func gone(ctx context.Context, p *environment.Process, conf string) bool {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		// It may be a child of this very program: then somebody has to
		// collect it. For others this fails and does no harm.
		_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
		if !isOurs(p, conf) && !isEnding(p) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
}
