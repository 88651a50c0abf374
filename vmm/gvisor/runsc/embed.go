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

// About says what one of the programs is.
type About struct {
	Version string          `json:"version"` // of the gVisor module
	Size    int64           `json:"size"`    // bytes, unpacked
	Digest  agentbox.Digest `json:"digest"`  // of the unpacked bytes
}

// maxProgram bounds what unpacking may write. runsc has some 34 MiB; the bound is against a file
// that is no program of ours.
const maxProgram = 256 << 20

// Version is that of the embedded runsc, or an *agentbox.Error of code Missing. It is that of the
// Go module gvisor.dev/gvisor.
func Version() (string, error) {
	about, err := aboutEmbedded(embedded, runscName)
	return about.Version, err
}

// embeddedName is a program's name in embedded, without its ending, for the processor that this
// agentbox was built for.
func embeddedName(program string) string {
	return "embedded/" + program + "-linux-" + runtime.GOARCH
}

// notBuilt is for a checkout whose build left gVisor out, damaged for a program that is not what
// its digest says.
func notBuilt() error {
	return agentbox.Errorf(agentbox.Missing, "this agentbox was built without gVisor").WithHint("build with `make build`, or use --isolation microvm")
}

func damaged(program string) error {
	return agentbox.Errorf(agentbox.Corrupt, "the embedded %s is damaged", program).WithHint("install agentbox again, or build it with `make build`")
}

// aboutEmbedded reads what is known of a program without unpacking it, which takes tens of
// milliseconds. Its errors have code Missing (built without gVisor) or Corrupt (built wrongly).
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

// unpack gives the bytes of an embedded program, which the caller compares with its digest. The
// buffer has its final size from the start, and the decoder one goroutine: it runs once for each
// version.
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
