package door

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/environment"
)

// terminalPath is a terminal in a box, or with job that of a job: a WebSocket, whose binary messages
// are what is typed and shown. A text message to the door is {"columns": N, "rows": N}; the last one
// from it is {"exit": STATUS} or {"error": ...}.
const terminalPath = "/v1/box/terminal"

const (
	maxTyped = 64 << 10 // bytes of a message
	pingTime = 30 * time.Second
)

// terminalRequest is the query of a terminal.
type terminalRequest struct {
	api.BoxRef
	Job     string `json:"job,omitempty"`
	Command string `json:"command,omitempty"` // for sh -c; "" is the login shell
	Columns int    `json:"columns,omitempty"`
	Rows    int    `json:"rows,omitempty"`
	User    string `json:"user,omitempty"`
	Key     string `json:"key,omitempty"` // of a page
}

// terminalCall lets a terminal be confined as a call is.
var terminalCall = api.PublicCall{Path: terminalPath, Scope: api.ScopeRun, Concern: api.AboutBox}

func (d *Door) terminal(w http.ResponseWriter, r *http.Request, grant api.Token) {
	var req terminalRequest
	err := permits(grant, terminalCall.Scope)
	if err == nil {
		err = readTerminal(r.URL.Query(), &req)
	}
	if err == nil {
		err = d.confine(r.Context(), grant, terminalCall, &req)
	}
	if err != nil {
		fail(w, err)
		return
	}
	// What may be asked from where has been checked.
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it has answered
	}
	var work sync.WaitGroup // reads and pings until the connection ends
	defer work.Wait()
	defer ws.CloseNow()
	ws.SetReadLimit(maxTyped)
	d.Log.Info("terminal", "token", grant.ID, "box", req.Box)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	typed, typing := io.Pipe()
	defer typed.Close()
	sizes := make(chan environment.Size)
	// The library closes a connection when the context of a read ends, so this has that of the request.
	work.Go(func() {
		defer cancel() // the page has gone
		defer typing.Close()
		readTyped(r.Context(), ctx.Done(), ws, typing, sizes)
	})
	work.Go(func() { ping(r.Context(), ctx.Done(), ws) })
	last := map[string]any{}
	if status, err := d.shell(ctx, req, typed, screen{r.Context(), ws}, sizes); err != nil {
		last["error"] = agentbox.AsError(err)
	} else {
		last["exit"] = status.Code
	}
	text, _ := json.Marshal(last)
	if ws.Write(r.Context(), websocket.MessageText, text) == nil {
		ws.Close(websocket.StatusNormalClosure, "")
	}
}

func (d *Door) shell(ctx context.Context, req terminalRequest, typed io.Reader, shown io.Writer, sizes <-chan environment.Size) (environment.Status, error) {
	c, client, err := d.enter(ctx, req.BoxRef, req.User)
	if err != nil {
		return environment.Status{}, err
	}
	defer client.Close()
	size := environment.Size{Width: max(req.Columns, 1), Height: max(req.Rows, 1)}
	cmd := environment.Command{
		Dir: c.Dir, Env: c.Env, Stdin: typed, Stdout: shown, TTY: &environment.PTY{Term: "xterm-256color", Size: size, Resize: sizes}, Grace: time.Second,
	}
	if req.Command != "" {
		cmd.Argv = []string{"sh", "-c", req.Command}
	}
	if req.Job != "" {
		return environment.Attach(ctx, client, environment.JobAttach{Job: req.Job, Columns: size.Width, Rows: size.Height, Replay: true}, cmd)
	}
	return environment.Exec(ctx, client, cmd)
}

// Dial logs in to a box, which it wakes, as a holder of a token may: for a face that needs more than
// calls. user may be "". The caller closes the client.
func (d *Door) Dial(ctx context.Context, grant api.Token, ref api.BoxRef, user string) (api.Connection, *ssh.Client, error) {
	err := permits(grant, terminalCall.Scope)
	if err == nil {
		err = d.confine(ctx, grant, terminalCall, &ref)
	}
	if err != nil {
		return api.Connection{}, nil, err
	}
	return d.enter(ctx, ref, user)
}

func (d *Door) enter(ctx context.Context, ref api.BoxRef, user string) (api.Connection, *ssh.Client, error) {
	c, err := daemon(ctx, d, api.Connect, ref, nil)
	if err != nil {
		return c, nil, err
	}
	login, err := environment.NewLogin(cmp.Or(user, c.User), []byte(c.Key), []byte(c.HostKey))
	if err != nil {
		return c, nil, err
	}
	conn, err := api.DialTunnel(ctx, d.Daemon, api.BoxSSH, api.BoxRef{Box: c.Box.String()})
	if err != nil {
		return c, nil, err
	}
	client, err := environment.NewClient(ctx, conn, login)
	return c, client, err
}

func readTerminal(query url.Values, req *terminalRequest) error {
	req.Columns, req.Rows = 80, 24
	if err := fromQuery(reflect.ValueOf(req).Elem(), query); err != nil {
		return err
	}
	if !validSize(req.Columns, req.Rows) {
		return agentbox.Errorf(agentbox.Invalid, "a terminal cannot have %d columns and %d rows", req.Columns, req.Rows)
	}
	return nil
}

func validSize(columns, rows int) bool {
	return columns > 0 && columns <= 1000 && rows > 0 && rows <= 1000
}

// readTyped passes on what the page sends until it goes, or sends what it must not.
func readTyped(ctx context.Context, ended <-chan struct{}, ws *websocket.Conn, typing io.Writer, sizes chan<- environment.Size) {
	for {
		kind, message, err := ws.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if _, err := typing.Write(message); err != nil {
				return
			}
			continue
		}
		var size struct{ Columns, Rows int }
		if err := json.Unmarshal(message, &size); err != nil || !validSize(size.Columns, size.Rows) {
			ws.Close(websocket.StatusUnsupportedData, "a text message is {\"columns\": N, \"rows\": N}")
			return
		}
		select {
		case sizes <- environment.Size{Width: size.Columns, Height: size.Rows}:
		case <-ended:
			return
		}
	}
}

// screen is what a terminal shows.
type screen struct {
	ctx context.Context
	ws  *websocket.Conn
}

// Write implements io.Writer.
func (s screen) Write(p []byte) (int, error) {
	return len(p), s.ws.Write(s.ctx, websocket.MessageBinary, p)
}

// ping finds pages that are gone without a word.
func ping(ctx context.Context, ended <-chan struct{}, ws *websocket.Conn) {
	tick := time.NewTicker(pingTime)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			if err := ws.Ping(ctx); err != nil {
				ws.CloseNow()
				return
			}
		}
	}
}
