package programs

import (
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
	"agentbox/agentbox/packed"
)

// built is what a build embeds, with programs of a few bytes.
func built(t *testing.T, build string) fstest.MapFS {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range []string{home.DaemonProgram, home.SupervisorProgram} {
		content := []byte(name + " of " + build)
		about, err := json.Marshal(packed.About{Size: int64(len(content)), Digest: sha256.Sum256(content)})
		if err != nil {
			t.Fatal(err)
		}
		files[in(files, name).Name+".zst"] = &fstest.MapFile{Data: enc.EncodeAll(content, nil)}
		files[in(files, name).Name+".json"] = &fstest.MapFile{Data: about}
	}
	return files
}

func wantProgram(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	info, statErr := os.Stat(path)
	if err != nil || statErr != nil || string(b) != want || info.Mode().Perm()&0o111 == 0 {
		t.Errorf("%s: %q, %v, %v, want %q, executable", path, b, err, info, want)
	}
}

// A build unpacks its own programs, mends what a full disk cut off, and removes those of the build
// before it.
func TestUnpack(t *testing.T) {
	root := filepath.Join(t.TempDir(), "programs")
	first, err := unpack(built(t, "v1"), root, home.DaemonProgram, home.SupervisorProgram)
	if err != nil {
		t.Fatal(err)
	}
	wantProgram(t, first, "agentbox-daemon of v1")
	supervisor := filepath.Join(filepath.Dir(first), home.SupervisorProgram)
	wantProgram(t, supervisor, "agentbox-supervisor of v1")
	before, err := os.Stat(first)
	if err == nil {
		err = os.WriteFile(supervisor, []byte("agentbox-su"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := unpack(built(t, "v1"), root, home.DaemonProgram, home.SupervisorProgram); err != nil || again != first {
		t.Errorf("again: %q, %v", again, err)
	}
	wantProgram(t, supervisor, "agentbox-supervisor of v1")
	if after, err := os.Stat(first); err != nil || !os.SameFile(before, after) {
		t.Errorf("a program that was there was written again (%v)", err)
	}
	second, err := unpack(built(t, "v2"), root, home.DaemonProgram, home.SupervisorProgram)
	if err != nil {
		t.Fatal(err)
	}
	wantProgram(t, second, "agentbox-daemon of v2")
	if left, _ := filepath.Glob(filepath.Join(root, "*")); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestUnpackRefusals(t *testing.T) {
	root := filepath.Join(t.TempDir(), "programs")
	if _, err := unpack(fstest.MapFS{}, root, home.DaemonProgram, home.SupervisorProgram); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("a build without programs: %v", err)
	}
	files := built(t, "v1")
	files[in(files, home.DaemonProgram).Name+".zst"].Data[12] ^= 1
	if _, err := unpack(files, root, home.DaemonProgram, home.SupervisorProgram); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged program: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*", home.DaemonProgram)); left != nil {
		t.Errorf("left: %v", left)
	}
}
