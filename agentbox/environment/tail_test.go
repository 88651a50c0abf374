package environment

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("x", copyBuffer+100)
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 3, ""}, {"a", 1, "a"}, {"a\n", 1, "a\n"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", 9, "a\nb\n"},
		{"a\nb\n", -1, "a\nb\n"}, {"a\nb\n", 0, ""}, {"\n\n\n", 2, "\n\n"}, {long + "\n" + long + "\nend\n", 2, long + "\nend\n"},
	} {
		os.WriteFile(path, []byte(c.text), 0o600)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Tail(t.Context(), f, c.lines, false, &out); err != nil || out.String() != c.want {
			t.Errorf("%d lines of %.20q: %.20q, %v", c.lines, c.text, out.String(), err)
		}
		f.Close()
	}
}

// A log may be cut between the question for its size and the reading.
func TestLastLinesOfTruncatedFile(t *testing.T) {
	for text, want := range map[string]int64{"a\nb\n": 2, "": 0} {
		if at, err := lastLines(strings.NewReader(text), 3*copyBuffer, 1); err != nil || at != want {
			t.Errorf("%q: %d, %v", text, at, err)
		}
	}
}

func TestTailFollows(t *testing.T) {
	f := openFiles(t)
	path := filepath.Join(t.TempDir(), "log")
	os.WriteFile(path, []byte("one\ntwo\n"), 0o600)
	log, err := f.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var got watched
	got.when = func(s string) {
		switch s {
		case "two\n":
			w, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			w.WriteString("three\n")
			w.Close()
		case "two\nthree\n":
			os.WriteFile(path, []byte("new\n"), 0o600) // a service that was restarted begins its log again
		case "two\nthree\nnew\n":
			cancel()
		}
	}
	if err := Tail(ctx, log, 1, true, &got); err != nil {
		t.Fatal(err)
	}
	if got.String() != "two\nthree\nnew\n" {
		t.Errorf("got %q", got.String())
	}
}

type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	when func(string)
}

func (w *watched) String() string { return w.buf.String() }

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	w.when(w.buf.String())
	return len(p), nil
}
