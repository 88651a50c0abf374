package toolgate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/policy/secrets"
)

// world is a gate on a socket, with a remote server whose tools are echo, which says its argument,
// and secret.
type world struct {
	*testing.T
	gate   *Gate
	socket string
	remote string
	seen   chan string // the credential of each request to the remote server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, socket: filepath.Join(t.TempDir(), "s"), seen: make(chan string, 1000)}
	type in struct {
		Text string `json:"text"`
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, nil)
	for _, name := range []string{"echo", "secret", "bad name"} {
		mcp.AddTool(m, &mcp.Tool{Name: name}, func(_ context.Context, _ *mcp.CallToolRequest, in in) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " said " + in.Text}}}, nil, nil
		})
	}
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
	remote := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.seen <- r.Header.Get("Authorization")
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(remote.Close)
	w.remote = remote.URL
	w.gate = &Gate{
		Registry: &Registry{File: filepath.Join(t.TempDir(), "mcp.json")}, Log: slog.New(slog.DiscardHandler),
		ProjectOf: func(_ context.Context, box string) (string, error) {
			if box == strings.Repeat("f", 12) {
				return "", agentbox.Errorf(agentbox.Forbidden, "the box is another machine's")
			}
			return "project", nil
		},
	}
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.gate.Serve(ctx, l) }()
	t.Cleanup(func() { stop(); <-served })
	return w
}

func (w *world) add(s api.ToolServer) {
	w.Helper()
	if err := w.gate.Registry.Add(s); err != nil {
		w.Fatal(err)
	}
}

// send sends bytes for a box, and returns the answer.
func (w *world) send(box, body string) (*http.Response, string) {
	w.Helper()
	c, err := net.Dial("unix", w.socket)
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\nPOST / HTTP/1.1\r\nHost: mcp.agentbox.internal\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\n\r\n%s", box, len(body), body)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, err.Error()
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return r, string(b)
}

func call(tool, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, tool, text)
}

const (
	box   = "0123456789ab"
	tools = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
)

// A box gets the tools and arguments that a registration allows, the server a credential that no box
// sees, and the log what was done.
func TestToolsByPolicy(t *testing.T) {
	w := newWorld(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("Bearer hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.add(api.ToolServer{
		Name: "remote", Project: "project", URL: w.remote, Tools: []string{"echo"}, Args: []string{"echo.text=hello *"},
		Headers: map[string]secrets.Reference{"Authorization": {Kind: secrets.File, Target: key}},
	})
	w.add(api.ToolServer{Name: "broken", URL: "http://127.0.0.1:1/"})
	w.add(api.ToolServer{Name: "others", Project: "another", URL: w.remote})
	for _, c := range []struct{ body, want, note string }{
		{tools, `"name":"remote__echo"`, "tools/list"},
		{call("remote__echo", "hello you"), "echo said hello you", "call remote__echo"},
		{call("remote__echo", "bye"), "denied: the argument text of echo has to be as hello *", "call remote__echo, denied: the argument text of echo has to be as hello *"},
		{call("remote__secret", "hello x"), "unknown tool", "call remote__secret, failed: "},
		{call("others__echo", "hello x"), "unknown tool", "call others__echo, failed: "},
		// What is read twice must not be read in two ways.
		{strings.Replace(call("remote__echo", "bye"), `{"text":"bye"}`, `{"text":"bye","Text":"hello you"}`, 1), "denied", "call remote__echo, denied"},
		{strings.Replace(call("remote__echo", "bye"), `"method"`, `"METHOD":"ping","method"`, 1), "denied", "call remote__echo, denied"},
	} {
		r, got := w.send(box, c.body)
		if r == nil || !strings.Contains(got, c.want) || !strings.HasPrefix(r.Header.Get(NoteHeader), c.note) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %v %s\nwant %q, noted %q", c.body, r, got, c.want, c.note)
		}
	}
	if _, got := w.send(box, tools); strings.Contains(got, "secret") || strings.Contains(got, "others__") || strings.Contains(got, "bad name") {
		t.Errorf("offered: %s", got)
	}
	close(w.seen)
	if got := slices.Sorted(func(yield func(string) bool) {
		for v := range w.seen {
			if !yield(v) {
				return
			}
		}
	}); len(got) == 0 || got[0] != "Bearer hunter2" || got[len(got)-1] != "Bearer hunter2" {
		t.Errorf("the server got %q", got)
	}
}

// A registered command is started, and ends with the gate. Who removes it takes it from boxes at once.
func TestCommand(t *testing.T) {
	if os.Getenv("TOOLGATE_TEST_SERVER") != "" {
		m := mcp.NewServer(&mcp.Implementation{Name: "command", Version: "1"}, nil)
		mcp.AddTool(m, &mcp.Tool{Name: "where"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			dir, _ := os.Getwd()
			text := fmt.Sprint(dir, " ", os.Getenv("TOOLGATE_TEST_SERVER"), " ", os.Getenv("NOT_FOR_IT"))
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
		})
		_ = m.Run(t.Context(), &mcp.StdioTransport{})
		os.Exit(0)
	}
	t.Setenv("NOT_FOR_IT", "leaked")
	w, dir := newWorld(t), t.TempDir()
	w.add(api.ToolServer{
		Name: "command", Command: []string{os.Args[0], "-test.run=^TestCommand$"}, Directory: dir,
		Env: map[string]secrets.Reference{"TOOLGATE_TEST_SERVER": {Kind: secrets.Env, Target: "OF_USER"}},
	})
	w.gate.Remember([]string{"OF_USER=from-the-user", "OTHER=x"})
	where := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"command__where"}}`
	if _, got := w.send(box, where); !strings.Contains(got, dir+" from-the-user ") || strings.Contains(got, "leaked") {
		t.Errorf("%s", got)
	}
	if err := w.gate.Registry.Remove("command", "project"); err != nil {
		t.Fatal(err)
	}
	if _, got := w.send(box, where); !strings.Contains(got, "unknown tool") {
		t.Errorf("after its removal: %s", got)
	}
}

// What is not of a box, or too much, gets nothing.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.add(api.ToolServer{Name: "remote", URL: w.remote})
	if r, got := w.send(strings.Repeat("f", 12), tools); r == nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("of another machine: %v %s", r, got)
	}
	for _, of := range []string{"", "../..", strings.Repeat("a", 4096), "POST / HTTP/1.1"} {
		if r, got := w.send(of, tools); r != nil && r.StatusCode == http.StatusOK {
			t.Errorf("for %q: %s", of, got)
		}
	}
	large := strings.Replace(call("remote__echo", "x"), "x\"}", strings.Repeat("x", maxRequest)+"\"}", 1)
	if r, _ := w.send(box, large); r != nil && r.StatusCode == http.StatusOK {
		t.Errorf("of %d bytes: %v", len(large), r.Status)
	}
	for range maxCalls {
		if !w.gate.enter(box) {
			t.Fatal("refused too early")
		}
	}
	if r, _ := w.send(box, tools); r == nil || r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("one call more than %d: %v", maxCalls, r)
	}
}

func TestRegistrations(t *testing.T) {
	r := &Registry{File: filepath.Join(t.TempDir(), "mcp.json")}
	for want, s := range map[string]api.ToolServer{
		"cannot name":          {Name: "A__b", URL: "https://a.example"},
		"a command or a URL":   {Name: "a"},
		"not a URL":            {Name: "a", URL: "file:///etc/passwd"},
		"with a password":      {Name: "a", URL: "https://u:p@a.example"},
		"in the clear":         {Name: "a", URL: "http://a.example", Headers: map[string]secrets.Reference{"X": {Kind: secrets.Env, Target: "X"}}},
		"not a variable":       {Name: "a", Command: []string{"x"}, Env: map[string]secrets.Reference{"A=B": {}}},
		"not a header":         {Name: "a", URL: "https://a.example", Headers: map[string]secrets.Reference{"A:\n": {}}},
		"not TOOL.ARGUMENT=GL": {Name: "a", Command: []string{"x"}, Args: []string{"path=/x"}},
	} {
		if err := r.Add(s); agentbox.CodeOf(err) != agentbox.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
	for _, s := range []api.ToolServer{{Name: "a", URL: "https://all.example"}, {Name: "a", Project: "p", URL: "https://p.example"}} {
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	for project, want := range map[string]string{"p": "https://p.example", "q": "https://all.example"} {
		if got, err := r.For(project); err != nil || len(got) != 1 || got[0].URL != want {
			t.Errorf("%s: %+v, %v", project, got, err)
		}
	}
	if err := r.Remove("b", "p"); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("%v", err)
	}
}

// An argument that a rule is about has to be there and to match as a whole. A wildcard covers no way up.
func TestArguments(t *testing.T) {
	s := api.ToolServer{Name: "s", Args: []string{"read*.path=/srv/*", "write.n=?"}}
	for args, want := range map[string]bool{
		`{"path":"/srv/a"}`: true, `{"path":"/srv/a/b","n":1}`: true, `{"path":"/etc/a"}`: false, `{}`: false, ``: false, `null`: false,
		`{"path":"/srv/../etc/passwd"}`: false, `{"path":"/srv/a\\..\\b"}`: false, `{"path":"/srv/a..b"}`: true, `{"path":"x\n/srv/a"}`: false,
		`{"path":["/srv/a"]}`: false, `{"path":"/etc","path":"/srv/a"}`: true, `[]`: false, `{"PATH":"/srv/a"}`: false,
	} {
		got, err := allow(s, "read_file", json.RawMessage(args))
		if (err == nil) != want {
			t.Errorf("%s: %v, %v", args, got, err)
		}
		// Of two for one name, the server gets the one that was decided about.
		if err == nil && !matches("/srv/*", got["path"].(string)) {
			t.Errorf("%s is passed on as %v", args, got)
		}
	}
	if args, err := allow(s, "write", json.RawMessage(`{"n":7,"big":12345678901234567890}`)); err != nil || fmt.Sprint(args["big"]) != "12345678901234567890" {
		t.Errorf("%v, %v", args, err)
	}
}

// FuzzRequest sends a box's bytes. Whatever they are, a tool that is not offered is not called.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{tools, call("s__a", "x"), `[` + call("s__b", "x") + `]`, "{", `{"path":"/srv/../x"}`} {
		f.Add(seed)
	}
	s := api.ToolServer{Name: "s", Tools: []string{"a"}, Args: []string{"a.path=/srv/*"}}
	f.Fuzz(func(t *testing.T, body string) {
		if args, err := allow(s, "a", json.RawMessage(body)); err == nil {
			if p, ok := args["path"].(string); ok && (!strings.HasPrefix(p, "/srv/") || strings.Contains(p, "/../")) {
				t.Errorf("%q lets %q through", body, p)
			}
		}
		if _, err := readBox(strings.NewReader(body)); err == nil && !strings.Contains(body, "\n") {
			t.Errorf("%q is a box", body)
		}
	})
}
