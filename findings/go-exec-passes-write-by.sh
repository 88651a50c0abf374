#!/bin/sh
# os/exec of Go 1.26
#
# Expected: a type that embeds bytes.Buffer and has a Write of its own, as cmd.Stderr, has its Write called
# with what the command says, as it does with fmt.Fprint; so it can notice when a command goes silent, or
# redact a line. Seen: its Write is never called. os/exec copies by io.Copy, which prefers the ReadFrom of
# the writer, and that is the promoted one of bytes.Buffer: everything arrives, unseen. A Buffer that is a
# named field is written to as expected. Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/exec

go 1.26
M
cat >main.go <<'M'
package main

import (
	"bytes"
	"fmt"
	"os/exec"
)

type embeds struct {
	bytes.Buffer
	calls int
}

func (e *embeds) Write(b []byte) (int, error) { e.calls++; return e.Buffer.Write(b) }

type has struct {
	all   bytes.Buffer
	calls int
}

func (h *has) Write(b []byte) (int, error) { h.calls++; return h.all.Write(b) }

func main() {
	var e embeds
	var h has
	for _, cmd := range []*exec.Cmd{exec.Command("echo", "said"), exec.Command("echo", "said")} {
		if e.Len() == 0 {
			cmd.Stdout = &e
		} else {
			cmd.Stdout = &h
		}
		if err := cmd.Run(); err != nil {
			panic(err)
		}
	}
	fmt.Printf("embedded: %q in %d calls\n", e.String(), e.calls)
	fmt.Printf("a field: %q, called: %v\n", h.all.String(), h.calls > 0)
}
M
GOFLAGS=-mod=mod GOWORK=off go run . >seen
cat seen
[ "$(cat seen)" = 'embedded: "said\n" in 0 calls
a field: "said\n", called: true' ]
