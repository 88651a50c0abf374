package toolchain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands are what a developer of such a repository types.
func TestCommands(t *testing.T) {
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{nil, ""},
		{map[string]string{"go.mod": "module x\n"}, "build=go build ./... test=go test -count=1 ./... typecheck=go vet ./..."},
		{map[string]string{"package.json": `{"scripts": {"test": "jest", "build": "tsc", "other": "x"}}`, "pnpm-lock.yaml": ""},
			"setup=pnpm install --frozen-lockfile build=pnpm run build test=pnpm run test"},
		{map[string]string{"package.json": `{"scripts": 3}`}, ""},
		{map[string]string{"package.json": `no JSON`, "Makefile": "all:\n\ntest: all\n\ttrue\nbuild := x\n"}, "test=make test"},
		{map[string]string{"package.json": `{"scripts": {"test": "jest"}}`, "Makefile": "test:\n\ttrue\nbuild:\n"}, "build=make build test=npm run test"},
		{map[string]string{"pyproject.toml": "[project]\n"}, "test=python3 -m unittest"},
		{map[string]string{"requirements.txt": "pytest==8\n"},
			"setup=python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt test=.venv/bin/python -m pytest -q"},
		{map[string]string{"Cargo.toml": ""}, "build=cargo build test=cargo test typecheck=cargo check"},
	} {
		dir := t.TempDir()
		for name, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := commandsIn(t, dir); got != c.want {
			t.Errorf("%v:\n got %s\nwant %s", c.files, got, c.want)
		}
	}
}

func commandsIn(t *testing.T, dir string) string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var out []string
	for _, c := range Commands(root) {
		out = append(out, c.Name+"="+c.Run)
	}
	return strings.Join(out, " ")
}

// A repository can name no command but by the names of its own scripts: a file's content never
// becomes part of one.
func FuzzCommands(f *testing.F) {
	f.Add(`{"scripts": {"test": "jest"}}`, "test:\n")
	f.Fuzz(func(t *testing.T, pkg, makefile string) {
		dir := t.TempDir()
		for name, content := range map[string]string{"package.json": pkg, "Makefile": makefile} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for command := range strings.FieldsSeq(commandsIn(t, dir)) {
			switch command {
			case "npm", "run", "make", "build=npm", "test=npm", "typecheck=npm", "build=make", "test=make", "typecheck=make", "build", "test", "typecheck":
			default:
				t.Errorf("%q", command)
			}
		}
	})
}
