package doctor

import (
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"

	"agentbox/agentbox"
)

// checkProxy says which proxies carry what boxes and this daemon may reach, of its environment.
func checkProxy(env *httpproxy.Config) (string, error) {
	var parts []string
	for _, v := range []struct{ name, value string }{{"HTTPS_PROXY", env.HTTPSProxy}, {"HTTP_PROXY", env.HTTPProxy}} {
		if v.value == "" {
			continue
		}
		u, err := url.Parse(v.value)
		if err != nil || u.Host == "" { // as in proxy:3128
			u, err = url.Parse("http://" + v.value)
		}
		if err != nil || !strings.Contains(" http https socks5 socks5h ", " "+u.Scheme+" ") || strings.HasSuffix(u.Path, ".pac") {
			return "", agentbox.Errorf(agentbox.Invalid, "%s names no proxy by http, https or socks5", v.name).
				WithHint("a script (PAC) is not run: name the proxy that it returns; then agentbox daemon stop, since the daemon keeps the environment it began in")
		}
		parts = append(parts, v.name+"="+u.Redacted())
	}
	if len(parts) == 0 {
		return "none", nil
	}
	if env.NoProxy != "" {
		parts = append(parts, "NO_PROXY="+env.NoProxy)
	}
	return strings.Join(parts, " "), nil
}
