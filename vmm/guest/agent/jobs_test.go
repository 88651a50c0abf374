//go:build linux

package agent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/vmm/guest"
	"agentbox/vmm/guest/protocol"
)

// follower is a host that follows one job.
type follower struct {
	t  *testing.T
	ch ssh.Channel

	at        uint64
	out, errs string
	lost      uint64 // bytes that the guest left out
	exit      *protocol.JobExit
}

func (f *fixture) open(c *guest.Client, o protocol.JobOpen) (*follower, error) {
	f.t.Helper()
	extra, err := json.Marshal(o)
	if err != nil {
		f.t.Fatal(err)
	}
	ch, requests, err := c.SSH().OpenChannel(protocol.JobChannel, extra)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(requests)
	f.t.Cleanup(func() { ch.Close() })
	return &follower{t: f.t, ch: ch, at: o.From}, nil
}

func (f *fixture) job(c *guest.Client, id string, spec protocol.JobSpec) *follower {
	f.t.Helper()
	j, err := f.open(c, protocol.JobOpen{ID: id, Start: &spec})
	if err != nil {
		f.t.Fatal(err)
	}
	return j
}

// next reads one frame; false at the end of the channel.
func (f *follower) next() bool {
	f.t.Helper()
	frame, err := protocol.ReadJobFrame(f.ch, make([]byte, protocol.MaxJobFrame))
	if err == io.EOF {
		return false
	}
	if err != nil {
		f.t.Fatal(err)
	}
	switch frame.Kind {
	case protocol.JobOffset:
		f.lost += frame.Offset() - f.at
		f.at = frame.Offset()
	case protocol.JobOutput:
		f.out, f.at = f.out+string(frame.Data), f.at+uint64(len(frame.Data))
	case protocol.JobStderr:
		f.errs, f.at = f.errs+string(frame.Data), f.at+uint64(len(frame.Data))
	case protocol.JobEnd:
		e, err := frame.Exit()
		if err != nil {
			f.t.Fatal(err)
		}
		f.exit = &e
		return false
	}
	return true
}

func (f *follower) wait() *follower {
	f.t.Helper()
	for f.next() {
	}
	return f
}

func (f *follower) until(text string) {
	f.t.Helper()
	for !strings.Contains(f.out, text) {
		if !f.next() {
			f.t.Fatalf("the job ended; it wrote %q", f.out)
		}
	}
}

func (f *follower) send(kind byte, data string) {
	f.t.Helper()
	if _, err := f.ch.Write(protocol.AppendJobFrame(nil, kind, []byte(data))); err != nil {
		f.t.Fatal(err)
	}
}

func sh(line string) protocol.JobSpec { return protocol.JobSpec{Argv: []string{"sh", "-c", line}} }

func TestJobExit(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	for _, test := range []struct {
		spec protocol.JobSpec
		out  string
		errs string
		exit protocol.JobExit
	}{
		{sh("echo out; echo err >&2; exit 7"), "out\n", "err\n", protocol.JobExit{Status: 7}},
		{sh("kill -TERM $$"), "", "", protocol.JobExit{Status: 143, Signal: "TERM"}},
		{sh("cat; echo end"), "end\n", "", protocol.JobExit{}},
		{protocol.JobSpec{Argv: []string{"printenv", "X"}, Env: map[string]string{"X": "a b"}}, "a b\n", "", protocol.JobExit{}},
	} {
		w := f.job(c, strings.Join(test.spec.Argv, " "), test.spec).wait()
		if w.out != test.out || w.errs != test.errs || w.exit == nil || *w.exit != test.exit {
			t.Errorf("%q: %q, %q, %+v", test.spec.Argv, w.out, w.errs, w.exit)
		}
	}
}

func TestJobRefusal(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	for status, spec := range map[int]protocol.JobSpec{
		127: {Argv: []string{"no-such-program"}}, 126: {Argv: []string{"/"}},
	} {
		_, err := f.open(c, protocol.JobOpen{ID: "x", Start: &spec})
		var refused *ssh.OpenChannelError
		var why protocol.JobRefusal
		if !errors.As(err, &refused) || json.Unmarshal([]byte(refused.Message), &why) != nil || why.Status != status || why.Error == "" {
			t.Errorf("%q: %v", spec.Argv, err)
		}
	}
	if _, err := f.open(c, protocol.JobOpen{ID: "unknown"}); err == nil {
		t.Error("a job that nobody started was found")
	}
}

func TestJobSurvivesDisconnect(t *testing.T) {
	f := start(t)
	c := f.connect()
	dir := t.TempDir()
	w := f.job(c, "j", sh("echo one; while ! [ -e "+dir+"/go ]; do sleep 0.02; done; echo two; exit 3"))
	w.until("one\n")
	c.Close()
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { s := f.agent.jobs.status(); return len(s) == 1 && s[0].Ended })
	c = f.connect()
	defer c.Close()
	again, err := f.open(c, protocol.JobOpen{ID: "j", From: w.at})
	if err != nil {
		t.Fatal(err)
	}
	again.wait()
	if again.out != "two\n" || again.lost != 0 || again.exit == nil || again.exit.Status != 3 {
		t.Errorf("%q, %d lost, %+v", again.out, again.lost, again.exit)
	}
	if ok, err := again.ch.SendRequest(protocol.JobForget, true, nil); !ok || err != nil {
		t.Errorf("forget: %v, %v", ok, err)
	}
	if s := f.agent.jobs.status(); len(s) != 0 {
		t.Errorf("%+v is left", s)
	}
}

func TestStartIsIdempotent(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	count := t.TempDir() + "/count"
	spec := sh("echo x >>" + count + "; sleep 0.2")
	first := f.job(c, "j", spec)
	second := f.job(c, "j", spec).wait()
	if first.wait().exit != nil || second.exit == nil {
		t.Error("the first channel was not replaced by the second")
	}
	if b, err := os.ReadFile(count); err != nil || string(b) != "x\n" {
		t.Errorf("it ran %q, %v", b, err)
	}
}

// A start waits for as long as user processes are frozen.
func TestJobsAnswerDuringStart(t *testing.T) {
	f := start(t)
	waiting, thawed := make(chan struct{}, 1), make(chan struct{})
	var frozen atomic.Bool
	f.agent.Machine.Cgroup = func(string) (*os.File, func(), error) {
		if frozen.Load() {
			waiting <- struct{}{}
			<-thawed
		}
		return nil, func() {}, nil
	}
	c := f.connect()
	defer c.Close()
	spec := sh("read x")
	spec.Input = true
	running := f.job(c, "running", spec)
	frozen.Store(true)
	late := make(chan *follower, 1)
	go func() {
		w, _ := f.open(c, protocol.JobOpen{ID: "late", Start: &protocol.JobSpec{Argv: []string{"true"}}})
		late <- w
	}()
	<-waiting
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.SSH().SendRequest(protocol.Jobs, true, []byte("{}"))
		if err == nil {
			_, err = f.open(c, protocol.JobOpen{ID: "running"})
		}
		answered <- err
	}()
	select {
	case err := <-answered:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("the other job waits for the start")
	}
	frozen.Store(false)
	close(thawed)
	if w := <-late; w == nil {
		t.Error("it was not started")
	} else if w.wait(); w.exit == nil || w.exit.Status != 0 {
		t.Errorf("%+v", w.exit)
	}
	running.ch.Close()
}

func TestJobInput(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	spec := sh("cat")
	spec.Input = true
	w := f.job(c, "j", spec)
	want := strings.Repeat("0123456789", 30_000)
	go func() {
		for rest := want; rest != ""; {
			n := min(len(rest), 1000)
			w.ch.Write(protocol.AppendJobFrame(nil, protocol.JobInput, []byte(rest[:n])))
			rest = rest[n:]
		}
		w.ch.Write(protocol.AppendJobFrame(nil, protocol.JobInputEnd, nil))
	}()
	if w.wait(); w.out != want || w.exit == nil || w.exit.Status != 0 {
		t.Errorf("%d bytes of %d, %+v", len(w.out), len(want), w.exit)
	}
}

func TestSignalJobNotReading(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	spec := sh("echo ready; exec sleep 100")
	spec.Input = true
	w := f.job(c, "j", spec)
	w.until("ready")
	go func() {
		for range 300 {
			w.ch.Write(protocol.AppendJobFrame(nil, protocol.JobInput, make([]byte, 1000)))
		}
	}()
	time.Sleep(50 * time.Millisecond) // for the pipe to be full
	if ok, err := w.ch.SendRequest("signal", true, ssh.Marshal(struct{ Name string }{"KILL"})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if w.wait(); w.exit == nil || w.exit.Signal != "KILL" {
		t.Errorf("%+v", w.exit)
	}
}

// A reader that takes nothing for a while costs a flood its middle, and neither its end nor the
// guest's memory.
func TestFloodDropsMiddle(t *testing.T) {
	f := start(t)
	c := f.connect()
	const size = 200 << 20
	w := f.job(c, "j", sh("echo begin; head -c 209715200 /dev/zero; echo the end"))
	w.until("begin\n")
	c.Close()
	waitFor(t, func() bool { s := f.agent.jobs.status(); return s[0].Ended })
	c = f.connect()
	defer c.Close()
	again, err := f.open(c, protocol.JobOpen{ID: "j", From: w.at})
	if err != nil {
		t.Fatal(err)
	}
	again.wait()
	if !strings.HasSuffix(again.out, "the end\n") || again.lost == 0 || again.lost+uint64(len(again.out))+w.at != size+14 {
		t.Errorf("%d bytes lost, %d here, %d before", again.lost, len(again.out), w.at)
	}
	if len(again.out) > maxJobBuffer {
		t.Errorf("%d bytes were kept", len(again.out))
	}
}

func TestFloodWaitsForBlockingReader(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	w := f.job(c, "j", sh("sleep 0.1; head -c 62914560 /dev/zero"))
	if ok, err := w.ch.SendRequest(protocol.JobFlowControl, true, ssh.Marshal(struct{ Blocking bool }{true})); !ok || err != nil {
		t.Fatal(ok, err)
	}
	time.Sleep(300 * time.Millisecond)
	n := 0
	for w.next() {
		n, w.out = n+len(w.out), ""
	}
	if n != 60<<20 || w.lost != 0 {
		t.Errorf("%d bytes, %d lost", n, w.lost)
	}
}

func TestJobTerminal(t *testing.T) {
	if _, err := os.Stat("/dev/ptmx"); err != nil {
		t.Skip("this host has no pseudo-terminals")
	}
	f := start(t)
	c := f.connect()
	defer c.Close()
	spec := sh("test -t 0 && test -t 2 && echo $TERM; stty size; read x; stty size; cat; echo end")
	spec.TTY, spec.Term, spec.Columns, spec.Rows = true, "linux", 80, 24
	w := f.job(c, "j", spec)
	w.until("24 80\r\n")
	resizeAndWait(t, w.ch.SendRequest, 132, 50)
	w.send(protocol.JobInput, "\n")
	w.until("50 132\r\n")
	w.send(protocol.JobInputEnd, "")
	if w.wait(); w.exit == nil || w.exit.Status != 0 || !strings.HasSuffix(w.out, "end\r\n") || !strings.HasPrefix(w.out, "linux\r\n") {
		t.Errorf("%q, %+v", w.out, w.exit)
	}
}

func TestInvalidFramesEndInputOnly(t *testing.T) {
	f := start(t)
	c := f.connect()
	defer c.Close()
	spec := sh("sleep 0.2; echo done")
	spec.Input = true
	w := f.job(c, "j", spec)
	w.ch.Write(binary.BigEndian.AppendUint32([]byte{protocol.JobInput}, 1<<30))
	if w.wait(); w.out != "done\n" {
		t.Errorf("%q", w.out)
	}
}
