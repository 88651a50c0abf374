package reach

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/api"
)

// Bringing is what Add would do to a machine.
type Bringing struct {
	Host
	Program string // where the program would be, or is
	Present bool   // it is there already
	Size    int64
}

// probe is a script that says what a machine is: its system, where this program would be, and
// whether it is there.
const probe = `uname -sm; b="${XDG_DATA_HOME:-$HOME/.local/share}/agentbox/bin/$0"; echo "$b"; test -x "$b/agentbox" && echo present; true`

// receive is a script that writes this program, and leaves nothing if it does not arrive whole.
const receive = `umask 077 && mkdir -p "$0" && trap 'rm -f "$0/new"' EXIT && cat >"$0/new" && echo "$1  $0/new" | sha256sum -c - >/dev/null && chmod 700 "$0/new" && mv "$0/new" "$0/agentbox"`

// Add brings this program to a machine, starts its daemon there, and remembers it as a host. agree is
// asked before anything is changed there; its error ends it. Doing it again brings the present
// build.
func (h Here) Add(ctx context.Context, name, target string, agree func(Bringing) error) (Host, error) {
	if err := checkHost(name, target); err != nil {
		return Host{}, err
	}
	if lima := (Host{Target: target}).lima(); lima != "" {
		if _, err := h.limaConfig(lima); err != nil {
			return Host{}, err
		}
	}
	host := Host{Name: name, Target: target, Added: time.Now().UTC().Truncate(time.Second), Ours: h.build}
	l := h.linkTo(host)
	l.close(ctx, host) // it may have led to another machine
	err := l.bring(ctx, &host, agree)
	if err == nil {
		err = h.save(host)
	}
	if err != nil {
		l.close(context.WithoutCancel(ctx), host)
	}
	return host, err
}

// bring does what Add does there, and completes the record.
func (l link) bring(ctx context.Context, host *Host, agree func(Bringing) error) error {
	b, digest, err := l.look(ctx, *host)
	if err == nil {
		err = agree(b)
	}
	if err != nil {
		return err
	}
	if host.Program = b.Program; !b.Present {
		if err := l.send(ctx, *host, digest); err != nil {
			return err
		}
	}
	out, err := l.run(ctx, *host, nil, quote(host.Program, "--json", "daemon", "start"))
	if err != nil {
		return err
	}
	var st api.DaemonStatus
	// A colon would say something else to ssh.
	if err := json.Unmarshal(out, &st); err != nil || !path.IsAbs(st.Home) || strings.Contains(st.Home, ":") {
		return agentbox.Errorf(agentbox.Unavailable, "the agentbox of %s does not say where its daemon is: %s", host.Name, lastLine(string(out)))
	}
	host.Build, host.Home = st.Version, st.Home
	client, err := There{*host, l}.Connect(ctx)
	if err == nil {
		client.Close()
	}
	return err
}

// checkHost refuses a name that is no plain word, and a target that ssh would not take as a machine.
func checkHost(name, target string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(name) > 32 {
		return agentbox.Errorf(agentbox.Invalid, "%q is no name for a host: letters, digits and -, 32 at most", name)
	}
	if isLima(target) {
		return nil
	}
	u, err := url.Parse(target)
	if err == nil && u.Scheme == "ssh" && u.Hostname() != "" && !strings.HasPrefix(u.Hostname(), "-") && strings.Trim(u.Path, "/") == "" {
		if _, password := u.User.Password(); !password {
			return nil
		}
	}
	return agentbox.Errorf(agentbox.Invalid, "%q is no machine", target).WithHint("write ssh://USER@MACHINE or ssh://USER@MACHINE:PORT; MACHINE may be a Host of ~/.ssh/config; or lima://INSTANCE for a machine by Lima")
}

// look finds out what a machine is and has, and changes nothing.
func (l link) look(ctx context.Context, host Host) (b Bringing, digest string, err error) {
	b.Host = host
	self, err := os.Executable()
	if err != nil {
		return b, "", err
	}
	f, err := os.Open(self)
	if err != nil {
		return b, "", err
	}
	defer f.Close()
	sum, size, err := agentbox.DigestOf(f)
	if err != nil {
		return b, "", err
	}
	out, err := l.run(ctx, host, nil, quote("sh", "-c", probe, sum.Hex()))
	if err != nil {
		return b, "", err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := sameKind(host, lines[0]); err != nil {
		return b, "", err
	}
	if len(lines) < 2 {
		return b, "", agentbox.Errorf(agentbox.Unavailable, "the shell of %s is not one of POSIX: it said %s", host.Name, lastLine(string(out)))
	}
	b.Program, b.Present, b.Size = path.Join(lines[1], "agentbox"), len(lines) > 2, size
	return b, sum.Hex(), nil
}

// sameKind refuses a machine that cannot run this program. uname is "SYSTEM MACHINE".
func sameKind(host Host, uname string) error {
	system, machine, _ := strings.Cut(uname, " ")
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}[machine]
	if strings.EqualFold(system, runtime.GOOS) && arch == runtime.GOARCH {
		return nil
	}
	return agentbox.Errorf(agentbox.Missing, "%s is a %s, and this program is for %s/%s", host.Name, agentbox.Clip(agentbox.Printable(uname)), runtime.GOOS, runtime.GOARCH).
		WithHint("install the agentbox for that machine there, and work there: a host runs a copy of this program")
}

// send brings this program there.
func (l link) send(ctx context.Context, host Host, digest string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := os.Open(self)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = l.run(ctx, host, f, quote("sh", "-c", receive, path.Dir(host.Program), digest))
	return err
}
