package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
)

func TestLogInAtProxy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "login")
	if err := os.WriteFile(file, []byte("me:pass: word/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(ProxyLogin, "file:"+file)
	for name, c := range map[string]struct{ was, want string }{
		"HTTPS_PROXY": {"http://proxy.example:3128", "http://me:pass%3A%20word%2F@proxy.example:3128"},
		"HTTP_PROXY":  {"proxy.example:3128", "http://me:pass%3A%20word%2F@proxy.example:3128"},
		"https_proxy": {"socks5://own:login@proxy.example", "socks5://own:login@proxy.example"},
		"http_proxy":  {"", ""},
	} {
		t.Setenv(name, c.was)
		if err := LogInAtProxy(t.Context()); err != nil || os.Getenv(name) != c.want {
			t.Errorf("%s is %s, %v", name, os.Getenv(name), err)
		}
	}
	for _, source := range []string{"file:/nonexistent", "me:password"} {
		t.Setenv(ProxyLogin, source)
		err := LogInAtProxy(t.Context())
		if agentbox.CodeOf(err) != agentbox.Missing || agentbox.AsError(err).Hint == "" || strings.Contains(err.Error(), "me:password") {
			t.Errorf("%s: %v", source, err)
		}
	}
}
