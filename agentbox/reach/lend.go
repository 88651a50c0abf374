package reach

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
	"agentbox/agentbox/home"
)

// Lend lets boxes there ask this home, as long as the connection is kept, for the values of the secrets
// that were set for them. It starts the daemon here if none runs.
func (t There) Lend(ctx context.Context) error { return t.lend(ctx, true) }

// lend makes sure that the daemon here answers and, on a new connection, that it can be asked.
func (t There) lend(ctx context.Context, anew bool) error {
	client, err := t.link.here.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	socket, err := api.Call(ctx, client, api.LendSecrets, api.LendRequest{Host: t.Name, Environ: Variables()}, nil)
	if err != nil || !anew {
		return err
	}
	// sshd there leaves the socket behind, and makes no other in its place.
	at := filepath.Join(home.Home{Dir: t.Home}.Clients(), t.Client+"."+random(4))
	out, err := t.link.ssh(ctx, t.Host, "-O", "forward", "-R", at+":"+socket, t.machine()).CombinedOutput()
	if err != nil {
		return agentbox.Errorf(agentbox.Unavailable, "boxes on %s cannot ask for secrets of this machine: %s", t.Name, lastLine(string(out))).
			WithHint("its sshd must allow that: AllowStreamLocalForwarding yes, in /etc/ssh/sshd_config there")
	}
	return nil
}

// AsClient gives this home a name there, if it has none.
func (t *There) AsClient() error {
	if t.Client != "" {
		return nil
	}
	name, _ := os.Hostname()
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, strings.ToLower(name))
	t.Client = name[:min(len(name), 6)] + "-" + random(3) // short, for the name of a socket
	return t.link.here.save(t.Host)
}

// random is a name of n bytes that nobody else has.
func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
