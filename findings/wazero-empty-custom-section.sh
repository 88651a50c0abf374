#!/bin/sh
# github.com/tetratelabs/wazero v1.12.0, Go 1.26
#
# Expected: a custom section is a name and any bytes after it, none among them (WebAssembly core specification 5.5.3,
# "customsec ::= section_0(custom); custom ::= name byte*"). Engines ignore it. V8 takes such a module.
# Seen: wazero takes a custom section with one byte of content, and refuses the same module without it: "failed to read
# custom section name[a]: EOF". Tools that strip contents but leave names make modules that wazero does not run.
# Output: 0 bytes of content: failed to read custom section name[a]: EOF / 1 bytes of content: <nil>
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/section

go 1.26

require github.com/tetratelabs/wazero v1.12.0
M
cat >main.go <<'G'
package main

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
)

func main() {
	ctx := context.Background()
	for content, section := range []string{"\x00\x02\x01a", "\x00\x03\x01ax"} {
		_, err := wazero.NewRuntime(ctx).CompileModule(ctx, []byte("\x00asm\x01\x00\x00\x00"+section))
		fmt.Println(content, "bytes of content:", err)
	}
}
G
go mod tidy >/dev/null 2>&1
go run . | tee result
cat >want <<'W'
0 bytes of content: failed to read custom section name[a]: EOF
1 bytes of content: <nil>
W
cmp result want
