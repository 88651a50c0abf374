package identity

import (
	"bufio"
	_ "embed"
	"io"
	"maps"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// script is what Script returns, without lockfiles.
//
//go:embed report.sh
var script string

// Script returns a POSIX script that reports on the machine that runs it, in the directory of a
// checkout: in CI, and in boxes.
func Script(lockfiles []string) string {
	var all strings.Builder
	for _, name := range lockfiles {
		all.WriteString("'" + strings.ReplaceAll(name, "'", `'\''`) + "' ")
	}
	return strings.Replace(script, "LOCKFILES", all.String(), 1)
}

// Report is what a machine said of itself: values by kind and name.
type Report map[string]map[string]string

// reportHeader is the first line of a report. Every other is a kind, a name and a value, with a tab
// between each.
const reportHeader = "agentbox report 1"

// kind is what lines of a report are about. With shared, only what both machines have is compared: a
// runner of CI has thousands of packages.
type kind struct {
	name   string
	shared bool
}

// kinds are those of a report, in the order in which differences matter.
var kinds = []kind{
	{"commit", false}, {"lockfile", false}, {"tool", true}, {"architecture", false}, {"system", false}, {"package", true}, {"locale", false}, {"variable", false}, {"limit", false}, {"kernel", false},
}

// Bounds of a report, in bytes.
const (
	MaxReport = 2 << 20
	maxLine   = 4 << 10
)

// ParseReport reads the output of Script. The error is Corrupt for anything else; lines of kinds that
// are not known are left out.
func ParseReport(r io.Reader) (Report, error) {
	out := Report{}
	lines := bufio.NewScanner(io.LimitReader(r, MaxReport))
	lines.Buffer(nil, maxLine)
	if !lines.Scan() || lines.Text() != reportHeader {
		return nil, agentbox.Errorf(agentbox.Corrupt, "this is no report: it does not begin with %q", reportHeader).WithHint("agentbox identity script prints what CI has to run; its output is the report")
	}
	for lines.Scan() {
		of, rest, _ := strings.Cut(lines.Text(), "\t")
		name, value, ok := strings.Cut(rest, "\t")
		if !ok || !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == of }) {
			continue
		}
		if out[of] == nil {
			out[of] = map[string]string{}
		}
		out[of][agentbox.Printable(name)] = agentbox.Printable(value)
	}
	if err := lines.Err(); err != nil {
		return nil, agentbox.Errorf(agentbox.Corrupt, "the report cannot be read: %w", err)
	}
	return out, nil
}

// Diff lists how a machine differs from another, what matters most first.
func (r Report) Diff(other Report) (all []Difference) {
	for _, k := range kinds {
		some := diffMaps(k.name, r[k.name], other[k.name])
		if k.shared {
			some = slices.DeleteFunc(some, func(d Difference) bool { return d.A == "" || d.B == "" })
		}
		all = append(all, some...)
	}
	return all
}

// Lockfiles are the names of those that a report is about.
func (r Report) Lockfiles() []string { return slices.Sorted(maps.Keys(r["lockfile"])) }
