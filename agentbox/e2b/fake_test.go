package e2b

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/user"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// fake is a door with boxes whose files are those of dir. A job copies its input to its output.
type fake struct {
	dir  string
	url  string
	ends chan string // boxes that were removed or paused

	meanwhile func() // called when a new box is there, but not answered with; may be nil

	mu      sync.Mutex
	removed string // a token
	boxes   []agentbox.Box
	asked   []string
}

func (f *fake) Check(_ context.Context, text string) (api.Token, error) {
	if text != "mine" && text != "theirs" {
		return api.Token{}, agentbox.Errorf(agentbox.Unauthorized, "no such token")
	}
	return api.Token{ID: text, Scope: api.ScopeRun}, nil
}

func (f *fake) Seal(_ context.Context, id, text string) (api.Seal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id != "mine" && id != "theirs" || id == f.removed {
		return api.Seal{}, agentbox.Errorf(agentbox.NotFound, "there is no token %q", id)
	}
	return api.Seal{Token: api.Token{ID: id, Scope: api.ScopeRun}, Seal: "sealed " + id + " " + text}, nil
}

func (f *fake) Client(t api.Token) *api.Client { return api.NewClientOf(f.url, t.ID) }

func (f *fake) Dial(_ context.Context, _ api.Token, ref api.BoxRef, _ string) (api.Connection, *ssh.Client, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return api.Connection{}, nil, err
	}
	defer l.Close()
	go func() {
		if there, err := l.Accept(); err == nil {
			f.serveSSH(there)
		}
	}()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return api.Connection{}, nil, err
	}
	conn, chans, reqs, err := ssh.NewClientConn(here, "", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	if err != nil {
		return api.Connection{}, nil, err
	}
	return api.Connection{Dir: f.dir, User: me()}, ssh.NewClient(conn, chans, reqs), nil
}

// me is the user of this process: that of the fake box.
func me() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

func (f *fake) serveSSH(conn net.Conn) {
	_, key, _ := ed25519.GenerateKey(nil)
	signer, _ := ssh.NewSignerFromKey(key)
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	_, chans, reqs, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for one := range chans {
		ch, reqs, _ := one.Accept()
		switch one.ChannelType() {
		case "session":
			go serveSession(ch, reqs)
		case "direct-tcpip":
			go ssh.DiscardRequests(reqs)
			go servePort(ch)
		case environment.AttachChannel:
			go ssh.DiscardRequests(reqs)
			go f.attach(ch, one.ExtraData())
		}
	}
}

// serveSession has the files of this machine, and some changes of a directory.
func serveSession(ch ssh.Channel, reqs <-chan *ssh.Request) {
	for r := range reqs {
		r.Reply(r.Type == "subsystem", nil)
		switch {
		case strings.Contains(string(r.Payload), "watch@agentbox"):
			io.WriteString(ch, changes)
			ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{0}))
			ch.Close()
		case r.Type == "subsystem":
			server, _ := sftp.NewServer(ch)
			go server.Serve()
		}
	}
}

// servePort is a server that ends its answer by the end of what it sends, and no more.
func servePort(ch ssh.Channel) {
	if r, err := http.ReadRequest(bufio.NewReader(ch)); err == nil {
		io.WriteString(ch, "HTTP/1.0 200 OK\r\n\r\n"+r.Host+" "+r.Header.Get("X-Forwarded-Host"))
	}
	ch.CloseWrite()
}

// attach is a job that says hello on both outputs and ends with status 3.
func (f *fake) attach(ch ssh.Channel, _ []byte) {
	io.WriteString(ch, "out\xff")
	io.WriteString(ch.Stderr(), "err")
	ch.CloseWrite()
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{3}))
	ch.Close()
}

func (f *fake) handler() http.Handler {
	mux := http.NewServeMux()
	api.Handle(mux, api.ListBoxes, func(_ context.Context, req api.ListRequest, _ agentbox.Progress) ([]agentbox.Box, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		out := []agentbox.Box{}
		for _, b := range f.boxes {
			fits := req.ID == "" || req.ID == b.ID.String()
			for k, v := range req.Labels {
				fits = fits && b.Labels[k] == v
			}
			if fits {
				out = append(out, b)
			}
		}
		return out, nil
	})
	api.Handle(mux, api.Up, func(_ context.Context, req api.UpRequest, _ agentbox.Progress) (api.UpResponse, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, "up "+req.Directory+" "+req.Image)
		b := agentbox.Box{ID: agentbox.NewBoxID(), Labels: req.Labels, Created: time.Now()}
		f.boxes = append(f.boxes, b)
		if f.meanwhile != nil {
			f.mu.Unlock()
			defer f.mu.Lock()
			f.meanwhile()
		}
		return api.UpResponse{Box: b}, nil
	})
	api.Handle(mux, api.Label, func(_ context.Context, req api.LabelRequest, _ agentbox.Progress) (agentbox.Box, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, "label")
		i := slices.IndexFunc(f.boxes, func(b agentbox.Box) bool { return b.ID.String() == req.Box })
		labels := map[string]string{}
		for _, of := range []map[string]string{f.boxes[i].Labels, req.Labels} {
			for k, v := range of {
				labels[k] = v
			}
		}
		f.boxes[i].Labels = labels
		return f.boxes[i], nil
	})
	api.Handle(mux, api.Bind, func(_ context.Context, req api.BindRequest, _ agentbox.Progress) (agentbox.Box, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, "bind "+req.Bound)
		return agentbox.Box{}, nil
	})
	api.Handle(mux, api.Remove, func(_ context.Context, req api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.boxes = slices.DeleteFunc(f.boxes, func(b agentbox.Box) bool { return b.ID.String() == req.Box })
		f.ends <- req.Box
		return agentbox.Box{}, nil
	})
	api.Handle(mux, api.Pause, func(_ context.Context, req api.BoxRef, _ agentbox.Progress) (agentbox.Box, error) {
		f.ends <- req.Box
		return agentbox.Box{}, nil
	})
	api.Handle(mux, api.StartJob, func(_ context.Context, req api.JobStart, _ agentbox.Progress) (api.JobStarted, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, strings.Join(append(req.Spec.Argv, req.Spec.Dir, req.Spec.User), " "))
		return api.JobStarted{ID: req.Spec.ID}, nil
	})
	api.Handle(mux, api.ShowJob, func(_ context.Context, req api.JobRef, _ agentbox.Progress) (agentbox.Job, error) {
		return agentbox.Job{}, agentbox.Errorf(agentbox.NotFound, "there is no job")
	})
	return mux
}

// open returns a face and where it is served.
func open(t testing.TB) (*fake, *Face, *httptest.Server) {
	t.Helper()
	f := &fake{dir: t.TempDir(), ends: make(chan string, 10)}
	behind := httptest.NewServer(f.handler())
	f.url = behind.URL
	face := New(Config{Door: f, Directory: "/checkout", Names: []string{"boxes.example.com"}, Log: slog.New(slog.DiscardHandler)})
	s := httptest.NewServer(face)
	t.Cleanup(func() { s.Close(); face.Close(); behind.Close() })
	return f, face, s
}

// sandbox is what POST /v2/sandboxes answers.
type sandbox struct {
	SandboxID       string
	Domain          string
	EnvdAccessToken string
	Message         string
}

func rest(t testing.TB, s *httptest.Server, method, path, key, body string, into any) int {
	t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-API-KEY", key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Errorf("%s %s: %s: %v", method, path, b, err)
		}
	}
	return resp.StatusCode
}

func create(t testing.TB, s *httptest.Server, key, body string) sandbox {
	t.Helper()
	var made sandbox
	if status := rest(t, s, "POST", "/v2/sandboxes", key, body, &made); status != 201 {
		t.Fatalf("create: %d %+v", status, made)
	}
	return made
}

func (sb sandbox) client(s *httptest.Server, procedure string) *connect.Client[map[string]any, map[string]any] {
	c := connect.NewClient[map[string]any, map[string]any](http.DefaultClient, s.URL+procedure, connect.WithCodec(codec("json")))
	return c
}

func (sb sandbox) request(fields map[string]any) *connect.Request[map[string]any] {
	r := connect.NewRequest(&fields)
	sb.sign(r.Header())
	return r
}

func (sb sandbox) sign(h http.Header) {
	h.Set("E2b-Sandbox-Id", sb.SandboxID)
	h.Set("X-Access-Token", sb.EnvdAccessToken)
}

func call1(t *testing.T, s *httptest.Server, sb sandbox, procedure string, fields map[string]any) (map[string]any, connect.Code) {
	t.Helper()
	resp, err := sb.client(s, procedure).CallUnary(t.Context(), sb.request(fields))
	if err != nil {
		return nil, connect.CodeOf(err)
	}
	return *resp.Msg, 0
}
