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

// firstStart runs the programs by which an image makes what each box has its own of: once, when the
// machine becomes a box. Whatever is started in the box meanwhile waits, so that nothing sees a box
// without its keys. It happens once in an Agent, and so in a machine: a clone of a template has it
// still to do, a machine that was saved has done it.
type firstStart struct {
	once sync.Once
	mu   sync.Mutex
	over chan struct{} // closed when they have ended; nil before they began
}

// firstStartTimeout is how long one of them may take: making a database takes half a minute where
// everything is emulated.
const firstStartTimeout = 10 * time.Minute

// firstStartPath finds what they call, whatever the configuration of the box says.
const firstStartPath = "PATH=" + defaultPath

// begin starts the programs in the background, in the order of their names. One that fails is
// logged, and the next one runs.
func (f *firstStart) begin(a *Agent) {
	f.once.Do(func() {
		programs, err := os.ReadDir(a.Machine.FirstStart)
		if err != nil || len(programs) == 0 { // most images have none
			return
		}
		over := make(chan struct{})
		f.mu.Lock()
		f.over = over
		f.mu.Unlock()
		a.goDo("first start", func() {
			defer close(over)
			for _, p := range programs {
				if a.ending.Err() != nil {
					return
				}
				if err := a.runFirst(path.Join(a.Machine.FirstStart, p.Name())); err != nil {
					a.Log.Error("first start", "program", p.Name(), "err", err)
				}
			}
		})
	})
}

// wait returns when nothing is being made, and tells whether that is so: not when ctx ended before.
func (f *firstStart) wait(ctx context.Context) bool {
	select {
	case <-f.end():
	case <-ctx.Done():
	}
	return !f.making()
}

func (f *firstStart) making() bool {
	select {
	case <-f.end():
		return false
	default:
		return true
	}
}

func (f *firstStart) end() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over == nil {
		return nothing
	}
	return f.over
}

// nothing is a closed channel: what end gives where there is nothing to wait for.
var nothing = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// runFirst runs one of them as root, with what it prints in a log beside those of services. Its
// environment is the same in every box, whatever the configuration says. It is killed after
// firstStartTimeout, or when the agent ends.
func (a *Agent) runFirst(program string) error {
	theirs, ours, err := newPipe(false)
	if err != nil {
		return err
	}
	// A log of the box's own: its user reads there why a key or a database is missing.
	log := &console.Log{Perm: 0o644, Path: path.Join(a.Machine.LogDir, "first-start.log")}
	a.goDo("log of first start", func() { log.Copy(ours) })
	root := User{Name: "root", Home: "/root", Shell: "/bin/sh"}
	null := devNull()
	p, err := a.spawn(command{
		user: root, dir: "/", path: "/usr/bin/env", group: "first-start", files: []int{null, theirs, theirs},
		argv: []string{"env", "-i", firstStartPath, "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", program},
	})
	closeDescriptors([]int{null, theirs})
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
