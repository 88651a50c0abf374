package module

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"agentbox/agentbox"
	"agentbox/agentbox/check"
)

// Compiled is a module that can run once.
type Compiled struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
	memory  uint64
}

// Compile compiles a module, or finds it in the cache. A module that cannot be compiled is a report.
// The error is for a machine that cannot run any module.
func Compile(ctx context.Context, prepare check.Prepare, wasm []byte) (*Compiled, check.Report, error) {
	cache, err := wazero.NewCompilationCacheWithDir(prepare.Cache)
	if err != nil {
		return nil, check.Report{}, err
	}
	// Memory is bounded by its allocator.
	limits := wazero.NewRuntimeConfig().WithCompilationCache(cache).WithDebugInfoEnabled(false)
	runtime := wazero.NewRuntimeWithConfig(ctx, limits)
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, runtime); err != nil {
		return nil, check.Report{}, err
	}
	compiled, err := runtime.CompileModule(ctx, wasm)
	if err != nil {
		return nil, check.Report{Problem: agentbox.CheckUnusable, Detail: firstLine(err)}, nil
	}
	return &Compiled{runtime, compiled, prepare.Memory}, check.Report{}, nil
}

// Run runs a module over a tree. What it writes goes to out. Nothing bounds its time.
func (c *Compiled) Run(ctx context.Context, spec check.Spec, tree *Tree, blobs Blobs, out io.Writer) (report check.Report, err error) {
	defer func() {
		// wazero has no other answer to an allocator that refuses a module's first memory.
		if p := recover(); p != nil && tree.refused.Memory {
			report, err = check.Report{Problem: agentbox.CheckMemory}, nil
		} else if p != nil {
			panic(p)
		}
	}()
	tree.blobs = blobs
	begun := time.Now()
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		return &memory{limit: c.memory, refused: &tree.refused.Memory}
	}))
	mounts := wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(tree, "/")
	m, err := c.runtime.InstantiateModule(ctx, c.module, wazero.NewModuleConfig().WithName("").WithStartFunctions().WithFSConfig(mounts).
		WithArgs(append([]string{spec.Name}, spec.Args...)...).WithEnv("PWD", "/").WithStdout(out).WithStderr(out))
	if err != nil {
		return tree.report(err), nil
	}
	start := m.ExportedFunction("_start")
	if start == nil {
		return check.Report{Problem: agentbox.CheckUnusable, Detail: "it has no _start: it is no program for wasip1"}, nil
	}
	took := time.Since(begun)
	_, err = start.Call(ctx)
	report = tree.report(err)
	report.Start = took
	return report, nil
}

func (t *Tree) report(err error) (r check.Report) {
	status := 0
	if exit, ok := errors.AsType[*sys.ExitError](err); ok {
		status, err = int(exit.ExitCode()), nil
	}
	if err == nil {
		r.Exit = &status
	}
	switch {
	case t.err != nil:
		r.Problem, r.Detail = agentbox.CheckBroken, t.err.Error()
	case r.Exit != nil && status == 0: // it did without what it was refused
	case t.refused.Memory:
		r.Problem = agentbox.CheckMemory
	case t.refused.Files:
		r.Problem = agentbox.CheckFiles
	case t.refused.Outside != "":
		r.Problem, r.Detail = agentbox.CheckOutside, t.refused.Outside
	case err != nil && strings.Contains(err.Error(), "stack overflow"):
		r.Problem = agentbox.CheckRecursion
	case err != nil:
		r.Problem, r.Detail = agentbox.CheckTrap, firstLine(err)
	}
	return r
}

// firstLine leaves out the stack of the module, which follows.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// memory is a module's memory, which notices when it cannot grow.
type memory struct {
	bytes   []byte
	limit   uint64
	refused *bool
}

func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		*m.refused = true
		return nil
	}
	if size > uint64(cap(m.bytes)) {
		grown := make([]byte, len(m.bytes), min(m.limit, max(size, 2*uint64(cap(m.bytes)))))
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

func (m *memory) Free() { m.bytes = nil }
