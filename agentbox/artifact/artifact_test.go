package artifact

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"test-results/**", "test-results/a/b.xml", true}, {"test-results/**", "test-results", true}, {"**/*.xml", "a.xml", true}, {"**/*.xml", "a/b/c.xml", true},
		{"**/*.xml", "a.txt", false}, {"dist", "dist/a/b", true}, {"dist", "distance", false}, {"*.log", "a/b.log", false}, {"a/*/c", "a/b/c", true},
		{"a/*/c", "a/b/d/c", false}, {"a/**/c", "a/b/d/c", true}, {"a/**/c", "a/c", true}, {"**", "x", true}, {"[ab].txt", "a.txt", true},
	} {
		if got := match(c.glob, c.name); got != c.want {
			t.Errorf("%s, %s: %v", c.glob, c.name, got)
		}
	}
	match(strings.Repeat("**/a/", 200), strings.Repeat("a/", 500)+"b") // in no more than the product of the two
	if got := Prefixes([]string{"a/b/*.x", "dist"}); strings.Join(got, " ") != "a/b dist" {
		t.Errorf("%q", got)
	}
	if got := Prefixes([]string{"a", "**/x"}); strings.Join(got, " ") != "." {
		t.Errorf("%q", got)
	}
}

// archive has a file for each name: its content is the name's own.
func archive(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, h.Name)
		}
	}
	w.Close()
	return &b
}

func TestCollectStaysInDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "artifacts")
	in := archive(t, tar.Header{Name: "out/a"}, tar.Header{Name: "../out/b"}, tar.Header{Name: "/out/c"}, tar.Header{Name: "out/../../d"},
		tar.Header{Name: "out/link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "out/link/passwd"}, tar.Header{Name: "out/hard", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		tar.Header{Name: "out/a"}, tar.Header{Name: "out/a/below"}, tar.Header{Name: "out/\x1b[2J"}, tar.Header{Name: "out/pipe", Typeflag: tar.TypeFifo}, tar.Header{Name: "not"})
	got, err := Collect(t.Context(), in, []string{"out/**", "**/out/**", "**/d", "/out/c"}, dir, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Files {
		names = append(names, f.Name)
	}
	if kept := strings.Join(names, " "); kept != "out/a out/link/passwd" || len(got.Notes) < 7 || got.Lost != len(got.Notes)-2 { // the link is left out: its name is free; it and the pipe have no content
		t.Errorf("%q, %d lost\n%s", kept, got.Lost, strings.Join(got.Notes, "\n"))
	}
	above, _ := os.ReadDir(filepath.Dir(dir))
	if len(above) != 1 {
		t.Errorf("%v", above)
	}
}

func TestBounds(t *testing.T) {
	in := archive(t, tar.Header{Name: "12345"}, tar.Header{Name: "123456"}, tar.Header{Name: "1234"}, tar.Header{Name: "123"}, tar.Header{Name: "12"})
	got, err := Collect(t.Context(), in, []string{"**"}, t.TempDir(), Limits{Files: 2, Bytes: 10})
	if err != nil || len(got.Files) != 2 || len(got.Notes) != 3 || got.Lost != 3 {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := Collect(t.Context(), strings.NewReader(strings.Repeat("x", 2048)), []string{"**"}, t.TempDir(), DefaultLimits); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("%v", err)
	}
}

// What the box did not send, as it is too large, is lost and not empty.
func TestCollectTooLarge(t *testing.T) {
	in := archive(t, tar.Header{Name: "large", Format: tar.FormatPAX, PAXRecords: map[string]string{SizeRecord: "1099511627776"}}, tar.Header{Name: "kept"})
	got, err := Collect(t.Context(), in, []string{"**"}, t.TempDir(), DefaultLimits)
	if want := []string{"large is left out: it is too large (1099511627776 bytes)"}; err != nil || len(got.Files) != 1 || got.Lost != 1 || !slices.Equal(got.Notes, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A name may make as many directories as it has parts, kept or not.
func TestDirectoriesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var deep, refused []tar.Header
	for i := range 40 {
		deep = append(deep, tar.Header{Name: fmt.Sprintf("f%d/%sx", i, strings.Repeat("d/", 500))})
		refused = append(refused, tar.Header{Name: fmt.Sprintf("r%d/%s%s/x", i, strings.Repeat("d/", 30), strings.Repeat("n", 256))}, tar.Header{Name: fmt.Sprintf("s%d/%s", i, strings.Repeat("n", 256))})
	}
	got, err := Collect(t.Context(), archive(t, append(append(deep, refused...), tar.Header{Name: "kept"})...), []string{"**"}, dir, DefaultLimits)
	if err != nil || len(got.Files) != 1 || got.Files[0].Name != "kept" || got.Lost != 120 {
		t.Errorf("%+v, %v", got, err)
	}
	if made, _ := os.ReadDir(dir); len(made) != 1 {
		t.Errorf("%d names are left", len(made))
	}
}

// Whatever names the files have, the statement about as many as are kept can be read.
func TestLargeStatement(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	var files []File
	for i := range DefaultLimits.Files {
		name := fmt.Sprintf("%04d", i) + strings.Repeat("<", 200) + "/" + strings.Repeat(strings.Repeat("<", 254)+"/", 3)
		files = append(files, File{Name: name + strings.Repeat("&", 1024-len(name)), SHA256: strings.Repeat("0", 64)})
		if !validName(files[i].Name) {
			t.Fatalf("%q is no name", files[i].Name)
		}
	}
	envelope, err := Sign(t.Context(), NewStatement(files, Predicate{}), private)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), bytes.NewReader(envelope), public); err != nil || len(s.Subject) != len(files) {
		t.Errorf("%d files in %d bytes: %v", len(s.Subject), len(envelope), err)
	}
}

func TestStatementListsFiles(t *testing.T) {
	dir := t.TempDir()
	collected, err := Collect(t.Context(), archive(t, tar.Header{Name: "a"}, tar.Header{Name: "b"}, tar.Header{Name: "c"}), []string{"**"}, dir, DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	public, key, _ := ed25519.GenerateKey(nil)
	envelope, err := Sign(t.Context(), NewStatement(collected.Files, Predicate{Task: "t-1"}), key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), bytes.NewReader(envelope), public)
	if err != nil || s.Predicate.Task != "t-1" {
		t.Fatalf("%+v %v", s, err)
	}
	os.Remove(filepath.Join(dir, "a"))
	os.WriteFile(filepath.Join(dir, "b"), []byte("B"), 0o600)
	os.WriteFile(filepath.Join(dir, "d"), nil, 0o600)
	got, err := Check(s, dir)
	var states []string
	for _, f := range got {
		states = append(states, f.Name+" "+f.State)
	}
	if want := "a missing, b changed, c ok, d unknown"; strings.Join(states, ", ") != want || err != nil {
		t.Errorf("%s, %v", strings.Join(states, ", "), err)
	}
	other, _, _ := ed25519.GenerateKey(nil)
	if _, err := Open(t.Context(), bytes.NewReader(envelope), other); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another's key: %v", err)
	}
	var e map[string]any
	json.Unmarshal(envelope, &e)
	e["payload"] = "e30="
	b, _ := json.Marshal(e)
	if _, err := Open(t.Context(), bytes.NewReader(b), public); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("another payload: %v", err)
	}
	// A signature says who wrote it, and not that it makes sense.
	for _, f := range []File{{Name: "../x", SHA256: collected.Files[0].SHA256}, {Name: "x", SHA256: "no"}} {
		evil, _ := Sign(t.Context(), NewStatement([]File{f}, Predicate{}), key)
		if _, err := Open(t.Context(), bytes.NewReader(evil), public); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	envelope, _ := Sign(f.Context(), NewStatement([]File{{Name: "a", SHA256: strings.Repeat("0", 64)}}, Predicate{}), key)
	f.Add(envelope)
	f.Add([]byte(`{"payloadType":"application/vnd.in-toto+json","payload":"e30","signatures":[{"sig":"AA=="},{"sig":"*"}]}`))
	want, _ := Open(f.Context(), bytes.NewReader(envelope), key.Public().(ed25519.PublicKey))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Open(t.Context(), bytes.NewReader(b), key.Public().(ed25519.PublicKey))
		if err != nil {
			return
		}
		got, _ := json.Marshal(s)
		if whole, _ := json.Marshal(want); !bytes.Equal(got, whole) {
			t.Errorf("it was not signed: %s", got)
		}
	})
}

func FuzzCollect(f *testing.F) {
	f.Add([]byte("x"), "**")
	f.Fuzz(func(t *testing.T, b []byte, glob string) {
		above := t.TempDir()
		got, _ := Collect(t.Context(), bytes.NewReader(b), []string{glob}, filepath.Join(above, "in"), Limits{Files: 3, Bytes: 1000})
		entries, _ := os.ReadDir(above)
		if len(entries) != 1 || len(got.Files) > 3 {
			t.Errorf("%v %v", entries, got)
		}
	})
}

func TestLockfilesHaveDigests(t *testing.T) {
	got, err := Digests(t.Context(), archive(t, tar.Header{Name: "./go.sum"}, tar.Header{Name: "go.sum"}, tar.Header{Name: "other"}, tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "go.sum"}),
		[]string{"go.sum", "link", "none"})
	sum := sha256.Sum256([]byte("./go.sum"))
	if want := "sha256:" + hex.EncodeToString(sum[:]); err != nil || len(got) != 1 || got["go.sum"] != want {
		t.Errorf("%v %v, want %s", got, err, want)
	}
}

func FuzzDigests(f *testing.F) {
	f.Add([]byte("x"), "go.sum")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		got, _ := Digests(t.Context(), bytes.NewReader(b), []string{name})
		for found := range got {
			if found != name {
				t.Errorf("%q", found)
			}
		}
	})
}
