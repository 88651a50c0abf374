//go:build linux

package agent

import (
	"crypto/sha256"
	"fmt"
	"os"
	"syscall"
)

// bootID is the file that says which boot this is: the same in all clones unless it is covered.
const (
	bootID      = "/proc/sys/kernel/random/boot_id"
	ownBootID   = "/run/agentbox/boot_id"
	bootIDBytes = 16
)

// coverBootID puts a file that setBootID writes in place of the kernel's.
func coverBootID() error {
	if err := setBootID(""); err != nil {
		return err
	}
	if _, err := os.Stat(bootID); err != nil {
		return nil // this kernel has none that could tell clones apart
	}
	return syscall.Mount(ownBootID, bootID, "", syscall.MS_BIND, "")
}

// setBootID derives the id from the machine's. The file keeps its inode, since it covers another.
func setBootID(machineID string) error {
	sum := sha256.Sum256([]byte("agentbox boot " + machineID))
	b := sum[:bootIDBytes]
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return os.WriteFile(ownBootID, fmt.Appendf(nil, "%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), 0o444)
}
