package toolchain

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// In this file, the tools that own a format say what files in it mean.

// goSwitches matches how go names the toolchain that a file wants and that it may not fetch.
var goSwitches = agentbox.Pattern(`go([0-9]+\.[0-9]+[0-9a-z.]*)`)

// A newer go than the one that is here is what the go command would switch to.
func TestGoVersionsAreThoseThatGoSwitchesTo(t *testing.T) {
	for name, files := range map[string][]string{
		"go line":        {"go.mod", "module m\n\ngo 1.99.1\n"},
		"no patch":       {"go.mod", "module m\n\ngo 1.99\n"},
		"toolchain line": {"go.mod", "module m\n\ngo 1.22\n\ntoolchain go1.99.3\n"},
		"both newer":     {"go.mod", "module m\n\ngo 1.98.1\ntoolchain go1.99.3\n"},
		"older line":     {"go.mod", "module m\n\ngo 1.99.1\ntoolchain go1.98.3\n"},
		"candidate":      {"go.mod", "module m\n\ngo 1.99rc1\n"},
		"comments":       {"go.mod", "// go 1.97\nmodule m // x\n\ngo 1.99.1 // indirect\n"},
		"work":           {"go.work", "go 1.99.2\n\nuse ./a\n", "a/go.mod", "module a\n\ngo 1.98.1\n"},
		"work's line":    {"go.work", "go 1.22\ntoolchain go1.99.4\nuse .\n", "go.mod", "module a\n\ngo 1.21\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := 0; i < len(files); i += 2 {
				writeFile(t, filepath.Join(dir, files[i]), files[i+1])
			}
			cmd := exec.Command("go", "version")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "GOTOOLCHAIN=auto", "GOPROXY=off", "GOFLAGS=", "GOWORK=")
			out, err := cmd.CombinedOutput()
			said := goSwitches().FindStringSubmatch(string(out))
			if err == nil || said == nil {
				t.Fatalf("go did not want another version: %s", out)
			}
			needs := detectIn(t, dir).Needs
			if got := Newest(needs.Constraints(Go)); got != strings.TrimSuffix(said[1], ".0") { // we take the newest patch
				t.Errorf("got %s; go: %s", got, out)
			}
		})
	}
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Of several files and versions, the one counts that mise runs. mise is on few machines: npm has it as
// @jdxcode/mise-linux-x64.
func TestPinsAreThoseOfMise(t *testing.T) {
	mise, err := exec.LookPath("mise")
	if err != nil {
		t.Skip("mise is not installed")
	}
	for name, files := range map[string][]string{
		"both":         {"mise.toml", "[tools]\nnode = '22'\n", ".tool-versions", "nodejs 18\nruby 3.3.1\n"},
		"places":       {".config/mise/config.toml", "[tools]\nnode = '18'\njava = '17'\n", ".config/mise/conf.d/a.toml", "[tools]\nruby = '3.1'\njava = '11'\n", ".mise.toml", "[tools]\nnode = '20'\n"},
		"more places":  {"mise/config.toml", "[tools]\nnode = '16'\n", ".mise/config.toml", "[tools]\nnode = '17'\ngo = '1.20'\n", ".config/mise.toml", "[tools]\ngo = '1.21'\n"},
		"fragments":    {".config/mise/conf.d/a.toml", "[tools]\nruby = '3.1'\n", ".config/mise/conf.d/b.toml", "[tools]\nruby = '3.2'\n"},
		"lists":        {"mise.toml", "[tools]\npython = ['3.12', '3.11']\ngo = [{version = '1.22'}, '1.21']\n[tools.node]\nversion = '20'\nos = ['linux']\n"},
		"core":         {"mise.toml", "[tools]\n'core:node' = '20'\n"},
		"fallbacks":    {".tool-versions", "python 3.10.1 3.9 # comment\nnodejs 20.1.0\n# go 1\n"},
		"said twice":   {".tool-versions", "nodejs 20.1.0\nnodejs 18.1.0\n"},
		"not for here": {"mise.test.toml", "[tools]\nnode = '20'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := 0; i < len(files); i += 2 {
				writeFile(t, filepath.Join(dir, files[i]), files[i+1])
			}
			cmd := exec.Command(mise, "ls", "--current", "--offline", "--json")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "MISE_OFFLINE=1", "MISE_TRUSTED_CONFIG_PATHS="+dir, "MISE_CEILING_PATHS="+filepath.Dir(dir))
			out, err := cmd.Output()
			var said map[string][]struct {
				Requested string `json:"requested_version"`
			}
			if err == nil {
				err = json.Unmarshal(out, &said)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := map[string]string{}
			for tool, versions := range said {
				for _, v := range versions {
					want[tool] += " " + v.Requested
				}
			}
			got := detectIn(t, dir).Needs
			for _, n := range got {
				if !slices.Contains(strings.Fields(want[string(n.Tool)]), n.Constraint) {
					t.Errorf("got %s %q, mise%s", n.Tool, n.Constraint, want[string(n.Tool)])
				}
			}
			if len(got) != len(want) {
				t.Errorf("got %v, mise %v", got, want)
			}
		})
	}
}

// rustupSyncs matches how rustup names the toolchain that it would fetch: 1.27 begins, and 1.28 asks first.
var rustupSyncs = agentbox.Pattern(`(?:syncing channel updates for|override toolchain) '([^']*?)-(x86_64|aarch64)[^']*'`)

// A pinned toolchain is the one that rustup would fetch. rustup is on few machines: Debian 13 has it.
func TestRustPinsAreThoseOfRustup(t *testing.T) {
	rustup, err := exec.LookPath("rustup")
	if err != nil {
		t.Skip("rustup is not installed")
	}
	for name, files := range map[string][]string{
		"table":         {"rust-toolchain.toml", "[toolchain]\nchannel = '1.75'\ncomponents = ['clippy']\n"},
		"name":          {"rust-toolchain", "1.75.0\n"},
		"spaces":        {"rust-toolchain", "  1.75 \r\n"},
		"table in name": {"rust-toolchain", "[toolchain]\nchannel = \"1.74.1\"\n"},
		"both":          {"rust-toolchain", "1.60\n", "rust-toolchain.toml", "[toolchain]\nchannel = '1.75'\n"},
		"channel":       {"rust-toolchain.toml", "[toolchain]\nchannel = 'nightly-2024-01-01'\n"},
		"comment":       {"rust-toolchain.toml", "# 1.60\n[toolchain]\nchannel = '1.75' # 1.61\nprofile = 'minimal'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := 0; i < len(files); i += 2 {
				writeFile(t, filepath.Join(dir, files[i]), files[i+1])
			}
			cmd := exec.Command(rustup, "show", "active-toolchain")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "RUSTUP_HOME="+t.TempDir(), "RUSTUP_DIST_SERVER=file:///nonexistent", "RUSTUP_TOOLCHAIN=")
			out, err := cmd.CombinedOutput()
			said := rustupSyncs().FindStringSubmatch(string(out))
			if err == nil || said == nil {
				t.Fatalf("rustup would fetch nothing: %s", out)
			}
			// What no version can be made of is refused with a line.
			if n := detectIn(t, dir).Needs; len(n) != 1 || n[0].Tool != Rust || n[0].Constraint+n[0].Refused != said[1] {
				t.Errorf("got %+v; rustup: %s", n, said[1])
			}
		})
	}
}
