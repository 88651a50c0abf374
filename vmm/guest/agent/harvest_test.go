//go:build linux

package agent

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentbox/vmm/guest/protocol"
)

// harvested runs a harvest and gives its entries: name -> content, or "-> target" of a link, or "/" of a directory.
func harvested(t *testing.T, req protocol.HarvestRequest) map[string]string {
	t.Helper()
	var buf bytes.Buffer
	if err := harvest(req, &buf); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	r := tar.NewReader(&buf)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch h.Typeflag {
		case tar.TypeDir:
			out[h.Name] = "/"
		case tar.TypeSymlink, tar.TypeLink:
			out[h.Name] = "-> " + h.Linkname
		default:
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			out[h.Name] = string(b)
		}
	}
}

func plant(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestHarvestGivesWhatChangedSince(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/old", "old")
	plant(t, root+"/dir/old", "old")
	// The change time of a file cannot be set, so the test waits for the clock of the file system to go on.
	var since time.Time
	for probe := root + "/probe"; ; {
		plant(t, probe, "x")
		info, err := os.Stat(probe)
		if err != nil {
			t.Fatal(err)
		}
		since = time.Unix(stat(info).Ctim.Unix())
		old, err := os.Stat(root + "/dir/old")
		if err != nil {
			t.Fatal(err)
		}
		if since.After(time.Unix(stat(old).Ctim.Unix())) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	plant(t, root+"/new", "new")
	plant(t, root+"/skipped/new", "no")
	plant(t, root+"/odd name\n", "odd")
	if err := errors.Join(os.Link(root+"/new", root+"/twin"), os.Symlink("nowhere", root+"/link")); err != nil {
		t.Fatal(err)
	}
	// A file that looks old, as unpacked ones do, has changed all the same.
	if err := os.Chtimes(root+"/new", time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	got := harvested(t, protocol.HarvestRequest{Root: root, Since: since, Skip: []string{root + "/skipped", root + "/probe"}})
	want := map[string]string{"new": "new", "twin": "-> new", "link": "-> nowhere", "odd name\n": "odd"}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%q is %q, want %q", name, got[name], content)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("besides: %v", got)
	}
}

func TestHarvestGivesNamedPathsWhole(t *testing.T) {
	root := t.TempDir()
	plant(t, root+"/home/cache/a", "a")
	plant(t, root+"/home/cache/deep/b", "b")
	plant(t, root+"/home/other", "no")
	got := harvested(t, protocol.HarvestRequest{Root: root, Since: time.Now().Add(time.Hour), Paths: []string{root + "/home/cache", root + "/missing"}})
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := "home/ home/cache/ home/cache/a home/cache/deep/ home/cache/deep/b"; strings.Join(names, " ") != want {
		t.Errorf("got %q, want %s", names, want)
	}
}

func TestHarvestSaysWhatItCannotRead(t *testing.T) {
	if err := harvest(protocol.HarvestRequest{Root: t.TempDir() + "/gone"}, io.Discard); err == nil {
		t.Error("a root that is not there gave a harvest")
	}
}
