package host

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

// supervised is a live supervisor, started by this daemon or adopted from an earlier one.
type supervised struct {
	client *api.Client
	gone   chan struct{} // closed when the process has ended and its machine with it
	policy sync.Mutex    // held from when its policy is composed until it is in force: the latest stays
}

// spawn starts a supervisor and returns at once: its sockets already exist, and calls to it wait until it serves them.
func (m *Manager) spawn(cfg supervisor.Config, template vmm.Template) (*supervised, error) {
	names := m.home.Box(cfg.Box)
	if err := os.MkdirAll(names.Run, 0o700); err != nil {
		return nil, agentbox.OrNoSpace(err)
	}
	files, err := supervisorFiles(names, template)
	if err != nil {
		return nil, err
	}
	defer closeAll(files.Lock, files.Control, files.SSH) // the child has its own; the template's belong to the template
	cmd := exec.Command(m.binary, supervisor.Verb)
	cmd.Env = append(os.Environ(), home.EnvDir+"="+m.home.Dir)
	cmd.Dir = names.Dir
	cmd.ExtraFiles = files.List()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it must not die with the daemon or its terminal
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
	s := &supervised{client: api.NewClient(names.Control()), gone: make(chan struct{})}
	// This goroutine ends with the supervisor, which may outlive us: nobody waits for it.
	go func() {
		_ = cmd.Wait()
		awaitFree(names.Lock())
		close(s.gone)
	}()
	// Its id first: from then on whoever finds the lock held knows whom to kill.
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

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// adopt finds the supervisor of a box that an earlier daemon started; nil when there is none.
func (m *Manager) adopt(names home.Box) (*supervised, error) {
	held, err := durable.Held(names.Lock())
	if err != nil || !held {
		return nil, err
	}
	s := &supervised{client: api.NewClient(names.Control()), gone: make(chan struct{})}
	m.running.Go(func() {
		_, _ = api.Call(m.ctx, s.client, api.SupervisorWait, api.None{}, nil) // returns when it ends, or we do
		if m.ctx.Err() == nil {
			awaitFree(names.Lock())
			close(s.gone)
		}
	})
	return s, nil
}

// awaitFree returns when no process holds the lock: the supervisor is gone, and its machine, which inherited the lock.
func awaitFree(lock string) {
	for {
		if held, err := durable.Held(lock); !held && err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

const (
	stopGrace = 5 * time.Second  // for user processes to end and the workspace to be synced
	stopWait  = 15 * time.Second // beyond the grace, before the supervisor is killed
)

// stop ends a supervisor and its machine, politely if grace allows, and returns when both are gone.
func (m *Manager) stop(s *supervised, names home.Box, grace time.Duration) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopWait)
	defer cancel()
	_, callErr := api.Call(ctx, s.client, api.SupervisorStop, api.StopRequest{Grace: grace}, nil)
	if callErr == nil {
		select {
		case <-s.gone:
			s.client.Close()
			return nil
		case <-ctx.Done():
		}
	}
	return m.kill(s, names)
}

// kill ends a supervisor and its machine at once, and returns when both are gone.
func (m *Manager) kill(s *supervised, names home.Box) error {
	defer s.client.Close()
	if err := killHolder(names.Lock()); err != nil {
		return err
	}
	select {
	case <-s.gone:
		return nil
	case <-time.After(stopWait):
		return agentbox.Errorf(agentbox.Internal, "the supervisor at %s does not end", names.Run)
	}
}

// killHolder kills the supervisor that holds a lock. Its id is in the file. When it is gone already and only its machine
// still holds the lock, there is nothing to do: the machine dies with it.
func killHolder(lock string) error {
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
