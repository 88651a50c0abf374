package config

import (
	"context"
	"fmt"
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
	"postCreateCommand": ["make", "all of it"],
	"onCreateCommand": "make ${containerWorkspaceFolder}",
	"updateContentCommand": {"b": "echo b", "a": ["echo", "a"]},
	"postStartCommand": "echo start ${localEnv:USER}",
	"containerEnv": {"A": "1", "B": "${localWorkspaceFolder}/b", "PROMPT": "${x}", "TOKEN": "${localEnv:TOKEN}"},
	"remoteEnv": {"PATH": "${containerEnv:PATH}:/x", "GONE": null},
	"forwardPorts": [3000, "localhost:8080", "db:5432"],
	"remoteUser": "vscode",
	"hostRequirements": {"cpus": 4, "memory": "8gb", "storage": "32gb", "gpu": true},
	"initializeCommand": "rm -rf /",
	"mounts": ["source=/,target=/host,type=bind"],
	"customizations": {"vscode": {}},
	"imge": "x",
}
`

func TestDevcontainer(t *testing.T) {
	root := write(t, map[string]string{".devcontainer/devcontainer.json": devcontainer, "go.mod": "", "go.sum": ""})
	c, err := Load(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	if c.Image != "mcr.example.com/devcontainers/go:1" || c.User != "vscode" || c.CPUs != 4 || c.Memory != 7630<<20 || c.Source != ".devcontainer/devcontainer.json" ||
		!slices.Equal(c.Lockfiles, []string{"go.sum"}) || c.Packages != nil {
		t.Errorf("%+v", c)
	}
	if want := []string{"make /workspace", "echo b", "echo a", "make 'all of it'"}; !slices.Equal(c.Setup, want) {
		t.Errorf("setup %q, want %q", c.Setup, want)
	}
	if want := map[string]string{"A": "1", "B": "/workspace/b", "PROMPT": "${x}"}; !reflect.DeepEqual(c.Env, want) {
		t.Errorf("env %q, want %q", c.Env, want)
	}
	if want := []agentbox.ConfiguredPort{{Box: 3000, Host: 3000}, {Box: 8080, Host: 8080}}; !slices.Equal(c.Ports, want) || !slices.Equal(c.Start, []string{"echo start ${localEnv:USER}"}) {
		t.Errorf("ports %v, start %v", c.Ports, c.Start)
	}
	all := strings.Join(c.Warnings, "\n")
	for _, want := range []string{"feature `ghcr.io/devcontainers/features/node:1` is ignored", ".devcontainer/devcontainer.json:10: variable `TOKEN` is left out: a repository does not read the host's environment",
		".devcontainer/devcontainer.json:11: variable `PATH` is left out: write the value instead of ${containerEnv:…}",
		".devcontainer/devcontainer.json:9: ${localEnv:…} stays as it is in the command: a repository does not read the host's environment",
		"port db:5432 is ignored", "`hostRequirements.gpu` is ignored", "`initializeCommand` is ignored: a repository runs nothing on the host", "`mounts` is ignored",
		".devcontainer/devcontainer.json:18: unknown key `imge` is ignored: did you mean `image`?"} {
		if !strings.Contains(all, want) {
			t.Errorf("no warning %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "customizations") || strings.Contains(all, "`name`") {
		t.Errorf("a warning nobody needs:\n%s", all)
	}
}

func TestDevcontainerWithoutImage(t *testing.T) {
	root := write(t, map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`, "Cargo.toml": ""})
	c, err := Load(context.Background(), root)
	if err != nil || !strings.HasPrefix(c.Image, "apt:") || !slices.Equal(c.Toolchain.Tools(), []toolchain.Tool{toolchain.Rust}) || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "Dockerfile") {
		t.Errorf("%+v %v", c, err)
	}
	root = write(t, map[string]string{".devcontainer.json": `{"features": {"ghcr.io/devcontainers/features/go:1": {}}}`})
	if c, err := Load(context.Background(), root); err != nil || !slices.Equal(c.Packages, []string{"ca-certificates", "git", "golang"}) {
		t.Errorf("%+v %v", c, err)
	}
}

func TestDevcontainerWarningsAreBounded(t *testing.T) {
	var keys strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&keys, "\"unknown%d\": 1,\n", i)
	}
	c, err := parseDevcontainer([]byte("{"+keys.String()+"}"), source{name: "devcontainer.json"})
	if err != nil || len(c.Warnings) != maxWarnings+1 || c.Warnings[maxWarnings] != "devcontainer.json: and 980 more warnings" {
		t.Errorf("%d warnings, %v", len(c.Warnings), err)
	}
}

func TestDevcontainerProblems(t *testing.T) {
	for in, want := range map[string]string{
		"{\n\"image\": 5 5}":                           "devcontainer.json:2: not valid JSON",
		"{\n\"image\": [\"a\"]}":                       "devcontainer.json:2: image: expected text, found a list",
		"{\"forwardPorts\": [\n0]}":                    "devcontainer.json:2: forwardPorts: port 0 is out of range",
		"{\"image\": \"a\",\n\"image\": \"b\"}":        "devcontainer.json:2: key `image` appears twice, first on line 1",
		"[]":                                           "expected keys and values, found a list",
		"{\"hostRequirements\": {\"memory\": 8}}":      "hostRequirements.memory: \"8\" has no unit",
		"{\"containerEnv\": {\"a b\": \"x\"}}":         "is not the name of a variable",
		"{\"postCreateCommand\": {\"a\": {\"b\": 1}}}": "expected text",
		strings.Repeat("[", 5000):                      "nested too deep",
		strings.Repeat(`["]",`, 5000):                  "nested too deep",
		strings.Repeat(`["\"]",`, 5000):                "nested too deep",
		strings.Repeat("[ /* ] */ // ]\n", 5000):       "nested too deep",
	} {
		_, err := parseDevcontainer([]byte(in), source{name: "devcontainer.json", root: "/r"})
		if e := agentbox.AsError(err); e == nil || e.Code != agentbox.Invalid || !strings.Contains(e.Message, want) {
			t.Errorf("%.60q: %v, want %s", in, err, want)
		}
	}
	if c, err := parseDevcontainer([]byte(" \n"), source{}); err != nil || c == nil {
		t.Errorf("an empty file: %v", err)
	}
}
