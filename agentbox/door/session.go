package door

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

const (
	loginPath = "/login"
	// keyHeader is the half of a session that the page keeps.
	keyHeader = "Agentbox-Page"
	codeValid = 10 * time.Minute
	pageValid = 12 * time.Hour
)

// sessions are the pages of this door.
type sessions struct {
	mu    sync.Mutex
	codes map[[32]byte]time.Time // hashes of codes, and until when they are valid
	pages map[[32]byte]api.Token // by the hash of both halves
}

func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Code returns a code by which one page can log in, once, within some minutes.
func (d *Door) Code() string {
	s := &d.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.codes == nil {
		s.codes, s.pages = map[[32]byte]time.Time{}, map[[32]byte]api.Token{}
	}
	code := newSecret()
	s.codes[sha256.Sum256([]byte(code))] = time.Now().Add(codeValid)
	return code
}

// login makes a session of a code: the answer has the page's half, a cookie the other.
func (d *Door) login(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Code string `json:"code"`
	}
	if r.Method != http.MethodPost {
		fail(w, unknownPath(r))
		return
	}
	if err := readBody(w, r, &req); err != nil {
		fail(w, err)
		return
	}
	cookie, key := newSecret(), newSecret()
	if err := d.sessions.begin(req.Code, cookie, key); err != nil {
		fail(w, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: cookie, Path: "/", HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode, MaxAge: int(pageValid.Seconds()),
	})
	body, _ := json.Marshal(map[string]string{"key": key})
	writeJSON(w, http.StatusOK, body)
}

func (s *sessions) begin(code, cookie, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash := sha256.Sum256([]byte(code))
	until, ok := s.codes[hash]
	delete(s.codes, hash)
	if !ok || time.Now().After(until) {
		return agentbox.Errorf(agentbox.Unauthorized, "this address was used already, or is too old").WithHint("agentbox ui prints a new one")
	}
	now := time.Now()
	s.pages[halves(cookie, key)] = api.Token{ID: "page", Name: "page", Scope: api.ScopeAdmin, Created: now, Expires: now.Add(pageValid)}
	return nil
}

func halves(cookie, key string) [32]byte {
	a, b := sha256.Sum256([]byte(cookie)), sha256.Sum256([]byte(key))
	return sha256.Sum256(append(a[:], b[:]...))
}

// grantOf returns whose page a request is of. A WebSocket has no headers of a page's choice, so its
// half is in the query there.
func (s *sessions) grantOf(r *http.Request) (api.Token, error) {
	none := agentbox.Errorf(agentbox.Unauthorized, "no token given").WithHint("agentbox token create makes one; send it as Authorization: Bearer TOKEN")
	cookie, err := r.Cookie(cookieName(r))
	key := r.Header.Get(keyHeader)
	if r.URL.Path == terminalPath {
		key = r.URL.Query().Get("key")
	}
	if err != nil || key == "" {
		return api.Token{}, none
	}
	want := halves(cookie.Value, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, grant := range s.pages {
		switch {
		case time.Now().After(grant.Expires):
			delete(s.pages, hash)
		case subtle.ConstantTimeCompare(hash[:], want[:]) == 1:
			return grant, nil
		}
	}
	return api.Token{}, none
}

// cookieName has the port, because cookies of all ports of a host are one set.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "agentbox" + port
}
