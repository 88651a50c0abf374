package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
)

// peer is another program that runs commands apart from the machine, with the machine's own tools:
// its root file system is the machine's, of which only the working copy can be written.
type peer struct {
	name    string
	program string                                                    // looked for in PATH
	version string                                                    // the argument that prints it
	install string                                                    // what to do where it is missing
	argv    func(program string, s peerSpace, script string) []string // the whole command line
}

// peerSpace is what a peer may write, and what its commands get.
type peerSpace struct {
	dir, cache string   // absolute
	env        []string // NAME=VALUE
	settings   string   // a file outside of both, for peers that want one
}

// peers are those that need no image: all run the same files, so that only they differ.
var peers = []peer{
	{"bubblewrap", "bwrap", "--version", "apt-get install bubblewrap", func(program string, s peerSpace, script string) []string {
		return []string{program, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", s.dir, s.dir, "--bind", s.cache, s.cache,
			"--unshare-pid", "--unshare-ipc", "--die-with-parent", "--chdir", s.dir, "sh", "-c", script}
	}},
	{"podman", "podman", "--version", "apt-get install podman", func(program string, s peerSpace, script string) []string {
		argv := []string{program, "run", "--rm", "--network", "host", "-v", s.dir + ":" + s.dir, "-v", s.cache + ":" + s.cache, "-w", s.dir}
		for _, e := range s.env {
			argv = append(argv, "-e", e)
		}
		return append(argv, "--rootfs", "/:O", "sh", "-c", script)
	}},
	{"runsc", "runsc", "--version", "see gvisor.dev", func(program string, s peerSpace, script string) []string {
		return []string{program, "-ignore-cgroups", "-network=host", "do", "-force-overlay=false", "-cwd", s.dir, "sh", "-c", script}
	}},
	// It allows no network but named hosts.
	{"sandbox-runtime", "srt", "--version", "npm install -g @anthropic-ai/sandbox-runtime", func(program string, s peerSpace, script string) []string {
		return []string{program, "--settings", s.settings, "-c", script}
	}},
}

// absentPeers cannot run a working copy of this machine with its tools: what they would run is another
// system, and the figure would compare that.
var absentPeers = []Missing{
	{"peer/qemu", "a bare machine has no tools of this one; tools/lab measures its start and its network"},
	{"peer/lima", "its machine has tools of its own: run agentbox bench in it, and bench compare here"},
	{"peer/docker", "it runs images only; podman runs this machine's own files"},
}

// PeerCommand says exactly what a peer ran.
type PeerCommand struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Command string `json:"command"` // for a shell, in the directory of the working copy
}

// findPeers makes places of the peers that work on this machine, and notes in the report what each
// runs, or why it is missing.
func (r *Run) findPeers(ctx context.Context, p *Project, lab *Lab) {
	r.Report.Missing = append(r.Report.Missing, absentPeers...)
	for _, peer := range peers {
		at, err := p.openPeer(ctx, lab, peer)
		if err != nil {
			r.Report.Missing = append(r.Report.Missing, Missing{"peer/" + peer.name, err.Error()})
			continue
		}
		p.peers = append(p.peers, peerPlace{peer.name, at})
		r.Report.Peers = append(r.Report.Peers, at.WorkTarget.(peerTarget).described(ctx))
	}
}

// peerPlace is where the commands of a project run by a peer.
type peerPlace struct {
	name string
	*place
}

// openPeer returns the place of a peer, which has run a command there once.
func (p *Project) openPeer(ctx context.Context, lab *Lab, peer peer) (*place, error) {
	path, err := exec.LookPath(peer.program)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed: %s", peer.program, peer.install)
	}
	machine := p.machine(lab, "peer-"+peer.name)
	native := machine.WorkTarget.(nativeTarget)
	t := peerTarget{peer: peer, path: path, space: peerSpace{native.dir, native.dir + ".cache", native.env, native.dir + ".json"}}
	if err := t.writeSettings(); err != nil {
		return nil, err
	}
	fresh := machine.fresh
	machine.WorkTarget = t
	machine.fresh = func(ctx context.Context) error {
		if err := fresh(ctx); err != nil {
			return err
		}
		return os.MkdirAll(t.space.cache, 0o700) // is bound, so must exist
	}
	if err := machine.renew(ctx); err != nil {
		return nil, err
	}
	if _, err := t.Run(ctx, "true"); err != nil {
		return nil, fmt.Errorf("it does not work here: %w", err)
	}
	return machine, nil
}

// peerTarget runs jobs by a peer.
type peerTarget struct {
	peer  peer
	path  string // of the program
	space peerSpace
}

// Run implements WorkTarget as nativeTarget does.
func (p peerTarget) Run(ctx context.Context, script string) (float64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, WorkLimit, fmt.Errorf("the limit is %s", WorkLimit))
	defer cancel()
	argv := p.peer.argv(p.path, p.space, script)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = p.space.dir, append(os.Environ(), p.space.env...), KillAfter
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took := InMilliseconds(time.Since(start))
	if err != nil {
		return took, fmt.Errorf("%s: %w: %s", p.peer.name, err, LastLine(out))
	}
	return took, nil
}

// writeSettings writes the settings of sandbox-runtime, whose keys all have to be there.
func (p peerTarget) writeSettings() error {
	none := []string{}
	text, err := json.Marshal(map[string]any{
		"network":    map[string]any{"allowedDomains": none, "deniedDomains": none},
		"filesystem": map[string]any{"denyRead": none, "denyWrite": none, "allowWrite": []string{p.space.dir, p.space.cache}},
	})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(p.space.settings), 0o700)
	}
	if err == nil {
		err = os.WriteFile(p.space.settings, text, 0o600)
	}
	return err
}

// described returns what the peer runs, as one would type it.
func (p peerTarget) described(ctx context.Context) PeerCommand {
	out, _ := exec.CommandContext(ctx, p.path, p.peer.version).Output() // unknown where it has none
	version, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return PeerCommand{p.peer.name, version, shellescape.QuoteCommand(p.peer.argv(p.peer.program, p.space, "COMMAND"))}
}
