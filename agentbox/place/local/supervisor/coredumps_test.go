package supervisor

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The test runs itself: the limit cannot be taken back.
func TestDisableCoreDumps(t *testing.T) {
	if os.Getenv("NO_CORES") != "" {
		if err := disableCoreDumps(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("sh", "-c", "ulimit -c; ulimit -H -c").Output()
		if err != nil || strings.TrimSpace(string(out)) != "0\n0" {
			t.Errorf("a child may dump %q (%v)", out, err)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "NO_CORES=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
