package door_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/door"
)

const mine, other = "https://example.com/mine", "https://example.com/other"

var (
	myBox, otherBox   = agentbox.Box{ID: agentbox.BoxID{1}, Name: "mine", Project: mine}, agentbox.Box{ID: agentbox.BoxID{2}, Name: "other", Project: other}
	myTask, otherTask = task(1, mine), task(2, other)
)

func task(n byte, project string) agentbox.Task {
	return agentbox.Task{ID: agentbox.TaskID{n}, TaskSpec: agentbox.TaskSpec{Project: project}}
}

// fake is a daemon with two boxes, two tasks, and a token for each scope: "read", "run", "admin", and
// "mine" for one project. It remembers what it was asked.
type fake struct {
	mu    sync.Mutex
	asked []string
	runs  atomic.Int32
}

func (f *fake) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, s)
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	api.Handle(mux, api.CheckToken, func(_ context.Context, req api.TokenText, _ agentbox.Progress) (api.Token, error) {
		t := api.Token{ID: req.Text, Scope: api.Scope(req.Text)}
		switch req.Text {
		case "read", "run", "admin":
		case "mine":
			t.Scope, t.Project = api.ScopeRun, mine
		case "soon":
			t.Scope, t.Expires = api.ScopeRun, time.Now().Add(50*time.Millisecond)
		default:
			return t, agentbox.Errorf(agentbox.Unauthorized, "no such token")
		}
		return t, nil
	})
	api.Handle(mux, api.FindSubject, f.subject)
	api.Handle(mux, api.ListBoxes, func(_ context.Context, _ api.ListRequest, p agentbox.Progress) ([]agentbox.Box, error) {
		p.Note("looking")
		return []agentbox.Box{myBox, otherBox}, nil
	})
	api.Handle(mux, api.ListTasks, func(context.Context, api.TaskList, agentbox.Progress) ([]agentbox.Task, error) {
		return []agentbox.Task{myTask, otherTask}, nil
	})
	api.Handle(mux, api.ShowBox, func(_ context.Context, ref api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
		f.note("show " + ref.Box)
		if ref.Box == "gone" {
			return agentbox.Box{}, agentbox.Errorf(agentbox.NotFound, "no box %q here", ref.Box).WithHint("agentbox ls lists them")
		}
		return myBox, nil
	})
	api.Handle(mux, api.Diff, func(_ context.Context, req api.DiffRequest, _ agentbox.Progress) (api.WorkDiff, error) {
		f.note("diff " + req.Box)
		return api.WorkDiff{}, nil
	})
	api.Handle(mux, api.ShowTask, func(_ context.Context, req api.TaskRef, _ agentbox.Progress) (api.TaskInfo, error) {
		f.note("task " + req.Task)
		return api.TaskInfo{}, nil
	})
	api.Handle(mux, api.Up, func(_ context.Context, req api.UpRequest, _ agentbox.Progress) (api.UpResponse, error) {
		f.note("up " + req.Directory)
		return api.UpResponse{Connection: api.Connection{Key: "SECRET"}}, nil
	})
	api.Handle(mux, api.SubmitTasks, func(_ context.Context, req api.TaskSubmission, _ agentbox.Progress) ([]agentbox.Task, error) {
		f.note("submit " + req.Spec.Directory)
		return []agentbox.Task{}, nil
	})
	api.HandleDownload(mux, api.ReadArtifact, func(_ context.Context, req api.ArtifactRef, _ io.Writer) error {
		f.note("read of " + req.Task.String())
		return nil
	})
	api.Handle(mux, api.RunInBox, func(_ context.Context, req api.RunRequest, _ agentbox.Progress) (api.RunResult, error) {
		f.runs.Add(1)
		return api.RunResult{Stdout: strings.Join(req.Argv, " ")}, nil
	})
	api.Handle(mux, api.Connect, func(context.Context, api.BoxRef, agentbox.Progress) (api.Connection, error) {
		return api.Connection{Key: "SECRET"}, nil
	})
	api.HandleDownload(mux, api.JobLog, func(_ context.Context, _ api.JobLogRequest, w io.Writer) error {
		for _, piece := range []string{"a\n\xc3", "\xa4<b>\n"} {
			if _, err := io.WriteString(w, piece); err != nil {
				return err
			}
		}
		return agentbox.Errorf(agentbox.Corrupt, "it is cut")
	})
	api.HandleDownload(mux, api.BoxLog, func(ctx context.Context, _ api.BoxLogRequest, w io.Writer) error {
		_, _ = io.WriteString(w, "begun\n")
		<-ctx.Done()
		return nil
	})
	return mux
}

func (f *fake) subject(_ context.Context, req api.SubjectRequest, _ agentbox.Progress) (api.Subject, error) {
	switch {
	case req.Checkout && req.Directory == "/mine":
		return api.Subject{Project: mine}, nil
	case req.Checkout:
		return api.Subject{Project: other}, nil
	case req.Task == "t-01" || req.Task == myTask.ID.String() || req.OrTask && req.Box == "t-01":
		return api.Subject{Task: myTask.ID.String(), Project: mine}, nil
	case req.Task != "":
		return api.Subject{Task: otherTask.ID.String(), Project: other}, nil
	case req.Box == "mine" || req.Box == "" && req.Directory == "/mine":
		return api.Subject{Box: myBox.ID.String(), Project: mine}, nil
	}
	return api.Subject{Box: otherBox.ID.String(), Project: other}, nil
}

// open returns a door to a daemon, on a port of this machine.
func open(t testing.TB) (*fake, *door.Door, *httptest.Server) {
	t.Helper()
	f := &fake{}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	behind := &http.Server{Handler: f.handler()}
	go behind.Serve(l)
	client := api.NewClient(l.Addr().String())
	d := door.New(door.Config{Daemon: client, Names: []string{"box.example.com"}, Log: slog.New(slog.DiscardHandler)})
	front := httptest.NewServer(d)
	t.Cleanup(func() { front.Close(); d.Close(); client.Close(); behind.Close() })
	return f, d, front
}

// ask sends a request, changed by with, and returns the answer and its body.
func ask(t testing.TB, s *httptest.Server, method, path, body string, with ...func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, w := range with {
		w(r)
	}
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body) // an answer that is cut ends with an error
	return resp, string(b)
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func as(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

func wantCode(t *testing.T, what string, resp *http.Response, body string, status int, code agentbox.Code) {
	t.Helper()
	var e struct{ Error agentbox.Error }
	if err := json.Unmarshal([]byte(body), &e); err != nil || resp.StatusCode != status || e.Error.Code != code || e.Error.Message == "" {
		t.Errorf("%s: %s %s, want %d %s", what, resp.Status, body, status, code)
	}
}

// Who may ask at all: a request to this machine, not of another site's page, with a token for this.
func TestWhoIsRefused(t *testing.T) {
	f, _, s := open(t)
	const list, up = "/v1/box/list", "/v1/box/up"
	if _, body := ask(t, s, "POST", up, `{"directory":"/mine"}`, as("admin")); strings.Contains(body, "SECRET") {
		t.Errorf("a key to the box went out: %s", body)
	}
	f.asked = nil
	for what, c := range map[string]struct {
		path   string
		with   []func(*http.Request)
		status int
		code   agentbox.Code
	}{
		"no token":               {list, nil, 401, agentbox.Unauthorized},
		"a wrong token":          {list, []func(*http.Request){as("nobody")}, 401, agentbox.Unauthorized},
		"another scheme":         {list, []func(*http.Request){header("Authorization", "Basic read")}, 401, agentbox.Unauthorized},
		"a name that leads here": {list, []func(*http.Request){as("read"), func(r *http.Request) { r.Host = "evil.example.com" }}, 403, agentbox.Forbidden},
		"an address in a name":   {list, []func(*http.Request){as("read"), func(r *http.Request) { r.Host = "127.0.0.1.example.com" }}, 403, agentbox.Forbidden},
		"no host":                {list, []func(*http.Request){as("read"), func(r *http.Request) { r.Host = "." }}, 403, agentbox.Forbidden},
		"another site":           {list, []func(*http.Request){as("read"), header("Origin", "https://evil.example.com")}, 403, agentbox.Forbidden},
		"another port":           {list, []func(*http.Request){as("read"), header("Origin", "http://127.0.0.1:1")}, 403, agentbox.Forbidden},
		"a page of nowhere":      {list, []func(*http.Request){as("read"), header("Origin", "null")}, 403, agentbox.Forbidden},
		"a link of another site": {list, []func(*http.Request){as("read"), header("Sec-Fetch-Site", "cross-site")}, 403, agentbox.Forbidden},
		"a page of another port": {list, []func(*http.Request){as("read"), header("Sec-Fetch-Site", "same-site")}, 403, agentbox.Forbidden},
		"a scope that is less":   {up, []func(*http.Request){as("read")}, 403, agentbox.Forbidden},
		"what is not public":     {"/v1/box/connect", []func(*http.Request){as("admin")}, 404, agentbox.NotFound},
		"the way to tokens":      {"/v1/token/list", []func(*http.Request){as("admin")}, 404, agentbox.NotFound},
		"the way out":            {"/v1/shutdown", []func(*http.Request){as("admin")}, 404, agentbox.NotFound},
		"a path behind":          {"/v1/../v1/shutdown", []func(*http.Request){as("admin")}, 404, agentbox.NotFound},
		"a form of a page":       {list, []func(*http.Request){as("read"), header("Content-Type", "text/plain")}, 400, agentbox.Invalid},
	} {
		resp, body := ask(t, s, "POST", c.path, "{}", c.with...)
		wantCode(t, what, resp, body, c.status, c.code)
	}
	if len(f.asked) != 0 {
		t.Errorf("the daemon was asked %q", f.asked)
	}
	for _, host := range []string{"localhost:1", "[::1]:1", "box.example.com", "BOX.example.com:80"} {
		if resp, body := ask(t, s, "POST", list, "", as("read"), func(r *http.Request) { r.Host = host }); resp.StatusCode != 200 {
			t.Errorf("%s: %s %s", host, resp.Status, body)
		}
	}
}

// A token of one project gets what is of that project, and the daemon gets whole IDs.
func TestTokenOfOneProject(t *testing.T) {
	f, _, s := open(t)
	for _, c := range []struct{ path, body, asked string }{
		{"/v1/box/show", `{"box":"mine"}`, "show " + myBox.ID.String()},
		{"/v1/box/show", `{"directory":"/mine"}`, "show " + myBox.ID.String()},
		{"/v1/box/show", `{"box":"other"}`, ""},
		{"/v1/box/show", `{"box":"t-01"}`, ""},
		{"/v1/box/show", `{"box":"mine","Box":"other"}`, ""},
		{"/v1/box/show", `{"BOX":"other","box":"mine"}`, "show " + myBox.ID.String()},
		{"/v1/box/diff", `{"box":"t-01"}`, "diff " + myTask.ID.String()},
		{"/v1/box/diff", `{"box":"t-02"}`, ""},
		{"/v1/task/show", `{"task":"t-01"}`, "task " + myTask.ID.String()},
		{"/v1/task/show", `{"task":"t-02"}`, ""},
		{"/v1/box/up", `{"directory":"/mine"}`, "up /mine"},
		{"/v1/box/up", `{"directory":"/other"}`, ""},
		{"/v1/box/up", `{"directory":"/mine","source":{"digest":"sha256:` + strings.Repeat("0", 64) + `"}}`, ""},
		{"/v1/task/submit", `{"spec":{"directory":"/other"}}`, ""},
		{"/v1/task/submit", `{"spec":{"directory":"/mine"}}`, "submit /mine"},
		// To choose what a box may do is more than to run.
		{"/v1/task/submit", `{"spec":{"directory":"/mine","secrets":["TOKEN"]}}`, ""},
		{"/v1/task/submit", `{"spec":{"directory":"/mine","for":{"loan":{"secrets":[]}}}}`, ""},
		{"/v1/box/up", `{"directory":"/mine","foreign":true,"loan":{"secrets":[]}}`, ""},
		{"/v1/artifact/read", `{"task":"` + myTask.ID.String() + `"}`, "read of " + myTask.ID.String()},
		{"/v1/artifact/read", `{"task":"` + otherTask.ID.String() + `"}`, ""},
		{"/v1/image/list", `{}`, ""},
		{"/v1/job/list", `{"box":"mine","all":true}`, ""},
		{"/v1/job/signal", `{}`, ""},
	} {
		f.asked = nil
		resp, body := ask(t, s, "POST", c.path, c.body, as("mine"))
		if got := strings.Join(f.asked, ", "); got != c.asked || (resp.StatusCode == 200) != (c.asked != "") {
			t.Errorf("%s %s: %s %s; the daemon was asked %q, want %q", c.path, c.body, resp.Status, body, got, c.asked)
		}
	}
	for _, path := range []string{"/v1/box/list", "/v1/task/list"} {
		if _, body := ask(t, s, "GET", path, "", as("mine")); !strings.Contains(body, mine) || strings.Contains(body, other) {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// One call in each form, and an error in the one form of errors.
func TestForms(t *testing.T) {
	_, _, s := open(t)
	const looking = `{"step":"","detail":"looking","note":true}`
	resp, body := ask(t, s, "GET", "/v1/box/list?usage=true", "", as("read"))
	if resp.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(body, `[{"id":"`+myBox.ID.String()) {
		t.Errorf("JSON: %s", body)
	}
	_, body = ask(t, s, "GET", "/v1/box/list", "", as("read"), header("Accept", "text/event-stream"))
	if !strings.HasPrefix(body, "event: progress\ndata: "+looking+"\n\nevent: result\ndata: [{") || !strings.HasSuffix(body, "}]\n\n") {
		t.Errorf("events: %s", body)
	}
	_, body = ask(t, s, "POST", "/v1/box/list", "{}", as("read"), header("Accept", "application/x-ndjson"))
	if !strings.HasPrefix(body, `{"event":`+looking+"}\n"+`{"result":[{`) {
		t.Errorf("lines: %s", body)
	}
	resp, body = ask(t, s, "GET", "/v1/box/show?box=gone", "", as("read"))
	wantCode(t, "no box", resp, body, 404, agentbox.NotFound)
	if _, body := ask(t, s, "GET", "/v1/box/show?box=gone", "", as("read"), header("Accept", "text/event-stream")); !strings.HasPrefix(body, "event: error\ndata: {\"code\":\"not_found\"") {
		t.Errorf("an error as events: %s", body)
	}
	if resp, body = ask(t, s, "GET", "/v1/box/show?nobox=1", "", as("read")); resp.StatusCode != 400 || !strings.Contains(body, "nobox") {
		t.Errorf("an unknown field: %s %s", resp.Status, body)
	}
	resp, body = ask(t, s, "GET", "/v1/box/exec?box=mine", "", as("run"))
	wantCode(t, "a GET that changes something", resp, body, 400, agentbox.Invalid)
	resp, body = ask(t, s, "POST", "/v1/box/exec", `{"argv":["`+strings.Repeat("x", 5<<20)+`"]}`, as("run"))
	wantCode(t, "a long request", resp, body, 400, agentbox.Invalid)
}

// What a box wrote is text, whole runes of it, and an answer that is cut is not taken for a whole one.
func TestLogs(t *testing.T) {
	_, d, s := open(t)
	_, body := ask(t, s, "GET", "/v1/job/log?box=mine", "", as("read"), header("Accept", "text/event-stream"))
	var text string // in however many pieces
	for event := range strings.SplitSeq(body, "\n\n") {
		if data, ok := strings.CutPrefix(event, "event: text\ndata: "); ok {
			var piece string
			if err := json.Unmarshal([]byte(data), &piece); err != nil {
				t.Fatal(err)
			}
			text += piece
		}
	}
	if end := "event: error\ndata: {\"code\":\"corrupt\",\"message\":\"it is cut\"}\n\n"; text != "a\nä<b>\n" || !strings.HasSuffix(body, end) {
		t.Errorf("events: %q", body)
	}
	r, _ := http.NewRequest("GET", s.URL+"/v1/job/log?box=mine", nil)
	as("read")(r)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || resp.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a log is %s", kind)
	}
	if text, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("a cut log ended as a whole one: %q", text)
	}
	client := d.Client(api.Token{ID: "x", Scope: api.ScopeRead})
	defer client.Close()
	var out strings.Builder
	err = api.Read(t.Context(), client, api.JobLog, api.JobLogRequest{}, &out)
	if out.String() != "a\nä<b>\n" || agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a client got %q, %v", out.String(), err)
	}
}

// A stream ends with its token.
func TestStreamEndsWithToken(t *testing.T) {
	_, _, s := open(t)
	_, body := ask(t, s, "GET", "/v1/box/log?box=mine&follow=true", "", as("soon"))
	if body != "begun\n" {
		t.Errorf("got %q", body)
	}
}

func TestPagesOfLists(t *testing.T) {
	_, _, s := open(t)
	var got []string
	for after := ""; ; {
		resp, body := ask(t, s, "GET", "/v1/box/list?limit=1&after="+after, "", as("read"))
		var page []agentbox.Box
		if err := json.Unmarshal([]byte(body), &page); err != nil || len(page) != 1 {
			t.Fatalf("%s: %v", body, err)
		}
		got = append(got, page[0].Name)
		if after = resp.Header.Get("Agentbox-Next"); after == "" {
			break
		}
	}
	if strings.Join(got, " ") != "mine other" {
		t.Errorf("got %q", got)
	}
	resp, body := ask(t, s, "GET", "/v1/box/list?after=nothing", "", as("read"))
	wantCode(t, "an element that is gone", resp, body, 404, agentbox.NotFound)
	resp, body = ask(t, s, "GET", "/v1/box/list?limit=-1", "", as("read"))
	wantCode(t, "a wrong number", resp, body, 400, agentbox.Invalid)
}

// Requests with one key, at once or later, run one command; other keys and other tokens another.
func TestIdempotencyKey(t *testing.T) {
	f, _, s := open(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, body := ask(t, s, "POST", "/v1/box/exec", `{"box":"mine","argv":["once"]}`, as("run"), header("Idempotency-Key", "k")); !strings.Contains(body, "once") {
				t.Errorf("got %s", body)
			}
		})
	}
	all.Wait()
	if n := f.runs.Load(); n != 1 {
		t.Errorf("%d ran", n)
	}
	ask(t, s, "POST", "/v1/box/exec", `{"box":"mine","argv":["x"]}`, as("run"), header("Idempotency-Key", "l"))
	ask(t, s, "POST", "/v1/box/exec", `{"box":"mine","argv":["x"]}`, as("admin"), header("Idempotency-Key", "k"))
	if n := f.runs.Load(); n != 3 {
		t.Errorf("%d ran", n)
	}
}

// 200 clients run 1000 commands, and none fails.
func TestManyClients(t *testing.T) {
	f, _, s := open(t)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for range 5 {
				if resp, body := ask(t, s, "POST", "/v1/box/exec", `{"box":"mine","argv":["x"]}`, as("run")); resp.StatusCode != 200 {
					t.Errorf("%s %s", resp.Status, body)
				}
			}
		})
	}
	all.Wait()
	if n := f.runs.Load(); n != 1000 {
		t.Errorf("%d ran", n)
	}
}

// A page logs in once, and needs both halves from then on.
func TestPageSession(t *testing.T) {
	_, d, s := open(t)
	login := `{"code":"` + d.Code() + `"}`
	resp, body := ask(t, s, "POST", "/login", login, header("Origin", s.URL))
	var half struct{ Key string }
	if err := json.Unmarshal([]byte(body), &half); err != nil || len(resp.Cookies()) != 1 {
		t.Fatalf("%s %s: %v", resp.Status, body, err)
	}
	cookie := resp.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Name != "agentbox"+s.URL[strings.LastIndex(s.URL, ":")+1:] {
		t.Errorf("the cookie is %s", cookie)
	}
	withCookie := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value}) }
	if resp, body := ask(t, s, "GET", "/v1/box/list", "", withCookie, header("Agentbox-Page", half.Key)); resp.StatusCode != 200 {
		t.Errorf("with both: %s %s", resp.Status, body)
	}
	for what, with := range map[string][]func(*http.Request){
		"the cookie alone": {withCookie},
		"the key alone":    {header("Agentbox-Page", half.Key)},
		"another key":      {withCookie, header("Agentbox-Page", half.Key[1:]+"A")},
		"another site":     {withCookie, header("Agentbox-Page", half.Key), header("Origin", "http://127.0.0.1:3000")},
	} {
		if resp, body := ask(t, s, "GET", "/v1/box/list", "", with...); resp.StatusCode != 401 && resp.StatusCode != 403 {
			t.Errorf("%s: %s %s", what, resp.Status, body)
		}
	}
	// A browser sends a WebSocket's cookie from any page, and asks nobody before.
	terminal := "/v1/box/terminal?box=mine&key=" + half.Key
	for what, c := range map[string]struct {
		path   string
		with   []func(*http.Request)
		status int
	}{
		"the page's own":    {terminal, []func(*http.Request){header("Origin", s.URL)}, http.StatusSwitchingProtocols},
		"another site's":    {terminal, []func(*http.Request){header("Origin", "https://evil.example.com")}, 403},
		"another port's":    {terminal, []func(*http.Request){header("Origin", "http://127.0.0.1:1")}, 403},
		"one of no origin":  {terminal, []func(*http.Request){header("Origin", "null")}, 403},
		"by another name":   {terminal, []func(*http.Request){header("Origin", "http://evil.example.com"), func(r *http.Request) { r.Host = "evil.example.com" }}, 403},
		"without the key":   {"/v1/box/terminal?box=mine", []func(*http.Request){header("Origin", s.URL)}, 401},
		"with another's":    {terminal + "x", []func(*http.Request){header("Origin", s.URL)}, 401},
		"the key elsewhere": {"/v1/box/list?key=" + half.Key, []func(*http.Request){header("Origin", s.URL)}, 401},
	} {
		r := httptest.NewRequest("GET", s.URL+c.path, nil)
		for _, with := range append(c.with, withCookie) {
			with(r)
		}
		ws, resp, err := websocket.Dial(t.Context(), s.URL+c.path, &websocket.DialOptions{HTTPHeader: r.Header, Host: r.Host})
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("a terminal, %s: %v", what, err)
		}
		if ws != nil {
			ws.CloseNow()
		}
	}
	resp, body = ask(t, s, "POST", "/login", login)
	wantCode(t, "a second login", resp, body, 401, agentbox.Unauthorized)
	resp, body = ask(t, s, "POST", "/login", `{"code":""}`)
	wantCode(t, "no code", resp, body, 401, agentbox.Unauthorized)
}

// Nothing that a stranger sends is answered otherwise than with an error, or passed on.
func FuzzRequest(f *testing.F) {
	behind, _, s := open(f)
	f.Add("GET", "/v1/box/list?limit=1", "", "read")
	f.Add("POST", "/v1/box/exec", `{"box":"other","argv":["x"]}`, "mine")
	f.Add("POST", "/v1/box/show", `{"box":null,"directory":{}}`, "mine")
	f.Add("GET", "/v1/box/terminal?box=other", "", "mine")
	f.Fuzz(func(t *testing.T, method, path, body, token string) {
		r, err := http.NewRequest(method, s.URL, strings.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		r.Header.Set("Content-Type", "application/json")
		if token == "run" || token == "admin" {
			token = "mine"
		}
		as(strings.ToValidUTF8(token, ""))(r)
		behind.mu.Lock()
		behind.asked = nil
		behind.mu.Unlock()
		resp, err := s.Client().Do(r)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		first, _ := bufio.NewReader(resp.Body).ReadString('\n')
		if strings.Contains(first, "SECRET") || token != "read" && strings.Contains(first, other) {
			t.Errorf("%s %s %s: %s", method, path, body, first)
		}
		behind.mu.Lock()
		defer behind.mu.Unlock()
		for _, asked := range behind.asked {
			if token == "mine" && (strings.Contains(asked, otherBox.ID.String()) || strings.Contains(asked, otherTask.ID.String())) {
				t.Errorf("%s %s %s asked %q", method, path, body, asked)
			}
		}
	})
}
