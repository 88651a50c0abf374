package toolchain

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Command is something that developers of a repository run, for sh -c in its root.
type Command struct {
	Name string `json:"name"` // setup, build, test, typecheck, or the repository's own
	Run  string `json:"run"`
}

// usual are the names of detected commands, in the order in which they are run.
var usual = []string{"setup", "build", "test", "typecheck"}

// conventions are the commands of an ecosystem, by the file that shows it. The first that has a
// command of a name wins: what a language's own tool does says more than a Makefile.
var conventions = []struct {
	file     string
	commands func(t tree, content string) map[string]string
}{
	{"package.json", nodeCommands},
	{"go.mod", always("build", "go build ./...", "test", "go test -count=1 ./...", "typecheck", "go vet ./...")},
	{"Cargo.toml", always("build", "cargo build", "test", "cargo test", "typecheck", "cargo check")},
	{"pyproject.toml", pythonCommands},
	{"requirements.txt", pythonCommands},
	{"CMakeLists.txt", always("build", "cmake -B build && cmake --build build -j", "test", "ctest --test-dir build")},
	{"Makefile", makeCommands},
}

// Commands guesses the commands of a repository by its root's files, which are not trusted: it runs
// nothing. The result is in the order in which they are run.
func Commands(root *os.Root) (out []Command) {
	t := tree{root}
	for _, c := range conventions {
		content, ok := t.read(c.file)
		if !ok {
			continue
		}
		for name, run := range c.commands(t, content) {
			if !slices.ContainsFunc(out, func(c Command) bool { return c.Name == name }) {
				out = append(out, Command{name, run})
			}
		}
	}
	slices.SortFunc(out, func(a, b Command) int { return cmp.Compare(slices.Index(usual, a.Name), slices.Index(usual, b.Name)) })
	return out
}

// always returns commands that do not depend on the file: names and commands in turn.
func always(pairs ...string) func(tree, string) map[string]string {
	return func(tree, string) map[string]string {
		out := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			out[pair[0]] = pair[1]
		}
		return out
	}
}

// nodeCommands are the scripts of package.json, run by the program whose lock file is there.
func nodeCommands(t tree, content string) map[string]string {
	var p struct {
		Scripts field[map[string]string] `json:"scripts"`
	}
	if json.Unmarshal([]byte(content), &p) != nil {
		return nil
	}
	manager, out := "npm", map[string]string{}
	for lock, by := range map[string][2]string{
		"package-lock.json": {"npm", "npm ci"}, "pnpm-lock.yaml": {"pnpm", "pnpm install --frozen-lockfile"}, "yarn.lock": {"yarn", "yarn install --frozen-lockfile"},
	} {
		if t.has(lock) {
			manager, out["setup"] = by[0], by[1]
		}
	}
	for _, name := range usual[1:] {
		if p.Scripts.is[name] != "" {
			out[name] = manager + " run " + name
		}
	}
	return out
}

// pythonCommands installs what requirements.txt lists into a virtual environment. It tests with
// pytest if a file mentions it.
func pythonCommands(t tree, content string) map[string]string {
	requirements, installs := t.read("requirements.txt")
	python, out := "python3", map[string]string{}
	if installs {
		python, out["setup"] = ".venv/bin/python", "python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt"
	}
	out["test"] = python + " -m unittest"
	if strings.Contains(content+requirements, "pytest") {
		out["test"] = python + " -m pytest -q"
	}
	return out
}

// target matches the rules of a Makefile for the usual targets.
var target = agentbox.Pattern(`(?m)^(build|test|typecheck)[ \t]*:([^=]|$)`)

func makeCommands(_ tree, content string) map[string]string {
	out := map[string]string{}
	for _, m := range target().FindAllStringSubmatch(content, -1) {
		out[m[1]] = "make " + m[1]
	}
	return out
}
