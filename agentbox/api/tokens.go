package api

import (
	"time"
)

// The calls about tokens, by which other programs call the public part of this API (Public) at
// `agentbox serve`. None of them is public.
var (
	// CreateToken is the only call that returns a token's text: only its hash is kept.
	CreateToken = Endpoint[TokenRequest, NewToken]{"/v1/token/create"}
	// ListTokens returns tokens, oldest first, also those that have expired.
	ListTokens = Endpoint[None, []Token]{"/v1/token/list"}
	// RemoveToken makes a token invalid at once.
	RemoveToken = Endpoint[TokenRef, Token]{"/v1/token/remove"}
	// CheckToken returns whose a token is. It is Unauthorized for one that is not valid now.
	CheckToken = Endpoint[TokenText, Token]{"/v1/token/check"}
	// SealToken returns a text that only who knows the token of an ID can make, and the token. It is
	// NotFound for a token that was removed, and Unauthorized for one that has expired.
	SealToken = Endpoint[SealRequest, Seal]{"/v1/token/seal"}
	// FindSubject returns what a request is about, without waking anything.
	FindSubject = Endpoint[SubjectRequest, Subject]{"/v1/token/subject"}
)

// SubjectRequest names a box; or a Task; or, if Checkout is set, the checkout of Directory.
type SubjectRequest struct {
	BoxRef
	Task     string `json:"task,omitempty"`
	Checkout bool   `json:"checkout,omitempty"`
	OrTask   bool   `json:"or_task,omitempty"` // Box may be the ID of a task, which comes first
}

// Subject is what a request is about, by its whole ID, and the project that it belongs to.
type Subject struct {
	Box     string `json:"box,omitempty"`
	Task    string `json:"task,omitempty"`
	Project string `json:"project"`
}

// Scope is what a token permits.
type Scope string

// Each scope includes those before it.
const (
	ScopeRead  Scope = "read"  // look at boxes, tasks and what they did
	ScopeRun   Scope = "run"   // make, use, change and remove boxes and tasks
	ScopeAdmin Scope = "admin" // change what boxes may do, and what this machine keeps
)

// Scopes are all scopes, each with those before it.
var Scopes = []Scope{ScopeRead, ScopeRun, ScopeAdmin}

// Token is what is known of a token. Project restricts it to boxes and tasks of one project, by its
// canonical name; "" is all. A zero Expires is never.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Scope   Scope     `json:"scope"`
	Project string    `json:"project,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

// TokenRequest makes a token. Directory is a checkout whose project it is restricted to, "" for all
// projects.
type TokenRequest struct {
	Name      string        `json:"name,omitempty"`
	Scope     Scope         `json:"scope"`
	Directory string        `json:"directory,omitempty"`
	Valid     time.Duration `json:"valid,omitempty"` // 0: until it is removed
}

// NewToken is a token with its text.
type NewToken struct {
	Token
	Text string `json:"token"`
}

// TokenRef names a token by its ID, or by a name that only one has.
type TokenRef struct {
	Token string `json:"token"`
}

// SealRequest asks for the seal of a token, by its ID, on a text.
type SealRequest struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Seal is an HMAC-SHA256 of a text, hexadecimal.
type Seal struct {
	Token
	Seal string `json:"seal"`
}

// TokenText is a token as a program presents it.
type TokenText struct {
	Text string `json:"token"`
}
