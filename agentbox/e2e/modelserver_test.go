package e2e

import (
	"net"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdModelServer starts a stand-in for the APIs of models on this machine's loopback, for use by
// real agents (modelServer). It sets $MODELPORT.
func cmdModelServer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "modelserver KEY COMMAND")
	server := httptest.NewServer(&modelServer{key: args[0], command: args[1]})
	ts.Defer(server.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	ts.Check(err)
	ts.Setenv("MODELPORT", port)
}
