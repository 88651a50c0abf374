package bench

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

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
	all, err := proc.AllProcs()
	var out []process
	for _, p := range all {
		if Mentions(p, text) {
			name, _ := p.Comm()
			out = append(out, process{pid: p.PID, name: name})
		}
	}
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

// finder finds the processes of boxes again and again: those that mention text, and all that they
// started, since gVisor runs a guest's programs in processes that mention nothing. What a process is
// and who started it is read in its first looks only, for reading all of /proc costs a hundredth of a
// processor. Several may ask it.
type finder struct {
	proc procfs.FS
	text string

	mu    sync.Mutex
	known map[int]knownProcess
}

// knownProcess is what a finder knows of a process.
type knownProcess struct {
	looks  int
	parent int
	ours   bool
}

// settled is the look after which a process has become the program that it was started for.
const settled = 3

func (f *finder) find() (pids []int) {
	all, _ := f.proc.AllProcs()
	f.mu.Lock()
	defer f.mu.Unlock()
	known, children := make(map[int]knownProcess, len(all)), map[int][]int{}
	for _, p := range all {
		k := f.known[p.PID]
		if k.looks < settled {
			k = f.look(p, k.looks+1)
		}
		known[p.PID] = k
		children[k.parent] = append(children[k.parent], p.PID)
		if k.ours {
			pids = append(pids, p.PID)
		}
	}
	f.known = known
	for i := 0; i < len(pids); i++ {
		for _, child := range children[pids[i]] {
			if !slices.Contains(pids, child) {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

func (f *finder) look(p procfs.Proc, looks int) knownProcess {
	k := knownProcess{looks: looks}
	if s, err := p.Stat(); err == nil {
		k.parent = s.PPID
		k.ours = related(process{pid: p.PID, name: s.Comm}) && Mentions(p, f.text)
	}
	return k
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

// excludeUnrelated leaves out programs such as a shell in the directory or a pager.
func excludeUnrelated(all []process) []process {
	var out []process
	for _, p := range all {
		if related(p) {
			out = append(out, p)
		}
	}
	return out
}

// related reports whether a process is one of our programs, or of those that we start.
func related(p process) bool {
	return p.pid != os.Getpid() && (strings.HasPrefix(p.name, binaryName) || strings.HasPrefix(p.name, "qemu") || strings.HasPrefix(p.name, "runsc"))
}

func formatProcesses(all []process) string {
	var out []string
	for _, p := range all {
		out = append(out, fmt.Sprintf("%s (process %d)", p.name, p.pid))
	}
	return strings.Join(out, ", ")
}
