package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy"
)

func TestNumberFormats(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1<<20 - 1: "1023 KiB", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0.00 s", 1234 * time.Millisecond: "1.23 s", 42 * time.Second: "42 s", 90400 * time.Millisecond: "1m30s",
	} {
		if got := tookText(d); got != want {
			t.Errorf("tookText(%s) = %s, want %s", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 5 * time.Second: "5 s", 90 * time.Minute: "90 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 days",
	} {
		if got := agoText(time.Now().Add(-d)); got != want {
			t.Errorf("agoText(%s) = %s, want %s", d, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "a": "a", "a\nb\r\nc": "a; b; c", "\na\n": "a", "a\x1b[2Jb\xff\u202e\tc": "a\ufffd[2Jb\ufffd\ufffd c"} {
		if got := oneLine(in); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
}

func TestProgressBarWidth(t *testing.T) {
	for _, c := range []struct {
		done, total int64
		want        string
	}{
		{0, 0, ""}, {5, 0, ""}, {5, -1, ""},
		{0, 10, "  [                    ]   0%"},
		{5, 10, "  [==========          ]  50%"},
		{10, 10, "  [====================] 100%"},
		{99, 10, "  [====================] 100%"},
		{-1, 10, "  [                    ]   0%"},
		{1 << 50, 1 << 50, "  [====================] 100%"},
	} {
		if got := progressBar(agentbox.Event{Done: c.done, Total: c.total}); got != c.want {
			t.Errorf("%d of %d: %q", c.done, c.total, got)
		}
	}
	if got := cut("äöü", 2); got != "ä…" {
		t.Errorf("cut: %q", got)
	}
}

// pipe returns a file and a func that returns what was written to it.
func pipe(t *testing.T) (*os.File, func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return w, func() string {
		w.Close()
		defer r.Close()
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func TestProgressOnPipe(t *testing.T) {
	events := []agentbox.Event{
		{Step: "image", Detail: "debian"},
		{Step: "image", Done: 1, Total: 2},
		{Step: "image", Detail: "abc\ndef", Ended: true, Took: time.Second},
		{Note: true, Detail: "a note\nin two lines"},
	}
	for quiet, want := range map[bool]string{
		false: "- image        1.00 s  abc; def\na note; in two lines\n",
		true:  "",
	} {
		w, read := pipe(t)
		p := (&app{stderr: w, quiet: quiet}).newProgress()
		for _, e := range events {
			p.event(e)
		}
		p.close()
		if got := read(); got != want {
			t.Errorf("quiet %v: %q, want %q", quiet, got, want)
		}
	}
}

// A line as wide as the terminal would wrap, and could not be erased.
func TestProgressFitsTerminal(t *testing.T) {
	e := agentbox.Event{Step: "image", Detail: strings.Repeat("ä long detail ", 20), Done: 30, Total: 100}
	for width, ends := range map[int]string{200: "…  [======              ]  30%  1m40s", 80: "…  [======              ]  30%  1m40s", 20: "…", 1: "…"} {
		line := statusLine(e, 100*time.Second, width)
		if n := len([]rune(line)); n > max(1, width-1) || !strings.HasSuffix(line, ends) {
			t.Errorf("%d columns: %q", width, line)
		}
	}
	if line := statusLine(agentbox.Event{Step: "verify"}, 0, 80); strings.TrimSpace(line) != "verify" {
		t.Errorf("%q", line)
	}
}

func TestTableOfBoxes(t *testing.T) {
	parent := agentbox.BoxID{1}
	box := agentbox.Box{
		ID: agentbox.BoxID{2}, Name: "app", State: agentbox.Running, Isolation: agentbox.MicroVM, Accel: "tcg", Branch: "main", Directory: "/src",
		Created: time.Now().Add(-3 * time.Minute), Parent: &parent, Usage: &agentbox.Usage{PSS: 1 << 20, Disk: 1 << 30, CPUMillis: 1500},
		Ports: []agentbox.Port{{Box: 80, Host: "127.0.0.1:8080"}}, Problems: []agentbox.Problem{{Kind: agentbox.ProblemMemory}},
	}
	var out bytes.Buffer
	a := &app{stdout: &out}
	if err := a.report(boxesFacts([]agentbox.Box{box}, true)); err != nil {
		t.Fatal(err)
	}
	want := `NAME  ID            STATE    ISOLATION    BRANCH  AGE    DIRECTORY  MEMORY  DISK     CPU
app   020000000000  running  microvm/tcg  main    3 min  /src       1 MiB   1.0 GiB  1.5s
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	rows := map[string]string{}
	for _, r := range showRows(box) {
		if len(r) != 2 {
			t.Fatalf("%q is not a fact and its name", r)
		}
		rows[r[0]] = r[1]
	}
	for name, want := range map[string]string{"box": "app (020000000000)", "parent": parent.String(), "port": "80 at 127.0.0.1:8080", "note": "the kernel of the box killed processes because memory ran out"} {
		if rows[name] != want {
			t.Errorf("%s: %q", name, rows[name])
		}
	}
	if plain := showRows(agentbox.Box{}); len(plain) >= len(showRows(box)) || strings.Contains(plain[2][1], "tcg") {
		t.Errorf("a plain box: %q", plain)
	}
}

// Text from a repository, a box, a peer or a registry must not act on the terminal that shows it: a
// plan could hide what it asks the user to approve.
func TestTerminalOutputIsSanitized(t *testing.T) {
	const foreign = "/home/me\x1b[2K\r/data\n+ nothing"
	for name, show := range map[string]func(a *app) error{
		"a plan": func(a *app) error {
			printPlan(a.stdout, "  ", []policy.Change{{Add: true, Kind: "include", Rule: foreign}})
			return nil
		},
		"a policy": func(a *app) error {
			return a.printPolicy(api.PolicyReport{Directory: "/src", Secrets: []api.SecretInfo{{From: foreign}}})
		},
		"a verdict": func(a *app) error {
			return a.printCheck(api.CheckReport{URL: "example.com", Verdict: policy.Verdict{Allow: true, Reason: foreign, Hint: foreign}})
		},
		"an image": func(a *app) error { return a.report(imageFacts(api.Image{Name: foreign})) },
		"what is missing": func(a *app) error {
			w, read := pipe(t)
			a.stderr = w
			a.printMissing([]string{foreign}, nil)
			_, err := a.stdout.Write([]byte(read()))
			return err
		},
	} {
		var out bytes.Buffer
		if err := show(&app{stdout: &out}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if strings.ContainsAny(out.String(), "\x1b\r") || !strings.Contains(out.String(), "/home/me") {
			t.Errorf("%s: %q", name, out.String())
		}
	}
	var out bytes.Buffer
	if err := (&app{stdout: &out}).report(facts{text: "two\nlines"}); err != nil || out.String() != "two\nlines\n" {
		t.Errorf("lines of ours: %q, %v", out.String(), err)
	}
}
