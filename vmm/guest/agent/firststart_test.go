//go:build linux

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest/protocol"
)

func firstProgram(t *testing.T, f *fixture, name, script string) {
	t.Helper()
	plant(t, filepath.Join(f.agent.Machine.FirstStart, name), "#!/bin/sh -e\n"+script)
	if err := os.Chmod(filepath.Join(f.agent.Machine.FirstStart, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestFirstStartRunsBeforeCommands(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	dir := t.TempDir()
	firstProgram(t, f, "10-key", "echo cannot; while [ ! -e "+dir+"/go ]; do sleep 0.01; done; exit 1\n")
	firstProgram(t, f, "20-database", "cp "+dir+"/go "+dir+"/made; echo $LC_ALL $BOX >> "+dir+"/runs\n")
	env := map[string]string{"PATH": "/nowhere", "BOX": "changed"}

	if err := c.Attach(t.Context(), protocol.AttachRequest{Hostname: "warming-up"}); err != nil {
		t.Fatal(err)
	}
	if out, err := f.session(c).Output("echo warm"); err != nil || string(out) != "warm\n" {
		t.Fatalf("a warm-up waits for what is a box's: %q, %v", out, err)
	}
	err := c.Attach(t.Context(), protocol.AttachRequest{Own: true, Env: env, Services: []protocol.Service{{Name: "s", Run: "/bin/cat " + dir + "/made; exec /bin/sleep 1000"}}})
	if err != nil {
		t.Fatal(err)
	}
	waiting := f.session(c)
	var out bytes.Buffer
	waiting.Stdout = &out
	if err := waiting.Start("/bin/cat " + dir + "/made"); err != nil { // it is answered at once
		t.Fatal(err)
	}
	waitFor(t, func() bool { return readable(f.agent.Machine.LogDir+"/first-start.log") == "cannot\n" })
	if log := readable(f.agent.Machine.LogDir + "/s.log"); log != "" {
		t.Errorf("a service ran first: %q", log)
	}
	plant(t, dir+"/go", "all of it")
	if err := waiting.Wait(); err != nil || out.String() != "all of it" {
		t.Errorf("a command saw %q, %v", &out, err)
	}
	waitFor(t, func() bool { return readable(f.agent.Machine.LogDir+"/s.log") == "all of it" })

	if err := c.Attach(t.Context(), protocol.AttachRequest{Own: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.session(c).Run("true"); err != nil {
		t.Fatal(err)
	}
	if runs := readable(dir + "/runs"); strings.TrimSpace(runs) != "C.UTF-8" {
		t.Errorf("the programs ran with, and as often as: %q", runs)
	}
}

func readable(path string) string {
	text, _ := os.ReadFile(path) // what is not there says nothing
	return string(text)
}

// A host waits for an answer for a time only, and a database may take longer to be made: a job that
// comes early is told so, and once it is accepted it sees what was made.
func TestEarlyJobIsRefusedForRetry(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	go_ := filepath.Join(t.TempDir(), "go")
	firstProgram(t, f, "10-key", "while [ ! -e "+go_+" ]; do sleep 0.01; done\n")
	if err := c.Attach(t.Context(), protocol.AttachRequest{Own: true}); err != nil {
		t.Fatal(err)
	}
	f.agent.Machine.EarlyWait = 10 * time.Millisecond
	_, err := f.open(c, protocol.JobOpen{ID: "j", Start: &protocol.JobSpec{Argv: []string{"true"}}})
	var refused *ssh.OpenChannelError
	var why protocol.JobRefusal
	if !errors.As(err, &refused) || json.Unmarshal([]byte(refused.Message), &why) != nil || !why.Early {
		t.Fatalf("a job ran before the key was made: %v", err)
	}
	plant(t, go_, "")
	f.agent.Machine.EarlyWait = time.Minute
	if w := f.job(c, "j", sh("echo now")).wait(); w.out != "now\n" {
		t.Errorf("then it printed %q", w.out)
	}
}

// A window that is dragged while a command waits sends dozens of requests. Nobody else on the
// connection may have to wait for them.
func TestWaitingCommandKeepsConnection(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	go_ := filepath.Join(t.TempDir(), "go")
	firstProgram(t, f, "10-key", "while [ ! -e "+go_+" ]; do sleep 0.01; done\n")
	if err := c.Attach(t.Context(), protocol.AttachRequest{Own: true}); err != nil {
		t.Fatal(err)
	}
	s := f.session(c)
	if err := s.RequestPty("xterm", 24, 80, nil); err != nil {
		t.Skip("no terminal here:", err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if err := s.Start("stty size"); err != nil {
		t.Fatal(err)
	}
	for columns := range 100 {
		if err := s.WindowChange(50, 100+columns); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Services(t.Context()); err != nil {
		t.Errorf("the connection stands still: %v", err)
	}
	plant(t, go_, "")
	if err := s.Wait(); err != nil || strings.TrimSpace(out.String()) != "50 199" {
		t.Errorf("the command saw a terminal of %q, %v", &out, err)
	}
}

// start's cleanup fails the test when the agent does not end.
func TestWaitingCommandEndsWithAgent(t *testing.T) {
	f := start(t)
	c := f.connect()
	firstProgram(t, f, "10-key", "exec sleep 1000\n")
	if err := c.Attach(t.Context(), protocol.AttachRequest{Own: true}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := f.session(c).Start("exec sleep 1000"); err != nil {
			t.Fatal(err)
		}
	}
}
