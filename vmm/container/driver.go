package container

import (
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/packed"
	"agentbox/vmm"
	"agentbox/vmm/hostdir"
	"agentbox/vmm/statedir"
)

// Config configures a driver. It does not change after New.
type Config struct {
	StateDir string                          // an existing directory for the program and unpacked images; processes may share it
	Digest   func() (agentbox.Digest, error) // of Agent; cheap
	Agent    func() ([]byte, error)          // the guest agent's program; decompresses it
	Log      *slog.Logger                    // gets what no error can report; may be nil
}

// Driver implements vmm.Driver, vmm.Reclaimer and vmm.DirectoryWorkspaces.
type Driver struct {
	hostdir.Workspaces
	config Config

	putting sync.Mutex // guards agent, and is held while the program is written
	agent   string     // the directory of the guest agent's program, once it is known to be there

	trying sync.Mutex // guards tried, and is held while Probe finds out
	tried  *trial
}

var (
	_ vmm.Driver              = (*Driver)(nil)
	_ vmm.DirectoryWorkspaces = (*Driver)(nil)
	_ vmm.Reclaimer           = (*Driver)(nil)
)

// New makes a driver. It touches nothing; Probe tells whether machines can run here.
func New(config Config) *Driver {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{config: config}
}

func (d *Driver) path(names ...string) string {
	return filepath.Join(append([]string{d.config.StateDir, stateDir}, names...)...)
}

// agentDirectory returns the directory with the guest agent's program, which it writes if it is
// missing. Programs of other versions stay while machines may run them.
func (d *Driver) agentDirectory() (string, error) {
	d.putting.Lock()
	defer d.putting.Unlock()
	if d.agent != "" {
		return d.agent, nil
	}
	digest, err := d.config.Digest()
	if err != nil {
		return "", err
	}
	dir := d.path(agentDir + digest.Hex()[:16])
	if err := putAgent(filepath.Join(dir, agentName), digest, d.config.Agent); err != nil {
		return "", statedir.HostError(err)
	}
	d.agent = dir
	return dir, nil
}

func putAgent(file string, digest agentbox.Digest, agent func() ([]byte, error)) error {
	if packed.Holds(file, digest) {
		return nil
	}
	b, err := agent()
	if err != nil {
		return err
	}
	if sha256.Sum256(b) != digest {
		return agentbox.Errorf(agentbox.Corrupt, "the embedded guest agent is damaged").WithHint("install agentbox again, or build it with `make build`")
	}
	dir := filepath.Dir(file)
	// The directory is a layer of an overlay in a namespace whose root is nobody here.
	return errors.Join(os.MkdirAll(dir, 0o755), os.Chmod(dir, 0o755), durable.WriteFile(file, b, 0o755))
}
