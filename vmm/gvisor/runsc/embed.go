package runsc

import (
	"embed"
	"encoding/json"
	"io/fs"
	"runtime"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
)

//go:generate sh build.sh

// The directory always has its README, so that a checkout without the programs compiles.
//
//go:embed embedded
var embedded embed.FS

// About describes a program.
type About struct {
	Version string          `json:"version"` // of the gVisor module
	Size    int64           `json:"size"`    // bytes, unpacked
	Digest  agentbox.Digest `json:"digest"`  // of the unpacked bytes
}

// maxProgram is the most bytes of an unpacked program. runsc has about 34 MiB.
const maxProgram = 256 << 20

// Version is that of the embedded runsc, or an *agentbox.Error of code Missing. It is that of the
// Go module gvisor.dev/gvisor.
func Version() (string, error) {
	about, err := aboutEmbedded(embedded, runscName)
	return about.Version, err
}

// embeddedName returns the name of a program in embedded, without the extension.
func embeddedName(program string) string {
	return "embedded/" + program + "-linux-" + runtime.GOARCH
}

// notBuilt is the error of an agentbox that was built without gVisor.
func notBuilt() error {
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without gVisor").WithHint("build with `make build`, or use --isolation microvm")
}

// damaged is the error for a program that does not match its digest.
func damaged(program string) error {
	return agentbox.Errorf(agentbox.Corrupt, "the embedded %s is damaged", program).WithHint("install agentbox again, or build it with `make build`")
}

// aboutEmbedded reads the description of a program. Errors have code Missing (built without gVisor)
// or Corrupt (built wrongly).
func aboutEmbedded(from fs.FS, program string) (About, error) {
	var a About
	b, err := fs.ReadFile(from, embeddedName(program)+".json")
	if err != nil {
		return a, notBuilt()
	}
	if err := json.Unmarshal(b, &a); err != nil || a.Size <= 0 || a.Size > maxProgram {
		return a, agentbox.Errorf(agentbox.Corrupt, "the embedded %s is not what `make build` makes", program).WithHint("build with `make build`")
	}
	return a, nil
}

// unpack returns the bytes of an embedded program. The caller compares them with the digest.
func unpack(from fs.FS, program string, size int64) ([]byte, error) {
	packed, err := fs.ReadFile(from, embeddedName(program)+".zst")
	if err != nil {
		return nil, notBuilt()
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxProgram), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	b, err := dec.DecodeAll(packed, make([]byte, 0, size))
	if err != nil {
		return nil, damaged(program)
	}
	return b, nil
}
