package reach

import (
	"bytes"
	"os"
	"path/filepath"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// SSHFiles are the names of the files by which stock ssh logs in to a box. They are this program's
// own: KeepKeys writes them from what the daemon says.
func (h Here) SSHFiles(id agentbox.BoxID) (key, knownHosts string) {
	dir := filepath.Join(h.home.SSHKeys(), id.String())
	return filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
}

// KeepKeys writes the files of SSHFiles if they differ from what a connection says: each life of a
// box has another host key.
func (h Here) KeepKeys(c api.Connection) error {
	key, knownHosts := h.SSHFiles(c.Box)
	if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{key: c.Key, knownHosts: c.HostKey} {
		if b, err := os.ReadFile(name); err == nil && bytes.Equal(b, []byte(text)) {
			continue
		}
		if err := durable.Replace(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// DropKeys removes the files of boxes other than these.
func (h Here) DropKeys(boxes []agentbox.Box) error {
	entries, err := os.ReadDir(h.home.SSHKeys())
	if err != nil {
		return nil // there are none
	}
	exists := map[string]bool{}
	for _, b := range boxes {
		exists[b.ID.String()] = true
	}
	for _, e := range entries {
		if !exists[e.Name()] {
			if err := os.RemoveAll(filepath.Join(h.home.SSHKeys(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
