package identity

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Difference is one thing that is not the same in two environments. "" is where it is not.
type Difference struct {
	What string `json:"what"` // commit, image, package, ...
	Name string `json:"name,omitempty"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Side is a document with the packages of its image, NAME=VERSION each, as far as they are known here.
type Side struct {
	Document
	Packages []string
}

// Diff lists the differences of two environments: first what programs are run with and on, then
// what they are run in, at last which work it is.
func Diff(a, b Side) (all []Difference) {
	add := func(what, x, y string) {
		if x != y {
			all = append(all, Difference{What: what, A: x, B: y})
		}
	}
	all = append(all, diffMaps("lockfile", a.Lockfiles, b.Lockfiles)...)
	packages := diffMaps("package", pairs(a.Packages), pairs(b.Packages))
	if all = append(all, packages...); len(packages) == 0 || len(a.Packages)*len(b.Packages) == 0 {
		add("image", a.Image.String(), b.Image.String())
	}
	x, y := setupOf(a.Document), setupOf(b.Document)
	if add("setup", x.Key.String(), y.Key.String()); x.Key == y.Key {
		add("setup result", x.Result.String(), y.Result.String())
	}
	add("architecture", a.Arch, b.Arch)
	all = append(all, diffMaps("variable", set(a.Environment), set(b.Environment))...)
	all = append(all, diffMaps("secret", set(a.Secrets), set(b.Secrets))...)
	add("policy", a.Policy, b.Policy)
	add("isolation", string(a.Isolation), string(b.Isolation))
	add("kernel", a.Kernel, b.Kernel)
	add("project", a.Project, b.Project)
	add("commit", a.Commit, b.Commit)
	add("snapshot", a.Snapshot.String(), b.Snapshot.String())
	return all
}

func setupOf(d Document) Setup {
	if d.Setup == nil {
		return Setup{}
	}
	return *d.Setup
}

// pairs are the parts of NAME=VALUE lines.
func pairs(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		out[name] = value
	}
	return out
}

func set(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		out[name] = "set"
	}
	return out
}

// diffMaps lists the names under which two maps have different values, sorted.
func diffMaps(what string, a, b map[string]string) (all []Difference) {
	names := slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if a[name] != b[name] {
			all = append(all, Difference{What: what, Name: name, A: a[name], B: b[name]})
		}
	}
	slices.SortStableFunc(all, func(x, y Difference) int { return cmp.Compare(x.one(), y.one()) })
	return all
}

// one is 0 for what both have, which matters more than what only one has.
func (d Difference) one() int {
	if d.A == "" || d.B == "" {
		return 1
	}
	return 0
}
