package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/tailscale/hujson"
)

// addToJSON sets mcpServers.agentbox in a JSON file. Comments, order and everything else stay.
func addToJSON(was []byte, server mcpServer) ([]byte, error) {
	if len(bytes.TrimSpace(was)) == 0 {
		was = []byte("{}\n")
	}
	v, err := hujson.Parse(was)
	if err != nil {
		return nil, err
	}
	if _, ok := v.Value.(*hujson.Object); !ok {
		return nil, errors.New("it is not a JSON object")
	}
	text, err := json.Marshal(server)
	if err != nil {
		return nil, err
	}
	patch := `[{"op":"add","path":"/mcpServers/agentbox","value":` + string(text) + `}]`
	switch servers := v.Find("/mcpServers"); {
	case servers == nil:
		patch = `[{"op":"add","path":"/mcpServers","value":{"agentbox":` + string(text) + `}}]`
	case !isObject(servers):
		return nil, errors.New("mcpServers is not a JSON object")
	}
	if err := v.Patch([]byte(patch)); err != nil {
		return nil, err
	}
	v.Format()
	return v.Pack(), nil
}

func isObject(v *hujson.Value) bool {
	_, ok := v.Value.(*hujson.Object)
	return ok
}

// addToTOML adds [mcp_servers.agentbox] to a TOML file. The library keeps no comments, so the table is
// appended, or, if one is there, replaced up to the next header.
func addToTOML(was []byte, server mcpServer) ([]byte, error) {
	var all struct {
		Servers map[string]any `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(was, &all); err != nil {
		return nil, err
	}
	const header = "[mcp_servers.agentbox"
	var kept strings.Builder
	ours := false
	for line := range strings.Lines(string(was)) {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "[") {
			ours = strings.HasPrefix(trimmed, header+"]") || strings.HasPrefix(trimmed, header+".")
		}
		if !ours {
			kept.WriteString(line)
		}
	}
	text, err := toml.Marshal(map[string]any{"mcp_servers": map[string]any{"agentbox": server}})
	if err != nil {
		return nil, err
	}
	text = bytes.TrimPrefix(text, []byte("[mcp_servers]\n"))
	out := strings.TrimRight(kept.String(), "\n")
	if out != "" {
		out += "\n\n"
	}
	out += string(text)
	if err := toml.Unmarshal([]byte(out), &all); err != nil {
		return nil, errors.New("the server agentbox is there in another form")
	}
	return []byte(out), nil
}
