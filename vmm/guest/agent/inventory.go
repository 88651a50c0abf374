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

// inventory has what was seen of each file. Two moments are compared by whether a file looks the
// same, never by which of two times is later: clocks of a guest are stepped, also while setup runs,
// and another machine's agree with none. It is a set of digests, one for each file.
type inventory map[[protocol.InventoryEntry]byte]bool

// seen is a digest of a file's name and of everything that a change of it changes. The time of
// change is set by the kernel alone, so a file whose size and times were put back still looks
// different. Inode numbers are not in it: those of directories are not the same twice in gVisor.
func seen(path string, info fs.FileInfo) [protocol.InventoryEntry]byte {
	st, size := stat(info), info.Size()
	if info.IsDir() {
		size = 0 // what is in it is looked at itself
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%o %d %d %d %d %d", path, st.Mode, st.Uid, st.Gid, size, st.Mtim.Nano(), st.Ctim.Nano()))
	return [protocol.InventoryEntry]byte(sum[:])
}

// maxInventory bounds an inventory: some eight million files.
const maxInventory = 128 << 20

// readInventory reads size bytes of entries. A size that no inventory can have is an error before
// anything is read.
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

// takeInventory writes what is seen of every file. When it returns, no change to come can leave a
// file looking as it does now: the clock that changes are stamped with has gone on, if only by one
// tick. It makes a file in the root to see the clock, and removes it.
func takeInventory(req protocol.ExportRequest, out io.Writer) error {
	w, n := bufio.NewWriter(out), int64(0)
	h := &exporter{req: req}
	err := h.walk(func(path string, info fs.FileInfo) error {
		entry := seen(path, info)
		if n += protocol.InventoryEntry; n > maxInventory {
			return fmt.Errorf("%s has more than %d files", req.Root, maxInventory/protocol.InventoryEntry)
		}
		_, err := w.Write(entry[:])
		return err
	})
	if err != nil {
		return err
	}
	if err := awaitTick(req.Root); err != nil {
		return err
	}
	return w.Flush()
}

// tickWait is far longer than the tick of any clock that stamps files.
const tickWait = 10 * time.Second

// awaitTick returns when files changed in a directory get another time than they got when it was
// called.
func awaitTick(dir string) error {
	first, err := stampIn(dir)
	now := first
	ticked := poll(tickWait, func() bool {
		if err == nil {
			now, err = stampIn(dir)
		}
		return err != nil || now != first
	})
	if !ticked {
		return fmt.Errorf("the clock of the file system of %s stands still", dir)
	}
	return err
}

func stampIn(dir string) (int64, error) {
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
