package config

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"al.essio.dev/pkg/shellescape"

	"agentbox/agentbox"
)

// cliVersion is the release of @devcontainers/cli whose answers are in testdata/devcontainer/cli:
// NAME.json is a file of ours, NAME.image.json, if there is one, what the container engine says of
// its image, and NAME.golden what `devcontainer read-configuration` makes of them.
const cliVersion = "0.89.0"

// otherFiles is a directory with files of other projects, to compare by hand.
var otherFiles = flag.String("devcontainers", "", "compare the files of this directory, too")

// cliAnswer is the part of that tool's answer that says what a container would be.
type cliAnswer struct {
	Version       string `json:"version"`
	Configuration struct {
		Image            string                                          `json:"image"`
		RemoteUser       string                                          `json:"remoteUser"`
		ContainerUser    string                                          `json:"containerUser"`
		ContainerEnv     map[string]any                                  `json:"containerEnv"`
		RemoteEnv        map[string]any                                  `json:"remoteEnv"`
		HostRequirements struct{ CPUs, Memory, Storage json.RawMessage } `json:"hostRequirements"`
		Features         map[string]any                                  `json:"features"`
		Build            map[string]any                                  `json:"build"`
		ForwardPorts     []any                                           `json:"forwardPorts"`
		OnCreate         any                                             `json:"onCreateCommand"`
		UpdateContent    any                                             `json:"updateContentCommand"`
		PostCreate       any                                             `json:"postCreateCommand"`
		PostStart        any                                             `json:"postStartCommand"`
	} `json:"configuration"`
	Merged *struct {
		ForwardPorts     []int
		HostRequirements struct {
			CPUs            int
			Memory, Storage string
		}
	} `json:"mergedConfiguration"`
}

// Every file of ours is read as the format's own tool reads it.
func TestDevcontainerGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/devcontainer/cli/*.golden")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, golden := range files {
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(strings.TrimSuffix(golden, ".golden") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		compareWithCLI(t, golden, file, text)
	}
}

// The tool itself gives these answers, and takes no file that we refuse. AGENTBOX_DEVCONTAINER_CLI
// is its devcontainer.js (make devcontainer-cli); -devcontainers DIR a directory with other
// files to compare. With UPDATE=1 the answers are written.
func TestDevcontainerCLI(t *testing.T) {
	cli := os.Getenv("AGENTBOX_DEVCONTAINER_CLI")
	if cli == "" {
		t.Skip("AGENTBOX_DEVCONTAINER_CLI is not set: make devcontainer-cli")
	}
	files, err := filepath.Glob("testdata/devcontainer/cli/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, ".image.json") {
			continue
		}
		golden := strings.TrimSuffix(path, ".json") + ".golden"
		answer := askCLI(t, cli, path)
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(golden, answer, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if had, err := os.ReadFile(golden); err != nil || !bytes.Equal(had, answer) {
			t.Errorf("%s: the tool answers\n%s\n%v", golden, answer, err)
		}
	}
	others, err := filepath.Glob(filepath.Join(*otherFiles, "*.json"))
	if err != nil || *otherFiles == "" {
		return
	}
	for _, path := range others {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		compareWithCLI(t, path, file, askCLI(t, cli, path))
	}
}

// askCLI is what the tool answers about a file in a checkout named app, without paths of this
// machine. The container engine is a script that knows the file's image.
func askCLI(t *testing.T, cli, path string) []byte {
	t.Helper()
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	file, err := os.ReadFile(path)
	if err == nil {
		err = os.MkdirAll(filepath.Join(app, ".git"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(app, ".devcontainer.json"), file, 0o644)
	}
	args := []string{cli, "read-configuration", "--workspace-folder", app, "--docker-path", "/bin/true"}
	if image, missing := filepath.Abs(strings.TrimSuffix(path, ".json") + ".image.json"); err == nil && missing == nil {
		if _, none := os.Stat(image); none == nil {
			engine := filepath.Join(dir, "engine")
			script := "#!/bin/sh\ncase \"$*\" in *inspect*) cat " + shellescape.Quote(image) + " ;; esac\n"
			err = os.WriteFile(engine, []byte(script), 0o755) //nolint:gosec // it is run
			args = append(args[:len(args)-1], engine, "--include-merged-configuration")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, failed.String())
	}
	if !strings.Contains(failed.String(), "@devcontainers/cli "+cliVersion+".") {
		t.Fatalf("that is not release %s: %s", cliVersion, failed.String())
	}
	answer := map[string]any{}
	if err := json.Unmarshal(bytes.ReplaceAll(out, []byte(app), []byte("/workspaces/app")), &answer); err != nil {
		t.Fatal(err)
	}
	for _, part := range answer {
		if object, ok := part.(map[string]any); ok {
			delete(object, "configFilePath")
		}
	}
	delete(answer, "workspace")
	delete(answer, "ociAuthDiagnostics")
	answer["version"] = cliVersion
	text, err := json.MarshalIndent(answer, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// compareWithCLI compares what we make of a file with the tool's answer. Where a box is meant to
// differ, the file has a line.
func compareWithCLI(t *testing.T, name string, file, text []byte) {
	t.Helper()
	var answer cliAnswer
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("/workspaces/app"), []byte(boxWorkspace)), &answer); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	root := filepath.Join(t.TempDir(), "app")
	for _, dir := range []string{root, filepath.Join(root, ".git"), filepath.Join(root, ".devcontainer")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, ".devcontainer", "devcontainer.json"), file, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(context.Background(), root)
	if err != nil {
		t.Errorf("%s: the tool takes it, and we do not: %v", name, err)
		return
	}
	warnings := strings.Join(c.Warnings, "\n")
	want := answer.Configuration
	if want.Image != "" && c.Image != want.Image || want.Image == "" && c.Suite() == "" {
		t.Errorf("%s: image %s, want %s", name, c.Image, want.Image)
	}
	user := want.RemoteUser
	if user == "" {
		user = want.ContainerUser
	}
	if c.User != user && !strings.Contains(warnings, "user "+user+" is ignored") {
		t.Errorf("%s: user %q, want %q", name, c.User, user)
	}
	compareEnv(t, name, c, warnings, want.ContainerEnv, want.RemoteEnv)
	if setup := commandsOf(want.OnCreate, want.UpdateContent, want.PostCreate); len(setup) != len(c.Setup) || !slices.Equal(sorted(setup), sorted(c.Setup)) {
		t.Errorf("%s: setup %q, want %q", name, c.Setup, setup)
	}
	if start := commandsOf(want.PostStart); !slices.Equal(sorted(start), sorted(c.Start)) {
		t.Errorf("%s: start %q, want %q", name, c.Start, start)
	}
	for _, p := range want.ForwardPorts {
		s := fmt.Sprint(p)
		s = s[strings.LastIndexByte(s, ':')+1:] // of a service, it is one of the box
		is := func(have agentbox.ConfiguredPort) bool { return fmt.Sprint(have.Box) == s }
		if !slices.ContainsFunc(c.Ports, is) && !strings.Contains(warnings, "port "+strings.TrimPrefix(fmt.Sprint(p), "localhost:")) {
			t.Errorf("%s: port %s is missing in %v", name, s, c.Ports)
		}
	}
	for feature := range want.Features {
		if len(c.features.packages)+len(c.features.needs) == 0 && !strings.Contains(warnings, feature) {
			t.Errorf("%s: feature %s is silently ignored", name, feature)
		}
	}
	if file, asked := want.Build["dockerfile"].(string); asked && (c.Build == nil || path.Base(c.Build.Dockerfile) != file || c.Build.Target != want.Build["target"]) {
		t.Errorf("%s: build %+v, want %v", name, c.Build, want.Build)
	}
	if m := answer.Merged; m != nil {
		if fmt.Sprint(c.Least.Memory) != m.HostRequirements.Memory || c.Least.CPUs != m.HostRequirements.CPUs {
			t.Errorf("%s: at least %+v, want %+v", name, c.Least, m.HostRequirements)
		}
	}
}

// compareEnv compares variables. Those with a value of the host are left out, with a line; the
// tool's own value of them is that of a host that has none.
func compareEnv(t *testing.T, name string, c *Config, warnings string, envs ...map[string]any) {
	t.Helper()
	want := map[string]string{}
	for _, env := range envs {
		for k, v := range env {
			if delete(want, k); v != nil {
				want[k] = fmt.Sprint(v)
			}
		}
	}
	have := map[string]string{}
	for _, env := range []map[string]string{c.Env, c.Derived} {
		for k, v := range env {
			if k != "ID" { // the tool answers before it knows it
				have[k] = v
			}
		}
	}
	for k := range want {
		if strings.Contains(warnings, "variable `"+k+"` is left out") || k == "ID" {
			delete(want, k)
		}
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s: env %q, want %q", name, have, want)
	}
}

// commandsOf are lines for the shell of lifecycle commands, as the specification describes them.
func commandsOf(values ...any) (out []string) {
	for _, v := range values {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			var argv []string
			for _, arg := range v {
				argv = append(argv, arg.(string))
			}
			out = append(out, shellescape.QuoteCommand(argv))
		case map[string]any:
			for _, named := range v {
				out = append(out, commandsOf(named)...)
			}
		}
	}
	return out
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
