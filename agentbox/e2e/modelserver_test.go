package e2e

import (
	"encoding/json"
	"net"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdModelServer starts a stand-in for the APIs of models on this machine's loopback, for use by
// real agents (modelServer). It sets $MODELPORT. A command that ends in .json is a file with steps.
func cmdModelServer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "modelserver KEY COMMAND|STEPS.json")
	model := &modelServer{key: args[0], command: args[1]}
	if strings.HasSuffix(args[1], ".json") {
		ts.Check(json.Unmarshal([]byte(os.Expand(ts.ReadFile(args[1]), ts.Getenv)), &model.steps))
	}
	server := httptest.NewServer(model)
	ts.Defer(server.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	ts.Check(err)
	ts.Setenv("MODELPORT", port)
}
