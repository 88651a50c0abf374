// Command pack compresses a program for embedding: pack PROGRAM OUT VERSION writes OUT.zst and
// OUT.json. vmm/gvisor/runsc/build.sh runs it for runsc and the launcher. It is not a part of
// agentbox.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/gvisor/runsc"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: pack PROGRAM OUT VERSION")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack writes both files, each whole or not at all. Package runsc verifies the unpacked program
// with the description. Equal programs give equal bytes.
func pack(program, out, version string) error {
	b, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return err
	}
	about, err := json.Marshal(runsc.About{Version: version, Size: int64(len(b)), Digest: agentbox.Digest(sha256.Sum256(b))})
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{out + ".zst": enc.EncodeAll(b, nil), out + ".json": append(about, '\n')} {
		if err := durable.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
