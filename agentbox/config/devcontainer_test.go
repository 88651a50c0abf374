package config

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/toolchain"
)

const devcontainer = `// For all of us
{
	"name": "app",
	"image": "mcr.example.com/devcontainers/go:1", // pinned elsewhere
	"features": {"ghcr.io/devcontainers/features/node:1": {"version": "lts"}},
	"postCreateCommand": ["make", "all of it", "${containerEnv:HOME}/x"],
	"onCreateCommand": "make ${containerWorkspaceFolder}",
	"updateContentCommand": {"b": "echo b", "a": ["echo", "a"]},
	"postStartCommand": "echo start ${localEnv:USER} ${containerEnv:A:b}",
	"containerEnv": {"A": "1", "B": "${localWorkspaceFolder}/b", "PROMPT": "${x}", "TOKEN": "${localEnv:TOKEN}", "A.B": "${localEnv:N:d:e}"},
	"remoteEnv": {"PATH": "${containerEnv:PATH}:/x", "GONE": null, "OF": "${containerEnv:A}${containerEnv:NONE:z}"},
	"forwardPorts": [3000, "localhost:8080", "db:5432", 3000, 80],
	"appPort": ["127.0.0.1:8081:81"],
	"remoteUser": "${localEnv:NAME:vscode}",
	"hostRequirements": {"cpus": 4, "memory": "8gb", "storage": "32gb", "gpu": true},
	"initializeCommand": "rm -rf /",
	"mounts": ["source=/,target=/host,type=bind"],
	"customizations": {"vscode": {}},
	"runArgs": ["--cap-add=SYS_PTRACE", "--security-opt", "seccomp=unconfined", "--gpus", "all"],
	"imge": "x",
}
`

func TestDevcontainer(t *testing.T) {
	root := write(t, map[string]string{".devcontainer/devcontainer.json": devcontainer, "go.mod": "", "go.sum": ""})
	c, err := Load(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	if c.Image != "mcr.example.com/devcontainers/go:1" || c.User != "vscode" || c.CPUs != 0 || c.Memory != 0 || c.Disk != DefaultDisk || c.Least != (Least{4, 8 << 30}) ||
		c.Source != ".devcontainer/devcontainer.json" || !slices.Equal(c.Lockfiles, []string{"go.sum"}) || c.Packages != nil {
		t.Errorf("%+v", c)
	}
	if want := []string{"make /workspace", "echo b", "echo a", `make 'all of it' "${HOME}"/x`}; !slices.Equal(c.Setup, want) {
		t.Errorf("setup %q, want %q", c.Setup, want)
	}
	if want := map[string]string{"A": "1", "B": "/workspace/b", "PROMPT": "${x}", "A.B": "d"}; !reflect.DeepEqual(c.Env, want) {
		t.Errorf("env %q, want %q", c.Env, want)
	}
	if env := c.Environment([]string{"PATH=/image"}); env["PATH"] != "/image:/x" || env["OF"] != "1z" {
		t.Errorf("environment %q", env)
	}
	if path := c.Environment(nil)["PATH"]; path != boxPATH+":/x" {
		t.Errorf("PATH=%s", path)
	}
	if want := []agentbox.ConfiguredPort{{Box: 3000, Host: 3000}, {Box: 8080, Host: 8080}, {Box: 80, Host: 8080 + 0}}; len(c.Ports) != 3 || !slices.Equal(c.Ports[:2], want[:2]) {
		t.Errorf("ports %v", c.Ports)
	}
	if !slices.Equal(c.Start, []string{"echo start  ${A-b}"}) {
		t.Errorf("start %q", c.Start)
	}
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"feature `ghcr.io/devcontainers/features/node:1` is ignored", "devcontainer.json:10: variable `TOKEN` is left out: a repository does not read the host's environment",
		"devcontainer.json:9: ${localEnv:USER} is empty in the command: a repository does not read the host's environment",
		"port db:5432 is ignored", "port 80 of the box is port 8080 here", "`hostRequirements.gpu` is ignored", "`initializeCommand` is ignored: a repository runs nothing on the host",
		"`mounts` is ignored", "`runArgs`: --gpus all is ignored", "devcontainer.json:20: unknown key `imge` is ignored: did you mean `image`?"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "customizations") || strings.Contains(all, "`name`") {
		t.Errorf("a warning nobody needs:\n%s", all)
	}
}

// What a file asks for that a box lacks takes nothing away from the box.
func TestDevcontainerWithoutImage(t *testing.T) {
	for file, want := range map[string]struct {
		packages []string // beside the workstation's
		tools    string
		user     string
		warnings []string
	}{
		`{"dockerComposeFile": "c.yml", "service": "app", "remoteUser": "1000"}`:             {nil, "rust  Cargo.toml", "", []string{"the Compose file is ignored: cannot read c.yml"}},
		`{"image": "${localEnv:IMAGE}"}`:                                                     {nil, "rust  Cargo.toml", "", []string{"`image` is ignored"}},
		`{"features": {"ghcr.io/devcontainers/features/github-cli:1": {}}}`:                  {[]string{"gh"}, "rust  Cargo.toml", "", nil},
		`{"features": {"git-lfs": "latest", "x/rust:1": {"version": "1.80"}}}`:               {[]string{"git-lfs"}, "rust 1.80 .devcontainer.json", "", nil},
		`{"features": {"a/b/node:1": {"version": "22"}, "c/python@1": {"version": "3.12"}}}`: {nil, "node 22 .devcontainer.json, python ==3.12.* .devcontainer.json, rust  Cargo.toml", "", nil},
		`{"features": {"a/b/java:1": {"version": "lts", "installMaven": "true", "jdkDistro": "ms"}, "a/b/go:1": {"version": "none"}}}`: {
			[]string{"maven"}, "rust  Cargo.toml, java  .devcontainer.json", "", []string{"jdkDistro has no effect"}},
	} {
		root := write(t, map[string]string{".devcontainer.json": file, "Cargo.toml": ""})
		c, err := Load(context.Background(), root)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		var tools []string
		for _, n := range c.Toolchain {
			tools = append(tools, fmt.Sprintf("%s %s %s", n.Tool, n.Constraint, n.File))
		}
		if packages := slices.Concat(toolchain.Workstation, want.packages); !slices.Equal(c.Packages, packages) || !strings.HasPrefix(c.Image, "apt:") ||
			strings.Join(tools, ", ") != want.tools || c.User != want.user || len(c.Warnings) != len(want.warnings) {
			t.Errorf("%s: %+v", file, c)
		}
		for i, w := range c.Warnings {
			if i < len(want.warnings) && !strings.Contains(w, want.warnings[i]) {
				t.Errorf("%s: %q, want %q", file, w, want.warnings[i])
			}
		}
	}
}

// A Dockerfile makes the image, and whatever it lacks when it cannot be built is what boxes have
// without it.
func TestDevcontainerBuild(t *testing.T) {
	for file, want := range map[string]struct {
		build    *Build
		warnings int
	}{
		`{"build": {"dockerfile": "Dockerfile"}, "image": "a"}`: {&Build{Dockerfile: ".devcontainer/Dockerfile", Context: ".devcontainer", Args: map[string]string{}}, 0},
		`{"build": {"dockerfile": "../D", "context": "..", "target": "dev", "args": {"A": "${localEnv:A:1}"}}}`: {
			&Build{Dockerfile: "D", Context: ".", Target: "dev", Args: map[string]string{"A": "1"}}, 0},
		`{"context": "..", "dockerFile": "D", "build": {"args": {"A": "1"}, "cacheFrom": "b"}}`: {
			&Build{Dockerfile: ".devcontainer/D", Context: ".", Args: map[string]string{"A": "1"}}, 0},
		`{"build": {"dockerfile": "D", "options": ["--no-cache"]}}`: {&Build{Dockerfile: ".devcontainer/D", Context: ".devcontainer", Args: map[string]string{}}, 1},
		`{"build": {"dockerfile": "../../D"}}`:                      {nil, 1},
		`{"build": {"dockerfile": "D", "context": "../.."}}`:        {nil, 1},
		`{"build": {"args": {"A": "1"}}}`:                           {nil, 0},
	} {
		file = strings.Replace(file, "{", `{"remoteUser": "vscode", `, 1)
		c, err := Load(context.Background(), write(t, map[string]string{".devcontainer/devcontainer.json": file}))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if want.build == nil { // of a user whom nothing makes
			want.warnings++
		}
		if !reflect.DeepEqual(c.Build, want.build) || len(c.Warnings) != want.warnings || c.Suite() == "" {
			t.Errorf("%s: %+v, image %s, %q", file, c.Build, c.Image, c.Warnings)
		}
		if own := c.WithoutBuild(); own.User != "" || own.Build != nil {
			t.Errorf("%s: without it: %q, %+v", file, own.User, own.Build)
		}
		if c.Build == nil {
			continue
		}
		if made := c.Built(); made.User != "vscode" || made.Suite() != "" || len(made.Packages)+len(made.Toolchain) > 0 {
			t.Errorf("%s: made: %+v", file, made)
		}
	}
}

// Values that the format's own tool takes are no errors.
func TestDevcontainerValues(t *testing.T) {
	for file, right := range map[string]func(c *Config) bool{
		"\ufeff{\"image\": \"a\"}":                                func(c *Config) bool { return c.Image == "a" },
		`{"image": "a", "image": "b"}`:                            func(c *Config) bool { return c.Image == "b" },
		`{"image": "${localEnv:I:a}:1", "remoteUser": "0:0"}`:     func(c *Config) bool { return c.Image == "a:1" && c.User == "root" },
		`{"image": "a", "remoteUser": "${localEnv:USER}"}`:        func(c *Config) bool { return c.User == "" && len(c.Warnings) == 1 },
		`{"image": "a", "remoteUser": "Ann"}`:                     func(c *Config) bool { return c.User == "" && len(c.Warnings) == 1 },
		`{"hostRequirements": {"memory": "8589934592"}}`:          func(c *Config) bool { return c.Least.Memory == 8<<30 },
		`{"hostRequirements": {"memory": "64mb", "cpus": "2"}}`:   func(c *Config) bool { return c.Least == Least{2, 64 << 20} },
		`{"hostRequirements": {"memory": "99999999999999tb"}}`:    func(c *Config) bool { return c.Least.Memory == agentbox.MaxMemory },
		`{"hostRequirements": {"storage": "1kb"}}`:                func(c *Config) bool { return c.Disk == DefaultDisk },
		`{"hostRequirements": {"memory": 8, "storage": "128gb"}}`: func(c *Config) bool { return c.Least.Memory == 1<<20 && c.Disk == 128<<30 },
		`{"hostRequirements": {"memory": "8GB"}}`:                 func(c *Config) bool { return c.Least.Memory == 0 && len(c.Warnings) == 1 },
		`{"forwardPorts": [0, "x", 70000]}`:                       func(c *Config) bool { return c.Ports == nil && len(c.Warnings) == 3 },
		`{"containerEnv": {"A": "${devcontainerId}", "a b": ""}}`: func(c *Config) bool { return len(c.Env["A"]) == 52 && len(c.Env) == 1 && len(c.Warnings) == 1 },
		`{"containerEnv": {"A": "1"}, "remoteEnv": {"A": null}}`:  func(c *Config) bool { return len(c.Env) == 0 },
		`{"workspaceFolder": "/workspaces/${localWorkspaceFolderBasename}/sub", "onCreateCommand": "make"}`: func(c *Config) bool {
			return slices.Equal(c.Setup, []string{"cd sub || exit\nmake"}) && len(c.Warnings) == 1
		},
		`{"workspaceMount": "type=bind,target=/w", "workspaceFolder": "/w/sub/none", "onCreateCommand": "make"}`: func(c *Config) bool {
			return slices.Equal(c.Setup, []string{"make"}) && len(c.Warnings) == 1
		},
	} {
		root := write(t, map[string]string{".devcontainer.json": file, "sub/x": ""})
		if c, err := Load(context.Background(), root); err != nil || !right(c) {
			t.Errorf("%s: %+v %v", file, c, err)
		}
	}
}

// A file below the root applies to the directory that it is in.
func TestDevcontainerBelowRoot(t *testing.T) {
	root := write(t, map[string]string{
		"svc/api/.devcontainer/devcontainer.json": `{"onCreateCommand": ["make", "all"], "postStartCommand": "ls ${containerWorkspaceFolder}", "containerEnv": {"A": "${localWorkspaceFolderBasename}"}}`,
		"svc/api/go.sum": "", ".devcontainer/web/devcontainer.json": `{"containerEnv": {"A": "web"}}`, ".devcontainer/db/devcontainer.json": `{}`, ".devcontainer/x/y": "", "go.mod": "module a\n",
	})
	c, err := Load(context.Background(), filepath.Join(root, "svc/api"))
	if err != nil || !slices.Equal(c.Setup, []string{"cd svc/api || exit\nmake all"}) || !slices.Equal(c.Start, []string{"cd svc/api || exit\nls /workspace/svc/api"}) || c.Env["A"] != "api" ||
		!slices.Equal(c.Lockfiles, []string{"svc/api/go.sum"}) {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = Load(context.Background(), root); err != nil || c.Path != "" || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "up --devcontainer NAME: db, web") {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = LoadAt(context.Background(), Place{filepath.Join(root, "svc"), "web"}); err != nil || c.Env["A"] != "web" || c.Source != ".devcontainer/web/devcontainer.json" ||
		!slices.Equal(c.Toolchain.Tools(), []toolchain.Tool{toolchain.Go}) {
		t.Errorf("%+v %v", c, err)
	}
	for _, name := range []string{"none", "..", "x", "../web", "a/b"} {
		if _, err := LoadAt(context.Background(), Place{root, name}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every key of the specification is in the table, with one outcome, and what is not honoured has a
// line, whatever its value.
func TestDevcontainerKeys(t *testing.T) {
	text, err := os.ReadFile("testdata/devcontainer/keys")
	if err != nil {
		t.Fatal(err)
	}
	keys := devcontainerKeys()
	for line := range strings.Lines(string(text)) {
		name, sample, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" || name == "#" {
			continue
		}
		i := slices.IndexFunc(keys, func(k devcontainerKey) bool { return k.name == name })
		if i < 0 {
			t.Errorf("the table lacks `%s`", name)
			continue
		}
		file := `"` + name + `": ` + sample
		if outer, inner, two := strings.Cut(name, "."); two {
			file = `"` + outer + `": {"` + inner + `": ` + sample + `}`
		}
		c, err := parseDevcontainer([]byte("{"+file+"}"), source{name: "devcontainer.json", root: t.TempDir()}, "")
		if err != nil || (keys[i].outcome == honoured) != (len(c.Warnings) == 0) {
			t.Errorf("%s is %s: %+v %v", file, keys[i].outcome, c, err)
		}
	}
	for i, k := range keys {
		if k.means == "" || slices.ContainsFunc(keys[:i], func(other devcontainerKey) bool { return other.name == k.name }) || !slices.Contains([]outcome{honoured, approximated, refused}, k.outcome) {
			t.Errorf("%+v", k)
		}
	}
}

// devcontainerList is the list of the documentation.
func devcontainerList() string {
	var b strings.Builder
	rows := map[string][]string{}
	var order []string
	for _, k := range devcontainerKeys() {
		row := ": " + k.means + "\n"
		if k.outcome != honoured {
			row = fmt.Sprintf(" (%s)%s", k.outcome, row)
		}
		if rows[row] == nil {
			order = append(order, row)
		}
		rows[row] = append(rows[row], "`"+k.name+"`")
	}
	for _, row := range order {
		fmt.Fprintf(&b, "- %s%s", strings.Join(rows[row], ", "), row)
	}
	return b.String()
}

func TestDevcontainerWarningsAreBounded(t *testing.T) {
	var keys strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&keys, "\"unknown%d\": 1,\n", i)
	}
	c, err := parseDevcontainer([]byte("{"+keys.String()+"}"), source{name: "devcontainer.json"}, "")
	if err != nil || len(c.Warnings) != maxWarnings+1 || c.Warnings[maxWarnings] != "devcontainer.json: and 980 more warnings" {
		t.Errorf("%d warnings, %v", len(c.Warnings), err)
	}
}

func TestDevcontainerProblems(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\"image\": 5 5}":     "devcontainer.json:2: not valid JSON",
		"{\n\"image\": [\"a\"]}": "devcontainer.json:2: image: expected text, found a list",
		"[]":                     "expected keys and values, found a list",
		"{\"hostRequirements\": {\"memory\": [8]}}":    "hostRequirements.memory: expected text",
		"{\"postCreateCommand\": {\"a\": {\"b\": 1}}}": "expected text",
		strings.Repeat("[", 5000):                      "nested too deep",
		strings.Repeat(`["]",`, 5000):                  "nested too deep",
		strings.Repeat(`["\"]",`, 5000):                "nested too deep",
		strings.Repeat("[ /* ] */ // ]\n", 5000):       "nested too deep",
	} {
		_, err := parseDevcontainer([]byte(in), source{name: "devcontainer.json", root: "/r"}, "")
		if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Invalid || !strings.Contains(e.Message, want) {
			t.Errorf("%.60q: %v, want %s", in, err, want)
		}
	}
	if c, err := parseDevcontainer([]byte(" \n"), source{}, ""); err != nil || c == nil {
		t.Errorf("an empty file: %v", err)
	}
}
