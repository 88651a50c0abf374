// Command runsc is gVisor's OCI runtime, as its authors build it but for five things: an annotation
// of the machine's description says how much memory it has, the filters of its system calls are
// compiled already, no garbage is collected while it starts, at rest it keeps no page of its
// program, and patches/ mends what keeps tools from working in a box, each with its reason.
// vmm/gvisor embeds it and is the only one that runs it.
//
// It is a module of its own (see go.mod); vmm/gvisor/runsc/build.sh builds it, its package embeds
// the result. Whatever is changed here makes other bytes, and a template fits the runsc that made it
// and no other: every gVisor template is made again after a change.
package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gvisor.dev/gvisor/runsc/cli/maincli"
	"gvisor.dev/gvisor/runsc/version"
)

// The linker sets the version, which it can only do for a package that is linked.
var _ = version.Version()

// memoryAnnotation holds the machine's memory in bytes. runsc itself learns it from a cgroup only,
// and where it may make none it tells the machine that it has all of the host's.
const memoryAnnotation = "dev.agentbox.memory"

// main changes what runsc is told, and then is runsc. The option is on the command line of "runsc
// boot", the sandbox, which another runsc starts with the amount of memory that it believes in.
func main() {
	if i := slices.Index(os.Args, "--total-memory"); i > 0 && i+1 < len(os.Args) && slices.Contains(os.Args[:i], "boot") {
		if memory := annotatedMemory(os.Args); memory > 0 {
			os.Args[i+1] = strconv.FormatInt(memory, 10)
		}
	}
	startWithoutGC()
	registerFilters()
	maincli.Main()
}

// annotatedMemory reads the description that the sandbox was given, and leaves its offset alone. It
// is 0 where there is no description or no annotation: runsc's own figure then stands. Pread is
// what leaves the offset alone, since runsc reads the same descriptor again. A description is far
// below 1 MiB: vmm/gvisor/spec.go writes it.
func annotatedMemory(args []string) int64 {
	for _, arg := range args {
		text, ok := strings.CutPrefix(arg, "--spec-fd=")
		fd, err := strconv.Atoi(text)
		if !ok || err != nil {
			continue
		}
		var spec struct{ Annotations map[string]string }
		b := make([]byte, 1<<20)
		n, err := syscall.Pread(fd, b, 0)
		if err != nil || json.Unmarshal(b[:n], &spec) != nil {
			return 0
		}
		memory, _ := strconv.ParseInt(spec.Annotations[memoryAnnotation], 10, 64)
		return memory
	}
	return 0
}
