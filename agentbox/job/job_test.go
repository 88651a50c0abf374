package job

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/vmm/guest/protocol"
)

func testRecorder(t *testing.T, tty bool) *recorder {
	t.Helper()
	return newRecorder(t.TempDir(), Record{version, agentbox.JobStart{Command: []string{"x"}, TTY: tty, Started: time.Now()}}, 80, 24)
}

func text(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	if err := OpenTranscript(dir).WriteText(t.Context(), &out, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTranscriptRoundTrip(t *testing.T) {
	for _, tty := range []bool{false, true} {
		r := testRecorder(t, tty)
		want := "a\nb\r\n\r\nc \x1b[31mred\x00 \u00e9\u4e16\U0001f600 \"quoted\" end"
		for _, b := range []byte(want) { // characters come in pieces
			r.output(protocol.JobOutput, []byte{b})
		}
		r.close()
		if got := text(t, r.dir); got != want {
			t.Errorf("terminal %v: %q, want %q", tty, got, want)
		}
	}
}

// A terminal reads the number of a mode as decimal, zeros at its beginning or not.
func TestModesAreDecimal(t *testing.T) {
	var m Modes
	m.Write([]byte("\x1b[?01049;09h\x1b[?1h"))
	if got, want := m.set("l"), "\x1b[?1049l\x1b[?9l\x1b[?1l"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestInvalidAndSplitRunes(t *testing.T) {
	r := testRecorder(t, true)
	r.output(protocol.JobOutput, []byte("a\xff\xfeb\xe4\xb8"))
	r.close()
	if got := text(t, r.dir); got != "a\uFFFDb\uFFFD" {
		t.Errorf("%q", got)
	}
}

// Every file of a transcript is an asciicast of its own, and together they are bounded whatever a
// job writes.
func TestFloodIsBounded(t *testing.T) {
	r := testRecorder(t, false)
	r.output(protocol.JobOutput, []byte("the beginning\n"))
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const lines = 12_000
	for range lines {
		r.output(protocol.JobOutput, line)
	}
	r.output(protocol.JobOutput, []byte("the end\n"))
	r.close()
	size := int64(0)
	files, err := filepath.Glob(filepath.Join(r.dir, "*.cast"))
	if err != nil || len(files) != 1+maxParts {
		t.Fatalf("%v, %v", files, err)
	}
	for _, name := range files {
		st, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
		checkCast(t, name)
	}
	if most := int64(headSize + maxParts*partSize + 3*maxLine); size > most {
		t.Errorf("%d bytes on disk, at most %d", size, most)
	}
	got := text(t, r.dir)
	if !strings.HasPrefix(got, "the beginning\n") || !strings.HasSuffix(got, "the end\n") || strings.Count(got, "bytes of output left out]") != 1 {
		t.Errorf("it begins %q and ends %q", got[:40], got[len(got)-40:])
	}
	note := len(strings.ReplaceAll(omittedText(r.Omitted), "\r\n", "\n"))
	if all := uint64(len(line)*lines + len("the beginning\nthe end\n")); uint64(len(got)-note)+r.Omitted != all {
		t.Errorf("%d bytes here and %d left out, of %d", len(got)-note, r.Omitted, all)
	}
	var cast bytes.Buffer
	if err := OpenTranscript(r.dir).WriteCast(t.Context(), &cast); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "whole.cast")
	if err := os.WriteFile(name, cast.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	checkCast(t, name)
}

// What a guest did not keep and what gave way on disk are each counted once, wherever a file ends.
func TestOmittedBytesAreCountedOnce(t *testing.T) {
	r := testRecorder(t, false)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for n := range 12_000 {
		if n%7 == 3 {
			r.skip(r.Pos + 1000)
		}
		r.output(protocol.JobOutput, line)
	}
	r.close()
	got := text(t, r.dir)
	if kept := uint64(strings.Count(got, string(line)) * len(line)); kept+r.Omitted != r.Pos {
		t.Errorf("%d bytes here and %d left out, of %d", kept, r.Omitted, r.Pos)
	}
	output := uint64(0)
	for _, m := range regexp.MustCompile(`: (\d+) bytes of output left out`).FindAllStringSubmatch(got, -1) {
		n, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		output += n
	}
	if output != r.Omitted {
		t.Errorf("it says that %d bytes were left out, and counts %d", output, r.Omitted)
	}
}

// checkCast reads a file as players do: a header of version 2, then triples whose times never go
// back.
func checkCast(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	last := 0.0
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			var h struct{ Version, Width, Height int }
			if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Version != 2 || h.Width != 80 || h.Height != 24 {
				t.Fatalf("%s: header %s, %v", name, lines.Text(), err)
			}
			continue
		}
		e, err := parseEvent(lines.Bytes())
		if err != nil || e.At < last || e.Code != "o" && e.Code != "r" {
			t.Fatalf("%s line %d: %+v after %f, %v", name, n+1, e, last, err)
		}
		last = e.At
	}
}

func TestRecorderResume(t *testing.T) {
	r := testRecorder(t, true)
	r.output(protocol.JobOutput, []byte("one "))
	if err := r.suspend(); err != nil {
		t.Fatal(err)
	}
	again := newRecorder(r.dir, r.rec, 80, 24)
	if err := again.resume(); err != nil {
		t.Fatal(err)
	}
	if again.Pos != 4 {
		t.Errorf("it goes on at %d", again.Pos)
	}
	again.output(protocol.JobOutput, []byte("two"))
	again.skip(again.Pos + 100)
	again.close()
	if got := text(t, r.dir); got != "one two"+omittedText(100) {
		t.Errorf("%q", got)
	}
}

func TestFollowTranscript(t *testing.T) {
	r := testRecorder(t, true)
	r.output(protocol.JobOutput, []byte("one "))
	got := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		_ = OpenTranscript(r.dir).WriteText(context.Background(), &out, true)
		got <- out.String()
	}()
	time.Sleep(2 * followEvery)
	r.output(protocol.JobOutput, []byte("two"))
	r.close()
	if err := writeJSON(filepath.Join(r.dir, EndFile), End{}); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-got:
		if text != "one two" {
			t.Errorf("%q", text)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("it does not end")
	}
}

func TestReadState(t *testing.T) {
	jobs := t.TempDir()
	id := agentbox.NewJobID()
	dir := Dir(jobs, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(filepath.Join(dir, recordFile), Record{version, agentbox.JobStart{ID: id, Command: []string{"x"}}}); err != nil {
		t.Fatal(err)
	}
	for box, want := range map[agentbox.State]agentbox.JobState{
		agentbox.Running: agentbox.JobRunning, agentbox.Waiting: agentbox.JobRunning, agentbox.Paused: agentbox.JobPaused, agentbox.Stopped: agentbox.JobLost,
	} {
		if j, err := Read(jobs, id, agentbox.Box{State: box}); err != nil || j.State != want || j.Exit != nil {
			t.Errorf("in a %s box: %+v, %v", box, j, err)
		}
	}
	for _, end := range []End{{Status: 3}, {Lost: true}} {
		if err := writeJSON(filepath.Join(dir, EndFile), end); err != nil {
			t.Fatal(err)
		}
		j, err := Read(jobs, id, agentbox.Box{State: agentbox.Running})
		if err != nil || end.Lost != (j.State == agentbox.JobLost) || end.Lost != (j.Exit == nil) || !end.Lost && *j.Exit != 3 {
			t.Errorf("%+v: %+v, %v", end, j, err)
		}
	}
}

func TestReplayFromLastClear(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a\nb\nc", "a\nb\nc"},
		{strings.Repeat("line\n", 100) + "last", strings.Repeat("line\n", 4) + "last"},
		{"old\x1b[2Jnew", "\x1b[2Jnew"},
		{"\x1b[?2004h\x1b[?1049", ""},
		{"\x1b[?1;25hx\x1b[?25l", "\x1b[?1h\x1b[?1;25hx\x1b[?25l"},
	} {
		var s screen
		s.write([]byte(test.in[:len(test.in)/2]))
		s.write([]byte(test.in[len(test.in)/2:]))
		if got := string(s.replay(4)); test.want != "" && got != test.want {
			t.Errorf("%q: %q, want %q", test.in, got, test.want)
		}
	}
}

func FuzzScreen(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[2Jx\ny"), 3)
	f.Fuzz(func(t *testing.T, b []byte, rows int) {
		var s screen
		s.write(b)
		if got := s.replay(rows); len(got) > 2*maxScreen+maxModes*16 {
			t.Fatalf("%d bytes are replayed", len(got))
		}
		if len(s.modes.on) > maxModes {
			t.Fatalf("%d modes are remembered", len(s.modes.on))
		}
	})
}

func FuzzTranscript(f *testing.F) {
	f.Add([]byte("{\"version\":2}\n[0.1,\"o\",\"x\"]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(partName(dir, 0), b, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = OpenTranscript(dir).WriteText(t.Context(), &bytes.Buffer{}, false)
	})
}

// A client that is expected has what was written before it came, and the job waits for it.
func TestExpectedClientLosesNothing(t *testing.T) {
	j := &followedJob{hub: &Hub{ctx: t.Context()}}
	j.expect()
	piece := []byte(strings.Repeat("x", 64<<10))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 { // more than is queued for one
			j.broadcast(protocol.JobOutput, piece)
		}
	}()
	if c := j.addClient(environment.JobAttach{}, nil); c == j.clients[0] {
		t.Error("a client that may lose output took the place of the one that may not")
	}
	c := j.addClient(environment.JobAttach{Whole: true}, nil)
	got := 0
	for got < 40*len(piece) {
		c.mu.Lock()
		for _, p := range c.queue {
			got += len(p.data)
		}
		c.queue, c.queued = nil, 0
		c.notify()
		wake := c.changed
		c.mu.Unlock()
		if got < 40*len(piece) {
			select {
			case <-wake:
			case <-t.Context().Done():
				t.Fatal("it ended")
			}
		}
	}
	<-done
	if c.dropped != 0 || j.expected != nil {
		t.Errorf("%d bytes are missing", c.dropped)
	}
}

// Players follow the terminal from one size to another.
func TestResizeIsRecorded(t *testing.T) {
	r := testRecorder(t, true)
	r.output(protocol.JobOutput, []byte("wide"))
	for range 2 {
		r.resize(40, 10)
	}
	r.output(protocol.JobOutput, []byte("narrow"))
	r.close()
	b, err := os.ReadFile(partName(r.dir, 0))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(`"r","40x10"]`)); n != 1 {
		t.Errorf("%d resizes in %s", n, b)
	}
}

// A status is what programs see of a job; an operating system passes eight bits of it on.
func TestRefusalStatus(t *testing.T) {
	for output, want := range map[string]int{`{"status":127,"error":"x"}`: 127, `{"status":256}`: 126, `{"status":-1}`: 126, `no`: 126} {
		if r := refusalOf(&ssh.OpenChannelError{Message: output}); r == nil || r.Status != want {
			t.Errorf("%s: %+v", output, r)
		}
	}
}

// What is replayed to a client counts towards how far it may be behind, as all that it has not
// taken.
func TestReplayIsBounded(t *testing.T) {
	j := &followedJob{}
	j.screen.write(bytes.Repeat([]byte("x"), maxScreen))
	c := j.addClient(environment.JobAttach{Replay: true}, nil)
	c.enqueue(t.Context(), protocol.JobOutput, make([]byte, maxQueue))
	sum := 0
	for _, p := range c.queue {
		sum += len(p.data)
	}
	if sum > maxQueue || sum != c.queued {
		t.Errorf("%d bytes are queued, counted as %d", sum, c.queued)
	}
}
