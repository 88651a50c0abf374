// Package placetest has the suite of behaviour that every kind of place must pass, and a fake that
// passes it, for the tests of what uses places.
package placetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/place"
)

// Config is what the suite needs to know of a kind.
type Config struct {
	Kind place.Kind
	// Spec returns the spec of a new box. The suite numbers its lives.
	Spec func() place.Spec
	// Workspace is the directory in the place, "" for where commands begin by themselves.
	Workspace string
	// SameNetwork: the place reaches what listens on this machine's loopback, and the reverse.
	SameNetwork bool
	// Again opens the same kind as another process would after this one was killed; nil: it cannot.
	Again func() place.Kind
}

// Run tests a kind.
func Run(t *testing.T, c Config) {
	for name, test := range map[string]func(*testing.T, Config){
		"commands": testCommands, "files": testFiles, "lives": testLives, "failed source": testFailedSource,
		"removal": testRemoval, "recovery": testRecovery, "ports": testPorts, "pause": testPause, "freeze": testFreeze, "checkpoint": testCheckpoint, "policy": testPolicy,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// source is a workspace with one file.
func source(ctx context.Context, into place.Tree) (string, error) {
	err := os.MkdirAll(into.Dir, 0o755)
	return into.Dir, errors.Join(ctx.Err(), err, os.WriteFile(filepath.Join(into.Dir, "file"), []byte("of the source\n"), 0o644))
}

// create makes a box that is removed with the test.
func create(t *testing.T, c Config, source place.Source) (place.Spec, place.Place) {
	t.Helper()
	spec := c.Spec()
	spec.Life, spec.Workspace = 1, 1
	t.Cleanup(func() {
		if p, err := c.Kind.Recover(context.Background(), spec); err == nil {
			_ = p.Stop(0)
		}
		if err := c.Kind.Remove(context.Background(), spec); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(c.Kind.Reserve(t.Context(), spec), c.Kind.Fill(t.Context(), spec, source)); err != nil {
		t.Fatal(err)
	}
	if p, ok := c.Kind.(place.Preparer); ok {
		var err error
		if spec.Key, err = p.Prepare(t.Context(), spec, nil); err != nil {
			t.Fatal(err)
		}
	}
	return spec, begin(t, c, spec, &place.Identity{Lease: time.Hour, Env: map[string]string{"OF_BOX": "box's", "OF_BOTH": "box's"}})
}

// begin begins a life.
func begin(t *testing.T, c Config, spec place.Spec, as *place.Identity) place.Place {
	t.Helper()
	p, err := c.Kind.Create(t.Context(), spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := p.(place.Enforcer); ok {
		if err := e.ApplyPolicy(t.Context(), func() (place.Policy, error) { return place.Policy{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start(t.Context(), as); err != nil {
		t.Fatal(err)
	}
	return p
}

func session(t *testing.T, p place.Place) place.Session {
	t.Helper()
	s, err := p.Session(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// output runs a shell command in the workspace, which must succeed.
func output(t *testing.T, c Config, p place.Place, command string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	st, err := session(t, p).Run(t.Context(), environment.Command{Argv: []string{"sh", "-c", command}, Dir: c.Workspace, Stdout: &out, Stderr: &errOut})
	if err != nil || st.Code != 0 {
		t.Fatalf("%s: %+v, %v, %s", command, st, err, errOut.String())
	}
	return out.String()
}

func testCommands(t *testing.T, c Config) {
	_, p := create(t, c, source)
	var out, errOut bytes.Buffer
	st, err := session(t, p).Run(t.Context(), environment.Command{
		Argv: []string{"sh", "-c", `cat; cat file; echo "$OF_BOX $OF_BOTH $1" >&2; exit 7`, "sh", `a 'b' "$c"`}, Dir: c.Workspace,
		Env: map[string]string{"OF_BOTH": "command's"}, Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errOut,
	})
	if err != nil || st.Code != 7 || out.String() != "in\nof the source\n" || errOut.String() != "box's command's a 'b' \"$c\"\n" {
		t.Errorf("%+v, %v: %q, %q", st, err, out.String(), errOut.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = r.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, r)
	}()
	if _, err := session(t, p).Run(ctx, environment.Command{Argv: []string{"sh", "-c", "echo begun; exec sleep 600"}, Stdout: w}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func testFiles(t *testing.T, c Config) {
	_, p := create(t, c, source)
	files, err := session(t, p).Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	local, back := filepath.Join(t.TempDir(), "sent"), filepath.Join(t.TempDir(), "back")
	if err := os.WriteFile(local, []byte("sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	remote := strings.TrimSpace(output(t, c, p, "pwd")) + "/sent"
	if err := files.CopyTo(t.Context(), local, remote, environment.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := output(t, c, p, "cat sent"); got != "sent" {
		t.Errorf("the place has %q", got)
	}
	if err := files.CopyFrom(t.Context(), remote, back, environment.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(back); err != nil || string(b) != "sent" {
		t.Errorf("%q, %v", b, err)
	}
}

func testLives(t *testing.T, c Config) {
	spec, p := create(t, c, source)
	output(t, c, p, "echo kept > kept")
	if _, err := c.Kind.Create(t.Context(), spec, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("a second life: %v", err)
	}
	if st, err := p.Status(t.Context(), place.Question{}); err != nil || st.Life != 1 || !st.Configured {
		t.Errorf("%+v, %v", st, err)
	}
	open := session(t, p)
	for range 2 {
		if err := p.Stop(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	ended(t, p, agentbox.EndStopped)
	if _, err := open.Run(t.Context(), environment.Command{Argv: []string{"true"}}); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("a session of an ended place: %v", err)
	}
	spec.Life = 2
	p = begin(t, c, spec, &place.Identity{Lease: time.Hour})
	if got := output(t, c, p, "cat file kept"); got != "of the source\nkept\n" {
		t.Errorf("the second life has %q", got)
	}
	if st, err := p.Status(t.Context(), place.Question{}); err != nil || st.Life != 2 {
		t.Errorf("%+v, %v", st, err)
	}
}

// ended waits for the end of a place, and checks that it has ended for all.
func ended(t *testing.T, p place.Place, want agentbox.Cause) {
	t.Helper()
	select {
	case <-p.Done():
	case <-t.Context().Done():
		t.Fatal("it does not end")
	}
	if end, known := p.End(); !known || end.Cause != want {
		t.Errorf("it ended by %v, %v, want %s", end, known, want)
	}
	if _, err := p.Session(t.Context(), ""); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("a session: %v", err)
	}
	if _, err := p.Status(t.Context(), place.Question{}); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("its status: %v", err)
	}
	if err := p.Start(t.Context(), nil); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("another start: %v", err)
	}
}

func testFailedSource(t *testing.T, c Config) {
	spec, no := c.Spec(), errors.New("no")
	spec.Life, spec.Workspace = 1, 1
	err := errors.Join(c.Kind.Reserve(t.Context(), spec), c.Kind.Fill(t.Context(), spec, func(context.Context, place.Tree) (string, error) { return "", no }))
	if !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	if err := c.Kind.Remove(t.Context(), spec); err != nil {
		t.Error(err)
	}
}

func testRemoval(t *testing.T, c Config) {
	spec, p := create(t, c, source)
	if err := p.Stop(0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Kind.Remove(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
	}
	spec.Life = 2
	if err := errors.Join(c.Kind.Reserve(t.Context(), spec), c.Kind.Fill(t.Context(), spec, nil)); err != nil {
		t.Fatal(err)
	}
	p = begin(t, c, spec, &place.Identity{Lease: time.Hour})
	if got := output(t, c, p, "ls -A"); got != "" && got != "lost+found\n" {
		t.Errorf("an empty workspace has %q", got)
	}
}

func testRecovery(t *testing.T, c Config) {
	spec, p := create(t, c, source)
	kind := c.Kind
	if c.Again != nil {
		kind = c.Again()
	}
	again, err := kind.Recover(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := again.Status(t.Context(), place.Question{}); err != nil || st.Life != 1 || !st.Configured {
		t.Errorf("%+v, %v", st, err)
	}
	if got := output(t, c, again, "cat file"); got != "of the source\n" {
		t.Errorf("%q", got)
	}
	if err := again.Stop(0); err != nil {
		t.Fatal(err)
	}
	if c.Again == nil {
		ended(t, p, agentbox.EndStopped)
	}
	if _, err := kind.Recover(t.Context(), spec); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("after the end: %v", err)
	}
}

func testPorts(t *testing.T, c Config) {
	_, p := create(t, c, source)
	d, ok := p.(place.Dialer)
	if !ok || !c.SameNetwork {
		t.Skip("nothing to forward to")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "served")
			conn.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	opened, err := d.OpenPort(t.Context(), port, 0)
	if err != nil || opened.Box != port {
		t.Fatalf("%+v, %v", opened, err)
	}
	conn, err := net.Dial("tcp", opened.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "served" {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := p.Status(t.Context(), place.Question{}); err != nil || len(st.Ports) != 1 || st.Ports[0] != opened {
		t.Errorf("%+v, %v", st.Ports, err)
	}
	if err := d.ClosePort(t.Context(), port); err != nil {
		t.Error(err)
	}
	if err := d.ClosePort(t.Context(), port); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("closed twice: %v", err)
	}
	if conn, err := net.Dial("tcp", opened.Host); err == nil {
		conn.Close()
		t.Error("it is still open")
	}
}

func testPause(t *testing.T, c Config) {
	spec, p := create(t, c, source)
	saver, ok := p.(place.Saver)
	keeper, keeps := c.Kind.(place.Keeper)
	if ok && !keeps {
		t.Fatal("what saves must keep")
	}
	if !ok {
		t.Skip("it saves nothing")
	}
	output(t, c, p, "echo kept > kept")
	if err := saver.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended(t, p, agentbox.EndPaused)
	if kept, err := keeper.Kept(spec.ID); kept != place.Whole || err != nil {
		t.Errorf("%v, %v", kept, err)
	}
	spec.From.Paused = true
	p = begin(t, c, spec, nil)
	if got := output(t, c, p, "cat file kept"); got != "of the source\nkept\n" {
		t.Errorf("%q", got)
	}
	if err := keeper.DropKept(spec.ID, false); err != nil {
		t.Error(err)
	}
	if kept, err := keeper.Kept(spec.ID); kept != place.Nothing || err != nil {
		t.Errorf("%v, %v", kept, err)
	}
}

func testFreeze(t *testing.T, c Config) {
	_, p := create(t, c, source)
	freezer, ok := p.(place.Freezer)
	if !ok {
		t.Skip("it does not stand still")
	}
	for range 2 {
		if err := freezer.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := p.Status(t.Context(), place.Question{}); err != nil || !st.Frozen {
		t.Errorf("%+v, %v", st, err)
	}
	for range 2 {
		if err := freezer.Thaw(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := output(t, c, p, "cat file"); got != "of the source\n" {
		t.Errorf("%q", got)
	}
	if st, err := p.Status(t.Context(), place.Question{}); err != nil || st.Frozen {
		t.Errorf("%+v, %v", st, err)
	}
	if err := freezer.Freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(time.Second); err != nil { // also one that stands still
		t.Error(err)
	}
}

func testCheckpoint(t *testing.T, c Config) {
	spec, p := create(t, c, source)
	saver, ok := p.(place.Saver)
	if !ok {
		t.Skip("it saves nothing")
	}
	if size, err := saver.Checkpoint(t.Context(), "first"); err != nil || size <= 0 {
		t.Fatalf("%d, %v", size, err)
	}
	output(t, c, p, "echo later > file")
	if err := p.Stop(0); err != nil {
		t.Fatal(err)
	}
	spec.Life, spec.Workspace, spec.From.Checkpoint = 2, 2, "first"
	p = begin(t, c, spec, nil)
	if got := output(t, c, p, "cat file"); got != "of the source\n" {
		t.Errorf("%q", got)
	}
}

func testPolicy(t *testing.T, c Config) {
	_, p := create(t, c, source)
	e, ok := p.(place.Enforcer)
	if !ok {
		t.Skip("it enforces nothing")
	}
	no := errors.New("no")
	if err := e.ApplyPolicy(t.Context(), func() (place.Policy, error) { return place.Policy{}, no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	l, ok := p.(place.Limiter)
	if !ok {
		t.Fatal("it enforces a policy, and no limits")
	}
	// A policy leaves the limits alone.
	if err := l.Limit(t.Context(), place.Limits{Wall: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	_ = e.ApplyPolicy(t.Context(), func() (place.Policy, error) { return place.Policy{}, nil }) // it may have ended
	<-p.Done()
	if end, known := p.End(); !known || end.Cause != agentbox.EndLimit || end.Limit.Kind != agentbox.LimitWall {
		t.Errorf("%+v, %v", end, known)
	}
}
