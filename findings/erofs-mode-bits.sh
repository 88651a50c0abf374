#!/bin/sh
# github.com/erofs/go-erofs v0.3.1 on an image of erofs-utils 1.5-1 (Debian 12), Go 1.26
#
# Expected of the fs.FS of an image, as of os.DirFS of the folder it was made from: FileInfo.Mode() has
# fs.ModeSetuid, fs.ModeSetgid and fs.ModeSticky where files have these bits.
# Seen: Mode() never has them, though permissions and types are right; they are in Sys().(*erofs.Stat).Mode
# only, beside a Mode() of the same type that lacks them. What takes the image as a file system, as
# archive/tar's AddFS does, copies it without an error and makes su, sudo and passwd programs without their
# rights, and /tmp a folder in which each user may delete the others' files.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/mode

go 1.26

require github.com/erofs/go-erofs v0.3.1
M
cat >main.go <<'M'
package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"

	"github.com/erofs/go-erofs"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// tarred are the modes that files have in an archive of a file system.
func tarred(fsys fs.FS) map[string]int64 {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(fsys); err != nil {
		panic(err)
	}
	w.Close()
	modes := map[string]int64{}
	for r := tar.NewReader(&b); ; {
		h, err := r.Next()
		if err != nil {
			return modes
		}
		modes[h.Name] = h.Mode
	}
}

func main() {
	image := must(erofs.Open(must(os.Open("image"))))
	folder := os.DirFS("tree")
	fromImage, fromFolder := tarred(image), tarred(folder)
	for _, name := range []string{"plain", "su", "tmp", "wall"} {
		theirs := must(fs.Stat(image, name))
		fmt.Printf("%s: folder %v, image %v, Sys %v", name, must(fs.Stat(folder, name)).Mode(), theirs.Mode(),
			theirs.Sys().(*erofs.Stat).Mode)
		if theirs.Mode().IsRegular() {
			fmt.Printf("; in a tar %o, %o", fromFolder[name], fromImage[name])
		}
		fmt.Println()
	}
}
M
apt-get download erofs-utils=1.5-1 libselinux1 liblz4-1 >/dev/null 2>&1 &&
	for deb in *.deb; do dpkg-deb -x "$deb" .; done &&
	GOFLAGS=-mod=mod GOWORK=off go build -o mode . || { echo "could not be installed" >&2; exit 2; }
mkdir tree tree/tmp
touch tree/plain tree/su tree/wall
chmod 755 tree/plain
chmod 4755 tree/su
chmod 2755 tree/wall
chmod 1777 tree/tmp
libs=$dir/usr/lib/x86_64-linux-gnu:$dir/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$libs usr/bin/mkfs.erofs --quiet -T 0 image tree 2>/dev/null
./mode >seen
cat seen
cmp - seen <<'M'
plain: folder -rwxr-xr-x, image -rwxr-xr-x, Sys -rwxr-xr-x; in a tar 755, 755
su: folder urwxr-xr-x, image -rwxr-xr-x, Sys urwxr-xr-x; in a tar 4755, 755
tmp: folder dtrwxrwxrwx, image drwxrwxrwx, Sys dtrwxrwxrwx
wall: folder grwxr-xr-x, image -rwxr-xr-x, Sys grwxr-xr-x; in a tar 2755, 755
M
