// Package supervisors starts the processes that hold boxes' machines, finds those of an earlier
// daemon, and ends them. It does not know what a machine is for.
//
// A supervisor is found by its box's lock file, which has its process id. It holds the lock, and
// its machine inherits it, so a held lock means that one of the two lives. Calls go through a
// socket of the box. The supervisor inherits both, and its configuration, when it is started
// (agentbox/place/local/supervisor, Files and Config).
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
	"agentbox/agentbox/place/local/control"
	"agentbox/agentbox/place/local/supervisor"
	"agentbox/agentbox/resources"
	"agentbox/agentbox/resources/yielding"
	"agentbox/vmm"
)

// Supervisor is a live supervisor, started by this daemon or an earlier one. A nil Supervisor is
// that of a box without a machine; only Stop may be called on it.
type Supervisor struct {
	Client *api.Client
	Done   chan struct{} // closed when the process has ended and its machine with it
	Box    home.Box      // the files of its box

	exit    supervisor.Exit // what it left; these are written before Done is closed
	exitErr error           // why that cannot be read
	left    bool            // whether it left anything
	// policy is held from when a policy is composed until it is in force.
	policy sync.Mutex
}

// Supervisors starts the supervisors of a home.
type Supervisors struct {
	Home    home.Home
	Program string // path of the supervisor's program
	Yield   resources.Yield
}

// Start starts a supervisor and returns at once. Its sockets exist already, and calls wait until it
// serves them. Conflict if the box has a supervisor.
func (s Supervisors) Start(cfg supervisor.Config, template vmm.Template) (*Supervisor, error) {
	names := s.Home.Box(cfg.Box)
	if err := os.MkdirAll(names.Run, 0o700); err != nil {
		return nil, agentbox.MarkNoSpace(err)
	}
	if err := supervisor.ReserveExit(names.Dir); err != nil {
		return nil, agentbox.MarkNoSpace(err)
	}
	files, err := supervisorFiles(names, template)
	if err != nil {
		return nil, err
	}
	// The child has copies; the template's files belong to the template.
	defer closeAll(files.Lock, files.Control, files.SSH)
	cmd := exec.Command(s.Program)
	cmd.Args = []string{"agentbox", "supervise"} // what ps shows
	cmd.Env = append(os.Environ(), home.EnvDir+"="+s.Home.Dir)
	cmd.Dir = names.Dir
	cmd.ExtraFiles = files.List()
	// It must not die with the daemon or its terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := os.OpenFile(names.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, agentbox.MarkNoSpace(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := yielding.Start(cmd, s.Yield, cfg.Box.String(), cfg.Spec.Memory); err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	started := &Supervisor{Client: api.NewClient(names.Control()), Done: make(chan struct{}), Box: names}
	// This goroutine ends with the supervisor, which may outlive this daemon, so nothing waits for it.
	go func() {
		_ = cmd.Wait()
		started.end()
	}()
	// The process id first, so that another daemon that finds the lock held knows which process to
	// kill.
	_, err = fmt.Fprintln(files.Lock, cmd.Process.Pid)
	if err == nil {
		err = supervisor.WriteConfig(stdin, cfg, len(files.Template))
	}
	if err := errors.Join(err, stdin.Close()); err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("configure a supervisor: %w", err)
	}
	return started, nil
}

// supervisorFiles takes the box's lock and binds its sockets for the child to inherit. The lock
// belongs to the open file, so it is never free in between.
func supervisorFiles(names home.Box, template vmm.Template) (supervisor.Files, error) {
	var files supervisor.Files
	lock, err := durable.TryLock(names.Lock())
	if errors.Is(err, durable.ErrHeld) {
		return files, agentbox.Errorf(agentbox.Conflict, "%s is held: the box already has a supervisor: %w", names.Lock(), err)
	}
	if err != nil {
		return files, agentbox.MarkNoSpace(err)
	}
	files.Lock = lock
	if err := lock.Truncate(0); err != nil { // of the last holder
		lock.Close()
		return files, agentbox.MarkNoSpace(err)
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

// closeAll closes files, some of which may be nil.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// Adopt finds the supervisor that an earlier daemon started for a box, nil if there is none. watch
// runs the function that waits for its end, until ctx ends. It is not our child, so its end is
// noticed by a call that it answers when it ends.
func Adopt(ctx context.Context, names home.Box, watch func(func())) (*Supervisor, error) {
	held, err := durable.Held(names.Lock())
	if err != nil || !held {
		return nil, err
	}
	s := &Supervisor{Client: api.NewClient(names.Control()), Done: make(chan struct{}), Box: names}
	watch(func() {
		// Returns when the supervisor or ctx ends.
		_, _ = api.Call(ctx, s.Client, control.Wait, api.None{}, nil)
		if ctx.Err() == nil {
			s.end()
		}
	})
	return s, nil
}

// end waits until the supervisor's machine is gone, too, and takes what it left. Nobody else reads
// that, so all who ask hear the same.
func (s *Supervisor) end() {
	awaitUnlocked(s.Box.Lock())
	_ = yielding.Remove(filepath.Base(s.Box.Dir)) // a group that stays is empty, and the next box has another
	s.exit, s.left, s.exitErr = supervisor.TakeExit(s.Box.Dir)
	s.Client.Close()
	close(s.Done)
}

// Exit is why the supervisor ended, after Done is closed. ok is false if it left nothing: it was
// killed. The error says that what it left cannot be read; ok is false then, too.
func (s *Supervisor) Exit() (exit supervisor.Exit, ok bool, err error) {
	return s.exit, s.left, s.exitErr
}

// awaitUnlocked returns when no process holds the lock: the supervisor and its machine are gone. It
// polls for the milliseconds that this takes, because waiting for a lock would take it.
func awaitUnlocked(lock string) {
	for {
		if held, err := durable.Held(lock); !held && err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// stopTimeout is how long beyond the grace a supervisor may take to end before it is killed.
const stopTimeout = 15 * time.Second

// Stop ends a supervisor and its machine and returns when both are gone. Without grace the machine
// ends as at a power failure. It takes no context, because an end that has begun must be completed.
// Stop of a nil Supervisor does nothing.
func (s *Supervisor) Stop(grace time.Duration) error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopTimeout)
	defer cancel()
	_, callErr := api.Call(ctx, s.Client, control.Stop, control.StopRequest{Grace: grace}, nil)
	if callErr == nil {
		select {
		case <-s.Done:
			s.Client.Close()
			return nil
		case <-ctx.Done():
		}
	}
	return s.kill()
}

// kill kills a supervisor with its machine and returns when both are gone.
func (s *Supervisor) kill() error {
	defer s.Client.Close()
	if err := KillHolder(s.Box.Lock()); err != nil {
		return err
	}
	select {
	case <-s.Done:
		return nil
	case <-time.After(stopTimeout):
		return agentbox.Errorf(agentbox.Internal, "the supervisor at %s does not end", s.Box.Run)
	}
}

// KillHolder kills the supervisor that holds a lock, by the process id in the file. If only its
// dying machine holds the lock, there is nothing to do.
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
		return fmt.Errorf("%s is locked by an unknown process", filepath.Clean(lock))
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the supervisor (process %d): %w", pid, err)
	}
	return nil
}
