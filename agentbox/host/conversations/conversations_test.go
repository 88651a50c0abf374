package conversations

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// guest is a box whose home is a directory of this machine.
type guest struct {
	home    string
	closed  *int
	endless bool // it gives more than anybody keeps
}

func (g guest) Home(context.Context) (string, error) { return g.home, nil }
func (g guest) Close() error                         { *g.closed++; return nil }

func (g guest) Export(_ context.Context, root string, dirs []string, w io.Writer) error {
	if g.endless {
		_, err := io.CopyN(w, zeros{}, maxHistory+1)
		return err
	}
	out := tar.NewWriter(w)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*"))
		if err != nil {
			return err
		}
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err == nil {
				err = out.WriteHeader(&tar.Header{Name: filepath.Join(dir, filepath.Base(path)), Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text))})
			}
			if err == nil {
				_, err = out.Write(text)
			}
			if err != nil {
				return err
			}
		}
	}
	return out.Close()
}

func (g guest) Import(_ context.Context, root string, r io.Reader) error {
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		text, err := io.ReadAll(in)
		if err == nil && h.Typeflag == tar.TypeReg {
			path := filepath.Join(root, h.Name)
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600))
		}
		if err != nil {
			return err
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// Run runs a script of this machine, with the guest's home.
func (g guest) Run(ctx context.Context, script string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "HOME="+g.home)
	return cmd.Run()
}

// places is where an agent has its conversations.
var places = map[string]Place{"claude": {Dirs: []string{".claude/projects"}}}

func box(project string, g guest) Box {
	return Box{ID: agentbox.NewBoxID(), Name: "mine", Project: project, Open: func(context.Context) (Guest, error) { return g, nil }}
}

func recalls(t *testing.T) *Store {
	return &Store{Home: home.Home{Dir: t.TempDir()}, Log: slog.New(slog.DiscardHandler)}
}

// says writes a conversation into a home.
func says(t *testing.T, g guest, file, text string) {
	t.Helper()
	dir := filepath.Join(g.home, places["claude"].Dirs[0])
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// What two boxes of a project remember is given to the third, and to none of another project.
func TestSaveAndRestore(t *testing.T) {
	r, closed := recalls(t), 0
	for file, text := range map[string]string{"a.jsonl": "of the first", "b.jsonl": "of the second"} {
		g := guest{home: t.TempDir(), closed: &closed}
		says(t, g, file, text)
		r.Save(t.Context(), box("app", g), places, func(e agentbox.Event) { t.Errorf("said %s", e.Detail) })
	}
	for project, want := range map[string]int{"app": 2, "other": 0} {
		g := guest{home: t.TempDir(), closed: &closed}
		if err := r.Restore(t.Context(), box(project, g), "claude", ""); err != nil {
			t.Fatal(err)
		}
		got, err := filepath.Glob(filepath.Join(g.home, places["claude"].Dirs[0], "*"))
		if err != nil || len(got) != want {
			t.Errorf("%s is given %v, %v", project, got, err)
		}
	}
	if closed != 3 { // nothing is asked of a box for which nothing is kept
		t.Errorf("%d connections were closed", closed)
	}
}

// Nothing fails by what cannot be kept: it is told, what was kept stays, and nothing half is left.
func TestSaveFailureIsReported(t *testing.T) {
	r, closed := recalls(t), 0
	g := guest{home: t.TempDir(), closed: &closed}
	says(t, g, "a.jsonl", "kept")
	b := box("app", g)
	r.Save(t.Context(), b, places, nil)
	before, err := os.ReadFile(r.archivePath(b, "claude"))
	if err != nil {
		t.Fatal(err)
	}
	gone := b
	gone.Open = func(context.Context) (Guest, error) { return nil, errors.New("it does not answer") }
	for why, b := range map[string]Box{"it does not answer": gone, "more than can be kept": box("app", guest{closed: &closed, endless: true})} {
		output := ""
		r.Save(t.Context(), b, places, func(e agentbox.Event) { output += e.Detail })
		if !strings.Contains(output, "claude") || !strings.Contains(output, "box mine") || !strings.Contains(output, why) {
			t.Errorf("%s: said %q", why, output)
		}
	}
	after, err := os.ReadFile(r.archivePath(b, "claude"))
	if err != nil || string(after) != string(before) {
		t.Errorf("what was kept is %d bytes of %d, %v", len(after), len(before), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(r.archivePath(b, "claude")), ".tmp-*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// An agent's own commands write what it remembers into files, and take it in from there; they run as
// any command of the box. An agent that has left nothing is named.
func TestScripts(t *testing.T) {
	r, closed := recalls(t), 0
	first, second := guest{home: t.TempDir(), closed: &closed}, guest{home: t.TempDir(), closed: &closed}
	p := Place{Dirs: []string{".tool/kept"}, Save: "mkdir -p ~/.tool/kept && cp ~/database ~/.tool/kept/one"}
	quiet := Place{Dirs: []string{".quiet/kept"}}
	if err := os.WriteFile(filepath.Join(first.home, "database"), []byte("spoken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if without := r.Save(t.Context(), box("app", first), map[string]Place{"tool": p, "quiet": quiet}, nil); len(without) != 1 || without[0] != "quiet" {
		t.Errorf("without conversations: %q", without)
	}
	if err := r.Restore(t.Context(), box("app", second), "tool", "cp ~/.tool/kept/one ~/database"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(second.home, "database")); string(got) != "spoken" {
		t.Errorf("restored %q, %v", got, err)
	}
	// A failing command is reported, and what was kept stays.
	p.Save, closed = "exit 3", 0
	said := ""
	r.Save(t.Context(), box("app", second), map[string]Place{"tool": p}, func(e agentbox.Event) { said += e.Detail })
	if !strings.Contains(said, "tool") || closed != 1 {
		t.Errorf("said %q, closed %d", said, closed)
	}
}
