package e2b

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/client"
)

// caller is who makes a request, and through what. Its client is closed with the request.
type caller struct {
	grant api.Token
	*client.Client
}

// as calls for the holder of a token, for as long as that is valid.
func (f *Face) as(ctx context.Context, grant api.Token) (caller, context.Context, func()) {
	c := f.Door.Client(grant)
	if grant.Expires.IsZero() {
		return caller{grant, client.Of(c)}, ctx, c.Close
	}
	ctx, cancel := context.WithDeadlineCause(ctx, grant.Expires, agentbox.Errorf(agentbox.Unauthorized, "the token %s has expired", grant.ID))
	return caller{grant, client.Of(c)}, ctx, func() { cancel(); c.Close() }
}

// session is a request to the inside of a sandbox.
type session struct {
	caller
	box agentbox.Box
}

type sessionKey struct{}

func sessionOf(ctx context.Context) session { return ctx.Value(sessionKey{}).(session) }

// inSandbox adapts a function of a REST request to a sandbox.
func inSandbox(f func(http.ResponseWriter, *http.Request, session) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := f(w, r, sessionOf(r.Context())); err != nil {
			fail(w, api.StatusOf(agentbox.CodeOf(err)), err)
		}
	}
}

// serveInner finds the sandbox of a request, and who may use it. box is what the host names, or "".
func (f *Face) serveInner(w http.ResponseWriter, r *http.Request, box string) {
	if box == "" {
		box = r.Header.Get("E2b-Sandbox-Id")
	}
	seal, err := f.admit(r, box)
	var b agentbox.Box
	if err == nil {
		var c caller
		var ctx context.Context
		var done func()
		c, ctx, done = f.as(r.Context(), seal.Token)
		defer done()
		b, err = find(ctx, c, seal.box, kindSandbox)
		r = r.WithContext(context.WithValue(ctx, sessionKey{}, session{c, b}))
	}
	rpc := r.Method == http.MethodPost && r.URL.Path != "/files"
	switch {
	case err == nil && b.Labels[labelPaused] == "" || err == nil && f.wake(r.Context(), b) == nil:
		f.inner.ServeHTTP(w, r)
	case rpc && (err == nil || agentbox.CodeOf(err) == agentbox.NotFound):
		_ = connect.NewErrorWriter(options...).Write(w, r, connect.NewError(connect.CodeUnavailable, plainError(gone)))
	case rpc:
		_ = connect.NewErrorWriter(options...).Write(w, r, asConnect(err))
	case err == nil || agentbox.CodeOf(err) == agentbox.NotFound:
		answerGone(w, box)
	default:
		fail(w, api.StatusOf(agentbox.CodeOf(err)), err)
	}
}

// gone is what the SDKs expect of a sandbox that does not run.
const gone = "The sandbox was not found"

func answerGone(w http.ResponseWriter, box string) {
	answer(w, http.StatusBadGateway, map[string]any{"code": http.StatusBadGateway, "message": gone, "sandboxId": box})
}

// wake lets a sandbox go on that was paused, if its program asked for that.
func (f *Face) wake(ctx context.Context, b agentbox.Box) error {
	if b.Labels[labelResume] == "" {
		return agentbox.Errorf(agentbox.Conflict, "the sandbox is paused")
	}
	_, err := client.Call(ctx, sessionOf(ctx).Client, api.Label, api.LabelRequest{BoxRef: refTo(b), Labels: map[string]string{labelPaused: ""}}, nil)
	return err
}

// admitted is a token, and the one sandbox that it is used for here.
type admitted struct {
	api.Token
	box string
}

// admit checks the access token of a sandbox, or the signature of a URL. The SDK makes a URL without
// the sandbox when it was told one address for all: then the signature finds it.
func (f *Face) admit(r *http.Request, box string) (admitted, error) {
	if text := r.Header.Get("X-Access-Token"); text != "" {
		id, _, _ := strings.Cut(text, ".")
		want, token, err := f.seal(r.Context(), id, box)
		if agentbox.CodeOf(err) == agentbox.NotFound || err == nil && subtle.ConstantTimeCompare([]byte(text), []byte(want)) != 1 {
			err = errDenied
		}
		return admitted{token, box}, err
	}
	query := r.URL.Query()
	if r.URL.Path != "/files" || query.Get("signature") == "" {
		return admitted{}, errDenied
	}
	if at := query.Get("signature_expiration"); at != "" {
		if n, err := strconv.ParseInt(at, 10, 64); err != nil || time.Now().Unix() > n {
			return admitted{}, agentbox.Errorf(agentbox.Unauthorized, "signature is already expired")
		}
	}
	return f.findSigned(r.Context(), r.Method, query, box)
}

var errDenied = agentbox.Errorf(agentbox.Unauthorized, "no access token of this sandbox").WithHint("Sandbox.connect gets one, for the API key that made the sandbox")

func (f *Face) findSigned(ctx context.Context, method string, query url.Values, box string) (admitted, error) {
	looking, ctx, done := f.as(ctx, api.Token{ID: "e2b", Scope: api.ScopeRead})
	defer done()
	all, err := client.Call(ctx, looking.Client, api.ListBoxes, api.ListRequest{ID: box, Known: true, Labels: map[string]string{labelKind: kindSandbox}}, nil)
	for _, b := range all {
		owner := b.Labels[labelOwner]
		text, err := f.knownSeal(ctx, owner, b.ID)
		if err != nil || subtle.ConstantTimeCompare([]byte(query.Get("signature")), []byte(signature(method, query, text))) != 1 {
			continue
		}
		_, token, err := f.seal(ctx, owner, b.ID.String())
		if agentbox.CodeOf(err) == agentbox.NotFound { // the token was removed since
			err = errDenied
		}
		return admitted{token, b.ID.String()}, err
	}
	if err == nil {
		err = agentbox.Errorf(agentbox.Unauthorized, "invalid signature")
	}
	return admitted{}, err
}

// signature is what the SDK's getSignature makes of a sandbox's access token.
func signature(method string, query url.Values, token string) string {
	operation := "read"
	if method == http.MethodPost {
		operation = "write"
	}
	text := query.Get("path") + ":" + operation + ":" + query.Get("username") + ":" + token
	if at := query.Get("signature_expiration"); at != "" {
		text += ":" + at
	}
	sum := sha256.Sum256([]byte(text))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

type sealKey struct {
	token string
	box   agentbox.BoxID
}

// seal makes the access token of a sandbox: the ID of a token, and its seal on the sandbox's ID.
func (f *Face) seal(ctx context.Context, token, box string) (string, api.Token, error) {
	s, err := f.Door.Seal(ctx, token, "e2b "+box)
	return token + "." + s.Seal, s.Token, err
}

// knownSeal is seal, from memory if it can be.
func (f *Face) knownSeal(ctx context.Context, token string, box agentbox.BoxID) (string, error) {
	key := sealKey{token, box}
	f.mu.Lock()
	text := f.seals[key]
	f.mu.Unlock()
	if text != "" {
		return text, nil
	}
	text, _, err := f.seal(ctx, token, box.String())
	if err == nil {
		f.mu.Lock()
		if len(f.seals) > 10000 {
			clear(f.seals)
		}
		f.seals[key] = text
		f.mu.Unlock()
	}
	return text, err
}
