package reach

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/durable"
)

// SSHFiles are the names of the files by which stock ssh logs in to a box. They are this program's
// own: KeepKeys writes them from what the daemon says. host is the name of the machine, "" for this
// one.
func (h Here) SSHFiles(host string, id agentbox.BoxID) (key, knownHosts string) {
	dir := filepath.Join(h.home.SSHKeys(), keysOf(host, id))
	return filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
}

// KeepKeys writes the files of SSHFiles if they differ from what a connection says: each life of a
// box has another host key.
func (h Here) KeepKeys(host string, c api.Connection) error {
	key, knownHosts := h.SSHFiles(host, c.Box)
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

func keysOf(host string, id agentbox.BoxID) string { return host + "." + id.String() }

// DropKeys removes the files of boxes of a machine other than these.
func (h Here) DropKeys(host string, boxes []agentbox.Box) error {
	entries, err := os.ReadDir(h.home.SSHKeys())
	if err != nil {
		return nil // there are none
	}
	exists := map[string]bool{}
	for _, b := range boxes {
		exists[keysOf(host, b.ID)] = true
	}
	for _, e := range entries {
		if of, _, _ := strings.Cut(e.Name(), "."); of == host && !exists[e.Name()] {
			if err := os.RemoveAll(filepath.Join(h.home.SSHKeys(), e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
