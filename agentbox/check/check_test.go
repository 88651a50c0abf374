package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
)

// repository is a git repository with one commit of these files. A name with "@" is a link to its
// content.
type repository string

func newRepository(t testing.TB, files map[string]string) repository {
	t.Helper()
	r := repository(t.TempDir())
	for name, content := range files {
		link := strings.HasPrefix(name, "@")
		path := filepath.Join(string(r), strings.TrimPrefix(name, "@"))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && link {
			err = os.Symlink(content, path)
		} else if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"}} {
		if err := r.git(t.Context(), nil, io.Discard, args...); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r repository) git(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = string(r), in, out
	return cmd.Run()
}

func (r repository) List(ctx context.Context, w io.Writer) error {
	return r.git(ctx, nil, w, "ls-tree", "-r", "-z", "-l", "HEAD")
}

func (r repository) Objects(ctx context.Context, ids io.Reader, w io.Writer) error {
	return r.git(ctx, ids, w, "cat-file", "--batch")
}

// built are the program and the modules, which are built once.
var built struct {
	sync.Once
	dir string
	err error
}

func build(t testing.TB) (program string, module func(name string) []byte) {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "check"); built.err != nil {
			return
		}
		for _, args := range [][]string{{"agentbox-check", "./agentbox-check"}, {"listfmt", "../../tools/e2e/listfmt"}, {"hostile", "../../tools/e2e/hostile"}} {
			cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(built.dir, args[0]), args[1])
			if cmd.Env = append(os.Environ(), "CGO_ENABLED=0"); args[0] != "agentbox-check" {
				cmd.Env = append(cmd.Env, "GOOS=wasip1", "GOARCH=wasm")
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				built.err = fmt.Errorf("%w: %s", err, out)
				return
			}
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "agentbox-check"), func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(built.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func TestMain(m *testing.M) {
	status := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(status)
}

// ill are 100 Go files, of which gofmt would change one.
func ill() map[string]string {
	files := map[string]string{"sub/ill.go": "package sub\nfunc  f() {}\n"}
	for i := range 99 {
		files[fmt.Sprintf("p%d/a.go", i)] = "package p\n\n// F does nothing.\nfunc F() {}\n" + strings.Repeat("\nvar _ = []int{1, 2, 3}\n", 20)
	}
	return files
}

func TestCheckListsIllFormattedFiles(t *testing.T) {
	program, module := build(t)
	r := Runner{Program: program, Dir: t.TempDir()}
	d, err := r.Keep(module("listfmt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		files  map[string]string
		exit   int
		output string
	}{{ill(), 1, "sub/ill.go\n"}, {map[string]string{"a.go": "package a\n", "b.txt": "x", "@c.go": "/etc/passwd"}, 0, ""}} {
		got, err := r.Run(t.Context(), agentbox.Check{Name: "fmt", Wasm: "listfmt.wasm", Args: []string{"."}, Module: d}, newRepository(t, test.files))
		if err != nil || got.Exit == nil || *got.Exit != test.exit || got.Output != test.output || got.Problem != "" || got.Module != d {
			t.Errorf("%+v, %v; want status %d and %q", got, err, test.exit, test.output)
		}
	}
}

// nested is a module whose _start calls itself.
var nested = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x06\x01\x04\x00\x10\x00\x0b")

// greedy is a module that begins with 2 GiB of memory.
var greedy = []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x05\x05\x01\x00\x80\x80\x02\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b")

// A hostile module costs nothing but its own process, and ends with the reason.
func TestHostileModules(t *testing.T) {
	program, module := build(t)
	r := Runner{Program: program, Dir: t.TempDir()}
	files := newRepository(t, map[string]string{
		"a": "text\n", "d/b": "text\n", "@in": "d/../a", "@out": "../../etc/passwd", "@abs": "/etc/passwd", "@loop": "loop", "@up": "..",
	})
	hostile := module("hostile")
	for _, test := range []struct {
		module  []byte
		args    string
		exit    int // -1 for none
		problem agentbox.CheckProblem
		text    string // that output or detail contains
	}{
		{hostile, "read a d/b in", 0, "", ""},
		{hostile, "memory", 2, agentbox.CheckMemory, "out of memory"},
		{hostile, "files", 3, agentbox.CheckFiles, "256 open"},
		{hostile, "read ../../etc/passwd", 3, "", "etc/passwd"},
		{hostile, "read /etc/passwd", 3, "", "etc/passwd"},
		{hostile, "read out", 3, agentbox.CheckOutside, "out"},
		{hostile, "read abs", 3, agentbox.CheckOutside, "abs"},
		{hostile, "read up/a", 3, agentbox.CheckOutside, "up/a"},
		{hostile, "read loop", 3, "", "loop"},
		{hostile, "read d", 3, "", "directory"},
		{hostile, "read a/b", 3, "", "a/b"},
		{hostile, "write a", 3, "", "a"},
		{hostile, "write new", 3, "", "new"},
		{hostile, "look", 3, "", "1 [PWD=/] 2022 hostile"},
		{nested, "", -1, agentbox.CheckRecursion, ""},
		{[]byte("#!/bin/sh"), "", -1, agentbox.CheckUnusable, "magic"},
		{nested[:20], "", -1, agentbox.CheckUnusable, ""},
		{nested[:8], "", -1, agentbox.CheckUnusable, "_start"},
		{greedy, "", -1, agentbox.CheckMemory, ""},
		{hostile, "flood", 0, "", "a line \ufffd[31m of output"},
	} {
		d, err := r.Keep(test.module)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Run(t.Context(), agentbox.Check{Wasm: "tools/hostile.wasm", Args: strings.Fields(test.args), Module: d}, files)
		exit := -1
		if got.Exit != nil {
			exit = *got.Exit
		}
		if err != nil || exit != test.exit || got.Problem != test.problem || !strings.Contains(got.Output+got.Detail, test.text) {
			t.Errorf("%q: %+v, %v; want status %d, %q and %q", test.args, got, err, test.exit, test.problem, test.text)
		}
	}
}

// A process that a module took over gets the objects of the result and no others.
func TestRelay(t *testing.T) {
	known := objectNames([]byte("100644 blob aa 1\ta b\x00120000 blob bb 1\tc\x00"))
	for asked, want := range map[string]string{
		"aa\nbb\naa\n": "aa\nbb\naa\n", "aa\ncc\nbb\n": "aa\n", "HEAD:secret\n": "", "aa b\n": "", strings.Repeat("a", 99): "", "aa": "",
	} {
		var got strings.Builder
		err := relay(strings.NewReader(asked), &got, known)
		if got.String() != want || asked != "aa" && (err == nil) != (asked == want) {
			t.Errorf("%q: %q, %v; want %q", asked, got.String(), err, want)
		}
	}
}

// Modules that were not used for longest go first.
func TestKeepForgets(t *testing.T) {
	r := Runner{Dir: t.TempDir()}
	first, err := r.Keep([]byte{0})
	for i := range maxKept {
		old := time.Now().Add(-time.Hour)
		if err = errors.Join(err, os.Chtimes(filepath.Join(r.directory(first), moduleFile), old, old)); err != nil {
			t.Fatal(err)
		}
		_, err = r.Keep([]byte{byte(i + 1)})
	}
	if f, openErr := r.open(first); openErr == nil {
		f.Close()
		t.Error("the module that was not used for longest is kept")
	} else if entries, _ := os.ReadDir(r.Dir); err != nil || len(entries) != maxKept {
		t.Errorf("%d are kept, %v; want %d", len(entries), err, maxKept)
	}
}

// A module that computes for ever is ended by the kernel.
func TestTimeIsBounded(t *testing.T) {
	program, module := build(t)
	r := Runner{Program: program, Dir: t.TempDir()}
	d, err := r.Keep(module("hostile"))
	if err != nil {
		t.Fatal(err)
	}
	files := newRepository(t, map[string]string{"a": "text\n"})
	// The first run compiles the module, which takes processor time, too.
	for _, test := range []struct {
		act  string
		want agentbox.CheckProblem
	}{{"read", ""}, {"time", agentbox.CheckTime}} {
		got, err := r.Run(t.Context(), agentbox.Check{Wasm: "hostile.wasm", Args: []string{test.act}, Module: d}, files)
		if err != nil || got.Problem != test.want || test.want != "" && got.Exit != nil {
			t.Errorf("%s: %+v, %v", test.act, got, err)
		}
		r.CPU = 2 * time.Second
	}
}

// A process that waits with a module is used by the next run of that module, once, if it still lives;
// no more than a few wait.
func TestSpares(t *testing.T) {
	program, module := build(t)
	r := Runner{Program: program, Dir: t.TempDir(), Spares: &Spares{}}
	files := newRepository(t, map[string]string{"a": "text\n"})
	run := func(wasm []byte, args ...string) agentbox.CheckResult {
		t.Helper()
		d, err := r.Keep(wasm)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Run(t.Context(), agentbox.Check{Wasm: "hostile.wasm", Args: args, Module: d}, files)
		if err != nil || got.Problem == agentbox.CheckBroken {
			t.Fatal(got, err)
		}
		return got
	}
	hostile := module("hostile")
	first := run(hostile, "read", "a")
	waits := r.Spares.list[0].process
	if again := run(hostile, "read", "a"); again.Output != first.Output || *again.Exit != 0 {
		t.Errorf("%+v, at first %+v", again, first)
	}
	<-waits.Done() // it has run
	if len(r.Spares.list) != 1 || r.Spares.list[0].process == waits {
		t.Fatalf("%d wait", len(r.Spares.list))
	}
	_ = r.Spares.list[0].Kill()
	if got := run(hostile, "files"); *got.Exit != 3 || got.Problem != agentbox.CheckFiles {
		t.Errorf("after the spare process was killed: %+v", got)
	}
	listfmt, err := r.Keep(module("listfmt"))
	if err != nil {
		t.Fatal(err)
	}
	r.Load([]agentbox.Check{{Module: listfmt}})
	loaded := r.Spares.list[1].process
	r.Load([]agentbox.Check{{Module: listfmt}})
	if len(r.Spares.list) != 2 || r.Spares.list[1].process != loaded {
		t.Fatalf("%d wait after the same was loaded twice", len(r.Spares.list))
	}
	run(module("listfmt"), ".")
	<-loaded.Done() // it has run
	ok := []byte("\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b")
	oldest := r.Spares.list[0].process
	for i := range maxSpares {
		run(append(ok[:len(ok):len(ok)], 0, 3, 1, 'a', byte(i))) // a section that says nothing
	}
	if len(r.Spares.list) != maxSpares || r.Spares.list[0].process == oldest {
		t.Fatalf("%d wait", len(r.Spares.list))
	}
	<-oldest.Done()
	for len(r.Spares.list) > 0 {
		r.Spares.drop(r.Spares.list[0].process)
	}
}

// The same module runs again and again, with a spare process and without: a formatter that works, and one
// that only reads the files.
func BenchmarkFirstResult(b *testing.B) {
	program, module := build(b)
	files := ill()
	repository := newRepository(b, files)
	for name, args := range map[string][]string{"listfmt": {"."}, "hostile": append([]string{"read"}, slices.Sorted(maps.Keys(files))...)} {
		for kind, spares := range map[string]*Spares{"new": nil, "spare": {}} {
			r := Runner{Program: program, Dir: b.TempDir(), Spares: spares}
			d, err := r.Keep(module(name))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+kind, func(b *testing.B) {
				for b.Loop() {
					if got, err := r.Run(b.Context(), agentbox.Check{Wasm: "a.wasm", Args: args, Module: d}, repository); err != nil || got.Exit == nil {
						b.Fatal(got, err)
					}
					b.StopTimer()
					time.Sleep(300 * time.Millisecond) // the spare has loaded its module by then
					b.StartTimer()
				}
			})
		}
	}
}
