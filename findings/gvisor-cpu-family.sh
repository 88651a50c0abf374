#!/bin/sh
# gVisor, gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237 (branch "go"), Go 1.26, x86-64
#
# Expected in a sandbox's /proc/cpuinfo, as in Linux's and in AMD's manual (CPUID function 1): where the base
# family is 15, the extended family is added to it. A processor of family 25 (Zen 3 and 4: EAX 0x00a10f11) has
# "cpu family : 25".
# Seen: it is put before it as four more bits: 0xAF, "cpu family : 175", and lscpu in the box says the same;
# Zen 5 (26) is 191, Zen 2 (23) is 143. Model 17 and vendor AuthenticAMD are right, and the model name is
# "unknown". Intel's family 6 has no extension and is right. What chooses code by family and model of
# /proc/cpuinfo, instead of by flags, finds no AMD processor it knows. Shown with gVisor's own package, for
# processors of our choosing. Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/cpuinfo

go 1.26

require gvisor.dev/gvisor v0.0.0-20260905035102-160fafc42237
M
cat >main.go <<'M'
package main

import (
	"bytes"
	"fmt"
	"strings"

	"gvisor.dev/gvisor/pkg/cpuid"
)

func main() {
	for _, p := range []struct {
		vendor string
		eax    uint32
		family int // by the vendor's manual
	}{
		{"AuthenticAMD", 0x00a10f11, 25},
		{"AuthenticAMD", 0x00b00f21, 26},
		{"AuthenticAMD", 0x00830f10, 23},
		{"GenuineIntel", 0x000806f8, 6},
	} {
		word := func(i int) uint32 {
			v := p.vendor[i : i+4]
			return uint32(v[0]) | uint32(v[1])<<8 | uint32(v[2])<<16 | uint32(v[3])<<24
		}
		set := cpuid.Static{
			{Eax: 0}: {Eax: 1, Ebx: word(0), Edx: word(4), Ecx: word(8)},
			{Eax: 1}: {Eax: p.eax},
		}.ToFeatureSet()
		var out bytes.Buffer
		set.WriteCPUInfoTo(0, 1, &out)
		for line := range strings.Lines(out.String()) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "cpu family") {
				fmt.Printf("%s %08x: family %d, shown%s", p.vendor, p.eax, p.family, value)
			}
		}
	}
}
M
GOFLAGS=-mod=mod GOWORK=off go run . 2>/dev/null >seen
cat seen
[ "$(cat seen)" = "AuthenticAMD 00a10f11: family 25, shown 175
AuthenticAMD 00b00f21: family 26, shown 191
AuthenticAMD 00830f10: family 23, shown 143
GenuineIntel 000806f8: family 6, shown 6" ]
