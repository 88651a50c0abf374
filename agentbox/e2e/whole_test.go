package e2e

import (
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each test belongs to one of these: what CI runs for a push, what it runs at night, and what needs
// a mirror of packages and gigabytes, so that a person asks for it.
var targets = map[string][]string{
	"push": {"test", "slow"}, "night": {"nightly"}, "asked": {"e2e-qemu", "e2e-git", "e2e-kvm", "e2e-lima", "e2e-k8s", "e2e-release", "reproducible"},
}

// testRun is one call of go test by make.
type testRun struct {
	text      string
	packages  []string // patterns, as ./mesh/... or ./mesh
	names     *regexp.Regexp
	short     bool
	variables map[string]string
}

var (
	goTest    = regexp.MustCompile(`\bgo test (.*)`)
	variable  = regexp.MustCompile(`\b(AGENTBOX_\w+)=(\S+)`)
	runOption = regexp.MustCompile(`-run '?\^?([^ ']+)`)
)

// runsOf returns every call of go test by targets of make, which says what it would do.
func runsOf(t *testing.T, when string) []testRun {
	t.Helper()
	make := exec.Command("make", append([]string{"-n", "-C", "../.."}, targets[when]...)...)
	make.Stderr = os.Stderr
	out, err := make.Output()
	if err != nil {
		t.Fatalf("%s: %v", make, err)
	}
	var runs []testRun
	for line := range strings.Lines(string(out)) {
		call := goTest.FindStringSubmatch(line)
		if call == nil || strings.Contains(line, "-fuzz") {
			continue
		}
		r := testRun{text: strings.TrimSpace(call[0]), names: regexp.MustCompile(""), variables: map[string]string{}}
		for _, v := range variable.FindAllStringSubmatch(line, -1) {
			r.variables[v[1]] = v[2]
		}
		words, below := strings.Fields(call[1]), "."
		for i, word := range words {
			if word == "-C" { // another module
				below = words[i+1]
			}
			if strings.HasPrefix(word, "./") {
				r.packages = append(r.packages, "./"+path.Join(below, word))
			}
			r.short = r.short || word == "-short"
		}
		if names := runOption.FindStringSubmatch(call[1]); names != nil {
			r.names = regexp.MustCompile("^" + names[1])
		}
		runs = append(runs, r)
	}
	return runs
}

// has reports whether the run has a package's test, whatever the test makes of that.
func (r testRun) has(dir, name string) bool {
	return r.names.MatchString(name) && slices.ContainsFunc(r.packages, func(p string) bool {
		tree, isTree := strings.CutSuffix(p, "/...")
		return path.Clean(p) == dir || isTree && (tree == "." || strings.HasPrefix(dir+"/", path.Clean(tree)+"/"))
	})
}

// does reports whether the test does all of its work in this run.
func (r testRun) does(g guarded) bool {
	for v := range g.variables {
		if r.variables[v] == "" {
			return false
		}
	}
	return r.has(g.dir, g.name) && !(g.whole && r.short)
}

// TestEachTestBelongsToOnePart looks for every test that does not always run, or not as a whole, in
// what make would do. More than once for a push or in a night would be a waste.
func TestEachTestBelongsToOnePart(t *testing.T) {
	runs := map[string][]testRun{}
	for when := range targets {
		runs[when] = runsOf(t, when)
	}
	all := guardedTests(t)
	if len(all) < 25 {
		t.Errorf("only %d tests were found: %v", len(all), all)
	}
	for _, g := range all {
		found := 0
		for when, runs := range runs {
			n := 0
			for _, r := range runs {
				if r.does(g) {
					n++
				}
			}
			if n > 1 && g.dir != "agentbox/e2e" { // which has parts of its own
				t.Errorf("%s of %s runs %d times: %s", g.name, g.dir, n, when)
			}
			found += n
		}
		if found == 0 {
			t.Errorf("no target of make runs %s of %s as a whole (without -short: %v, variables: %v)", g.name, g.dir, g.whole, slices.Collect(maps.Keys(g.variables)))
		}
	}
}

// TestEachScriptBelongsToOnePart does so with each script and kind of machine, and lists what make
// nightly has.
func TestEachScriptBelongsToOnePart(t *testing.T) {
	runs := slices.Concat(runsOf(t, "push"), runsOf(t, "night"))
	var atNight []string
	for _, h := range readHeaders(t) {
		if h.minutes > 0 && h.why == "" && !h.nightly {
			t.Errorf("%s takes %d minutes and does not say why: # minutes: N, WHY", h.name, h.minutes)
		}
		for _, kind := range machineKinds {
			part, found := h.part(kind), 0
			for _, r := range runs {
				if !r.short && r.has("agentbox/e2e", "TestScript") && part != "" && r.variables[partEnv] == part {
					found++
				}
			}
			if part != "" && found != 1 {
				t.Errorf("%s runs %d times in kind %s: part %s", h.name, found, kind, part)
			}
			if part == nightly {
				atNight = append(atNight, kind+"/"+h.name)
			}
		}
	}
	slices.Sort(atNight)
	t.Logf("at night: %s", strings.Join(atNight, " "))
}

// TestEachPackageIsTestedForEachPush looks for packages whose tests no run for a push has.
func TestEachPackageIsTestedForEachPush(t *testing.T) {
	runs := runsOf(t, "push")
	for dir, p := range testPackages(t) {
		for name := range p.functions {
			if isTest(name) && !slices.ContainsFunc(runs, func(r testRun) bool { return r.has(dir, name) }) {
				t.Errorf("nothing for a push runs %s of %s", name, dir)
			}
		}
	}
}
