//go:build linux

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"syscall"
)

// bootID is the file that says which boot this is: the same in all clones unless it is covered.
// Programs take it for "since the last reboot" (journals, locks), so twins must not share it.
// ownBootID is what covers it.
const (
	bootID      = "/proc/sys/kernel/random/boot_id"
	ownBootID   = "/run/agentbox/boot_id"
	bootIDBytes = 16
)

// coverBootID puts a file that setBootID writes in place of the kernel's. It is called once, before
// there is a machine id; every life sets its own.
func coverBootID() error {
	if err := setBootID(""); err != nil {
		return err
	}
	if _, err := os.Stat(bootID); err != nil {
		return nil // this kernel has none that could tell clones apart
	}
	return syscall.Mount(ownBootID, bootID, "", syscall.MS_BIND, "")
}

// setBootID derives the id from the machine's. The file keeps its inode, since it covers another,
// and its length. The digest is marked as a UUID of version 4, the form that readers expect.
func setBootID(machineID string) error {
	sum := sha256.Sum256([]byte("agentbox boot " + machineID))
	b := sum[:bootIDBytes]
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	f, err := os.OpenFile(ownBootID, os.O_WRONLY|os.O_CREATE, 0o444)
	if err != nil {
		return err
	}
	_, err = f.Write(uuid(b))
	return errors.Join(err, f.Close())
}

func uuid(b []byte) []byte {
	text := make([]byte, 0, len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx\n"))
	for _, n := range []int{4, 2, 2, 2, 6} {
		text = append(hex.AppendEncode(text, b[:n]), '-')
		b = b[n:]
	}
	text[len(text)-1] = '\n'
	return text
}
