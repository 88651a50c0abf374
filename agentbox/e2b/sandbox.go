package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// envdVersion is the version of E2B's daemon whose abilities a sandbox has, but for the metadata of files
// (upload).
const envdVersion = "0.6.4"

// defaultSeconds is how long a sandbox lives if its program does not say; the SDKs' own default.
const defaultSeconds = 300

// newSandbox is the body of POST /v2/sandboxes. What is any here is refused.
type newSandbox struct {
	TemplateID string            `json:"templateID"`
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	Timeout    *int              `json:"timeout"` // seconds
	AutoPause  bool              `json:"autoPause"`
	AutoResume struct {
		Enabled bool `json:"enabled"`
	} `json:"autoResume"`
	AutoPauseMemory *bool           `json:"autoPauseMemory"`
	Internet        *bool           `json:"allow_internet_access"`
	Network         json.RawMessage `json:"network"`
	IAM             any             `json:"iam"`
	MCP             any             `json:"mcp"`
	Volumes         []any           `json:"volumeMounts"`
}

func (f *Face) routes() {
	for pattern, do := range map[string]func(*http.Request, caller) (int, any, error){
		"POST /v2/sandboxes":              f.create,
		"POST /sandboxes":                 f.create,
		"GET /sandboxes/{id}":             f.show,
		"DELETE /sandboxes/{id}":          f.kill,
		"POST /sandboxes/{id}/timeout":    f.setTimeout,
		"POST /sandboxes/{id}/pause":      f.pause,
		"POST /sandboxes/{id}/connect":    f.connect,
		"POST /v2/sandboxes/{id}/connect": f.connect,
		"POST /sandboxes/{id}/fork":       f.fork,
		"GET /sandboxes/{id}/metrics":     f.metrics,
		"POST /sandboxes/{id}/snapshots":  f.snapshot,
		"DELETE /templates/{id}":          f.removeSnapshot,
		"PUT /sandboxes/{id}/network":     f.setNetwork,
		"/":                               f.unsupported,
	} {
		f.rest.HandleFunc(pattern, f.withKey(do))
	}
	f.rest.HandleFunc("GET /v2/sandboxes", f.listing(f.sandboxes))
	f.rest.HandleFunc("GET /snapshots", f.listing(f.snapshots))
}

func (f *Face) withKey(do func(*http.Request, caller) (int, any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, v, err := 0, any(nil), error(nil)
		var grant api.Token
		if grant, err = f.Door.Check(r.Context(), r.Header.Get("X-API-KEY")); err == nil {
			c, ctx, done := f.as(r.Context(), grant)
			defer done()
			r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
			status, v, err = do(r.WithContext(ctx), c)
		}
		switch {
		case err != nil:
			fail(w, api.StatusOf(agentbox.CodeOf(err)), err)
		case v == nil:
			w.WriteHeader(status)
		default:
			answer(w, status, v)
		}
	}
}

// read reads the body of a request, of which none is an empty one.
func read(r *http.Request, into any) error {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return agentbox.Errorf(agentbox.Invalid, "cannot read the request: %w", err)
	}
	return nil
}

func (f *Face) unsupported(r *http.Request, _ caller) (int, any, error) {
	return 0, nil, agentbox.Errorf(agentbox.NotFound, "%s %s is not served by agentbox", r.Method, agentbox.Printable(r.URL.Path)).WithHint("docs/e2b.md says what is")
}

func (f *Face) create(r *http.Request, c caller) (int, any, error) {
	var req newSandbox
	if err := read(r, &req); err != nil {
		return 0, nil, err
	}
	if err := req.check(); err != nil {
		return 0, nil, err
	}
	metadata, err := json.Marshal(req.Metadata)
	if err != nil {
		return 0, nil, err
	}
	labels := map[string]string{labelTemplate: req.TemplateID, labelMetadata: string(metadata)}
	if req.AutoPause {
		labels[labelPause] = yes
	}
	if req.AutoResume.Enabled {
		labels[labelResume] = yes
	}
	b, err := f.makeUntil(r.Context(), c, req, ofCaller(c, kindSandbox, labels))
	return f.made(r, c, http.StatusCreated, b, err)
}

// makeUntil makes the box of a sandbox with the end of its time, which is not over before it is made.
func (f *Face) makeUntil(ctx context.Context, c caller, req newSandbox, labels map[string]string) (agentbox.Box, error) {
	begun, body := time.Now(), timeBody{Timeout: req.Timeout}
	end := stamp(until(body.seconds()))
	f.making.Store(end, true)
	defer f.endsAt(until(body.seconds()))
	defer f.making.Delete(end)
	labels[labelEnd] = end
	b, err := f.make(ctx, c, req, labels)
	if err != nil {
		return b, err
	}
	f.warm(session{c, b})
	if time.Since(begun) > makingSlow {
		return f.relabel(ctx, c, b, map[string]string{labelEnd: stamp(until(body.seconds()))})
	}
	return b, nil
}

// makingSlow is how much of its time a sandbox may lose to being made. To write a later end takes a
// write to the disk, for which its first command would have to wait.
const makingSlow = time.Second

// check refuses what a sandbox would have to be protected by: silence would be taken for a yes.
func (n newSandbox) check() error {
	switch {
	case n.IAM != nil:
		return agentbox.Errorf(agentbox.Invalid, "what a sandbox may use is decided on its machine, and not by a program").WithHint("agentbox policy shows and changes it")
	case n.MCP != nil:
		return agentbox.Errorf(agentbox.Invalid, "there is no MCP gateway in a sandbox")
	case len(n.Volumes) > 0:
		return agentbox.Errorf(agentbox.Invalid, "there are no volumes").WithHint("a template that is a checkout brings files, and include: in its agentbox.yaml others")
	case n.AutoPauseMemory != nil && !*n.AutoPauseMemory:
		return agentbox.Errorf(agentbox.Invalid, "a sandbox is paused with its memory")
	}
	return nil
}

// make makes the box of a template: a snapshot, the path of a checkout, "base" for the checkout where
// serve was started, or an image instead of its own.
func (f *Face) make(ctx context.Context, c caller, req newSandbox, labels map[string]string) (agentbox.Box, error) {
	bound, err := boundOf(req.Network, req.Internet)
	if err != nil {
		return agentbox.Box{}, err
	}
	if snapshot, ok, err := f.findSnapshot(ctx, c, req.TemplateID); ok || err != nil {
		if err == nil && bound != "" {
			err = agentbox.Errorf(agentbox.Invalid, "a sandbox of a snapshot has the network of the snapshot")
		}
		if err == nil && len(req.EnvVars) > 0 {
			err = agentbox.Errorf(agentbox.Invalid, "a sandbox of a snapshot has the variables of the snapshot").WithHint("give others to commands.run")
		}
		if err != nil {
			return agentbox.Box{}, err
		}
		return f.restore(ctx, c, snapshot, labels)
	}
	up := api.UpRequest{Directory: f.Directory, Task: true, Labels: labels, Env: req.EnvVars, Bound: bound}
	switch t := req.TemplateID; {
	case path.IsAbs(t):
		up.Directory = t
	case !isBase(t):
		up.Image = t
	}
	made, err := client.Call(ctx, c.Client, api.Up, up, nil)
	return made.Box, err
}

// isBase tells whether a template is the checkout where serve was started.
func isBase(template string) bool { return template == "" || template == "base" }

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

// relabel changes labels, and looks at the ends of sandboxes again.
func (f *Face) relabel(ctx context.Context, c caller, b agentbox.Box, labels map[string]string) (agentbox.Box, error) {
	b, err := client.Call(ctx, c.Client, api.Label, api.LabelRequest{BoxRef: refTo(b), Labels: labels}, nil)
	f.endsAt(endOf(b))
	return b, err
}

// made answers with what the SDK needs to use a sandbox.
func (f *Face) made(r *http.Request, c caller, status int, b agentbox.Box, err error) (int, any, error) {
	if err != nil {
		return 0, nil, err
	}
	token, _, err := f.seal(r.Context(), c.grant.ID, b.ID.String())
	return status, map[string]any{
		"sandboxID": b.ID, "templateID": b.Labels[labelTemplate], "clientID": "agentbox", "alias": b.Name, "domain": f.domain(r),
		"envdVersion": envdVersion, "envdAccessToken": token,
	}, err
}

func found(r *http.Request, c caller) (agentbox.Box, error) {
	return find(r.Context(), c, r.PathValue("id"), kindSandbox)
}

func (f *Face) show(r *http.Request, c caller) (int, any, error) {
	b, err := found(r, c)
	out := describe(b)
	out["domain"] = f.domain(r)
	return http.StatusOK, out, err
}

func describe(b agentbox.Box) map[string]any {
	onTimeout, state := "kill", "running"
	if b.Labels[labelPause] != "" {
		onTimeout = "pause"
	}
	if b.Labels[labelPaused] != "" {
		state = "paused"
	}
	return map[string]any{
		"sandboxID": b.ID, "templateID": b.Labels[labelTemplate], "clientID": "agentbox", "alias": b.Name, "metadata": metadataOf(b), "startedAt": b.Created, "endAt": endOf(b),
		"state": state, "cpuCount": b.CPUs, "memoryMB": b.Memory >> 20, "diskSizeMB": b.Disk >> 20, "envdVersion": envdVersion,
		"lifecycle": map[string]any{"onTimeout": onTimeout, "autoResume": b.Labels[labelResume] != ""},
	}
}

func (f *Face) kill(r *http.Request, c caller) (int, any, error) {
	b, err := found(r, c)
	if err == nil {
		f.conns.drop(b.ID)
		err = c.Remove(r.Context(), b.ID.String())
	}
	return http.StatusNoContent, nil, err
}

// timeBody is the body of several calls.
type timeBody struct {
	Timeout *int  `json:"timeout"`
	Memory  *bool `json:"memory"`
	Count   *int  `json:"count"`
}

func (t timeBody) seconds() int {
	if t.Timeout == nil {
		return defaultSeconds
	}
	return *t.Timeout
}

func withBody(r *http.Request, c caller) (b agentbox.Box, body timeBody, err error) {
	if b, err = found(r, c); err == nil {
		err = read(r, &body)
	}
	if err == nil && body.Memory != nil && !*body.Memory {
		err = agentbox.Errorf(agentbox.Invalid, "a sandbox is paused and resumed with its memory")
	}
	return b, body, err
}

func (f *Face) setTimeout(r *http.Request, c caller) (int, any, error) {
	b, body, err := withBody(r, c)
	if err == nil {
		_, err = f.relabel(r.Context(), c, b, map[string]string{labelEnd: stamp(until(body.seconds()))})
	}
	return http.StatusNoContent, nil, err
}

func (f *Face) pause(r *http.Request, c caller) (int, any, error) {
	b, _, err := withBody(r, c)
	if err == nil && b.Labels[labelPaused] != "" {
		err = agentbox.Errorf(agentbox.Conflict, "the sandbox is paused already")
	}
	if err == nil {
		err = f.pauseBox(r.Context(), c, b)
	}
	return http.StatusNoContent, nil, err
}

// connect resumes a paused sandbox. The time of a running one gets longer, and not shorter.
func (f *Face) connect(r *http.Request, c caller) (int, any, error) {
	b, body, err := withBody(r, c)
	if err != nil {
		return 0, nil, err
	}
	status, labels := http.StatusOK, map[string]string{}
	if end := until(body.seconds()); b.Labels[labelPaused] != "" || end.After(endOf(b)) {
		labels[labelEnd] = stamp(end)
	}
	if b.Labels[labelPaused] != "" {
		status, labels[labelPaused] = http.StatusCreated, ""
		if _, err = client.Call(r.Context(), c.Client, api.Resume, refTo(b), nil); err != nil {
			return 0, nil, err
		}
	}
	b, err = f.relabel(r.Context(), c, b, labels)
	return f.made(r, c, status, b, err)
}
