//go:build linux

package machines

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// copyKnobs writes the kernel's present values into files below a folder. What
// is there is overwritten in place, for others may have it mounted.
func copyKnobs(folder string) error {
	knobs, err := recipeLines("knobs")
	if err != nil {
		return err
	}
	for _, knob := range knobs {
		value, err := os.ReadFile(knob)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		place := filepath.Join(folder, knob)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(place, value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// choices makes files that list choices, the present one in brackets, behave
// as in sysfs: whoever writes a choice finds it chosen, and nothing else can be
// written. It happens a moment after the writing. One watches for all machines,
// for each user may have few such watchers.
type choices struct {
	notify *os.File
	done   chan struct{}

	mu    sync.Mutex
	files map[int32]*choice // by watch descriptor
}

type choice struct {
	path string
	text []byte // as it was last
}

func newChoices() (*choices, error) {
	// In non-blocking mode Read waits in a way that Close ends.
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	c := &choices{notify: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), files: map[int32]*choice{}}
	go c.run()
	return c, nil
}

// watch includes the files with choices below a folder, until they are removed.
// Those that it knows it looks at again.
func (c *choices) watch(folder string) error {
	notify, err := c.notify.SyscallConn()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !bytes.ContainsRune(text, '[') {
			return err
		}
		err = notify.Control(func(fd uintptr) {
			var watch int
			if watch, err = unix.InotifyAddWatch(int(fd), path, unix.IN_CLOSE_WRITE); err == nil {
				c.files[int32(watch)] = &choice{path: path, text: text}
			}
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		return nil
	})
}

func (c *choices) close() {
	_ = c.notify.Close()
	<-c.done
}

func (c *choices) run() {
	defer close(c.done)
	events := make([]byte, 4096)
	for {
		n, err := c.notify.Read(events)
		if err != nil {
			return
		}
		c.mu.Lock()
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			// Watch, mask, cookie, length of the name; 32 bits each.
			watch := int32(binary.NativeEndian.Uint32(events[at:]))
			mask := binary.NativeEndian.Uint32(events[at+4:])
			at += unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[at+12:]))
			if mask&unix.IN_IGNORED != 0 {
				delete(c.files, watch)
			} else if f := c.files[watch]; f != nil {
				f.settle()
			}
		}
		c.mu.Unlock()
	}
}

func (f *choice) settle() {
	written, err := os.ReadFile(f.path)
	if err != nil || bytes.ContainsRune(written, '[') {
		return // removed with the machine, or written by the lines below
	}
	words := strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(string(f.text)))
	if i := slices.Index(words, strings.TrimSpace(string(written))); i >= 0 {
		words[i] = "[" + words[i] + "]"
		f.text = []byte(strings.Join(words, " ") + "\n")
	}
	_ = os.WriteFile(f.path, f.text, 0o644) // as above
}
