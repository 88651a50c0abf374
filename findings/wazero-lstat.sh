#!/bin/sh
# github.com/tetratelabs/wazero v1.12.0, a WebAssembly runtime, guests built by Go for wasip1.
# Expected: a file system of the host that is mounted by WithFSMount(os.DirFS(dir)) shows links as the host does, or not at all:
#   os.Lstat says what os.ReadDir says, and os.Readlink reads what both call a link.
# Seen: it depends on the call. os.ReadDir says that link is a link (L), os.Lstat that it is the file that it leads to (-), and
#   os.Readlink fails with "Not implemented". WithDirMount(dir), the other way to mount, shows a link in all three.
#   So a program that walks a tree by Lstat follows links, into loops, too, and the same program by ReadDir does not.
# Why it matters: who gives a module a tree that is no directory of the host (a git commit, an archive) has to implement
#   experimental/sys.FS instead of fs.FS. Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
mkdir host guest tree
echo text >tree/file
ln -s file tree/link
cat >guest/main.go <<'EOF'
package main

import (
	"fmt"
	"os"
)

func main() {
	entries, _ := os.ReadDir("/")
	for _, e := range entries {
		if e.Name() == "link" {
			fmt.Print("readdir ", e.Type().String()[:1])
		}
	}
	info, err := os.Lstat("/link")
	fmt.Print(" lstat ", info.Mode().String()[:1], " ", err)
	target, err := os.Readlink("/link")
	fmt.Println(" readlink", target, err != nil)
}
EOF
cat >host/main.go <<'EOF'
package main

import (
	"context"
	"os"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

func main() {
	ctx := context.Background()
	wasm, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	for _, fs := range []wazero.FSConfig{wazero.NewFSConfig().WithFSMount(os.DirFS("tree"), "/"), wazero.NewFSConfig().WithDirMount("tree", "/")} {
		r := wazero.NewRuntime(ctx)
		wasi_snapshot_preview1.MustInstantiate(ctx, r)
		r.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithFSConfig(fs).WithStdout(os.Stdout))
		r.Close(ctx)
	}
}
EOF
(cd guest && go mod init guest >/dev/null 2>&1 && GOOS=wasip1 GOARCH=wasm go build -o ../guest.wasm .)
(cd host && go mod init host >/dev/null 2>&1 && go get github.com/tetratelabs/wazero@v1.12.0 >/dev/null 2>&1 && go build -o ../run .)
./run guest.wasm >out
cat out
printf 'readdir L lstat - <nil> readlink  true\nreaddir L lstat L <nil> readlink file false\n' | cmp - out
