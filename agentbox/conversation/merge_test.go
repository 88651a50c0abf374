package conversation

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

var dirs = []string{".claude/projects"}

// entry is one of an archive under test.
type entry struct {
	name, text string
	kind       byte // tar.TypeReg where zero
	link       string
	age        time.Duration
}

func archive(t testing.TB, entries ...entry) *bytes.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o4777, Uid: 12, ModTime: time.Unix(1_700_000_000, 0).Add(-e.age)}
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.text))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b.Bytes())
}

func contents(t testing.TB, r io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || h.Mode != 0o600 || h.Uid != 0 || h.Linkname != "" {
			t.Errorf("kept as %+v", h)
		}
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is there twice", h.Name)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

func TestMergeKeepsNewAndOld(t *testing.T) {
	var out bytes.Buffer
	fresh := archive(t, entry{name: ".claude/projects/w/a.jsonl", text: "a2"}, entry{name: "./.claude/projects/w/b.jsonl", text: "b"})
	kept := archive(t, entry{name: ".claude/projects/w/a.jsonl", text: "a1"}, entry{name: ".claude/projects/w/c.jsonl", text: "c"})
	if err := Merge(&out, fresh, kept, dirs); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(contents(t, &out)); got != "map[.claude/projects/w/a.jsonl:a2 .claude/projects/w/b.jsonl:b .claude/projects/w/c.jsonl:c]" {
		t.Error(got)
	}
}

// Of what a box sends only plain files in their place get through, and no credentials.
func TestAttackMerge(t *testing.T) {
	in := func(name string) entry { return entry{name: ".claude/projects/" + name, text: "x"} }
	var out bytes.Buffer
	fresh := archive(t,
		in("good.jsonl"), in(".credentials.json"), in("w/AUTH.json"), in("id_ed25519"), in("w/x.pem"), in("../../.bashrc"), in("a/../../../b"), in("a//b"), in("a/./b"),
		in("new\nline"), in(`a\b`), in(strings.Repeat("x", maxName)),
		entry{name: "/.claude/projects/abs", text: "x"}, entry{name: "../.claude/projects/up", text: "x"}, entry{name: ".claude/projectsx/beside", text: "x"}, entry{name: ".bashrc", text: "x"},
		entry{name: ".claude/projects/link", kind: tar.TypeSymlink, link: "/etc/passwd"}, entry{name: ".claude/projects/hard", kind: tar.TypeLink, link: "/etc/passwd"},
		entry{name: ".claude/projects/fifo", kind: tar.TypeFifo}, entry{name: ".claude/projects/dev", kind: tar.TypeBlock}, entry{name: ".claude/projects/dir", kind: tar.TypeDir},
		entry{name: ".claude/projects/dir/under-link", text: "x"}, in("twice"), in("twice"),
	)
	if err := Merge(&out, fresh, nil, dirs); err != nil {
		t.Fatal(err)
	}
	got := contents(t, &out)
	for name := range got {
		if !slices.Contains([]string{".claude/projects/good.jsonl", ".claude/projects/dir/under-link", ".claude/projects/twice"}, name) {
			t.Errorf("%q got through", name)
		}
	}
	if len(got) != 3 {
		t.Errorf("kept %v", got)
	}
}

func TestOldestIsDroppedFirst(t *testing.T) {
	var entries []entry
	for i := range MaxFiles + 10 {
		entries = append(entries, entry{name: fmt.Sprintf(".claude/projects/%d", i), text: "x", age: time.Duration(i) * time.Hour})
	}
	var out bytes.Buffer
	if err := Merge(&out, archive(t, entries...), nil, dirs); err != nil {
		t.Fatal(err)
	}
	got := contents(t, &out)
	if _, oldest := got[entries[MaxFiles].name]; oldest || len(got) != MaxFiles {
		t.Errorf("%d files are kept", len(got))
	}
	out.Reset()
	half := strings.Repeat("x", MaxBytes/2)
	big := archive(t, entry{name: ".claude/projects/old", text: half, age: time.Hour}, entry{name: ".claude/projects/new", text: half}, entry{name: ".claude/projects/newest", text: "x", age: -time.Hour})
	if err := Merge(&out, big, nil, dirs); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, &out); len(got) != 2 || got[".claude/projects/old"] != "" {
		t.Errorf("%d files are kept", len(got))
	}
}

func FuzzMerge(f *testing.F) {
	seed := archive(f, entry{name: ".claude/projects/a", text: "a"}, entry{name: "../x", text: "b"})
	b, err := io.ReadAll(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if Merge(&out, bytes.NewReader(b), nil, dirs) != nil {
			return
		}
		for name := range contents(t, &out) {
			if !strings.HasPrefix(name, ".claude/projects/") || strings.Contains(name, "..") && strings.Contains("/"+name+"/", "/../") {
				t.Errorf("%q got through", name)
			}
		}
	})
}
