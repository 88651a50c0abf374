package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// partEnv names the only part of the tests that runs: quick, which make test runs, slow, which make
// slow runs, or nightly. All run without it.
const partEnv = "AGENTBOX_E2E_PART"

const (
	quick   = "quick"
	slow    = "slow"
	nightly = "nightly"
)

// everyKindEnv makes scripts run for every kind, whatever their first comments say.
const everyKindEnv = "AGENTBOX_E2E_EVERY_KIND"

// atEachPush are the scripts that run in a microVM before each push too. Where microVMs are
// emulated, a script takes minutes there, and most that scripts try is done by the host and the
// guest agent, which are the same for both kinds: make nightly runs the others.
var atEachPush = []string{"states", "up"}

func needPart(t *testing.T, part string) {
	t.Helper()
	needMachines(t)
	if only := os.Getenv(partEnv); only != "" && only != part {
		t.Skipf("it belongs to make %s", part)
	}
}

// header is the content of a script's first comments:
//
//	# kinds: KIND      it is for this kind only, for the reason that the next line gives
//	# slow             make slow runs it instead of make test
//	# nightly          make nightly does, for the reason that the next line gives
//	# minutes: N, WHY  it takes one or more, and starts before shorter ones; nightly says why already
//	# waits            it does little but wait, and runs beside those that need the processor
type header struct {
	name    string
	kind    string
	slow    bool
	nightly bool
	minutes int
	why     string // it takes minutes
	waits   bool
}

// part returns which one runs the script for a kind, "" if none does.
func (h header) part(kind string) string {
	switch {
	case h.kind != "" && h.kind != kind:
		return ""
	case h.nightly, kind == "microvm" && !slices.Contains(atEachPush, h.name):
		return nightly
	case h.slow && kind == "gvisor":
		return slow
	}
	return quick
}

// runs reports whether the script runs for a kind, as everyKindEnv and partEnv ask.
func (h header) runs(kind string) bool {
	part, only := h.part(kind), os.Getenv(partEnv)
	return os.Getenv(everyKindEnv) != "" || part != "" && (only == "" || part == only)
}

// readHeaders returns the headers of all scripts, by file.
func readHeaders(t *testing.T) map[string]header {
	t.Helper()
	files, err := filepath.Glob("../../testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	headers := make(map[string]header)
	for _, file := range files {
		headers[file] = readHeader(t, file)
	}
	return headers
}

func readHeader(t *testing.T, file string) header {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h := header{name: strings.TrimSuffix(filepath.Base(file), ".txtar")}
	for line := range strings.Lines(string(b)) {
		text, isComment := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "# ")
		if !isComment {
			break
		}
		key, value, _ := strings.Cut(text, ": ")
		switch key {
		case "kinds":
			h.kind = value
			if !slices.Contains(machineKinds, value) {
				t.Fatalf("%s: unknown kind %q", file, value)
			}
		case "slow":
			h.slow = true
		case "nightly":
			h.nightly = true
		case "waits":
			h.waits = true
		case "minutes":
			number, why, _ := strings.Cut(value, ", ")
			if h.minutes, err = strconv.Atoi(number); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			h.why = why
		}
	}
	return h
}
