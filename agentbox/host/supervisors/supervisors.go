// Package supervisors starts the processes that hold the machines of boxes, finds those that an
// earlier daemon started, and ends them. What a machine is for is not its business.
//
// A supervisor is found by its box's lock file, which it holds and its machine inherits, and in
// which its process id is written: a lock that is held means that one of the two lives. It is
// called through a socket of the box. Both, and the configuration, are handed down when it is
// started (agentbox/supervisor, Files and Config).
package supervisors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/agentbox/supervisor"
	"agentbox/vmm"
)

// Supervisor is a live supervisor, started by this daemon or by an earlier one. A nil Supervisor is
// that of a box without a machine: only Stop may be called.
type Supervisor struct {
	Client *api.Client
	Gone   chan struct{} // closed when the process has ended and its machine with it
	Box    home.Box      // the files of its box
	// policy: held from when its policy is composed until it is in force: the latest stays
	policy sync.Mutex
}

// Supervisors starts them for the boxes of a home.
type Supervisors struct {
	Home   home.Home
	Binary string // this program's file
}

// Start starts a supervisor and returns at once: its sockets already exist, and calls to it wait
// until it serves them. Conflict when the box has one already.
func (m Supervisors) Start(cfg supervisor.Config, template vmm.Template) (*Supervisor, error) {
	names := m.Home.Box(cfg.Box)
	if err := os.MkdirAll(names.Run, 0o700); err != nil {
		return nil, agentbox.OrNoSpace(err)
	}
	files, err := supervisorFiles(names, template)
	if err != nil {
		return nil, err
	}
	// The child has its own; the template's belong to the template.
	defer closeAll(files.Lock, files.Control, files.SSH)
	cmd := exec.Command(m.Binary, supervisor.Verb)
	cmd.Env = append(os.Environ(), home.EnvDir+"="+m.Home.Dir)
	cmd.Dir = names.Dir
	cmd.ExtraFiles = files.List()
	// It must not die with the daemon or its terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := os.OpenFile(names.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, agentbox.OrNoSpace(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	s := &Supervisor{Client: api.NewClient(names.Control()), Gone: make(chan struct{}), Box: names}
	// This goroutine ends with the supervisor, which may outlive us: nobody waits for it.
	go func() {
		_ = cmd.Wait()
		awaitFree(names.Lock())
		close(s.Gone)
	}()
	// Its id first: from then on a daemon that finds the lock held knows which process to kill.
	_, err = fmt.Fprintln(files.Lock, cmd.Process.Pid)
	if err == nil {
		err = supervisor.WriteConfig(stdin, cfg, len(files.Template))
	}
	if err := errors.Join(err, stdin.Close()); err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("configure a supervisor: %w", err)
	}
	return s, nil
}

// supervisorFiles takes the box's lock and binds its sockets, which the child inherits: the lock
// belongs to the open file, so it passes to the child without a moment at which it is free.
func supervisorFiles(names home.Box, template vmm.Template) (supervisor.Files, error) {
	var files supervisor.Files
	lock, err := durable.TryLock(names.Lock())
	if errors.Is(err, durable.ErrHeld) {
		return files, agentbox.Errorf(agentbox.Conflict, "%s is held: the box already has a supervisor: %w", names.Lock(), err)
	}
	if err != nil {
		return files, agentbox.OrNoSpace(err)
	}
	files.Lock = lock
	if err := lock.Truncate(0); err != nil { // of who held it last
		lock.Close()
		return files, agentbox.OrNoSpace(err)
	}
	if files.Control, err = listen(names.Control()); err == nil {
		files.SSH, err = listen(names.SSH())
	}
	if err != nil {
		closeAll(files.Lock, files.Control)
		return files, err
	}
	if template != nil {
		files.Template = template.Files()
	}
	return files, nil
}

// listen binds a socket for a child to serve.
func listen(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, err
	}
	return l.File()
}

// closeAll closes files of which some may not have been opened.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Adopt finds the supervisor of a box that an earlier daemon started; nil when there is none. watch
// runs what waits for its end until ctx ends. That it is no child of ours makes one difference: its
// end is noticed by a call that it answers when it ends.
func Adopt(ctx context.Context, names home.Box, watch func(func())) (*Supervisor, error) {
	held, err := durable.Held(names.Lock())
	if err != nil || !held {
		return nil, err
	}
	s := &Supervisor{Client: api.NewClient(names.Control()), Gone: make(chan struct{}), Box: names}
	watch(func() {
		// Returns when it ends, or we do.
		_, _ = api.Call(ctx, s.Client, api.SupervisorWait, api.None{}, nil)
		if ctx.Err() == nil {
			awaitFree(names.Lock())
			close(s.Gone)
		}
	})
	return s, nil
}

// awaitFree returns when no process holds the lock: the supervisor is gone, and its machine, which
// inherited the lock. It looks again and again, as there is no way to wait for a lock that takes
// nobody's turn; it does so for milliseconds.
func awaitFree(lock string) {
	for {
		if held, err := durable.Held(lock); !held && err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Grace is enough for user processes to end and the workspace to be synced, where a user waits for
// it.
const Grace = 5 * time.Second

// stopWait is waited beyond the grace before a supervisor is killed. A supervisor that has not
// ended by then will not.
const stopWait = 15 * time.Second

// Stop ends a supervisor and its machine, politely if grace allows, and returns when both are gone.
// That of nobody is gone. With no grace the machine ends as at a power failure. It does not take a
// context: an end that was begun is seen through.
func (s *Supervisor) Stop(grace time.Duration) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopWait)
	defer cancel()
	_, callErr := api.Call(ctx, s.Client, api.SupervisorStop, api.StopRequest{Grace: grace}, nil)
	if callErr == nil {
		select {
		case <-s.Gone:
			s.Client.Close()
			return nil
		case <-ctx.Done():
		}
	}
	return s.kill()
}

// kill ends a supervisor and its machine at once, and returns when both are gone.
func (s *Supervisor) kill() error {
	defer s.Client.Close()
	if err := KillHolder(s.Box.Lock()); err != nil {
		return err
	}
	select {
	case <-s.Gone:
		return nil
	case <-time.After(stopWait):
		return agentbox.Errorf(agentbox.Internal, "the supervisor at %s does not end", s.Box.Run)
	}
}

// KillHolder kills the supervisor that holds a lock. Its id is in the file. When it is gone already
// and only its machine still holds the lock, there is nothing to do: the machine dies with it.
func KillHolder(lock string) error {
	held, err := durable.Held(lock)
	if err != nil || !held {
		return err
	}
	b, err := os.ReadFile(lock)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 1 {
		return fmt.Errorf("%s is held by a process that has not said who it is", filepath.Clean(lock))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the supervisor (process %d): %w", pid, err)
	}
	return nil
}
