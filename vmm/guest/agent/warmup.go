//go:build linux

package agent

import (
	"syscall"
	"time"
)

// warmUpTimeout ends a warm-up that does not end by itself: the image's shell may be anything.
const warmUpTimeout = 5 * time.Second

// startWarmUp warms up in the background. Whoever counts processes takes a.warm first.
func (a *Agent) startWarmUp() {
	a.warm.Lock()
	a.goDo("warm up", func() {
		defer a.warm.Unlock()
		a.warmUp()
	})
}

// warmUp runs what is nothing for the box's user, as their first command will run, while the host logs in: an
// emulated CPU translates each piece of code the first time it runs, which is most of the time of a first command. It
// takes place when the machine is renewed, and nothing of it is left when it returns.
func (a *Agent) warmUp() {
	u := a.userNamed("")
	null := devNull()
	defer closeDescriptors([]int{null})
	p, err := a.launch(command{user: u, path: u.Shell, argv: []string{"sh", "-c", "exec true"}, files: []int{null, null, null}})
	if err != nil {
		return // an image need not have a shell
	}
	t := time.NewTimer(warmUpTimeout)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		a.spawner.signal(p, syscall.SIGKILL)
		<-p.done
	}
}
