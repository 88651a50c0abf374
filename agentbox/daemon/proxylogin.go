package daemon

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"

	"agentbox/agentbox"
	"agentbox/policy/secrets"
)

// ProxyLogin is the variable that says where the login at a company's proxy is kept, USER:PASSWORD, as
// `secret set --from` says it: so that it need not be in the variables with the proxy's address.
const ProxyLogin = "AGENTBOX_PROXY_LOGIN"

// LogInAtProxy puts that login into the addresses of proxies in this process's environment, in which its
// children and everything that connects find them. An address with a login of its own stays.
func LogInAtProxy(ctx context.Context) error {
	source := os.Getenv(ProxyLogin)
	if source == "" {
		return nil
	}
	failed := func(err error) error {
		return agentbox.Errorf(agentbox.Missing, "cannot log in at the proxy, as %s says: %w", ProxyLogin, err).
			WithHint("set %s to where USER:PASSWORD is kept: keyring:NAME, file:PATH or command:LINE", ProxyLogin)
	}
	from, err := secrets.Parse(source)
	if err != nil { // which would quote what may be the login itself
		return failed(errors.New("that is no source"))
	}
	login, err := from.Value(ctx, secrets.Purpose{Name: "of the proxy", Env: os.LookupEnv})
	if err != nil {
		return failed(err)
	}
	user, password, _ := strings.Cut(login, ":")
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		address := os.Getenv(name)
		if address != "" && !strings.Contains(address, "://") {
			address = "http://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.User != nil {
			continue // doctor says what is wrong with it
		}
		u.User = url.UserPassword(user, password)
		if err := os.Setenv(name, u.String()); err != nil {
			return failed(err)
		}
	}
	return nil
}
