package e2e

import (
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdGoProgram builds a static program of tools/e2e. On a host without a compiler, the program comes
// with the binary.
func cmdGoProgram(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "goprogram NAME FILE")
	if given := os.Getenv(binEnv); given != "" {
		program, err := os.ReadFile(filepath.Join(given, args[0]))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), program, 0o755))
		return
	}
	cmd := exec.Command("go", "build", "-o", ts.MkAbs(args[1]), "../../tools/e2e/"+args[0])
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		ts.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}
