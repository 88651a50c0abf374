// Package packed carries programs inside of other programs: compressed with zstd, with their size
// and digest beside them, and unpacked into files. It does not run any of them.
//
// The command pack makes the two files that a package embeds. The same program always gives the
// same bytes.
package packed

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
)

// About describes a program.
type About struct {
	Version string          `json:"version"` // of gVisor, for the programs that have it in them
	Size    int64           `json:"size"`    // bytes, unpacked
	Digest  agentbox.Digest `json:"digest"`  // of the unpacked bytes
}

// maxSize is the most bytes of an unpacked program. runsc has about 34 MiB.
const maxSize = 256 << 20

// Program is a program that this one carries: Name.json and Name.zst in From.
type Program struct {
	From fs.FS
	Name string
}

// About reads the description. Errors have code Missing (this build does not carry the program) or
// Corrupt (built wrongly).
func (p Program) About() (About, error) {
	var a About
	b, err := fs.ReadFile(p.From, p.Name+".json")
	if err != nil {
		return a, p.missing()
	}
	if err := json.Unmarshal(b, &a); err != nil || a.Size <= 0 || a.Size > maxSize {
		return a, agentbox.Errorf(agentbox.Corrupt, "the embedded %s is not what `make build` makes", path.Base(p.Name)).WithHint("build with `make build`")
	}
	return a, nil
}

// Put writes the program to file, unless a regular file with its bytes is there. Errors are those of
// About, Corrupt if the bytes do not match the description, or those of the file system.
func (p Program) Put(file string) error {
	about, err := p.About()
	if err != nil || Holds(file, about.Digest) {
		return err
	}
	b, err := fs.ReadFile(p.From, p.Name+".zst")
	if err != nil {
		return p.missing()
	}
	if b, err = unpack(b, about.Size); err != nil || sha256.Sum256(b) != about.Digest {
		return agentbox.Errorf(agentbox.Corrupt, "the embedded %s is damaged", path.Base(p.Name)).WithHint("install agentbox again, or build it with `make build`")
	}
	return durable.WriteFile(file, b, 0o755)
}

func (p Program) missing() error {
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without %s", path.Base(p.Name)).WithHint("build with `make build`")
}

// Holds tells whether file has the bytes with this digest. A link is not followed, and holds none.
func Holds(file string, digest agentbox.Digest) bool {
	if !isFile(file) {
		return false
	}
	d, err := agentbox.DigestFile(file)
	return err == nil && d == digest
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func unpack(packed []byte, size int64) ([]byte, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxSize), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	return dec.DecodeAll(packed, make([]byte, 0, size))
}

// Pack writes out.zst and out.json for a program, each whole or not at all, unless they are there.
func Pack(program, out, version string) error {
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	want := About{Version: version, Size: int64(len(b)), Digest: sha256.Sum256(b)}
	made := Program{From: os.DirFS(filepath.Dir(out)), Name: filepath.Base(out)}
	if is, err := made.About(); err == nil && is == want && isFile(out+".zst") {
		return nil
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return err
	}
	about, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(out+".zst", enc.EncodeAll(b, nil), 0o644); err != nil {
		return err
	}
	return durable.WriteFile(out+".json", append(about, '\n'), 0o644)
}
