//go:build linux

package agent

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentbox/vmm/guest/protocol"
)

// inventory is the set of digests of all files at one moment. Two moments are compared by whether a
// file looks the same, never by which time is later: a guest's clock is stepped, also while setup
// runs, and agrees with no other machine's.
type inventory map[[protocol.InventoryEntry]byte]bool

// fileDigest covers a file's name and all metadata that a change of it changes. Only the kernel
// sets the ctime, so a file whose size and times were put back still differs. Inode numbers are
// left out: gVisor gives a directory another one each time.
func fileDigest(path string, info fs.FileInfo) [protocol.InventoryEntry]byte {
	st, size := stat(info), info.Size()
	if info.IsDir() {
		size = 0 // its files have digests themselves
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%o %d %d %d %d %d", path, st.Mode, st.Uid, st.Gid, size, st.Mtim.Nano(), st.Ctim.Nano()))
	return [protocol.InventoryEntry]byte(sum[:])
}

// maxInventory bounds an inventory in bytes: some eight million files.
const maxInventory = 128 << 20

// readInventory reads size bytes of entries. It checks size before it reads anything.
func readInventory(in io.Reader, size int64) (inventory, error) {
	if size < 0 || size > maxInventory || size%protocol.InventoryEntry != 0 {
		return nil, fmt.Errorf("an inventory of %d bytes", size)
	}
	known := inventory{}
	for range size / protocol.InventoryEntry {
		var entry [protocol.InventoryEntry]byte
		if _, err := io.ReadFull(in, entry[:]); err != nil {
			return nil, fmt.Errorf("the inventory is cut off: %w", err)
		}
		known[entry] = true
	}
	return known, nil
}

// takeInventory writes the digest of every file. When it returns, the clock that stamps files has
// ticked, so that any later change makes a file look different.
func takeInventory(req protocol.ExportRequest, out io.Writer) error {
	w, n := bufio.NewWriter(out), int64(0)
	h := &exporter{req: req}
	err := h.walk(func(path string, info fs.FileInfo) error {
		entry := fileDigest(path, info)
		if n += protocol.InventoryEntry; n > maxInventory {
			return fmt.Errorf("%s has more than %d files", req.Root, maxInventory/protocol.InventoryEntry)
		}
		_, err := w.Write(entry[:])
		return err
	})
	if err != nil {
		return err
	}
	if err := awaitClockTick(req.Root); err != nil {
		return err
	}
	return w.Flush()
}

// clockTickTimeout is far longer than the tick of any clock that stamps files.
const clockTickTimeout = 10 * time.Second

// awaitClockTick waits until a changed file in dir gets a later time than it would have got at the
// call. It creates and removes files there.
func awaitClockTick(dir string) error {
	first, err := changeTimeIn(dir)
	now := first
	ticked := poll(clockTickTimeout, func() bool {
		if err == nil {
			now, err = changeTimeIn(dir)
		}
		return err != nil || now != first
	})
	if !ticked {
		return fmt.Errorf("the clock of the file system of %s stands still", dir)
	}
	return err
}

// changeTimeIn is the change time, in nanoseconds, that a file made in dir now gets.
func changeTimeIn(dir string) (int64, error) {
	f, err := os.CreateTemp(dir, ".agentbox-tick-")
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	err = errors.Join(err, f.Close(), os.Remove(filepath.Join(dir, filepath.Base(f.Name()))))
	if err != nil {
		return 0, err
	}
	return stat(info).Ctim.Nano(), nil
}
