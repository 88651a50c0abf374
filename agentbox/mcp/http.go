package mcp

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentbox/agentbox/api"
)

// sessionTime is how long a session that says nothing is kept.
const sessionTime = time.Hour

// Handler serves the tools over HTTP. grantOf is whose a request is, and serverFor makes the tools for
// that. A session belongs to the token that began it; another one gets no further with its ID.
func Handler(grantOf func(*http.Request) (api.Token, error), serverFor func(api.Token) Server) http.Handler {
	s := &sessions{grantOf: grantOf, serverFor: serverFor, began: map[string]*mcp.Server{}}
	s.sdk = mcp.NewStreamableHTTPHandler(s.server, &mcp.StreamableHTTPOptions{
		SessionTimeout: sessionTime, DisableLocalhostProtection: true}) // the door checks names
	verify := func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		grant, err := grantOf(r)
		return &auth.TokenInfo{UserID: grant.ID, Expiration: grant.Expires}, err
	}
	return auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(s)
}
