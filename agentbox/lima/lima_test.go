package lima

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

var update = flag.Bool("update", false, "write the golden files anew")

// What Lima gets is fixed: nobody here can boot the Mac's.
func TestYAML(t *testing.T) {
	for name, d := range map[string]Description{
		"qemu-amd64": {OS: "linux", Arch: "amd64"},
		"vz-arm64":   {OS: "darwin", Arch: "arm64", CPUs: 6, Memory: "8GiB", Disk: "60GiB"},
		"vz-amd64":   {OS: "darwin", Arch: "amd64"},
		"kernel":     {OS: "linux", Arch: "amd64", CPUs: 2, Memory: "3GiB", Image: "/vm/disk.img", Kernel: "/vm/vmlinuz", Initrd: "/vm/initrd.img"},
	} {
		got, err := d.YAML()
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".yaml")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s", golden, err, got)
		}
	}
	for _, d := range []Description{{OS: "linux", Arch: "riscv64"}, {OS: "windows", Arch: "amd64"}} {
		if _, err := d.YAML(); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%+v: %v", d, err)
		}
	}
}

// program is an agentbox-lima that is a script.
func program(t *testing.T, script string) VM {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "agentbox-lima")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return VM{Program: file, Home: filepath.Join(dir, "home"), Name: "m"}
}

// Lima says what is wrong in words, in a log, and for some it ends its process.
func TestFailures(t *testing.T) {
	for said, want := range map[string]struct {
		code agentbox.Code
		text string
	}{
		`{"level":"fatal","msg":"QEMU 3.1.0 is too old, 4.0.0 or later required"}`: {agentbox.Missing, "QEMU 3.1.0 is too old"},
		`{"level":"error","msg":"a first"}
{"level":"fatal","msg":"write /h/m/disk: no space left on device"}
{"level":"error","msg":"a last"}`: {agentbox.NoSpace, "no space left on device"},
		`{"level":"fatal","msg":"exec: \"qemu-system-x86_64\": executable file not found in $PATH"}`: {agentbox.Missing, "qemu-system-x86_64"},
		`{"level":"fatal","msg":"there is no Lima machine m","agentbox":"not_found"}`:                {agentbox.NotFound, "no Lima machine"},
		`{"level":"fatal","msg":"cannot read the machine, which v9.0.0 made","agentbox":"conflict"}`: {agentbox.Conflict, "which v9.0.0 made"},
		`{"level":"error","msg":"it did not start","error":"kernel panic"}`:                          {agentbox.Unavailable, "it did not start: kernel panic"},
		"panic: runtime error\ngoroutine 1 [running]:":                                               {agentbox.Unavailable, "goroutine 1"},
		strings.Repeat("x", maxLine+1):                                                               {agentbox.Unavailable, "exit status 1"},
		"":                                                                                           {agentbox.Unavailable, "exit status 1"},
	} {
		_, err := program(t, "cat >&2 <<'EOF'\n"+said+"\nEOF\nexit 1\n").Inspect(t.Context())
		if e := agentbox.AsError(err); e.Code != want.code || !strings.Contains(e.Message, want.text) {
			t.Errorf("%.80s:\n%s: %s", said, e.Code, e.Message)
		}
	}
	if _, err := program(t, "kill -9 $$").Inspect(t.Context()); !strings.Contains(err.Error(), "killed") {
		t.Error(err)
	}
	if _, err := program(t, "echo '{'").Inspect(t.Context()); agentbox.CodeOf(err) != agentbox.Internal {
		t.Error(err)
	}
}

// A machine is started without KVM where a guest did not run with it.
func TestStartEmulated(t *testing.T) {
	for name, emulated := range map[string]func(context.Context) bool{
		"AGENTBOX_LIMA_EMULATE=1": func(context.Context) bool { return true },
		"no variable":             func(context.Context) bool { return false },
		"no answer":               nil,
	} {
		vm := program(t, `[ "$1" = start ] && { env | grep ^AGENTBOX_LIMA_EMULATE= >&2 || echo "$1: no variable, no answer" >&2; exit 1; }; echo '{"status": "Stopped"}'`)
		vm.Emulated = emulated
		if _, err := vm.Start(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInspect(t *testing.T) {
	vm := program(t, `echo '{"level":"info","msg":"looking"}' >&2
echo "{\"name\": \"$2\", \"status\": \"$1\", \"directory\": \"$LIMA_HOME\"}"`)
	var notes []string
	vm.Progress = func(e agentbox.Event) { notes = append(notes, e.Step+e.Detail) }
	inst, err := vm.Inspect(t.Context())
	if err != nil || inst.Name != "m" || inst.Status != "inspect" || inst.Directory != vm.Home {
		t.Errorf("%+v, %v", inst, err)
	}
	if !strings.Contains(strings.Join(notes, "\n"), "lima: looking") {
		t.Errorf("progress: %q", notes)
	}
}

func FuzzLog(f *testing.F) {
	for _, s := range []string{"", `{"level":"fatal","msg":"x"}`, "{}\n{\"level\":7}", strings.Repeat("{", 100)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		var l log
		l.read(bytes.NewReader(said))
		if err := (VM{Name: "m"}).explain("start", l.failure, os.ErrInvalid); agentbox.CodeOf(err) == "" {
			t.Errorf("%q: no code", said)
		}
	})
}
