// Command faces uses a box through `agentbox serve` at the URL of its first argument, with the token in
// $TOKEN, and prints what it saw, one line each. Its second argument is a checkout.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1], os.Args[2], os.Getenv("TOKEN")); err != nil {
		fmt.Fprintln(os.Stderr, "faces:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url, dir, token string) error {
	c := client.New(url, token)
	defer c.Close()
	box, err := c.Up(ctx, api.UpRequest{Directory: dir}, nil)
	if err != nil {
		return err
	}
	result, err := c.Shell(ctx, box.Name, "echo out; echo err >&2; pwd; exit 3")
	if err != nil {
		return err
	}
	fmt.Printf("run: %d %q %q\n", result.Status, result.Stdout, result.Stderr)
	result, err = c.Run(ctx, api.RunRequest{BoxRef: api.BoxRef{Box: box.Name}, Argv: []string{"sleep", "1000"}, Seconds: 0.2})
	if err != nil {
		return err
	}
	fmt.Printf("timeout: %d %v\n", result.Status, result.TimedOut)
	if err := c.WriteFile(ctx, box.Name, "new/file", []byte("a\x00b")); err != nil {
		return err
	}
	b, err := c.ReadFile(ctx, box.Name, "/workspace/new/file", 100)
	if err != nil {
		return err
	}
	diff, err := c.Diff(ctx, box.Name)
	if err != nil {
		return err
	}
	fmt.Printf("file: %q, changed: %s\n", b, diff.Changes[0].Path)
	_, err = c.ReadFile(ctx, box.Name, "no/such/file", 100)
	fmt.Printf("no file: %s\n", agentbox.CodeOf(err))
	_, err = c.Box(ctx, "nobody")
	fmt.Printf("no box: %s\n", agentbox.CodeOf(err))
	if err := terminal(ctx, url, box.Name, token); err != nil {
		return err
	}
	stdio := &mcp.CommandTransport{Command: exec.Command("agentbox", "mcp")}
	if err := tools(ctx, "mcp", stdio, box.Name); err != nil {
		return err
	}
	web := &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}
	return tools(ctx, "mcp by HTTP", web, box.Name)
}

// bearer adds a token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// tools uses some tools of an MCP server.
func tools(ctx context.Context, name string, over mcp.Transport, box string) error {
	session, err := mcp.NewClient(&mcp.Implementation{Name: "faces"}, nil).Connect(ctx, over, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer session.Close()
	for _, call := range []mcp.CallToolParams{
		{Name: "box_write_file", Arguments: map[string]any{"box": box, "path": "by-mcp", "content": "hello\n"}},
		{Name: "box_exec", Arguments: map[string]any{"box": box, "command": "cat by-mcp"}},
		{Name: "box_read_file", Arguments: map[string]any{"box": box, "path": "nothing"}},
		{Name: "policy_why", Arguments: map[string]any{"box": box, "url": "http://10.1.2.3/"}},
	} {
		r, err := session.CallTool(ctx, &call)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("%s: %v %q\n", name, r.IsError, r.Content[0].(*mcp.TextContent).Text)
	}
	return nil
}

// terminal types into a shell until it ends.
func terminal(ctx context.Context, url, box, token string) error {
	at := strings.Replace(url, "http", "ws", 1) + "/v1/box/terminal?columns=100&rows=30&box=" + box
	ws, _, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	if err != nil {
		return err
	}
	defer ws.CloseNow()
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"columns":77,"rows":33}`)); err != nil {
		return err
	}
	if err := ws.Write(ctx, websocket.MessageBinary, []byte("until [ \"$(stty size)\" = '33 77' ]; do :; done; echo shown $((7*11)); exit 5\n")); err != nil {
		return err
	}
	shown := ""
	for {
		kind, message, err := ws.Read(ctx)
		if err != nil {
			return fmt.Errorf("the terminal showed %q: %w", shown, err)
		}
		if kind == websocket.MessageBinary {
			shown += string(message)
			continue
		}
		var end struct{ Exit *int }
		if err := json.Unmarshal(message, &end); err != nil || end.Exit == nil {
			return fmt.Errorf("the terminal ended with %s", message)
		}
		fmt.Printf("terminal: %v, exit %d\n", strings.Contains(shown, "shown 77"), *end.Exit)
		return nil
	}
}
