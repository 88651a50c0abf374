package e2b

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
	"agentbox/agentbox/environment"
)

// servePort passes a request on to a server in a sandbox. Nobody is asked for a token: programs give
// such an address to browsers. Who knows the ID of a sandbox may use its servers, while the token that
// made it is valid.
func (f *Face) servePort(w http.ResponseWriter, r *http.Request, box string, port int) {
	s, err := f.ownerOf(r.Context(), box)
	if err != nil || s.box.Labels[labelPaused] != "" && s.box.Labels[labelResume] == "" {
		answerGone(w, box)
		return
	}
	c, ctx, done := f.as(r.Context(), s.grant)
	defer done()
	s.caller = c
	if s.box.Labels[labelPaused] != "" {
		_ = f.wake(context.WithValue(ctx, sessionKey{}, s), s.box)
	}
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetXForwarded()
			p.Out.URL.Scheme, p.Out.URL.Host = "http", r.Host
			p.Out.Host = r.Host
		},
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return f.dialPort(ctx, s, port)
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			answer(w, http.StatusBadGateway, map[string]any{
				"code": http.StatusBadGateway, "message": "The sandbox is running but port is not open", "sandboxId": box, "port": port, "reason": agentbox.AsError(err).Message,
			})
		},
		ErrorLog: nil,
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

func (f *Face) dialPort(ctx context.Context, s session, port int) (net.Conn, error) {
	conn, release, err := f.conns.open(ctx, s, "")
	if err != nil {
		return nil, err
	}
	c, err := environment.DialTCP(ctx, conn.client, net.JoinHostPort("localhost", strconv.Itoa(port)))
	if err != nil {
		release()
		return nil, err
	}
	return &releasing{Conn: c, release: release}, nil
}

// releasing is a connection to a port, which uses one to the box.
type releasing struct {
	net.Conn
	release func()
}

// Close implements net.Conn. The transport calls it once.
func (r *releasing) Close() error {
	defer r.release()
	return r.Conn.Close()
}

func (f *Face) ownerOf(ctx context.Context, box string) (session, error) {
	looking, ctx, done := f.as(ctx, api.Token{ID: "e2b", Scope: api.ScopeRead})
	defer done()
	all, err := client.Call(ctx, looking.Client, api.ListBoxes, api.ListRequest{ID: box, Known: true, Labels: map[string]string{labelKind: kindSandbox}}, nil)
	if err == nil && len(all) != 1 {
		err = agentbox.Errorf(agentbox.NotFound, "there is no sandbox %s", box)
	}
	if err != nil {
		return session{}, err
	}
	_, token, err := f.seal(ctx, all[0].Labels[labelOwner], box)
	return session{caller{grant: token}, all[0]}, err
}
