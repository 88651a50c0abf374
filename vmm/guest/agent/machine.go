//go:build linux

package agent

import (
	"os"
	"time"

	"agentbox/vmm/guest/protocol"
)

// earlyWait is Machine.EarlyWait outside of tests.
const earlyWait = 10 * time.Second

// Machine is what the agent may do to the machine it runs in. real.go fills it in for a virtual
// machine, gvisor.go for a sandbox, a test for an ordinary process. Every function is set. Those
// that several goroutines call have locks of their own (cgroups, workspaceDisk).
type Machine struct {
	Kernel string // uname -r

	AddEntropy func([]byte) error // mix into the kernel's generator and reseed it at once
	// SetClock steps the clock to the host's. The other two name this machine, in the kernel and in
	// files.
	SetClock     func(time.Time) error
	SetHostname  func(string) error
	SetMachineID func(string) error
	// NameServices gives these names to this machine, as those of its services.
	NameServices func([]string) error

	FreezeUser func() error // returns when no user process runs; idempotent
	// ThawUser lets user processes run and new ones start; idempotent.
	ThawUser func() error
	TermUser func(wait time.Duration) // SIGTERM every user process and wait until they are gone
	KillUser func()                   // SIGKILL every user process and wait until they are gone
	// Cgroup returns the directory of a group for one new process, nil for none, and a function to
	// call when it has started. It waits while user processes are frozen.
	Cgroup     func(path string) (dir *os.File, started func(), err error)
	LimitUser  func(pids int) error            // most processes of the box; 0 means the default
	LookupUser func(name string) (User, error) // fs.ErrNotExist when there is none

	// Trust makes programs believe an authority. The variables in env lead those to it that do not
	// look by themselves.
	Trust func(protocol.Authority) (env map[string]string, err error)

	Mount func() error // the workspace slot at protocol.WorkspaceDir; safe after a crash
	// Unmount releases the workspace, which no process may be using. Idempotent.
	Unmount    func() error
	DropCaches func() error // write everything and forget what was read
	DropSlots  func() error // forget what was read of the disks that another machine will not share
	Sync       func()
	Rest       func() // called when the host has been silent for restAfter; nil where that saves nothing
	Stats      func() (protocol.GuestStats, error)

	Workspace string // protocol.WorkspaceDir
	LogDir    string // protocol.ServiceLogDir
	Roots     string // protocol.ContainersDir

	FirstStart string // protocol.FirstStartDir
	// EarlyWait is how long a job waits for the first start before its host is told to ask again.
	// It is shorter than a host waits for an answer.
	EarlyWait time.Duration
}

// User is an account of the box that commands run as. Groups are the supplementary ones. Home and
// Shell are absolute paths.
type User struct {
	Name   string
	UID    int
	GID    int
	Groups []int
	Home   string
	Shell  string
}
