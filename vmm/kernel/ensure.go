package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// Names in a kernel directory.
const (
	FileVmlinuz  = "vmlinuz"
	FileInitrd   = "initrd"
	FileManifest = "kernel.json"
)

// Config says where kernels are kept and which one is wanted. Root and Agent are required.
type Config struct {
	Root     string       // directory for kernels, made when missing
	Override string       // the user's `kernel:` key: a vmlinuz, or a directory with one and its modules; "" chooses
	Agent    []byte       // the guest agent, an ELF that becomes /init
	Log      *slog.Logger // nil is silent
	Progress func(string) // gets a line for each step that takes more than a moment; may be nil
	// FetchRemote fills the empty directory dir with a kernel that a trusted member fetched, and
	// returns that member's PeerID. NotFound: no member has one. If FetchRemote is nil, nobody is
	// asked.
	FetchRemote func(ctx context.Context, dir string) (by string, err error)
}

// Ensure returns a verified kernel directory, and makes it if there is none. It takes the first
// kernel it finds: the override, one that was fetched earlier, the host's own, one that a member
// fetched, or the distribution's cloud kernel, downloaded as an ordinary user. It fetches damaged
// parts again, once. Several processes may call it at the same time. Errors: Invalid for an
// override that is no kernel, Missing if there is no kernel anywhere, NoSpace, or those of apt.
func Ensure(ctx context.Context, c Config) (string, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if len(c.Agent) == 0 {
		return "", agentbox.Errorf(agentbox.Missing, "there is no guest agent to boot").WithHint("build with `make build`")
	}
	if err := os.MkdirAll(c.Root, 0o755); err != nil {
		return "", fmt.Errorf("kernel directory: %w", err)
	}
	unlock, err := durable.Lock(ctx, filepath.Join(c.Root, "lock"), nil)
	if err != nil {
		return "", fmt.Errorf("kernel directory: %w", err)
	}
	defer unlock()
	// The lock is held, so no temporary directory is in use.
	sweep(c.Root)
	for again := false; ; again = true {
		p, err := c.parts(ctx)
		if err != nil {
			return "", err
		}
		dir, err := c.assembled(p)
		// Only kept parts can be damaged on disk: others were just read.
		if agentbox.CodeOf(err) != agentbox.Corrupt || p.dir == "" || again {
			return dir, err
		}
		c.Log.Warn("fetched kernel is damaged, fetching it again", "err", err)
		if err := os.RemoveAll(p.dir); err != nil {
			return "", fmt.Errorf("remove damaged kernel: %w", err)
		}
	}
}

// assembled is the kernel directory of p, made if missing or damaged. Callers hold the lock.
func (c *Config) assembled(p *parts) (string, error) {
	dir := filepath.Join(c.Root, p.key(c.Agent))
	err := verify(dir)
	if err == nil {
		return dir, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		c.Log.Warn("kernel directory is damaged, building it again", "dir", dir, "err", err)
		if err := os.RemoveAll(dir); err != nil {
			return "", fmt.Errorf("remove damaged kernel: %w", err)
		}
	}
	if err := p.load(); err != nil {
		return "", err
	}
	c.Progress("assembling kernel " + p.Release)
	if err := assemble(dir, p, c.Agent); err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			return "", agentbox.Classify(agentbox.NoSpace, "no room for a kernel in %s: %w", c.Root, err).
				WithHint("free some space, for example with `agentbox prune`")
		}
		return "", fmt.Errorf("assemble kernel %s: %w", p.Release, err)
	}
	c.Log.Info("kernel assembled", "release", p.Release, "source", p.Source, "dir", dir)
	return dir, nil
}

// sweep removes the temporary directories of processes that died in Ensure. Callers hold the lock.
func sweep(root string) {
	for _, pattern := range []string{".new-*", ".fetch-*", "fetched/.new-*"} {
		left, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are valid
		for _, dir := range left {
			os.RemoveAll(dir) // the next call tries again
		}
	}
}
