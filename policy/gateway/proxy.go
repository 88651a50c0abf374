package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"agentbox/agentbox"
	"agentbox/policy"
)

// call is one request of the box. Fields without a lock are set before it is sent; the proxy's
// goroutines change the atomic ones.
type call struct {
	g       *Gateway
	session *session
	// flow is the request as it is decided about, verdict the decision.
	flow    policy.Flow
	verdict policy.Verdict
	started time.Time
	traffic traffic
	// secrets are those that the request carries; nil: none.
	secrets *substitution
	// status is the server's, 0 before it answered.
	status atomic.Int64
	note   atomic.Value // string: what the tool servers say that it was; nothing yet: none
	// dialled is the address it went to, nil if it went nowhere.
	dialled atomic.Pointer[netip.Addr]
	refused atomic.Pointer[Refusal] // a placeholder in the body, found while it was sent
	cancel  context.CancelFunc      // ends what is under way to the server
}

// callKey is the context key of a request's call.
type callKey struct{}

// ServeHTTP checks, decides and carries one request. A refusal is answered in words that an agent
// can act on (Refusal.Text). The server calls it in a goroutine for each request.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.wg.Add(1)
	defer w.wg.Done()
	// The destination is the connection's. admit compares it with what the request says.
	s := r.Context().Value(sessionKey{}).(*session)
	if s.checked != nil {
		defer s.checked.requestDone()
	}
	c := &call{g: w.g, session: s, started: time.Now()}
	c.flow = s.stream.requests()
	c.flow.Method, c.flow.Path, c.flow.TLS = r.Method, r.RequestURI, s.tls
	if refusal := c.admit(r); refusal != nil {
		refusal.answer(rw, refusal.status())
		return
	}
	ctx, cancel := context.WithCancel(context.WithValue(r.Context(), callKey{}, c))
	defer cancel()
	c.cancel = cancel
	// Registered, then decided once more: see SetPolicy.
	p := &activeFlow{flow: c.flow, secrets: c.secrets.names(), end: cancel}
	done, err := w.g.begin(w.g.calls, p)
	if err != nil {
		http.Error(rw, "agentbox: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer done()
	// The policy may have changed while the values of secrets were fetched.
	if v := p.review(w.g.policy.Load()); !v.Allow {
		v.Kind = policyChanged
		refusal := w.g.deny(c.flow, v)
		refusal.answer(rw, refusal.status())
		return
	}
	defer c.record()
	w.proxy.ServeHTTP(informationalWriter{rw, c}, r.WithContext(ctx))
}

// informationalWriter redacts 1xx responses, which ModifyResponse does not see.
type informationalWriter struct {
	http.ResponseWriter
	call *call
}

func (i informationalWriter) Unwrap() http.ResponseWriter { return i.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (i informationalWriter) WriteHeader(status int) {
	if status < http.StatusOK && i.call.secrets.redacts() {
		i.call.secrets.redactHeader(i.Header())
	}
	i.ResponseWriter.WriteHeader(status)
}

// admit decides about a request and fetches the values of its secrets, which rewrite inserts when
// it is sent. nil admits it.
func (c *call) admit(r *http.Request) *Refusal {
	c.verdict = c.g.rules().request(c.flow)
	if reason := c.checkAuthorities(r); c.verdict.Kind == "" && reason != "" { // an invalid request has no authority
		c.verdict = refused("authority", reason)
	}
	if !c.verdict.Allow {
		return c.g.deny(c.flow, c.verdict)
	}
	if refusal := c.checkMethodOverride(r); refusal != nil {
		return refusal
	}
	var refusal *Refusal
	c.secrets, refusal = c.g.substitute(r, c.flow)
	return refusal
}

// checkAuthorities says what is wrong with the authorities of a request, "" if nothing is.
func (c *call) checkAuthorities(r *http.Request) string {
	for _, host := range append([]string{r.Host}, r.Header["Host"]...) { // HTTP/2 may have both
		if reason := c.checkAuthority(host); reason != "" {
			return reason
		}
	}
	return ""
}

// checkAuthority says why an authority is not the connection's, "" if it is.
func (c *call) checkAuthority(authority string) string {
	host, port := authority, ""
	if h, p, err := net.SplitHostPort(authority); err == nil {
		host, port = h, p
	}
	n, notPort := strconv.ParseUint(cmp.Or(port, c.session.defaultPort()), 10, 16)
	name, addr, notHost := policy.CanonicalHost(host)
	if f := c.flow; notPort != nil || uint16(n) != f.Port || notHost != nil || name != f.Name || name == "" && addr != f.Addr {
		return fmt.Sprintf("the request is for %q, the connection to %s", agentbox.Clip(authority), target(c.session.stream.flow))
	}
	return ""
}

// checkMethodOverride decides about the methods in headers that some servers use in place of the
// request's. Each must be allowed, too.
func (c *call) checkMethodOverride(r *http.Request) *Refusal {
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		for _, method := range r.Header[name] {
			f := c.flow
			f.Method = strings.ToUpper(method)
			if v := c.g.rules().request(f); !v.Allow {
				v.Kind = "method-override"
				return c.g.deny(f, v)
			}
		}
	}
	return nil
}

// record writes the entry of an admitted request, after its response was carried or it failed.
func (c *call) record() {
	if refusal := c.refused.Load(); refusal != nil {
		return // recorded when it was found
	}
	var dialled netip.Addr
	if a := c.dialled.Load(); a != nil {
		dialled = *a
	}
	e := c.traffic.entry(c.flow, c.verdict, dialled, c.started)
	e.Secret = strings.Join(c.secrets.names(), ",")
	if status := c.status.Load(); status != 0 {
		e.Reason += fmt.Sprintf("; answered %d", status)
	}
	if note, _ := c.note.Load().(string); note != "" {
		e.Reason += "; " + agentbox.Clip(agentbox.Printable(note))
	}
	c.g.audit.record(e)
}

// toolHeader is by which the tool servers say what a request was (toolgate.NoteHeader).
const toolHeader = "Agentbox-Tool"

// newProxy carries requests and responses, each byte as it arrives: FlushInterval -1 holds nothing
// back, because agents read streams.
func newProxy(g *Gateway) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      g.up,
		FlushInterval:  -1,
		BufferPool:     bufferPool{},
		ModifyResponse: modifyResponse,
		ErrorHandler:   handleError,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
}

// bufferPool lends the proxy the buffers of connections (httputil.BufferPool).
type bufferPool struct{}

func (bufferPool) Get() []byte  { return *buffers.Get().(*[]byte) }
func (bufferPool) Put(b []byte) { buffers.Put(&b) }

// rewrite makes the request that is sent: to the connection's name, else what the box sent.
func rewrite(p *httputil.ProxyRequest) {
	c := p.In.Context().Value(callKey{}).(*call)
	port := strconv.Itoa(int(c.flow.Port))
	p.Out.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort(c.flow.Host(), port)}
	if c.session.tls {
		p.Out.URL.Scheme = "https"
	}
	p.Out.Host = p.Out.URL.Host
	if port == c.session.defaultPort() {
		p.Out.Host = strings.TrimSuffix(p.Out.Host, ":"+port)
	}
	setTarget(p.Out.URL, p.In)
	// ReverseProxy drops these fields. To the server we are no proxy, so they pass as they came.
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := p.In.Header[name]; ok {
			p.Out.Header[name] = v
		}
	}
	if c.g.cfg.Usage != nil && (isModelRequest(c.flow) || isModelSocket(c.flow)) {
		restrictCodings(p.Out.Header)
	}
	c.secrets.apply(p.Out.Header)
	if p.Out.Body != nil {
		p.Out.Body = c.scanBody(p.Out.Body)
	}
	// Trailers are not checked, so they are not carried.
	p.Out.Trailer = nil
	p.Out = p.Out.WithContext(httptrace.WithClientTrace(p.Out.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			a := dialledAddr(info.Conn)
			c.dialled.Store(&a)
		},
	}))
}

// setTarget keeps path and query byte for byte, so that the server gets what was decided about.
func setTarget(u *url.URL, in *http.Request) {
	path, query, hasQuery := strings.Cut(in.RequestURI, "?")
	u.Path, u.RawPath = in.URL.Path, in.URL.RawPath
	u.RawQuery, u.ForceQuery = query, hasQuery && query == ""
	if u.EscapedPath() != path && !strings.HasPrefix(path, "//") {
		u.Opaque = path
	}
}

// modifyResponse prepares a response: it notes the status for the log, redacts secrets, and reads
// usage. An error ends the connection to the server and is answered by handleError.
func modifyResponse(res *http.Response) error {
	c := res.Request.Context().Value(callKey{}).(*call)
	c.status.Store(int64(res.StatusCode))
	if c.flow.Name == policy.ToolsName {
		c.note.Store(res.Header.Get(toolHeader))
		res.Header.Del(toolHeader)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		// HTTP/2 has no upgrades, and a server must not change to a protocol that it was not asked
		// for: the proxy would refuse that and go on with a connection on which nothing is checked
		// any more. Lengths are compared because EqualFold takes the Kelvin sign for a K.
		body, ok := res.Body.(io.ReadWriteCloser)
		asked, changed := res.Request.Header.Get("Upgrade"), res.Header.Get("Upgrade")
		if !ok || c.session.checked == nil || asked == "" || len(asked) != len(changed) || !strings.EqualFold(asked, changed) {
			return errors.New("the server changed protocols without being asked to")
		}
		body, err := c.secrets.redactUpgrade(res, body)
		if err != nil {
			return err
		}
		if usage := c.g.cfg.Usage; usage != nil && isModelSocket(c.flow) {
			body = readMessages(body, usage)
		}
		res.Body = struct {
			io.ReadCloser
			io.Writer
		}{countingReader{body, &c.traffic.received}, countingWriter{body, &c.traffic.sent}}
		c.session.checked.upgraded.Store(true)
		return nil
	}
	res.Body = c.secrets.redact(res, countingReader{cancelOnClose{res.Body, c.cancel}, &c.traffic.received})
	if usage := c.g.cfg.Usage; usage != nil && res.StatusCode == http.StatusOK && isModelRequest(c.flow) {
		res.Body = readUsage(res, res.Body, c.g.decoders, usage)
	}
	return nil
}

// cancelOnClose is a response that may end before its request does. Closing an HTTP/2 body waits
// until the request is sent, which a client that has its response may never finish, so the request
// is cancelled first.
type cancelOnClose struct {
	io.ReadCloser
	end context.CancelFunc
}

func (c cancelOnClose) Close() error {
	c.end()
	return c.ReadCloser.Close()
}

// handleError answers an admitted request that failed: with the refusal that ended it, if there is
// one, else 502. The error goes to the box; addresses in it are no secret there.
func handleError(rw http.ResponseWriter, r *http.Request, err error) {
	c := r.Context().Value(callKey{}).(*call)
	var refusal *Refusal
	if refusal = c.refused.Load(); refusal != nil || errors.As(err, &refusal) {
		c.refused.Store(refusal)
		refusal.answer(rw, refusal.status())
		return
	}
	if c.session.checked != nil {
		if wrong := c.session.checked.invalid(); wrong != nil {
			refusal = &Refusal{Flow: c.flow, Verdict: policy.Verdict{Reason: wrong.Error()}}
			c.refused.Store(refusal)
			refusal.answer(rw, http.StatusBadRequest)
			return
		}
	}
	c.verdict.Reason += ", but: " + err.Error()
	c.status.Store(http.StatusBadGateway)
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.Header().Set("X-Agentbox", "failed")
	rw.WriteHeader(http.StatusBadGateway)
	fmt.Fprintf(rw, "agentbox: cannot reach %s: %v\n", target(c.session.stream.flow), err)
}
