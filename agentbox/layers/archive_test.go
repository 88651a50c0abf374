package layers

import (
	"archive/tar"
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"agentbox/cachestore/blob"
	"agentbox/mesh/exchange"
)

// makeDir writes files into a new directory.
func makeDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

func TestArchiveRoundTrip(t *testing.T) {
	files := map[string]string{"manifest.json": "{}", "memory.pages": "many", "empty": ""}
	from := makeDir(t, files)
	if err := os.WriteFile(filepath.Join(from, "origin.json"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pack(&b, from); err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := unpack(&b, to, 100); err != nil {
		t.Fatal(err)
	}
	if got := filesIn(t, to); !maps.Equal(got, files) {
		t.Errorf("%v", got)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "link")); err != nil {
		t.Fatal(err)
	}
	if err := pack(&b, from); err == nil {
		t.Error("a link is taken for a file")
	}
}

// tarOf is an archive as somebody else may write it.
func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileArchivesAreRefused(t *testing.T) {
	many := make([]tar.Header, maxFiles+1)
	for i := range many {
		many[i] = tar.Header{Typeflag: tar.TypeReg, Name: "f" + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + string(rune('a'+i/676))}
	}
	for what, b := range map[string][]byte{
		"a path":     tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "../out"}),
		"absolute":   tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "/tmp/out"}),
		"a link":     tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}),
		"a device":   tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "a"}),
		"hidden":     tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: ".a"}),
		"an origin":  tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "origin.json"}),
		"twice":      tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a"}, tar.Header{Typeflag: tar.TypeReg, Name: "a"}),
		"too large":  tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 60}, tar.Header{Typeflag: tar.TypeReg, Name: "b", Size: 60}),
		"too many":   tarOf(t, many...),
		"no archive": bytes.Repeat([]byte("x"), 1024),
		"cut off":    tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 60})[:520],
	} {
		dir := t.TempDir()
		if err := unpack(bytes.NewReader(b), dir, 100); err == nil {
			t.Errorf("%s: %v", what, filesIn(t, dir))
		}
	}
}

// FuzzArchive unpacks what builders of the team send: whatever it is, nothing is outside of the
// directory, nor is it larger than its bound.
func FuzzArchive(f *testing.F) {
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "manifest.json", Size: 5}))
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = unpack(bytes.NewReader(b), dir, limit)
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Fatalf("%v, %v", entries, err)
		}
		sum := int64(0)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || !isFileName(e.Name()) {
				t.Fatalf("%s %v %v", e.Name(), info, err)
			}
			sum += info.Size()
		}
		if sum > limit {
			t.Fatalf("%d bytes", sum)
		}
	})
}

// A template has some of its image in its memory.
func TestTemplateIsSharedLikeItsImage(t *testing.T) {
	dir := t.TempDir()
	images := imagesIn(t, dir)
	img, _ := someImage(t, t.TempDir())
	archives := Archives{Store: images.Store}
	key := blob.Sum([]byte("key")).Hex()
	if err := archives.Add(t.Context(), TemplateName(key, img.Digest), makeDir(t, map[string]string{"memory": "m"})); err != nil {
		t.Fatal(err)
	}
	s := &Sharing{Store: images.Store, File: filepath.Join(dir, "shared.json")}
	offered := func() bool {
		t.Helper()
		offers, err := s.Offers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names, err := archives.Templates(t.Context())
		if err != nil || len(names) != 1 {
			t.Fatalf("%v, %v", names, err)
		}
		served := s.Shared(t.Context(), exchange.PeerID{}, names[0].Manifest)
		said := false
		for _, o := range offers {
			said = said || o.Template == key
			if o.Template == key && !o.Key.IsZero() {
				t.Errorf("a template is offered as what setup made, too: %+v", o)
			}
		}
		if said != served {
			t.Errorf("offered %v, served %v", said, served)
		}
		return said
	}
	if offered() {
		t.Error("a template of an image that the team has not")
	}
	manifest, err := images.Add(t.Context(), img, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !offered() {
		t.Error("a template of a shared image is not offered")
	}
	if err := s.Share(manifest, false); err != nil {
		t.Fatal(err)
	}
	if offered() {
		t.Error("a template of an image that is shared no more")
	}
	if err := archives.ForgetTemplate(t.Context(), key); err != nil {
		t.Error(err)
	}
	if names, err := archives.Templates(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	if err := archives.ForgetTemplate(t.Context(), key); err != nil { // a second time
		t.Error(err)
	}
}
