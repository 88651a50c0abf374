package runsc

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
	"agentbox/agentbox/packed"
)

// built is what a build embeds, with programs of a few bytes.
func built(t *testing.T, version string) fstest.MapFS {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, program := range []string{runscName, launchName} {
		content := []byte(program + " of " + version)
		about, err := json.Marshal(packed.About{Version: version, Size: int64(len(content)), Digest: sha256.Sum256(content)})
		if err != nil {
			t.Fatal(err)
		}
		files[embeddedIn(files, program).Name+".zst"] = &fstest.MapFile{Data: enc.EncodeAll(content, nil)}
		files[embeddedIn(files, program).Name+".json"] = &fstest.MapFile{Data: about}
	}
	return files
}

func unpacker(root string, from fstest.MapFS) *Unpacker {
	agent := []byte("agent")
	u := New(root, Agent{
		Digest: func() (agentbox.Digest, error) { return sha256.Sum256(agent), nil },
		Bytes:  func() ([]byte, error) { return agent, nil },
	})
	u.from = from
	return u
}

func ensure(t *testing.T, u *Unpacker) Programs {
	t.Helper()
	p, err := u.Ensure()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestUnpackOnceAndVerifyAlways(t *testing.T) {
	root, from := t.TempDir(), built(t, "v1")
	p := ensure(t, unpacker(root, from))
	first, err := os.Stat(p.Runsc)
	if err != nil || first.Mode().Perm() != 0o755 || p.Version != "v1" {
		t.Fatalf("%+v, %v, %v", p, first, err)
	}
	if again := ensure(t, unpacker(root, from)); again != p {
		t.Errorf("another process finds %+v, not %+v", again, p)
	}
	if same, err := os.Stat(p.Runsc); err != nil || !os.SameFile(first, same) {
		t.Errorf("it was unpacked twice (%v)", err)
	}

	for what, damage := range map[string]func(path string) error{
		"a changed file": func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte("runsc of vX"), 0o755); err != nil { // as long as before
				return err
			}
			return os.Chtimes(path, time.Now(), info.ModTime())
		},
		"a file that is gone": os.Remove,
		"a link in its place": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("/bin/sh", path)
		},
	} {
		for _, u := range []*Unpacker{unpacker(root, from), unpacker(root, from)} {
			ensure(t, u) // one that remembers what it saw
			if err := damage(p.Runsc); err != nil {
				t.Fatal(err)
			}
			ensure(t, u)
			if b, err := os.ReadFile(p.Runsc); err != nil || string(b) != "runsc of v1" {
				t.Errorf("after %s: %q, %v", what, b, err)
			}
		}
	}
}

func TestOtherVersionReplacesOld(t *testing.T) {
	root := t.TempDir()
	old := ensure(t, unpacker(root, built(t, "v1")))
	p := ensure(t, unpacker(root, built(t, "v2")))
	if p.Runsc == old.Runsc || p.Digest == old.Digest {
		t.Errorf("two versions share %s", p.Runsc)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNotBuilt(t *testing.T) {
	whole := built(t, "v1")
	for name := range whole {
		lacking := fstest.MapFS{}
		for n, f := range whole {
			if n != name {
				lacking[n] = f
			}
		}
		if _, err := unpacker(t.TempDir(), lacking).Ensure(); agentbox.CodeOf(err) != agentbox.Missing {
			t.Errorf("without %s: %v", name, err)
		}
		damaged := fstest.MapFS{}
		maps.Copy(damaged, whole)
		damaged[name] = &fstest.MapFile{Data: append([]byte("x"), whole[name].Data...)}
		root := t.TempDir()
		if _, err := unpacker(root, damaged).Ensure(); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("with a damaged %s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(root, "*", ".*")); len(left) > 0 {
			t.Errorf("with a damaged %s, left behind: %v", name, left)
		}
	}
}

func TestDamagedAgent(t *testing.T) {
	root := t.TempDir()
	u := unpacker(root, built(t, "v1"))
	u.agent.Bytes = func() ([]byte, error) { return []byte("another"), nil }
	if _, err := u.Ensure(); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("it was unpacked: %v", err)
	}
}

func TestNoRoom(t *testing.T) {
	root := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(root, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := unpacker(root, built(t, "v1")).Ensure(); err == nil {
		t.Error("programs were unpacked below a file")
	}
}
