package kernel

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
)

// remoteParts writes parts as another machine would send them.
func remoteParts(t *testing.T, dir string, change func(p *parts, files map[string][]byte)) {
	t.Helper()
	image := fakeImage("6.1.0-56-cloud")
	p := &parts{Release: "6.1.0-56-cloud", Vmlinuz: digest(image), Modules: []module{{Name: "m", Digest: digest([]byte("m"))}}}
	files := map[string][]byte{FileVmlinuz: image, "m.ko": []byte("m")}
	change(p, files)
	list, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if files[FileManifest] == nil {
		files[FileManifest] = list
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRemoteKernel(t *testing.T) {
	root := t.TempDir()
	asked := 0
	c := Config{Root: root, Agent: []byte("agent"), FetchRemote: func(_ context.Context, dir string) (string, error) {
		asked++
		remoteParts(t, dir, func(*parts, map[string][]byte) {})
		return "peer", nil
	}}
	p, err := c.fetchRemote(t.Context(), filepath.Join(root, "fetched"))
	if err != nil || p.Release != "6.1.0-56-cloud" {
		t.Fatalf("%+v, %v", p, err)
	}
	// It is as one that was fetched here, and asked for once.
	dir, err := Ensure(t.Context(), c)
	if err != nil || asked != 1 || verify(dir) != nil {
		t.Fatalf("%s, asked %d times, %v", dir, asked, err)
	}
	list, err := ListFetched(root)
	if err != nil || len(list) != 1 || list[0].By != "peer" || list[0].Release != p.Release {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := Drop(t.Context(), root, func(by string) bool { return by == "another" }); err != nil || verify(dir) != nil {
		t.Errorf("%v, %v", err, verify(dir))
	}
	// Whose word does not count any more: nothing is left of it.
	if err := Drop(t.Context(), root, func(by string) bool { return by == "peer" }); err != nil {
		t.Error(err)
	}
	if list, err := ListFetched(root); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("what was made of it is still there")
	}
}

// Parts of an unknown member may be those of one that was revoked.
func TestDropRemovesUnknownOrigin(t *testing.T) {
	root := t.TempDir()
	c := Config{Root: root, FetchRemote: func(_ context.Context, dir string) (string, error) {
		remoteParts(t, dir, func(*parts, map[string][]byte) {})
		return "peer", nil
	}}
	fetched := filepath.Join(root, "fetched")
	p, err := c.fetchRemote(t.Context(), fetched)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fetched, p.Release, FileOrigin), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := ListFetched(root); err == nil || len(list) != 1 || !list[0].Unknown {
		t.Errorf("%+v, %v", list, err)
	}
	if err := Drop(t.Context(), root, func(string) bool { return false }); err == nil {
		t.Error("the origin that cannot be read is no error")
	}
	if list, err := ListFetched(root); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestInvalidRemoteParts(t *testing.T) {
	for what, change := range map[string]func(p *parts, files map[string][]byte){
		"no list":        func(_ *parts, files map[string][]byte) { files[FileManifest] = []byte{} },
		"a long list":    func(_ *parts, files map[string][]byte) { files[FileManifest] = make([]byte, maxParts+1) },
		"another kernel": func(_ *parts, files map[string][]byte) { files[FileVmlinuz] = fakeImage("6.1.0-57-cloud") },
		"no kernel": func(p *parts, files map[string][]byte) {
			files[FileVmlinuz] = []byte("x")
			p.Vmlinuz = digest([]byte("x"))
		},
		"another release": func(p *parts, _ map[string][]byte) { p.Release = "../../6.1" },
		"another module":  func(_ *parts, files map[string][]byte) { files["m.ko"] = []byte("x") },
		"no module":       func(_ *parts, files map[string][]byte) { delete(files, "m.ko") },
	} {
		root := t.TempDir()
		c := Config{Root: root, FetchRemote: func(_ context.Context, dir string) (string, error) {
			remoteParts(t, dir, change)
			return "peer", nil
		}}
		if _, err := c.fetchRemote(t.Context(), filepath.Join(root, "fetched")); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
		if list, err := ListFetched(root); err != nil || len(list) != 0 {
			t.Errorf("%s: %+v, %v", what, list, err)
		}
	}
}

// FuzzRemoteParts reads the list of a kernel's parts that somebody else wrote.
func FuzzRemoteParts(f *testing.F) {
	f.Add([]byte(`{"release":"6.1","vmlinuz":"sha256:00","modules":[{"name":"../m"}]}`))
	f.Fuzz(func(t *testing.T, list []byte) {
		dir := t.TempDir()
		remoteParts(t, dir, func(_ *parts, files map[string][]byte) { files[FileManifest] = list })
		p, err := readRemote(dir)
		if err == nil && (p.Release != "6.1.0-56-cloud" || digest(p.vmlinuz) != p.Vmlinuz) {
			t.Errorf("%+v", p)
		}
	})
}
