package protocol

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestJobFrameRoundTrip(t *testing.T) {
	b := AppendJobOffset(nil, 1<<40)
	b = AppendJobFrame(b, JobOutput, []byte("out"))
	b = AppendJobFrame(b, JobStderr, nil)
	b = AppendJobFrame(b, JobEnd, []byte(`{"status":137,"signal":"KILL"}`))
	r, buf := iotest.OneByteReader(bytes.NewReader(b)), make([]byte, MaxJobFrame)
	at, err := ReadJobFrame(r, buf)
	if err != nil || at.Offset() != 1<<40 {
		t.Fatalf("%+v, %v", at, err)
	}
	for _, want := range []string{"out", ""} {
		if f, err := ReadJobFrame(r, buf); err != nil || string(f.Data) != want {
			t.Fatalf("%+v, %v", f, err)
		}
	}
	end, err := ReadJobFrame(r, buf)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := end.Exit(); err != nil || e.Status != 137 || e.Signal != "KILL" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := ReadJobFrame(r, buf); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestInvalidJobFrames(t *testing.T) {
	for what, b := range map[string][]byte{
		"too long":         {'o', 0, 1, 0, 0},
		"unknown":          AppendJobFrame(nil, 'q', nil),
		"short position":   AppendJobFrame(nil, JobOffset, []byte{1}),
		"no JSON":          AppendJobFrame(nil, JobEnd, []byte("x")),
		"status 256":       AppendJobFrame(nil, JobEnd, []byte(`{"status":256}`)),
		"status -1":        AppendJobFrame(nil, JobEnd, []byte(`{"status":-1}`)),
		"an endless name":  AppendJobFrame(nil, JobEnd, []byte(`{"signal":"`+strings.Repeat("A", 17)+`"}`)),
		"cut short":        AppendJobFrame(nil, JobOutput, []byte("abc"))[:6],
		"cut short header": {'o', 0},
	} {
		if f, err := ReadJobFrame(bytes.NewReader(b), make([]byte, MaxJobFrame)); err == nil {
			t.Errorf("%s: %+v", what, f)
		}
	}
}

func FuzzReadJobFrame(f *testing.F) {
	f.Add(AppendJobOffset(AppendJobFrame(nil, JobOutput, []byte("x")), 7))
	f.Add(AppendJobFrame(nil, JobEnd, []byte(`{"status":1}`)))
	f.Fuzz(func(t *testing.T, input []byte) {
		r, buf := bytes.NewReader(input), make([]byte, MaxJobFrame)
		for {
			frame, err := ReadJobFrame(r, buf)
			if err != nil {
				return
			}
			if len(frame.Data) > MaxJobFrame || frame.Kind == JobOffset && len(frame.Data) != 8 {
				t.Fatalf("accepted %q with %d bytes", frame.Kind, len(frame.Data))
			}
		}
	})
}
