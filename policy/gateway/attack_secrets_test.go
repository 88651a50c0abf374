package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"agentbox/policy"
)

// A placeholder anywhere but in a header of a request that may carry the secret is refused and told
// of; the value never goes there.
func TestAttackSecrets(t *testing.T) {
	w := newWorld(t, withToken(grants("a.test", "b.test"), "GET,POST https://a.test/api/**"))
	var seen sync.Map
	serve := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		all := fmt.Sprint(r.Header, r.URL, string(b))
		seen.Store(r.Header.Get("X-Attack"), all) // the one with a body may come late
	})
	w.serveHTTP(serve)
	w.serveTLS(serve)
	b64 := base64.StdEncoding.EncodeToString
	half := len(placeholder) / 2
	for what, attack := range map[string]struct {
		method, url, body string
		header            []string
	}{
		"other host, in the clear":  {"GET", "http://b.test/", "", []string{"Authorization", "Bearer " + placeholder}},
		"same host, in the clear":   {"GET", "http://a.test/api/x", "", []string{"Authorization", "Bearer " + placeholder}},
		"other path":                {"GET", "https://a.test/other", "", []string{"Authorization", "Bearer " + placeholder}},
		"path around":               {"GET", "https://a.test/api/../other", "", []string{"Authorization", "Bearer " + placeholder}},
		"other method":              {"PUT", "https://a.test/api/x", "", []string{"Authorization", "Bearer " + placeholder}},
		"query":                     {"GET", "https://a.test/api/x?t=" + placeholder, "", nil},
		"path":                      {"GET", "https://a.test/api/" + placeholder, "", nil},
		"encoded in the query":      {"GET", "https://a.test/api/x?t=" + strings.ReplaceAll(placeholder, "k", "%6b"), "", nil},
		"encoded twice":             {"GET", "https://a.test/api/x?t=" + url.QueryEscape(url.QueryEscape("%6b"+strings.TrimPrefix(placeholder, "k"))), "", nil},
		"body":                      {"POST", "https://a.test/api/x", "some text " + placeholder + " and more", []string{"Authorization", "Bearer " + placeholder}},
		"body in the clear":         {"POST", "http://b.test/", strings.Repeat("x", 32<<10-20) + placeholder, nil},
		"base64 in another header":  {"GET", "https://a.test/api/x", "", []string{"X-Data", b64([]byte(placeholder))}},
		"base64 twice":              {"GET", "https://a.test/api/x", "", []string{"X-Data", b64([]byte(b64([]byte(placeholder))))}},
		"hex":                       {"GET", "https://a.test/api/x", "", []string{"X-Data", hex.EncodeToString([]byte(placeholder))}},
		"Basic to another host":     {"GET", "http://b.test/", "", []string{"Authorization", "Basic " + b64([]byte("u:"+placeholder))}},
		"split over two headers":    {"GET", "https://a.test/api/x", "", []string{"X-A", placeholder[:half], "X-B", placeholder[half:]}},
		"cookie to another host":    {"GET", "http://b.test/", "", []string{"Cookie", "t=" + placeholder}},
		"name of a header":          {"GET", "https://a.test/api/x", "", []string{placeholder, "x"}},
		"percent-encoded in header": {"GET", "https://a.test/api/x", "", []string{"Authorization", "Bearer " + strings.ReplaceAll(placeholder, "-", "%2d")}},
	} {
		before := w.count()
		req, err := http.NewRequest(attack.method, attack.url, strings.NewReader(attack.body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(attack.header); i += 2 {
			req.Header[attack.header[i]] = []string{attack.header[i+1]}
		}
		req.Header.Set("X-Attack", what)
		res, err := w.client().Do(req)
		if err == nil {
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden || !bytes.Contains(text, []byte("TOKEN")) {
				t.Errorf("%s: %s %s", what, res.Status, text)
			}
		}
		if s, _ := seen.Load(what); s != nil && strings.Contains(s.(string), secretValue) && what != "body" {
			t.Errorf("%s: the server saw the value", what)
		}
		w.g.audit.flush()
		if w.count() == before {
			t.Errorf("%s: nothing in the log", what)
		}
	}
	w.entry("the placeholder", func(e policy.Entry) bool { return !e.Allow && e.Kind == "placeholder" && e.Secret == "TOKEN" })
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := fmt.Sprint(w.entries); strings.Contains(text, secretValue) || strings.Contains(text, placeholder) {
		t.Error("the log has a value or a placeholder")
	}
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.entries)
}

// Values are asked for when they are used: a rotated one is used at once, a revoked one no more.
func TestAttackRotatedAndRevokedValues(t *testing.T) {
	spec := withToken(grants("a.test"), "https://a.test")
	w := newWorld(t, spec)
	started, over := make(chan string, 1), make(chan struct{}, 1)
	w.serveTLS(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stream" {
			fmt.Fprint(rw, len(r.Header.Get("Authorization")))
			return
		}
		rw.(http.Flusher).Flush()
		started <- r.Header.Get("Authorization")
		<-r.Context().Done()
		over <- struct{}{}
	}))
	c := w.client()
	ask := func() (int, string) {
		status, body, _ := get(t, c, "https://a.test/", "Authorization", placeholder)
		return status, body
	}
	if status, body := ask(); status != 200 || body != fmt.Sprint(len(secretValue)) {
		t.Errorf("%d %s", status, body)
	}
	w.set("TOKEN", "another")
	if status, body := ask(); status != 200 || body != fmt.Sprint(len("another")) {
		t.Errorf("rotated: %d %s", status, body)
	}
	for _, bad := range []string{"", "two\r\nlines", "nul\x00"} {
		w.set("TOKEN", bad)
		if status, body := ask(); status != 403 {
			t.Errorf("%q: %d %s", bad, status, body)
		}
	}
	w.set("TOKEN", "")
	w.denied("secret-value")
	// A request that carries a secret ends when the secret may not be sent there any more.
	w.set("TOKEN", secretValue)
	req, _ := http.NewRequest(http.MethodGet, "https://a.test/stream", nil)
	req.Header.Set("Authorization", placeholder)
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := <-started; got != secretValue {
		t.Errorf("the server saw %q", got)
	}
	w.g.SetPolicy(policy.New(grants("a.test"), nil))
	<-over
	w.denied("policy-changed")
}

func (w *world) set(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values[name] = value
}

// A secret goes over TLS unless somebody wrote http:// before the host, and a request in the clear
// says so.
func TestAttackSecretInClear(t *testing.T) {
	for _, c := range []struct {
		scope string
		clear bool
	}{
		{"a.test", false}, {"a.test:*", false}, {"GET a.test/**", false}, {"a.test:8080", false}, {"http://a.test:8080", true}, {"http://a.test", true}, {"GET http://a.test:*", true}, {"https://a.test:8080", false},
	} {
		t.Run(c.scope, func(t *testing.T) {
			spec := grants("a.test:*")
			secret := policy.Secret{Name: "TOKEN", Placeholder: placeholder}
			if err := secret.AddScope(c.scope); err != nil {
				t.Fatal(err)
			}
			spec.Secrets = []policy.Secret{secret}
			w := newWorld(t, spec)
			server := w.serveHTTP(echo)
			w.g.up.ports[8080] = portOf(server.URL[strings.LastIndex(server.URL, ":")+1:])
			url := "http://a.test/x"
			if strings.Contains(c.scope, ":8080") || strings.Contains(c.scope, ":*") {
				url = "http://a.test:8080/x"
			}
			status, body, _ := get(t, w.client(), url, "Authorization", "Bearer "+placeholder)
			if (status == 200) != c.clear || !c.clear && c.scope != "https://a.test:8080" && !strings.Contains(body, "--to http://a.test") {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	var s policy.Secret
	if err := s.AddScope("a.test:80"); err == nil {
		t.Error("a scope that no request can be in is taken")
	}
}
