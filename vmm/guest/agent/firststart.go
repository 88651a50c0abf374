//go:build linux

package agent

import (
	"context"
	"fmt"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"agentbox/vmm/console"
)

// firstStart runs the image's programs that make what each box has for itself, such as keys. It
// does so once, when the machine becomes a box, and everything else that is started in the box
// waits for it. A clone of a template still has it to do, a saved machine has done it.
type firstStart struct {
	once     sync.Once
	mu       sync.Mutex
	finished chan struct{} // closed when they have ended; nil before they began
}

// firstStartTimeout bounds one program: making a database takes half a minute under emulation.
const firstStartTimeout = 10 * time.Minute

const firstStartPath = "PATH=" + defaultPath

// begin starts the programs in the background, in the order of their names. The failure of one is
// logged and does not stop the next.
func (f *firstStart) begin(a *Agent) {
	f.once.Do(func() {
		programs, err := os.ReadDir(a.Machine.FirstStart)
		if err != nil || len(programs) == 0 { // most images have none
			return
		}
		over := make(chan struct{})
		f.mu.Lock()
		f.finished = over
		f.mu.Unlock()
		a.goRecover("first start", func() {
			defer close(over)
			for _, p := range programs {
				if a.ending.Err() != nil {
					return
				}
				if err := a.runFirstStart(path.Join(a.Machine.FirstStart, p.Name())); err != nil {
					a.Log.Error("first start", "program", p.Name(), "err", err)
				}
			}
		})
	})
}

// wait returns when no first start is running, or when ctx ends; false means the latter.
func (f *firstStart) wait(ctx context.Context) bool {
	select {
	case <-f.done():
	case <-ctx.Done():
	}
	return !f.running()
}

// running tells whether a first start is under way; it does not wait.
func (f *firstStart) running() bool {
	select {
	case <-f.done():
		return false
	default:
		return true
	}
}

// done is closed when no first start is under way: at once if none has begun.
func (f *firstStart) done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finished == nil {
		return closedChannel
	}
	return f.finished
}

var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// runFirstStart runs one program as root, with its output in a log beside those of services. Its
// environment is the same in every box, whatever the configuration. It is killed after
// firstStartTimeout, or when the agent ends.
func (a *Agent) runFirstStart(program string) error {
	commandEnd, agentEnd, err := newPipe(false)
	if err != nil {
		return err
	}
	// The box's user reads there why a key or a database is missing.
	log := &console.Log{Perm: 0o644, Path: path.Join(a.Machine.LogDir, "first-start.log")}
	a.goRecover("log of first start", func() { log.Copy(agentEnd) })
	root := User{Name: "root", Home: "/root", Shell: "/bin/sh"}
	null := devNull()
	p, err := a.spawn(command{
		user: root, dir: "/", path: "/usr/bin/env", group: "first-start", files: []int{null, commandEnd, commandEnd},
		argv: []string{"env", "-i", firstStartPath, "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", program},
	})
	closeDescriptors([]int{null, commandEnd})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.ending, firstStartTimeout)
	defer cancel()
	end := context.AfterFunc(ctx, func() { a.spawner.signal(p, syscall.SIGKILL) })
	defer end()
	<-p.done
	if !p.status.Exited() || p.status.ExitStatus() != 0 {
		return fmt.Errorf("ended with status %#x; %s in the box has what it printed", int(p.status), log.Path)
	}
	return nil
}
