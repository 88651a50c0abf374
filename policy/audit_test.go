package policy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func openLog(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := OpenLog(dir, "0123456789ab")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func appendN(t *testing.T, l *Log, n int) {
	t.Helper()
	for i := range n {
		if err := l.Append(Entry{Proto: TCP, Name: fmt.Sprintf("host%d.example", i), Reason: "odd \x00\xff\n bytes"}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogChainAcrossOpens(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		l := openLog(t, dir)
		appendN(t, l, 5)
		l.Close()
	}
	v, err := Verify(dir)
	if err != nil || v.Entries != 15 || v.First != 1 || v.Last != 15 {
		t.Errorf("verified %+v, %v", v, err)
	}
	var names []string
	if err := Read(dir, func(e Entry) error { names = append(names, e.Name+" "+e.Box); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(names) != 15 || names[6] != "host1.example 0123456789ab" {
		t.Errorf("read %q", names)
	}
}

func TestVerifyDetectsEveryChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(lines []string) []string
		want   string
	}{
		{"a byte", func(l []string) []string { l[3] = strings.Replace(l[3], "host3", "host9", 1); return l }, "log.jsonl:4: the line was changed"},
		{"a line removed", func(l []string) []string { return append(l[:3], l[4:]...) }, "log.jsonl:4: entry 5 follows entry 3"},
		{"two swapped", func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, "log.jsonl:4: entry 5 follows entry 3"},
		{"bytes before a line, more than a line has", func(l []string) []string { l[3] = strings.Repeat(" ", maxLine+1) + l[3]; return l }, "log.jsonl:4: the line is not an entry"},
		{"an endless line at the end", func(l []string) []string { return append(l, strings.Repeat("x", 3*maxLine)) }, "log.jsonl:9: the line is not an entry"},
		{"a line that is none", func(l []string) []string { l[2] = "{}\n"; return l }, "log.jsonl:3: the line is not an entry"},
		{"the beginning cut off and renumbered", func(l []string) []string {
			b, _, _ := encodeLine(strings.Repeat("1", 64), Entry{Seq: 1})
			return append([]string{string(b)}, l[1:]...)
		}, "log.jsonl:1: the first line follows another"},
		{"a line written anew", func(l []string) []string {
			d, _ := decodeLine([]byte(strings.TrimSuffix(l[4], "\n")))
			d.Allow = true
			b, _, _ := encodeLine(d.Prev, d.Entry)
			l[4] = string(b)
			return l
		}, "log.jsonl:6: the chain is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := openLog(t, dir)
			appendN(t, l, 8)
			l.Close()
			path := filepath.Join(dir, current)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := c.change(strings.SplitAfter(string(b), "\n"))
			if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("verify says %v, want %q", err, c.want)
			}
		})
	}
}

// A process that is killed while it writes leaves part of a line: wherever it was cut, the log goes
// on and says so.
func TestTornLineIsCutOff(t *testing.T) {
	for _, cut := range []int{1, 10, 200} {
		dir := t.TempDir()
		l := openLog(t, dir)
		appendN(t, l, 3)
		l.Close()
		path := filepath.Join(dir, current)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, info.Size()-int64(cut)); err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(dir); err != nil || v.Entries != 2 {
			t.Errorf("cut by %d: torn log verifies as %+v, %v", cut, v, err)
		}
		appendN(t, openLog(t, dir), 1)
		var kinds []string
		if err := Read(dir, func(e Entry) error { kinds = append(kinds, e.Kind); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(kinds, " "); got != "flow flow recovered flow" {
			t.Errorf("cut by %d: the log holds %s", cut, got)
		}
		if v, err := Verify(dir); err != nil || v.Last != 4 {
			t.Errorf("cut by %d: %+v, %v", cut, v, err)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.limit = 4 << 10
	appendN(t, l, 400)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var total int64
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if len(files) > segments || total > segments*l.limit {
		t.Errorf("%d files of %d bytes together", len(files), total)
	}
	v, err := Verify(dir)
	if err != nil || v.Last != 400 || v.First <= 1 || v.Entries != v.Last-v.First+1 {
		t.Errorf("verified %+v, %v", v, err)
	}
	l.Close()
	appendN(t, openLog(t, dir), 1)
	if v, err := Verify(dir); err != nil || v.Last != 401 {
		t.Errorf("after another open: %+v, %v", v, err)
	}
}

func TestFollowAcrossSegments(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.limit = 1 << 10
	appendN(t, l, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen, done := make(chan uint64), make(chan error, 1)
	go func() {
		done <- Follow(ctx, dir, 1, func(e Entry) error {
			select {
			case seen <- e.Seq:
			case <-ctx.Done():
			}
			return nil
		})
	}()
	if got := <-seen; got != 2 {
		t.Fatalf("first is entry %d", got)
	}
	appendN(t, l, 10)
	for want := uint64(3); want <= 12; want++ {
		if got := <-seen; got != want {
			t.Fatalf("entry %d, want %d", got, want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A log is read while its box goes on: a segment that is begun meanwhile hides no entry.
func TestReadDuringRotation(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir)
	l.limit = 1 << 10
	appendN(t, l, 12)
	var last uint64
	err := Read(dir, func(e Entry) error {
		if last == 0 {
			appendN(t, l, 6)
		}
		if e.Seq != last+1 {
			t.Errorf("entry %d follows entry %d", e.Seq, last)
		}
		last = e.Seq
		return nil
	})
	if err != nil || last < 12 {
		t.Errorf("the last one that is read is %d, %v", last, err)
	}
}

func FuzzAuditDecode(f *testing.F) {
	good, _, err := encodeLine(genesis, Entry{Seq: 1, Kind: KindFlow, Name: "example.com"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good[:len(good)-1])
	f.Add([]byte("{}"))
	f.Add([]byte(`{"seq":1,"prev":"","hash":"` + genesis + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLine(b)
		if err != nil {
			return
		}
		again, hash, err := encodeLine(l.Prev, l.Entry)
		if err != nil {
			return
		}
		if d, err := decodeLine(again[:len(again)-1]); err != nil || d.Hash != hash {
			t.Errorf("%q decodes, and its entry does not: %v", b, err)
		}
	})
}

// TestOpenKeepsTamperedEntries has every line of the current file changed: whoever did it must
// not have the next machine of the box clear the traces away.
func TestOpenKeepsTamperedEntries(t *testing.T) {
	for _, before := range []int{0, 5} { // entries in a full file before
		dir := t.TempDir()
		l := openLog(t, dir)
		appendN(t, l, before)
		if before > 0 {
			if err := l.rotate(); err != nil {
				t.Fatal(err)
			}
		}
		appendN(t, l, 1)
		l.Close()
		path := filepath.Join(dir, current)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(b), "host0", "host9", 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		appendN(t, openLog(t, dir), 2)
		if now, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(now), changed) {
			t.Errorf("after %d: the changed line is gone: %v", before, err)
		}
		if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), "log.jsonl:1: the line was changed") {
			t.Errorf("after %d: %v", before, err)
		}
	}
}
