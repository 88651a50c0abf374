package door

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// grantOf returns whose a request is: the holder's of a token, or of a page. Wrong tokens are not
// counted: nobody guesses 256 bits.
func (d *Door) grantOf(r *http.Request) (api.Token, error) {
	if grant, ok := r.Context().Value(grantKey{}).(api.Token); ok {
		return grant, nil // a request of our own
	}
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return d.sessions.grantOf(r)
	}
	return daemon(r.Context(), d, api.CheckToken, api.TokenText{Text: strings.TrimSpace(text)}, nil)
}

// Check returns whose a token is, for a face that finds it elsewhere in a request. It counts as a use.
func (d *Door) Check(ctx context.Context, text string) (api.Token, error) {
	grant, err := daemon(ctx, d, api.CheckToken, api.TokenText{Text: text}, nil)
	if err == nil {
		err = d.rates.allow(grant)
	}
	return grant, err
}

// Seal is api.SealToken. It counts as a use of the token.
func (d *Door) Seal(ctx context.Context, id, text string) (api.Seal, error) {
	seal, err := daemon(ctx, d, api.SealToken, api.SealRequest{ID: id, Text: text}, nil)
	if err == nil {
		err = d.rates.allow(seal.Token)
	}
	return seal, err
}

func permits(t api.Token, needed api.Scope) error {
	if slices.Index(api.Scopes, t.Scope) >= slices.Index(api.Scopes, needed) {
		return nil
	}
	return agentbox.Errorf(agentbox.Forbidden, "the token %s is for %s, and this needs %s", t.ID, t.Scope, needed).
		WithHint("agentbox token create --scope %s makes one", needed)
}

// How many requests a second a token is for, and how many at once.
const perSecond, atOnce = 200, 1000

// rates bounds how often each token is used.
type rates struct {
	mu sync.Mutex
	by map[string]*rate.Limiter
}

func (r *rates) allow(t api.Token) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil || len(r.by) > 10000 { // tokens that are no more
		r.by = map[string]*rate.Limiter{}
	}
	l := r.by[t.ID]
	if l == nil {
		l = rate.NewLimiter(perSecond, atOnce)
		r.by[t.ID] = l
	}
	if !l.Allow() {
		return agentbox.Errorf(agentbox.Busy, "the token %s is used more than %d times a second", t.ID, perSecond).WithHint("try again in a second")
	}
	return nil
}
