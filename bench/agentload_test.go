package bench

import (
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

var ownCommands = []toolchain.Command{{Name: "build", Run: "make"}, {Name: "test", Run: "make test"}}

func TestParseLoad(t *testing.T) {
	load, err := parseLoad([]byte("think: 100ms\ncommands:\n  look: rg x\n  test:\n  again: &a make\n  more: *a\n"), "x.yaml", ownCommands)
	if err != nil || load.think != 100*time.Millisecond || len(load.commands) != 4 {
		t.Fatalf("%+v, %v", load, err)
	}
	for i, want := range []toolchain.Command{{Name: "look", Run: "rg x"}, {Name: "test", Run: "make test"}, {Name: "again", Run: "make"}, {Name: "more", Run: "make"}} {
		if load.commands[i] != want {
			t.Errorf("%+v, want %+v", load.commands[i], want)
		}
	}
	// Without anything, an agent looks around and runs what the repository has.
	if load, err = parseLoad(nil, "x.yaml", ownCommands); err != nil || load.think != thinking || len(load.commands) != 4 || load.commands[3].Run != "make test" {
		t.Errorf("%+v, %v", load, err)
	}
	for _, bad := range []string{"think: soon", "think: -1s", "commands: {lint: }", "commands: {a/b: x}", "commands: {}", "thinks: 3s", "- x", "commands: [test]"} {
		if load, err := parseLoad([]byte(bad), "x.yaml", ownCommands); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %+v", bad, load)
		}
	}
}

// No file has a command without a name or a line.
func FuzzParseLoad(f *testing.F) {
	f.Add([]byte("think: 3s\ncommands: {test: , x: y}\n"))
	f.Add([]byte("commands: {a: &x [*x], b: *x}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		load, err := parseLoad(data, "x.yaml", ownCommands)
		if err != nil {
			return
		}
		if load.think < 0 || len(load.commands) == 0 {
			t.Fatalf("%+v", load)
		}
		for _, c := range load.commands {
			if c.Run == "" || !commandName().MatchString(c.Name) {
				t.Errorf("%+v", c)
			}
		}
	})
}
