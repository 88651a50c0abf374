package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is in a configuration stays, comments included, and a second time changes nothing.
func TestInstallMCP(t *testing.T) {
	server := mcpServer{Command: "/bin/agentbox", Args: []string{"mcp"}, Env: map[string]string{"AGENTBOX_HOME": "/h"}}
	for _, c := range []struct {
		name string
		edit func([]byte, mcpServer) ([]byte, error)
		was  string
		have []string
	}{
		{"no JSON", addToJSON, "", []string{`"mcpServers"`}},
		{"other servers", addToJSON, "{\n\t// mine\n\t\"theme\": \"dark\",\n\t\"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n", []string{"// mine", `"theme": "dark"`, `"other"`}},
		{"an older one", addToJSON, `{"mcpServers":{"agentbox":{"command":"/old"}}}`, nil},
		{"no TOML", addToTOML, "", nil},
		{"other tables", addToTOML, "# mine\nmodel = \"m\"\n\n[mcp_servers.other]\ncommand = \"x\"\n", []string{"# mine", `model = "m"`, "[mcp_servers.other]"}},
		{"an older table", addToTOML, "a = 1\n[mcp_servers.agentbox]\ncommand = \"/old\"\n[mcp_servers.agentbox.env]\nX = \"y\"\n[b]\nc = 2\n", []string{"a = 1", "[b]", "c = 2"}},
	} {
		now, err := c.edit([]byte(c.was), server)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range append(c.have, "/bin/agentbox", "mcp", "/h") {
			if !strings.Contains(string(now), want) {
				t.Errorf("%s: no %q in\n%s", c.name, want, now)
			}
		}
		if strings.Contains(string(now), "/old") {
			t.Errorf("%s: the older one is there:\n%s", c.name, now)
		}
		if again, err := c.edit(now, server); err != nil || string(again) != string(now) {
			t.Errorf("%s: a second time it is %v\n%s", c.name, err, again)
		}
	}
	for name, bad := range map[string]func() ([]byte, error){
		"a list":            func() ([]byte, error) { return addToJSON([]byte("[]"), server) },
		"servers in a list": func() ([]byte, error) { return addToJSON([]byte(`{"mcpServers":[]}`), server) },
		"half a file":       func() ([]byte, error) { return addToJSON([]byte(`{"a":`), server) },
		"no TOML at all":    func() ([]byte, error) { return addToTOML([]byte("a = = 1"), server) },
		"an inline table":   func() ([]byte, error) { return addToTOML([]byte(`mcp_servers = {agentbox = {command = "x"}}`), server) },
	} {
		if now, err := bad(); err == nil {
			t.Errorf("%s became\n%s", name, now)
		}
	}
}

// A checkout's link is not followed.
func TestInstallMCPRefusesLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, ".mcp.json"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), ".gemini"); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"claude", "gemini"} {
		if file, err := installMCP(agent, nil); err == nil {
			t.Errorf("%s: wrote %s", agent, file)
		}
	}
	if b, _ := os.ReadFile(outside); string(b) != "{}" {
		t.Errorf("what the link leads to is %s", b)
	}
}

func FuzzInstallMCP(f *testing.F) {
	f.Add(`{"mcpServers":{}}`)
	f.Add("[mcp_servers.agentbox]\ncommand = \"x\"")
	server := mcpServer{Command: "agentbox", Args: []string{"mcp"}}
	f.Fuzz(func(t *testing.T, was string) {
		for _, edit := range []func([]byte, mcpServer) ([]byte, error){addToJSON, addToTOML} {
			if now, err := edit([]byte(was), server); err == nil && !strings.Contains(string(now), "agentbox") {
				t.Errorf("%q became %q", was, now)
			}
		}
	})
}
