package programs

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/packed"
)

//go:generate sh build.sh

// The directory always has its README, so that a checkout without the programs compiles.
//
//go:embed embedded
var embedded embed.FS

// Daemon unpacks the programs below root, unless they are there, and returns the daemon's path. It
// removes those of other builds: what runs has its program open, and another build unpacks its own
// again. The error is Missing for a build without them.
func Daemon(root string) (string, error) {
	return unpack(embedded, root, home.DaemonProgram, home.SupervisorProgram, home.CheckProgram)
}

// Lima unpacks the program that runs Lima's machines below root, in the same way, and returns its
// path. Only who uses Lima needs it.
func Lima(root string) (string, error) { return unpack(embedded, root, home.LimaProgram) }

// GVisor is the version of gVisor that the daemon carries. The error is Missing for a build without
// a daemon.
func GVisor() (string, error) {
	about, err := in(embedded, home.DaemonProgram).About()
	return about.Version, err
}

func in(from fs.FS, name string) packed.Program {
	return packed.Program{From: from, Name: "embedded/" + name + "-" + runtime.GOOS + "-" + runtime.GOARCH}
}

// unpack returns the path of the first program. It names the directory by a hash of the programs'
// digests. Only their presence and sizes are checked: what else a home has is trusted in the same
// way.
func unpack(from fs.FS, root string, names ...string) (string, error) {
	h, sizes := sha256.New(), map[string]int64{}
	for _, name := range names {
		about, err := in(from, name).About()
		if err != nil {
			return "", err
		}
		h.Write(about.Digest[:])
		sizes[name] = about.Size
	}
	dir := filepath.Join(root, hex.EncodeToString(h.Sum(nil))[:16])
	for name, size := range sizes {
		file := filepath.Join(dir, name)
		if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() == size {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", agentbox.MarkNoSpace(err)
		}
		if err := in(from, name).Put(file); err != nil {
			return "", agentbox.MarkNoSpace(err)
		}
	}
	return filepath.Join(dir, names[0]), removeOthers(root, filepath.Base(dir))
}

func removeOthers(root, keep string) error {
	all, err := os.ReadDir(root)
	for _, e := range all {
		if e.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, e.Name())))
		}
	}
	return err
}
