package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"agentbox/agentbox"
)

// listen has told written to when something is posted to an address of the loopback, until stop; "" is
// none. Nothing of the request is read: it can do no more than have the remote asked.
func (w watcher) listen(ctx context.Context, address string) (told <-chan struct{}, stop func(), err error) {
	if address == "" {
		return nil, func() {}, nil
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil || at.IP == nil || !at.IP.IsLoopback() {
		return nil, nil, agentbox.Errorf(agentbox.Invalid, "--listen %s is no address of the loopback", address).
			WithHint("--listen 127.0.0.1:7790; a runner of your forge on this machine, or ssh -R, brings its webhooks there")
	}
	l, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, nil, agentbox.Errorf(agentbox.Unavailable, "cannot listen at %s: %w", address, err)
	}
	calls := make(chan struct{}, 1)
	server := &http.Server{Handler: hook(calls), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.say("nothing is told any more: %s", oneLine(err.Error()))
		}
	}()
	if !w.quiet {
		fmt.Fprintf(w.stderr, "POST http://%s/ has the remote asked at once\n", l.Addr())
	}
	return calls, func() { server.Close(); <-done }, nil
}

// hook passes on that something was posted. Several calls may become one.
func hook(calls chan<- struct{}) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(out, "POST has the remote asked", http.StatusMethodNotAllowed)
			return
		}
		select {
		case calls <- struct{}{}:
		default:
		}
		out.WriteHeader(http.StatusAccepted)
	}
}
