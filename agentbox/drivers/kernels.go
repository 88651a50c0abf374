package drivers

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/home"
	"agentbox/vmm/guest"
	"agentbox/vmm/kernel"
)

// Kernels finds or fetches guest kernels for microVMs, together with the guest agent of this build.
// It verifies a kernel in full when it is first asked for and whenever its files have changed
// since; in between it costs a few stats, because every box that is made asks. Dir may be called
// from any goroutine; one at a time looks or fetches, and the others wait for it.
type Kernels struct {
	// Team, which may be nil, is asked for a kernel before the distribution is.
	Team Team

	home home.Home
	log  *slog.Logger

	// mu guards verified, and is held while a kernel is fetched, so that it is fetched once.
	mu       sync.Mutex
	verified map[string]verifiedKernel // by override
}

// Team is what kernels need of the other machines (agentbox/team).
type Team interface {
	// Kernel fills dir, which is empty, with a kernel that another machine fetched, and says who it
	// was: as the team knows it, and for people. NotFound: nobody offers one.
	Kernel(ctx context.Context, dir string, progress func(done, total int)) (by, name string, err error)
	// KernelFetched says that there may be one that was not here a moment ago. It does not wait.
	KernelFetched()
}

// verifiedKernel is a kernel that was verified in full, and what its files were like then.
type verifiedKernel struct{ dir, identity string }

// NewKernels makes the Kernels of a home.
func NewKernels(h home.Home, log *slog.Logger) *Kernels {
	return &Kernels{home: h, log: log, verified: map[string]verifiedKernel{}}
}

// Dir gives the directory of the kernel that override asks for, "" for the default. override is a
// path, or a release. progress may be told for minutes while a kernel is fetched.
func (k *Kernels) Dir(ctx context.Context, override string, progress agentbox.Progress) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known, ok := k.verified[override]; ok && identity(known.dir, override) == known.identity {
		return known.dir, nil
	}
	agent, err := guest.Agent()
	if err != nil {
		return "", err
	}
	cfg := kernel.Config{
		Root: k.home.Kernels(), Override: override, Agent: agent, Log: k.log,
		Progress: func(what string) { progress.Say("kernel: " + what) },
	}
	if k.Team != nil {
		cfg.Elsewhere = func(ctx context.Context, dir string) (string, error) { return k.fromTeam(ctx, dir, progress) }
		defer k.Team.KernelFetched()
	}
	dir, err := kernel.Ensure(ctx, cfg)
	if err != nil {
		return "", err
	}
	k.verified[override] = verifiedKernel{dir: dir, identity: identity(dir, override)}
	return dir, nil
}

// fromTeam gets a kernel into dir, and says who fetched it. That the team's does not come is only
// logged: the distribution has one.
func (k *Kernels) fromTeam(ctx context.Context, dir string, progress agentbox.Progress) (string, error) {
	by, name, err := k.Team.Kernel(ctx, dir, func(done, total int) { progress.Move("kernel", "from the team", int64(done), int64(total)) })
	if err == nil {
		progress.Say("the guest kernel comes from " + name)
	} else if agentbox.CodeOf(err) != agentbox.NotFound {
		k.log.Warn("the team's kernel does not come", "error", err)
	}
	return by, err
}

// identity changes when one of the files does; "" when one cannot be read, which no verified kernel
// has.
func identity(dir, override string) string {
	all := fmt.Sprintln(dir)
	files := []string{filepath.Join(dir, "vmlinuz"), filepath.Join(dir, "initrd")}
	if override != "" {
		files = append(files, override)
	}
	for _, path := range files {
		id, err := durable.Identify(path)
		if err != nil {
			return ""
		}
		all += fmt.Sprintln(id)
	}
	return all
}
