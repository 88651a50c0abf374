package runsc

import (
	"bytes"
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

// aboutEmbedded reads what is known of a program without unpacking it, which takes tens of
// milliseconds. Its errors have code Missing (built without gVisor) or Corrupt (built wrongly).
func aboutEmbedded(from fs.FS, program string) (About, error) {
	var a About
	b, err := fs.ReadFile(from, embeddedName(program)+".json")
	if err != nil {
		return a, agentbox.Errorf(agentbox.Missing, "this agentbox was built without gVisor").WithHint("build with `make build`, or use --isolation microvm")
	}
	if err := json.Unmarshal(b, &a); err != nil || a.Size <= 0 || a.Size > maxProgram {
		return a, agentbox.Errorf(agentbox.Corrupt, "the embedded %s is not what `make build` makes", program).WithHint("build with `make build`")
	}
	return a, nil
}

// unpack gives the bytes of an embedded program. They are compared with the digest. The buffer has
// its final size from the start, and the decoder one goroutine: it runs once for each version.
func unpack(from fs.FS, program string, a About) ([]byte, error) {
	packed, err := fs.ReadFile(from, embeddedName(program)+".zst")
	if err != nil {
		return nil, agentbox.Errorf(agentbox.Missing, "this agentbox was built without gVisor").WithHint("build with `make build`, or use --isolation microvm")
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxProgram), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	b, err := dec.DecodeAll(packed, bytes.NewBuffer(make([]byte, 0, a.Size)).AvailableBuffer())
	if err != nil || digestOf(b) != a.Digest {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the embedded %s is damaged", program).WithHint("install agentbox again, or build it with `make build`")
	}
	return b, nil
}
