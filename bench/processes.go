package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// process is a process of a box or of one of our homes.
type process struct {
	pid int
	// name is the kernel's name for it, at most 15 bytes.
	name string
	pss  int64 // bytes of memory, shared pages divided among their users
}

// processesOf finds the processes whose command line, working directory or AGENTBOX_HOME contains
// text: a random id, or the path of a directory that is ours alone. It reads /proc itself and does
// not rely on the program that is being checked.
func processesOf(text string) ([]process, error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	out, err := mentioning(proc, text)
	for i := range out {
		p, err := proc.Proc(out[i].pid)
		if err != nil {
			continue
		}
		if r, err := p.ProcSMapsRollup(); err == nil {
			out[i].pss = int64(r.Pss)
		}
	}
	return out, err
}

// mentioning is processesOf without their memory, which takes longer to find out.
func mentioning(proc procfs.FS, text string) (out []process, err error) {
	all, err := proc.AllProcs()
	for _, p := range all {
		if Mentions(p, text) {
			name, _ := p.Comm()
			out = append(out, process{pid: p.PID, name: name})
		}
	}
	return out, err
}

// descendants adds to processes all that they started: gVisor runs a guest's programs in processes
// that mention nothing.
func descendants(proc procfs.FS, pids []int) []int {
	children := map[int][]int{}
	all, _ := proc.AllProcs()
	for _, p := range all {
		if s, err := p.Stat(); err == nil {
			children[s.PPID] = append(children[s.PPID], p.PID)
		}
	}
	for i := 0; i < len(pids); i++ {
		for _, child := range children[pids[i]] {
			if !slices.Contains(pids, child) {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// Mentions reports whether a process has text in its command line, working directory or
// AGENTBOX_HOME. It returns false for processes that end meanwhile, and for those of other users.
func Mentions(p procfs.Proc, text string) bool {
	if argv, err := p.CmdLine(); err == nil && strings.Contains(strings.Join(argv, "\x00"), text) {
		return true
	}
	if cwd, err := p.Cwd(); err == nil && strings.Contains(cwd, text) {
		return true
	}
	env, err := p.Environ()
	if err != nil {
		return false
	}
	for _, v := range env {
		if strings.HasPrefix(v, "AGENTBOX_HOME=") && strings.Contains(v, text) {
			return true
		}
	}
	return false
}

// excludeUnrelated leaves out unrelated programs, such as a shell in the directory or a pager on a
// log.
func excludeUnrelated(all []process) []process {
	var out []process
	for _, p := range all {
		if p.pid != os.Getpid() && (strings.HasPrefix(p.name, binaryName) || strings.HasPrefix(p.name, "qemu") || strings.HasPrefix(p.name, "runsc")) {
			out = append(out, p)
		}
	}
	return out
}

// formatProcesses formats processes for people.
func formatProcesses(all []process) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s (process %d)", p.name, p.pid))
	}
	return strings.Join(out, ", ")
}
