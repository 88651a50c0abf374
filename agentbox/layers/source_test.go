package layers

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
)

// TestHTTPSIsNotDowngraded has a server of https send its callers to one without: the list
// of images has no digest that would tell.
func TestHTTPSIsNotDowngraded(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("forged")) }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL+"/"+indexName, http.StatusFound))
	defer secure.Close()
	kept := webClient.Transport
	defer func() { webClient.Transport = kept }()
	webClient.Transport = secure.Client().Transport
	src, err := openSource(secure.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := src.list(t.Context()); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("%q, %v", b, err)
	}
}

// TestTruncatedAnswerIsUnavailable has a server promise more than it sends.
func TestTruncatedAnswerIsUnavailable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write([]byte("half"))
	}))
	defer server.Close()
	src, err := openSource(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := src.list(t.Context()); agentbox.CodeOf(err) != agentbox.Unavailable {
		t.Errorf("%q, %v", b, err)
	}
}

func TestIndexIsBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, indexName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, indexName), maxIndex+1); err != nil {
		t.Fatal(err)
	}
	src, err := openSource(dir)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := src.list(t.Context()); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
