//go:build linux

package agent

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"agentbox/vmm/guest/protocol"
)

// WatchName is the program name under which the agent tells what changes in a directory, as a process of
// the user who watches.
const WatchName = "agentbox-watch"

const watched = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_ONLYDIR

// ServeWatch answers one request on standard input until that ends.
func ServeWatch() error {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	w := watcher{out: out, to: json.NewEncoder(out), dirs: map[int32]string{}, known: map[string]bool{}}
	if err := json.Unmarshal(line, &w.req); err != nil {
		return fmt.Errorf("malformed request: %w", err)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	w.fd, w.events = fd, os.NewFile(uintptr(fd), "inotify")
	go func() {
		_, _ = io.Copy(io.Discard, in)
		w.events.Close()
	}()
	if err := w.run(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// watcher follows one directory by inotify, and those below it if it is asked to.
type watcher struct {
	req    protocol.WatchRequest
	fd     int
	events *os.File
	out    *bufio.Writer
	to     *json.Encoder

	dirs  map[int32]string // relative to the request's, by watch
	known map[string]bool  // files that are there
	whole uint32           // the cookie of a hidden file that gets another name
}

func (w *watcher) run() error {
	if err := w.add("", false); err != nil {
		return err
	}
	if err := w.tell("", ""); err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	for {
		if err := w.out.Flush(); err != nil {
			return err
		}
		n, err := w.events.Read(b)
		if err != nil {
			return err
		}
		for rest := b[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			size := int(binary.NativeEndian.Uint32(rest[12:]))
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
			if err := w.handle(int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[8:]), name); err != nil {
				return err
			}
			rest = rest[unix.SizeofInotifyEvent+size:]
		}
	}
}

func (w *watcher) tell(name, kind string) error {
	return w.to.Encode(protocol.WatchEvent{Name: name, Kind: kind})
}

func (w *watcher) hides(name string) bool {
	return w.req.Hidden != "" && strings.HasPrefix(name, w.req.Hidden)
}

// add watches a directory and, if that is asked for, those below it. What is in a new one is told. One
// that goes meanwhile is left out.
func (w *watcher) add(dir string, fresh bool) error {
	at := filepath.Join(w.req.Dir, dir)
	wd, err := unix.InotifyAddWatch(w.fd, at, watched)
	if gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR); dir != "" && (gone || errors.Is(err, unix.EACCES)) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "watch", Path: at, Err: err}
	}
	w.dirs[int32(wd)] = dir
	entries, _ := os.ReadDir(at) // of one that goes, what was read
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if w.hides(e.Name()) {
			continue
		}
		if fresh {
			if err := w.appeared(name, e.IsDir(), hasContent(e)); err != nil {
				return err
			}
			continue
		}
		w.known[name] = true
		if e.IsDir() && w.req.Recursive {
			if err := w.add(name, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasContent(e os.DirEntry) bool {
	info, err := e.Info()
	return err == nil && info.Mode().IsRegular() && info.Size() > 0
}

// appeared tells of a file that is new in a directory, and of what is in it.
func (w *watcher) appeared(name string, dir, written bool) error {
	if !w.known[name] {
		w.known[name] = true
		if err := w.tell(name, "create"); err != nil {
			return err
		}
	}
	if written {
		return w.tell(name, "write")
	}
	if dir && w.req.Recursive {
		return w.add(name, true)
	}
	return nil
}

// handle tells of one event. Those about a watched directory itself come from the one above it, too.
func (w *watcher) handle(wd int32, mask, cookie uint32, base string) error {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return errors.New("changes came faster than they were read")
	}
	dir, ok := w.dirs[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(w.dirs, wd)
	}
	if !ok || base == "" {
		return nil
	}
	if w.hides(base) {
		if mask&unix.IN_MOVED_FROM != 0 {
			w.whole = cookie
		}
		return nil
	}
	name, isDir := path.Join(dir, base), mask&unix.IN_ISDIR != 0
	switch {
	case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
		whole := mask&unix.IN_MOVED_TO != 0 && cookie == w.whole
		if !whole {
			delete(w.known, name) // one that it replaces
		}
		return w.appeared(name, isDir, whole)
	case mask&unix.IN_MODIFY != 0:
		return w.tell(name, "write")
	case mask&unix.IN_ATTRIB != 0:
		return w.tell(name, "chmod")
	case mask&unix.IN_MOVED_FROM != 0:
		w.forget(name, isDir)
		return w.tell(name, "rename")
	case mask&unix.IN_DELETE != 0:
		w.forget(name, isDir)
		return w.tell(name, "remove")
	}
	return nil
}

// forget forgets a file, and what is below it, which is watched no longer.
func (w *watcher) forget(name string, isDir bool) {
	delete(w.known, name)
	if !isDir {
		return
	}
	for wd, dir := range w.dirs {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // it may have gone with its directory
			delete(w.dirs, wd)
		}
	}
	for known := range w.known {
		if strings.HasPrefix(known, name+"/") {
			delete(w.known, known)
		}
	}
}
