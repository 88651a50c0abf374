package runsc

import (
	"encoding/json"
	"os"
	"syscall"
)

// memo identifies files that were verified: as long as one says the same, the bytes are the same.
type memo struct {
	Files map[string]identity `json:"files"` // by path
}

// identity changes when a file is replaced or written.
type identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
	Change int64  `json:"change"` // ctime in nanoseconds, which no program can set
	Mode   uint32 `json:"mode"`
}

func identify(path string) (identity, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return identity{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return identity{Device: uint64(st.Dev), Inode: st.Ino, Size: st.Size, Change: st.Ctim.Nano(), Mode: st.Mode}, nil
}

func identifyAll(paths []string) (memo, error) {
	m := memo{Files: map[string]identity{}}
	for _, path := range paths {
		id, err := identify(path)
		if err != nil {
			return m, err
		}
		m.Files[path] = id
	}
	return m, nil
}

// holds tells whether all the files are still what was verified.
func (m memo) holds(paths []string) bool {
	for _, path := range paths {
		id, err := identify(path)
		known, ok := m.Files[path]
		if err != nil || !ok || id != known {
			return false
		}
	}
	return true
}

// readMemo reads what an earlier process verified; what cannot be read was never known.
func readMemo(path string) memo {
	var m memo
	b, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(b, &m) != nil {
		return memo{}
	}
	return m
}
