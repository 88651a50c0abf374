//go:build linux

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"syscall"
)

// bootID is the file that identifies a boot; programs take it for "since the last reboot"
// (journals, locks). All clones of a template would share the kernel's, so ownBootID covers it.
const (
	bootID      = "/proc/sys/kernel/random/boot_id"
	ownBootID   = "/run/agentbox/boot_id"
	bootIDBytes = 16
)

// mountBootID mounts a file of ours over the kernel's. It is called once, before there is a machine
// id; setBootID writes each life's own.
func mountBootID() error {
	if err := setBootID(""); err != nil {
		return err
	}
	if _, err := os.Stat(bootID); err != nil {
		return nil // this kernel has none that could tell clones apart
	}
	return syscall.Mount(ownBootID, bootID, "", syscall.MS_BIND, "")
}

// setBootID derives the id from the machine's, as a UUID of version 4. The file keeps its inode,
// since it is mounted over another, and its length.
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
