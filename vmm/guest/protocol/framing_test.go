package protocol

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"testing/iotest"
)

// lives feeds input in pieces of n bytes and returns what each life got, and the line it began
// with.
func lives(input []byte, n int) (lines []string, data []string) {
	s := Scanner{
		Data:  func(b []byte) { data[len(data)-1] += string(b) },
		Begin: func(l []byte) { lines, data = append(lines, string(l)), append(data, "") },
	}
	for len(input) > 0 {
		k := min(n, len(input))
		s.Feed(input[:k])
		input = input[k:]
	}
	return lines, data
}

func TestScannerSplitsAtAnyReadBoundary(t *testing.T) {
	half := Magic[:len(Magic)/2]
	input := "noise\x00\xff" + Magic + "one\nSSH-data\x00" + half + "more\x00\x00\xff" + Magic + "two\n" + half + Magic +
		"torn" + Magic + "three\nlast"
	for n := 1; n <= len(input); n++ {
		lines, data := lives([]byte(input), n)
		if got := strings.Join(lines, ","); got != "one,two,three" {
			t.Fatalf("reads of %d bytes: lines %q", n, got)
		}
		for i, want := range []string{"SSH-data\x00" + half + "more\x00\x00\xff", half, "last"} {
			rest, ok := strings.CutPrefix(data[i], want)
			if !ok || !strings.HasPrefix(Magic, rest) || len(rest) >= minHeld {
				t.Errorf("reads of %d bytes: life %d got %q, want %q and less than a packet's length of Magic", n, i, data[i], want)
			}
		}
	}
}

func TestScannerHoldsBackOnlyMagicPrefix(t *testing.T) {
	for end, want := range map[string]string{"abc": "abc", "abc\x00\xffa": "abc\x00\xffa", "abc\x00\xffag": "abc", "\x00\xffagent!": "\x00\xffagent!"} {
		if _, data := lives([]byte(Magic+"x\n"+end), 100); data[0] != want {
			t.Errorf("%q: the life got %q, want %q", end, data[0], want)
		}
	}
}

func TestScannerDropsEndlessLine(t *testing.T) {
	input := Magic + strings.Repeat("a", 3*MaxLine) + Magic + "ok\nyes"
	lines, data := lives([]byte(input), 4096)
	if len(lines) != 1 || lines[0] != "ok" || data[0] != "yes" {
		t.Errorf("lines %q data %q", lines, data)
	}
}

func TestReadReadySkipsOldLives(t *testing.T) {
	old, _ := AppendLife(nil, Ready{Token: "old"})
	ready, _ := AppendLife(nil, Ready{Token: "new", Kernel: "6.1"})
	input := "garbage\x00" + Magic[:9] + string(old) + "SSH traffic" + Magic + "{\"tok" + string(ready) + "SSH-2.0-x"
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(input)))
	got, err := ReadReady(r, "new")
	if err != nil || got.Kernel != "6.1" {
		t.Fatalf("ready %+v, %v", got, err)
	}
	rest := make([]byte, 9)
	if n, _ := r.Read(rest); string(rest[:n]) != "S" && string(rest[:n]) != "SSH-2.0-x" {
		t.Errorf("left %q", rest[:n])
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(Magic+"{}\nabc"+Magic+"x\n"), 3)
	f.Add([]byte("\x00\xff\x00\xff"+Magic), 1)
	f.Fuzz(func(t *testing.T, input []byte, n int) {
		if n <= 0 {
			return
		}
		wantLines, wantData := lives(input, len(input)+1)
		gotLines, gotData := lives(input, n)
		if strings.Join(wantLines, "|") != strings.Join(gotLines, "|") {
			t.Fatalf("reads of %d bytes change the lines: %q, %q", n, gotLines, wantLines)
		}
		for i := range wantData {
			rest, ok := strings.CutPrefix(gotData[i], wantData[i])
			if !ok || !strings.HasPrefix(Magic, rest) || len(rest) >= minHeld {
				t.Fatalf("life %d got %q, want %q", i, gotData[i], wantData[i])
			}
		}
	})
}

func FuzzReadReady(f *testing.F) {
	b, _ := AppendLife([]byte("noise"), Ready{Token: "t"})
	f.Add(b)
	f.Fuzz(func(t *testing.T, input []byte) {
		ready, err := ReadReady(bufio.NewReader(bytes.NewReader(input)), "t")
		if err == nil && ready.Token != "t" {
			t.Fatalf("token %q", ready.Token)
		}
	})
}

func FuzzParseHello(f *testing.F) {
	f.Add([]byte(`{"version":3,"token":"x","hostname":"a","machine_id":"0"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if h, err := ParseHello(line); err == nil && (h.Token == "" || len(h.HostKey) != 32) {
			t.Fatalf("accepted %+v", h)
		}
	})
}
