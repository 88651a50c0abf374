package mcp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/agentbox/mcp"
)

// daemon stands in for the calls: a box "app" that runs what it is told, and one that does not exist.
func daemon(t *testing.T, ended chan<- struct{}) *client.Client {
	mux := http.NewServeMux()
	api.Handle(mux, api.Up, func(_ context.Context, req api.UpRequest, p agentbox.Progress) (api.UpResponse, error) {
		p.Begin("image", "apt:bookworm")
		return api.UpResponse{Box: agentbox.Box{Name: "app", State: agentbox.Running, Directory: req.Directory, Branch: "main"}}, nil
	})
	api.Handle(mux, api.RunInBox, func(ctx context.Context, req api.RunRequest, p agentbox.Progress) (api.RunResult, error) {
		switch {
		case req.Box != "app":
			return api.RunResult{}, agentbox.Errorf(agentbox.NotFound, "no box %q here", req.Box).WithHint("agentbox ls lists them")
		case req.Script == "wait":
			p.Begin("run", "wait")
			<-ctx.Done()
			ended <- struct{}{}
		case req.Env["SHOT_URL"] != "":
			return shot(req.Env["SHOT_URL"], req.Env["SHOT_SIZE"]), nil
		case req.Script == "much":
			return api.RunResult{Stdout: strings.Repeat("x", 100<<10), Stderr: "the end"}, nil
		}
		return api.RunResult{Status: 3, Stdout: req.Script + "\n"}, nil
	})
	api.Handle(mux, api.ReadFile, func(_ context.Context, req api.FileRead, _ agentbox.Progress) (api.FilePart, error) {
		content := map[string][]byte{"/tmp/1280,800": []byte(picture), "/tmp/no": []byte("GIF89a")}[req.Path][req.Offset:]
		return api.FilePart{Content: content, Size: int64(len(content)) + req.Offset}, nil
	})
	api.Handle(mux, api.Unsaved, func(context.Context, api.BoxRef, agentbox.Progress) (api.UnsavedWork, error) {
		return api.UnsavedWork{Name: "app", Commits: 2, Titles: []string{"Fix it"}}, nil
	})
	api.Handle(mux, api.Remove, func(context.Context, api.BoxRef, agentbox.Progress) (agentbox.Box, error) {
		return agentbox.Box{}, nil
	})
	api.HandleDownload(mux, api.AuditLog, func(_ context.Context, _ api.AuditRequest, w io.Writer) error {
		_, err := io.WriteString(w, `{"kind":"flow","name":"ok.example.com","allow":true}`+"\n"+
			`{"kind":"flow","method":"GET","name":"example.com","port":443,"path":"/a","reason":"no rule allows it","hint":"agentbox policy allow example.com"}`+"\n")
		return err
	})
	api.HandleDownload(mux, api.TaskLog, func(_ context.Context, req api.TaskLogRequest, w io.Writer) error {
		if req.Task != "t-1" {
			return agentbox.Errorf(agentbox.NotFound, "no such task")
		}
		_, err := io.WriteString(w, "built\n")
		return err
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c := client.New(s.URL, "")
	t.Cleanup(c.Close)
	return c
}

const picture = "\x89PNG\r\n\x1a\n..."

// shot is what a box says of a screenshot, by its URL.
func shot(url, size string) api.RunResult {
	switch url {
	case "none":
		return api.RunResult{Status: 127}
	case "down":
		return api.RunResult{Status: 1, Stderr: "net::ERR_CONNECTION_REFUSED"}
	case "no":
		return api.RunResult{Stdout: "/tmp/no"}
	}
	return api.RunResult{Stdout: "/tmp/" + size}
}

// A screenshot is a picture, or says why there is none and what to do.
func TestScreenshot(t *testing.T) {
	s := connect(t, daemon(t, nil), nil)
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "box_screenshot", Arguments: map[string]any{"box": "app", "url": "http://localhost/"}})
	if err != nil || r.IsError || len(r.Content) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if got, ok := r.Content[0].(*sdk.ImageContent); !ok || string(got.Data) != picture || got.MIMEType != "image/png" {
		t.Errorf("%+v", r.Content[0])
	}
	for url, want := range map[string]string{
		"":     "needs a URL",
		"none": "there is no browser in box app\nhint: sudo apt-get install -y chromium",
		"down": "ERR_CONNECTION_REFUSED",
		"no":   "is no picture",
	} {
		if text, failed := call(t, s, "box_screenshot", map[string]any{"box": "app", "url": url}); !failed || !strings.Contains(text, want) {
			t.Errorf("%q: %v %q, want %q", url, failed, text, want)
		}
	}
	if text, failed := call(t, s, "box_screenshot", map[string]any{"box": "app", "url": "x", "width": 100000}); !failed {
		t.Errorf("too wide: %q", text)
	}
}

// connect returns a session of the SDK's client.
func connect(t *testing.T, c *client.Client, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	server, err := mcp.Server{Client: c, Directory: "/src"}.New().Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, opts).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); server.Wait() })
	return session
}

func call(t *testing.T, s *sdk.ClientSession, tool string, args map[string]any) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil || len(r.Content) != 1 {
		t.Fatalf("%s: %v, %v", tool, r, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

func TestTools(t *testing.T) {
	s := connect(t, daemon(t, nil), nil)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		if names = append(names, tool.Name); tool.Description == "" || tool.Annotations == nil {
			t.Errorf("%s does not say what it does", tool.Name)
		}
	}
	want := strings.Fields("box_checkpoint box_diff box_exec box_fork box_ls box_read_file box_reset box_rm box_rollback box_screenshot box_up box_write_file policy_why task_cancel task_diff task_logs task_status task_submit")
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("tools: %s", names)
	}
	type args = map[string]any
	for _, c := range []struct {
		tool   string
		args   args
		failed bool
		want   string
	}{
		{"box_up", nil, false, "box app (000000000000) is running, , 0 CPUs, 0 MiB, of /src at main"},
		{"box_exec", args{"box": "app", "command": "make"}, false, "exit status 3\nstdout:\nmake\n"},
		{"box_exec", args{"box": "nobody", "command": "make"}, true, "failed: no box \"nobody\" here\nhint: agentbox ls lists them"},
		{"box_exec", args{"command": "make"}, true, ""},
		{"box_rm", args{"box": "app"}, true, "failed: 2 commits and 0 files in box app exist nowhere else: Fix it\nhint: look at box_diff; ask whether it may go, and then give force"},
		{"box_rm", args{"box": "app", "force": true}, false, "removed app"},
		{"policy_why", args{"box": "app"}, false, "00:00:00 denied: GET example.com:443/a: no rule allows it\na person can allow it: agentbox policy allow example.com\n"},
		{"task_logs", args{"task": "t-1"}, false, "built\n"},
	} {
		if text, failed := call(t, s, c.tool, c.args); failed != c.failed || c.want != "" && text != c.want {
			t.Errorf("%s %v: %v %q, want %v %q", c.tool, c.args, failed, text, c.failed, c.want)
		}
	}
	text, _ := call(t, s, "box_exec", args{"box": "app", "command": "much"})
	if len(text) > 25<<10 || !strings.Contains(text, "are not shown") || !strings.HasSuffix(text, "stderr:\nthe end\n") {
		t.Errorf("a long answer has %d bytes: ...%s", len(text), text[len(text)-100:])
	}
}

func TestResources(t *testing.T) {
	s := connect(t, daemon(t, nil), nil)
	r, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "agentbox://task/t-1/log"})
	if err != nil || len(r.Contents) != 1 || r.Contents[0].Text != "built\n" {
		t.Errorf("%v, %v", r, err)
	}
	for _, uri := range []string{"agentbox://task/t-2/log", "agentbox://task/../log", "agentbox://task//log", "file:///etc/passwd"} {
		if _, err := s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s was read", uri)
		}
	}
}

// A client sees how far a call is, and one that gives up ends the command.
func TestProgressAndCancellation(t *testing.T) {
	seen, ended := make(chan string, 9), make(chan struct{}, 1)
	s := connect(t, daemon(t, ended), &sdk.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
		seen <- r.Params.Message
	}})
	p := &sdk.CallToolParams{Name: "box_up", Arguments: map[string]any{}}
	p.SetProgressToken("p")
	if _, err := s.CallTool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "image apt:bookworm" {
		t.Errorf("progress: %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "box_exec", Arguments: map[string]any{"box": "app", "command": "wait"}}); err == nil {
		t.Error("a call that was given up answered")
	}
	<-ended
}

// Over HTTP a session belongs to the token that began it.
func TestSessionBelongsToToken(t *testing.T) {
	c := daemon(t, nil)
	h := mcp.Handler(func(r *http.Request) (api.Token, error) {
		return api.Token{ID: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}, nil
	}, func(api.Token) mcp.Server { return mcp.Server{Client: c} })
	s := httptest.NewServer(h)
	defer s.Close()
	post := func(token, session, body string) *http.Response {
		r, _ := http.NewRequest("POST", s.URL, strings.NewReader(body))
		for name, value := range map[string]string{
			"Authorization": "Bearer " + token, "Mcp-Session-Id": session, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18",
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	begin := post("one", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
	id := begin.Header.Get("Mcp-Session-Id")
	if begin.StatusCode != 200 || id == "" {
		t.Fatalf("%s, session %q", begin.Status, id)
	}
	for token, ok := range map[string]bool{"one": true, "two": false} {
		got := post(token, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, len(token)))
		if (got.StatusCode == 200) != ok {
			t.Errorf("token %s: %s", token, got.Status)
		}
	}
}
