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

// Kernels finds or fetches guest kernels for microVMs, with the guest agent of this build. It
// verifies a kernel in full when it is first asked for and whenever its files have changed since;
// otherwise a call costs a few stats, because every new box makes one. Dir is safe for concurrent
// use; one caller at a time looks or fetches, and the others wait for it.
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
	// Kernel fills dir, which is empty, with a kernel that another machine fetched, and returns that
	// machine's ID in the team and its name. The error is NotFound if nobody offers one.
	Kernel(ctx context.Context, dir string, progress func(done, total int)) (by, name string, err error)
	// KernelFetched says that there may be a new kernel here. It does not block.
	KernelFetched()
}

// verifiedKernel is a kernel that was verified in full, with the identity that its files had then.
type verifiedKernel struct{ dir, identity string }

// NewKernels makes the Kernels of a home.
func NewKernels(h home.Home, log *slog.Logger) *Kernels {
	return &Kernels{home: h, log: log, verified: map[string]verifiedKernel{}}
}

// Dir returns the directory of a kernel. override is a path or a release, "" for the default.
// progress may be called for minutes while a kernel is fetched.
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
		Progress: func(what string) { progress.Note("kernel: " + what) },
	}
	if k.Team != nil {
		cfg.FetchRemote = func(ctx context.Context, dir string) (string, error) { return k.fromTeam(ctx, dir, progress) }
		defer k.Team.KernelFetched()
	}
	dir, err := kernel.Ensure(ctx, cfg)
	if err != nil {
		return "", err
	}
	k.verified[override] = verifiedKernel{dir: dir, identity: identity(dir, override)}
	return dir, nil
}

// fromTeam fetches a kernel from the team into dir, and returns which machine fetched it first. A
// failure is only logged: the distribution has a kernel, too.
func (k *Kernels) fromTeam(ctx context.Context, dir string, progress agentbox.Progress) (string, error) {
	by, name, err := k.Team.Kernel(ctx, dir, func(done, total int) { progress.Update("kernel", "from the team", int64(done), int64(total)) })
	if err == nil {
		progress.Note("the guest kernel comes from " + name)
	} else if agentbox.CodeOf(err) != agentbox.NotFound {
		k.log.Warn("the team's kernel does not come", "error", err)
	}
	return by, err
}

// identity changes when one of the files does; "" if one cannot be read.
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
