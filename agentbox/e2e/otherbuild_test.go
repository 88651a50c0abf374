package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// laterBuild is what a build that adds a kind of record changes in this one. It always has such a
// record, and a claim, which all builds understand.
var laterBuild = []struct{ file, old, new string }{
	{"mesh/catalogue/record.go", "Claim: {first: true, ttl: true},", `Claim: {first: true, ttl: true}, "gpu": {},`},
	{"mesh/catalogue/store.go", "e.forgetUnknown() })", `e.forgetUnknown(); e.Put(Record{Kind: "gpu", Key: "0"}); e.Put(Record{Kind: Claim, Key: "setup/x", TTL: 3600}) })`},
}

// cmdOtherBuild builds agentbox as it was at a revision, or as a later build may be ("later").
func cmdOtherBuild(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "otherbuild REVISION|later FILE")
	root, err := filepath.Abs("../..")
	ts.Check(err)
	revision := args[0]
	if revision == "later" {
		// What is not committed, too; nothing if all is.
		revision = strings.TrimSpace(hostRun(ts, root, "git", "stash", "create"))
		if revision == "" {
			revision = "HEAD"
		}
	}
	dir := ts.MkAbs("source-" + args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	archive := filepath.Join(dir, "source.tar")
	hostRun(ts, root, "git", "archive", "--output", archive, revision)
	hostRun(ts, dir, "tar", "-xf", archive)
	for _, made := range []string{"vmm/guest/embedded", "vmm/gvisor/runsc/embedded"} {
		hostRun(ts, root, "cp", "-a", made+"/.", filepath.Join(dir, made))
	}
	if args[0] == "later" {
		for _, c := range laterBuild {
			file := filepath.Join(dir, c.file)
			b, err := os.ReadFile(file)
			ts.Check(err)
			if bytes.Count(b, []byte(c.old)) != 1 {
				ts.Fatalf("%s has not one %q", c.file, c.old)
			}
			ts.Check(os.WriteFile(file, bytes.Replace(b, []byte(c.old), []byte(c.new), 1), 0o644))
		}
	}
	if args[0] != "later" { // its machines have its own programs, too
		hostRun(ts, dir, "go", "generate", "./vmm/guest", "./vmm/gvisor/runsc")
	}
	// The programs that the binary carries; it is one program at 0e3ba6c8.
	if _, err := os.Stat(filepath.Join(dir, "agentbox/programs")); err == nil {
		hostRun(ts, dir, "go", "generate", "./agentbox/programs")
	}
	hostRun(ts, dir, "go", "build", "-trimpath", "-buildvcs=false", "-o", ts.MkAbs(args[1]), ".")
}

// hostRun runs a program of this machine in dir and returns its standard output.
func hostRun(ts *testscript.TestScript, dir, program string, args ...string) string {
	cmd := exec.Command(program, args...)
	var errs bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &errs
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("%s: %v\n%s", cmd, err, errs.String())
	}
	return string(out)
}
