package doctor

import (
	"testing"

	"golang.org/x/net/http/httpproxy"

	"agentbox/agentbox"
)

func TestProxyIsNamedWithoutPassword(t *testing.T) {
	for _, c := range []struct{ https, want string }{
		{"", "none"},
		{"http://me:secret@proxy:3128", "HTTPS_PROXY=http://me:xxxxx@proxy:3128 NO_PROXY=.corp"},
		{"proxy:3128", "HTTPS_PROXY=http://proxy:3128 NO_PROXY=.corp"},
		{"socks5://proxy:1080", "HTTPS_PROXY=socks5://proxy:1080 NO_PROXY=.corp"},
	} {
		if got, err := checkProxy(&httpproxy.Config{HTTPSProxy: c.https, NoProxy: ".corp"}); err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.https, got, err)
		}
	}
	for _, bad := range []string{"http://corp/proxy.pac", "pac+http://corp/x", "ftp://proxy"} {
		if _, err := checkProxy(&httpproxy.Config{HTTPProxy: bad}); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
