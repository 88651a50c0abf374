package registries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// toolTimeout bounds one tool: npm takes a second or, on a loaded machine, several.
const toolTimeout = 20 * time.Second

// HostMachine is this machine, as a user with this environment (NAME=value) sees it. directory is
// the absolute path of the repository, "" for none. Its Run starts programs from the PATH of this
// process with that environment.
func HostMachine(directory string, environ []string) Machine {
	m := Machine{Root: os.DirFS("/"), Directory: directory, Env: map[string]string{}}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		m.Env[name] = value
	}
	m.Home = strings.TrimPrefix(m.Env["HOME"], "/")
	m.Run = func(ctx context.Context, argv ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, toolTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		// Not in the repository: tools read configuration, and run programs, from where they stand.
		cmd.Dir, cmd.Env = "/", environ
		cmd.WaitDelay = toolTimeout // begins with the end of the tool too, and a busy machine takes its time to read
		out, err := cmd.Output()
		if err != nil && ctx.Err() != nil {
			err = ctx.Err() // not that it was killed
		}
		if errors.Is(err, exec.ErrNotFound) {
			err = ErrNoTool
		}
		return string(out), err
	}
	m.Get = fetchIndex
	return m
}

// Bounds of one question to an index: somebody waits for up meanwhile.
const (
	askTimeout = 5 * time.Second // bounds one question to an index
	maxAnswer  = 4 << 20         // bounds its answer
)

// fetchIndex asks an index of this machine's configuration. In the clear, anybody on the way could
// name hosts, so only this machine itself is asked in the clear; and a redirect elsewhere would
// speak for another host than the configured one.
//
// The answer is cut at maxAnswer. Any status but 200 is an error.
func fetchIndex(ctx context.Context, from, accept string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "https" && !loopback().MatchString(from) {
		return nil, errors.New("it is asked over TLS only")
	}
	req.Header.Set("Accept", accept)
	client := http.Client{CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if next.URL.Scheme != req.URL.Scheme || next.URL.Host != req.URL.Host {
			return errors.New("it redirects elsewhere")
		}
		return nil
	}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", res.Status)
	}
	return io.ReadAll(io.LimitReader(res.Body, maxAnswer))
}
