package e2e

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdExample extracts an example from the documentation, so that what people copy is tested.
func cmdExample(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 3, "example DOC TITLE FILE")
	doc, err := os.ReadFile(filepath.Join("../..", args[0]))
	ts.Check(err)
	_, section, found := strings.Cut(string(doc), "\n## "+args[1]+"\n")
	if !found {
		ts.Fatalf("%s has no section %q", args[0], args[1])
	}
	section, _, _ = strings.Cut(section, "\n## ")
	fence := "\n```" + strings.TrimPrefix(filepath.Ext(args[2]), ".") + "\n"
	_, example, found := strings.Cut(section, fence)
	if !found {
		ts.Fatalf("section %q of %s has no example for %s", args[1], args[0], args[2])
	}
	example, _, _ = strings.Cut(example, "```")
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(example), 0o644))
}
