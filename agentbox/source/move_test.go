package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// send brings a source to another store and returns the bytes that it took.
func bring(t testing.TB, from, to *Store, d agentbox.Digest) (Captured, int) {
	t.Helper()
	var manifest, stream bytes.Buffer
	err := from.Manifest(d, &manifest)
	missing, missingErr := to.Missing(&manifest)
	if err := errors.Join(err, missingErr, from.Export(t.Context(), d, missing, &stream)); err != nil {
		t.Fatal(err)
	}
	size := stream.Len()
	c, release, err := to.Import(t.Context(), &stream)
	if err != nil {
		t.Fatal(err)
	}
	release()
	return c, size
}

// A source arrives as it was, and again without what is there already.
func TestImport(t *testing.T) {
	dir := repository(t, `head -c 300000 /dev/urandom >big; cp -p big same; cp big other; ln -s /etc/passwd out; mkdir e; git init -q sub; echo u >sub/u; chmod 600 big; echo more >>a`)
	here, there := newStore(t), newStore(t)
	c := capture1(t, here, dir)
	got, size := bring(t, here, there, c.Digest())
	if got.Digest() != c.Digest() || got.Project() != app {
		t.Errorf("%s of %s arrived as %s", c.Digest(), got.Project(), got.Digest())
	}
	one, two := apply(t, c), apply(t, got)
	shell(t, one, `diff -r --no-dereference . "$0"; test "$(git status --porcelain=v2)" = "$(git -C "$0" status --porcelain=v2)"
		list() { find . -type d -prune -o -printf "%p %m %T@ %l\n" | sort; }; test "$(list)" = "$(cd "$0"; list)"`, two)
	if size < 300000 {
		t.Errorf("%d bytes", size)
	}
	shell(t, dir, "echo more >>a; git commit -qam more")
	if _, size := bring(t, here, there, capture1(t, here, dir).Digest()); size > 50000 {
		t.Errorf("a small change took %d bytes", size)
	}
}

// What is not what it says leaves nothing.
func TestImportRefuses(t *testing.T) {
	dir := repository(t, "")
	here := newStore(t)
	c := capture1(t, here, dir)
	m, err := here.readManifest(c.Digest())
	if err != nil {
		t.Fatal(err)
	}
	var all []agentbox.Digest
	for _, e := range m.Entries {
		all = append(all, e.Digest)
	}
	var stream bytes.Buffer
	if err := here.Export(t.Context(), c.Digest(), all, &stream); err != nil {
		t.Fatal(err)
	}
	whole := stream.String()
	for name, text := range map[string]string{
		"cut short":         whole[:len(whole)-10],
		"without its end":   strings.TrimSuffix(whole, "end\n"),
		"another content":   strings.Replace(whole, " 4\none\n", " 4\neno\n", 1),
		"another size":      strings.Replace(whole, " 4\none\n", " 5\none\n\n", 1),
		"a file twice":      strings.Replace(whole, "end\n", whole[strings.Index(whole, "\nd 755")+1:], 1),
		"out of its tree":   strings.ReplaceAll(whole, `"d/b"`, `"d/../../b"`),
		"through a link":    strings.Replace(whole, `"d/b"`, `"l/b"`, 1),
		"nothing":           "",
		"no repository":     strings.ReplaceAll(whole, `.git/HEAD"`, `.git/HEAT"`),
		"an endless header": streamHeader + " 9999999999999999\n",
	} {
		there := newStore(t)
		if _, _, err := there.Import(t.Context(), strings.NewReader(text)); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
		left, err := os.ReadDir(there.Dir)
		if err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, %v", name, left, err)
		}
	}
	var without bytes.Buffer
	if err := here.Export(t.Context(), c.Digest(), nil, &without); err != nil {
		t.Fatal(err)
	}
	if _, _, err := newStore(t).Import(t.Context(), &without); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("what never came is there: %v", err)
	}
}

// FuzzImport looks for a stream that writes outside of the store.
func FuzzImport(f *testing.F) {
	for _, line := range []string{"f 644 0 1 %s \"../../../x\"\n", "l 1 \"/tmp\" \"a\"\nf 644 0 1 %s \"a/x\"\n"} {
		f.Add([]byte(streamHeader + " 100\n" + header + "\nproject \"p\"\nd 755 \".\"\n" + line + "end\n"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		s, err := OpenStore(filepath.Join(dir, "inner", "sources"))
		if err != nil {
			t.Fatal(err)
		}
		if _, release, err := s.Import(t.Context(), bytes.NewReader(text)); err == nil {
			release()
		}
		for _, d := range []string{dir, filepath.Join(dir, "inner")} {
			if left, err := os.ReadDir(d); err != nil || len(left) != 1 {
				t.Errorf("%v, %v", left, err)
			}
		}
	})
}
