package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMain runs the tests, and exits for any other use. A verb that needs a daemon starts its own
// program with the argument "daemon", which here is the test binary. If that ran the tests, each
// run would start the next, without end.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintf(os.Stderr, "a test has run %q: no daemon is to be had here\n", os.Args[1:])
		os.Exit(exitFailed)
	}
	os.Exit(m.Run())
}
