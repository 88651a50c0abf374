package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
	"agentbox/vmm/child"
	"agentbox/vmm/confine"
)

// process is the program with a module that it has compiled, or compiles, and nothing to run yet.
type process struct {
	*child.Process
	stdin              *os.File // for the Spec and the listing
	questions, answers *os.File // of objects
	out                counted
	report             bytes.Buffer
}

func (r Runner) start(d agentbox.Digest) (*process, error) {
	wasm, err := r.open(d)
	if err != nil {
		return nil, err
	}
	defer wasm.Close()
	prepare, err := json.Marshal(Prepare{Cache: r.directory(d), Memory: maxMemory})
	if err != nil {
		return nil, err
	}
	var ends [3][2]*os.File
	for i := range ends {
		if ends[i][0], ends[i][1], err = os.Pipe(); err != nil {
			return nil, err // this process has no more files, which is the end of more than a check
		}
	}
	p := &process{stdin: ends[0][1], answers: ends[1][1], questions: ends[2][0]}
	cmd := exec.Command(r.Program)
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = ends[0][0], &p.out, &bounded.Head{W: &p.report, Remaining: 64 << 10}
	cmd.ExtraFiles = []*os.File{wasm, ends[1][0], ends[2][1]}
	p.Process, err = child.Start(cmd, func() error {
		return confine.Thread(confine.Files{Read: []string{r.Program}, Write: []string{r.Dir}})
	})
	for _, theirs := range []*os.File{ends[0][0], ends[1][0], ends[2][1]} {
		theirs.Close()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	// At the first bound of time the program reports and ends; at the second the kernel ends it.
	time := uint64(r.cpu() / time.Second)
	for what, most := range map[int]unix.Rlimit{unix.RLIMIT_DATA: {Cur: maxProcess, Max: maxProcess}, unix.RLIMIT_CPU: {Cur: time, Max: time + overtime}} {
		if err := unix.Prlimit(p.PID, what, &most, nil); err != nil && !errors.Is(err, unix.ESRCH) {
			p.end()
			return nil, err
		}
	}
	_, _ = p.stdin.Write(append(prepare, '\n')) // a pipe holds it; one that has ended reads nothing
	return p, nil
}

func (p *process) close() {
	p.stdin.Close()
	p.answers.Close()
	p.questions.Close()
}

// end ends a process that is not to run anything.
func (p *process) end() {
	_ = p.Kill()
	p.close()
}

// serve answers the process, which asks for objects, by a git of its own, and tells of its end.
func (p *process) serve(ctx context.Context, files Files, known map[string]bool) <-chan error {
	done := make(chan error, 1)
	ids, toGit := io.Pipe()
	go func() { toGit.CloseWithError(relay(p.questions, toGit, known)) }()
	go func() {
		err := files.Objects(ctx, ids, p.answers)
		ids.Close()
		done <- errors.Join(err, p.answers.Close(), p.questions.Close())
	}()
	return done
}

// Spares are processes whose modules were used last. One is made when a run ends, so that the next
// run of its module need not load what it was compiled to, which takes longer than most runs. Each
// runs once. The zero value and nil are valid; nil has none.
type Spares struct {
	mu   sync.Mutex
	list []spare // the newest last
}

type spare struct {
	module agentbox.Digest
	*process
	expiry *time.Timer
}

// Bounds of spares. One has 60 MiB of memory.
const (
	maxSpares = 2
	spareTime = 2 * time.Minute
)

// take returns a process for a run of a module: a spare one, or a new one.
func (r Runner) take(d agentbox.Digest) (*process, error) {
	if p := r.Spares.remove(func(s spare) bool { return s.module == d }); p != nil {
		select {
		case <-p.Done():
			p.close()
		default:
			return p, nil
		}
	}
	return r.start(d)
}

// Load has spare processes load the modules of checks that will run soon, as far as there is room.
func (r Runner) Load(list []agentbox.Check) {
	if r.Spares == nil {
		return
	}
	for _, c := range list[:min(len(list), maxSpares)] {
		if !r.Spares.has(c.Module) {
			r.Spares.keep(r, c.Module)
		}
	}
}

func (s *Spares) has(d agentbox.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.list, func(have spare) bool { return have.module == d })
}

// keep makes a spare process for a module, and ends the oldest beyond the bound.
func (s *Spares) keep(r Runner, d agentbox.Digest) {
	if s == nil {
		return
	}
	p, err := r.start(d)
	if err != nil {
		return // the next run says why
	}
	s.mu.Lock()
	s.list = append(s.list, spare{d, p, time.AfterFunc(spareTime, func() { s.drop(p) })})
	var oldest *process
	if len(s.list) > maxSpares {
		oldest = s.list[0].process
	}
	s.mu.Unlock()
	s.drop(oldest)
}

func (s *Spares) drop(p *process) {
	if gone := s.remove(func(have spare) bool { return have.process == p }); gone != nil {
		gone.end()
	}
}

// remove takes the first spare that is meant out of the list; nil if there is none.
func (s *Spares) remove(is func(spare) bool) *process {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, is)
	if i < 0 {
		return nil
	}
	found := s.list[i]
	found.expiry.Stop()
	s.list = slices.Delete(s.list, i, i+1)
	return found.process
}
