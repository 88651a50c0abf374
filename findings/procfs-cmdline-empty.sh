#!/bin/sh
# github.com/prometheus/procfs v0.23.0, Go 1.26
#
# Expected of Proc.CmdLine, "the command line of a process": its arguments as they were given.
# Seen: empty arguments at the end are missing, while those before them are there: the command ["git"
# "commit" "-m" ""] and ["git" "commit" "-m"], which mean different things, look the same. /proc/PID/cmdline
# ends each argument with a zero byte, so it has the answer; the library cuts all of them off its end, and
# splits the rest. Who starts a process again by what it finds, or compares it with what was asked for, has
# to read the file.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/cmdline

go 1.26

require github.com/prometheus/procfs v0.23.0
M
cat >main.go <<'M'
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"

	"github.com/prometheus/procfs"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	if os.Getenv("CHILD") != "" { // says that it runs, and waits for the end of its input
		fmt.Println("running")
		bufio.NewReader(os.Stdin).ReadString('\n')
		return
	}
	for _, args := range [][]string{{"git", "commit", "-m", ""}, {"git", "", "-m"}, {"", "", ""}} {
		child := exec.Command("/proc/self/exe")
		child.Args, child.Env = args, []string{"CHILD=1"}
		in, out := must(child.StdinPipe()), must(child.StdoutPipe())
		if err := child.Start(); err != nil {
			panic(err)
		}
		must(bufio.NewReader(out).ReadString('\n'))
		file := must(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child.Process.Pid)))
		fmt.Printf("%q: file %q, CmdLine %q\n", args, file, must(must(procfs.NewProc(child.Process.Pid)).CmdLine()))
		in.Close()
		child.Wait()
	}
}
M
GOFLAGS=-mod=mod GOWORK=off go build -o cmdline . || { echo "could not be installed" >&2; exit 2; }
./cmdline >seen
cat seen
cmp - seen <<'M'
["git" "commit" "-m" ""]: file "git\x00commit\x00-m\x00\x00", CmdLine ["git" "commit" "-m"]
["git" "" "-m"]: file "git\x00\x00-m\x00", CmdLine ["git" "" "-m"]
["" "" ""]: file "\x00\x00\x00", CmdLine [""]
M
