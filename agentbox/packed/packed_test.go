package packed

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
)

// Pack, then Put, gives the program; the same again changes nothing; another one replaces both
// files.
func TestPackAndPut(t *testing.T) {
	dir := t.TempDir()
	program, out, file := filepath.Join(dir, "program"), filepath.Join(dir, "out"), filepath.Join(dir, "file")
	p := Program{From: os.DirFS(dir), Name: "out"}
	for _, content := range []string{"one", "one", "another"} {
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Pack(program, out, "v"); err != nil {
			t.Fatal(err)
		}
		if err := p.Put(file); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != content {
			t.Errorf("%q, %v, want %q", b, err, content)
		}
	}
}

func TestWhatIsNotTheProgramIsReplaced(t *testing.T) {
	dir := t.TempDir()
	program, out, file := filepath.Join(dir, "program"), filepath.Join(dir, "out"), filepath.Join(dir, "file")
	content := bytes.Repeat([]byte("x"), 4096)
	err := os.WriteFile(program, content, 0o600)
	if err == nil {
		err = Pack(program, out, "v")
	}
	if err == nil {
		err = os.Symlink(program, file) // has the bytes, but a link may change
	}
	p := Program{From: os.DirFS(dir), Name: "out"}
	if err == nil {
		err = p.Put(file)
	}
	if info, statErr := os.Lstat(file); err != nil || statErr != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v, %v", err, info, statErr)
	}
	if err := os.Truncate(out+".zst", 5); err != nil {
		t.Fatal(err)
	}
	if err := p.Put(filepath.Join(dir, "new")); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged program: %v", err)
	}
	if err := (Program{From: os.DirFS(dir), Name: "none"}).Put(file); agentbox.CodeOf(err) != agentbox.Missing {
		t.Errorf("no program: %v", err)
	}
}
