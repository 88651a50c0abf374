#!/bin/sh
# qemu-user-static 1:7.2+dfsg-7+deb12u18+b3 (Debian 12), qemu-aarch64-static, with Linux 6.18: prlimit(2) of
# another process.
# prlimit(2): it sets a limit of the process that pid names, and returns 0 if it has.
# Expected: a program that is emulated bounds the memory of a native child by it, as it bounds its open files.
# Seen: it returns 0 for RLIMIT_AS, RLIMIT_DATA and RLIMIT_STACK and sets nothing, though the child is no
# emulated process, for whose sake these are left alone; RLIMIT_NOFILE of the same child is set, and reading
# any of them shows what really holds. So what a test for another processor starts as git or tar, which is
# this machine's own, has no bound, and takes all memory where the test is that it may not.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
apt-get download qemu-user-static=1:7.2+dfsg-7+deb12u18+b3 >/dev/null 2>&1 || { echo "could not be installed" >&2; exit 2; }
dpkg-deb -x qemu-user-static_*.deb .
cat >main.go <<'M'
package main

import (
	"fmt"
	"os/exec"
	"syscall"
	"unsafe"
)

func main() {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		panic(err)
	}
	for _, r := range []struct {
		name string
		n    int
	}{{"RLIMIT_DATA", 2}, {"RLIMIT_STACK", 3}, {"RLIMIT_NOFILE", 7}, {"RLIMIT_AS", 9}} {
		want, got := syscall.Rlimit{Cur: 64 << 20, Max: 64 << 20}, syscall.Rlimit{}
		if r.n == 7 {
			want = syscall.Rlimit{Cur: 64, Max: 64}
		}
		_, _, set := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(child.Process.Pid), uintptr(r.n), uintptr(unsafe.Pointer(&want)), 0, 0, 0)
		_, _, read := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(child.Process.Pid), uintptr(r.n), 0, uintptr(unsafe.Pointer(&got)), 0, 0)
		fmt.Printf("%s: errors %d and %d, set: %v\n", r.name, set, read, got == want)
	}
	_ = child.Process.Kill()
	_ = child.Wait()
}
M
export GOCACHE="$dir/cache" GOFLAGS= CGO_ENABLED=0
GOARCH=arm64 go build -o emulated main.go
go build -o native main.go
{
	echo "native:"
	./native
	echo "emulated:"
	usr/bin/qemu-aarch64-static ./emulated
} >seen
cat seen
cmp - seen <<'M'
native:
RLIMIT_DATA: errors 0 and 0, set: true
RLIMIT_STACK: errors 0 and 0, set: true
RLIMIT_NOFILE: errors 0 and 0, set: true
RLIMIT_AS: errors 0 and 0, set: true
emulated:
RLIMIT_DATA: errors 0 and 0, set: false
RLIMIT_STACK: errors 0 and 0, set: false
RLIMIT_NOFILE: errors 0 and 0, set: true
RLIMIT_AS: errors 0 and 0, set: false
M
