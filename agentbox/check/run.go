package check

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/bounded"
)

// Runner runs checks. Its methods may be called concurrently.
type Runner struct {
	Program string // agentbox-check
	Dir     string // where modules are kept
	Spares  *Spares
	// CPU is how much processor time a run has, in whole seconds; 0 for maxCPU.
	CPU time.Duration
}

// Files are the files of a commit; a snapshot.Kept.
type Files interface {
	List(ctx context.Context, w io.Writer) error
	Objects(ctx context.Context, ids io.Reader, w io.Writer) error
}

// Bounds of one run.
const (
	maxMemory  = 512 << 20 // of the module, in bytes
	maxProcess = 2 << 30   // of the process, which also compiles it
	maxCPU     = 60 * time.Second
	overtime   = 5 // seconds
	maxWall    = 10 * time.Minute
	maxListing = 64 << 20
	maxOutput  = 8 << 10 // that a result keeps, in bytes
)

// Run runs a check over files. What goes wrong is a part of the result; the error is ctx's.
func (r Runner) Run(ctx context.Context, c agentbox.Check, files Files) (agentbox.CheckResult, error) {
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, maxWall)
	defer cancel()
	result, err := r.run(within, c, files)
	switch {
	case ctx.Err() != nil:
		return result, ctx.Err()
	case within.Err() != nil:
		result.Exit, result.Problem = nil, agentbox.CheckTime
	case err != nil:
		result.Problem, result.Detail = agentbox.CheckBroken, agentbox.AsError(err).Message
	}
	result.Name, result.Module, result.Took = c.Name, c.Module, time.Since(begun)
	result.Detail = agentbox.Printable(result.Detail)
	return result, nil
}

func (r Runner) run(ctx context.Context, c agentbox.Check, files Files) (result agentbox.CheckResult, err error) {
	spec, err := json.Marshal(Spec{Name: strings.TrimSuffix(path.Base(c.Wasm), ".wasm"), Args: c.Args})
	if err != nil {
		return result, err
	}
	p, err := r.take(c.Module) // a new one loads the module during what follows
	if err != nil {
		return result, err
	}
	var listing bytes.Buffer
	if err := files.List(ctx, &bounded.LimitedWriter{W: &listing, Remaining: maxListing, Err: errors.New("too many files")}); err != nil {
		p.end()
		return result, err
	}
	objects := p.serve(ctx, files, objectNames(listing.Bytes()))
	go func() {
		_, _ = p.stdin.Write(slices.Concat(spec, []byte("\n"), listing.Bytes())) // a process that has ended reads nothing
		p.stdin.Close()
	}()
	stop := context.AfterFunc(ctx, func() { _ = p.Terminate() })
	ended := p.Err()
	stop()
	result = r.conclude(p.report.Bytes(), ended)
	if err := <-objects; err != nil && result.Problem == agentbox.CheckBroken {
		result.Detail = agentbox.AsError(err).Message // a process that was killed breaks git's pipe, too
	}
	result.Output, result.Omitted = p.out.text()
	if result.Exit != nil {
		r.Spares.keep(r, c.Module)
	}
	return result, nil
}

// conclude makes a result of the report of the program, or of its end without one.
func (r Runner) conclude(report []byte, ended error) agentbox.CheckResult {
	var rep Report
	if ended == nil && json.Unmarshal(report, &rep) == nil {
		return agentbox.CheckResult{Exit: rep.Exit, Problem: rep.Problem, Detail: rep.Detail}
	}
	text := strings.TrimSpace(string(report))
	if exit, ok := errors.AsType[*exec.ExitError](ended); ok && exit.SystemTime()+exit.UserTime() >= r.cpu() {
		return agentbox.CheckResult{Problem: agentbox.CheckTime}
	}
	if strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate") {
		return agentbox.CheckResult{Problem: agentbox.CheckMemory}
	}
	line, _, _ := strings.Cut(text, "\n")
	if line == "" && ended != nil {
		line = ended.Error()
	}
	return agentbox.CheckResult{Problem: agentbox.CheckBroken, Detail: line}
}

func (r Runner) cpu() time.Duration { return cmp.Or(r.CPU, maxCPU) }

// counted keeps the beginning of an output, and counts the rest.
type counted struct {
	head  bytes.Buffer
	total int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.total += int64(len(p))
	c.head.Write(p[:min(len(p), maxOutput-c.head.Len())])
	return len(p), nil
}

// text is what is kept, printable line by line, and how many bytes are not.
func (c *counted) text() (string, int64) {
	lines := strings.Split(strings.ToValidUTF8(c.head.String(), "?"), "\n")
	for i := range lines {
		lines[i] = agentbox.Printable(lines[i])
	}
	return strings.Join(lines, "\n"), c.total - int64(c.head.Len())
}

// relay passes on the names of known objects, and ends at any other line.
func relay(from io.Reader, to io.Writer, known map[string]bool) error {
	in := bufio.NewReader(from)
	for {
		id, err := bounded.ReadLine(in, 64)
		if err == io.EOF {
			return nil
		}
		if err == nil && !known[string(id)] {
			err = errors.New("it asked for an object that is not of the result")
		}
		if err == nil {
			_, err = to.Write(append(id, '\n'))
		}
		if err != nil {
			return err
		}
	}
}

func objectNames(listing []byte) map[string]bool {
	known := map[string]bool{}
	for record := range bytes.SplitSeq(listing, []byte{0}) {
		if f := bytes.Fields(record); len(f) > 2 {
			known[string(f[2])] = true
		}
	}
	return known
}
