package local

import (
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

func TestCopyServiceLogs(t *testing.T) {
	r, id, to := Records{Home: home.Home{Dir: t.TempDir()}}, agentbox.NewBoxID(), filepath.Join(t.TempDir(), "services")
	from := r.Home.Box(id).ServiceLogs()
	if err := os.MkdirAll(from, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"web.log": "hello\n", ".hidden.log": "x", "other": "x"} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, err := r.CopyServiceLogs(id, to)
	b, readErr := os.ReadFile(filepath.Join(to, "web.log"))
	if err != nil || readErr != nil || len(names) != 1 || names[0] != "web" || string(b) != "hello\n" {
		t.Errorf("%v %v, %q %v", names, err, b, readErr)
	}
	if names, err := r.CopyServiceLogs(agentbox.NewBoxID(), to); err != nil || len(names) != 0 {
		t.Errorf("no services: %v %v", names, err)
	}
}

// The console is that of the last life.
func TestConsoleOfLastLife(t *testing.T) {
	r, id := Records{Home: home.Home{Dir: t.TempDir()}}, agentbox.NewBoxID()
	if _, err := r.OpenLog(id, false); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("no life: %v", err)
	}
	for _, life := range []string{"life-2", "life-10", "life-9"} {
		dir := filepath.Join(r.Home.Box(id).Dir, life)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "console.log"), []byte(life), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := r.OpenLog(id, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "life-10" {
		t.Errorf("the console of %s, %v", b, err)
	}
}
