package bench

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"agentbox/agentbox"
)

// check is one thing that a workstation can do, as a script that runs in a box: it succeeds if the
// box can. The comments at its head say what needs it, the way out where it fails, and the Debian
// packages that it needs beside a box's usual ones.
type check struct{ name, why, out, packages, script string }

//go:embed checks/*.sh
var checkFiles embed.FS

// Check is the outcome of a check in a box. Why and Out are ours, Reason is what the box said.
type Check struct {
	Name      string `json:"name"`
	Isolation string `json:"isolation"`
	Works     bool   `json:"works"`
	Why       string `json:"why"`              // what needs it
	Reason    string `json:"reason,omitempty"` // why it does not work
	Out       string `json:"out,omitempty"`    // what to do instead
}

// lacks reports whether the box had no program to try it with.
func (c Check) lacks() bool { return !c.Works && strings.HasSuffix(c.Reason, ": not found") }

// checks returns all checks in order of their names; without those that need packages unless all.
func checks(all bool) (out []check) {
	names, _ := fs.Glob(checkFiles, "checks/*.sh")
	for _, name := range names {
		text, _ := checkFiles.ReadFile(name)
		c := check{name: strings.TrimSuffix(path.Base(name), ".sh"), script: string(text)}
		for line := range strings.Lines(c.script) {
			key, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "# ")), ": ")
			switch {
			case !strings.HasPrefix(line, "# "):
			case key == "why":
				c.why = value
			case key == "out":
				c.out = value
			case key == "packages":
				c.packages = value
			}
		}
		if all || c.packages == "" {
			out = append(out, c)
		}
	}
	return out
}

// Fidelity checks what works of a workstation in a box of each kind. all includes what needs further
// packages, which takes minutes.
func (r *Run) Fidelity(ctx context.Context, all bool) error {
	chosen, err := r.chosenChecks(all)
	if err != nil {
		return err
	}
	return r.ByKind(ctx, func(lab *Lab) error {
		end := r.Progress.Begin("box", string(lab.kind))
		box, err := lab.workstation(ctx, all)
		if err != nil {
			return err
		}
		end(box.Name)
		return r.checkIn(ctx, box, chosen)
	})
}

func (r *Run) checkIn(ctx context.Context, box WorkBox, chosen []check) error {
	for _, c := range chosen {
		end := r.Progress.Begin("fidelity/"+c.name, string(box.Installation.Lab.kind))
		done := c.in(ctx, box)
		if err := ctx.Err(); err != nil {
			return err
		}
		r.Report.Checks = append(r.Report.Checks, done)
		switch {
		case done.Works:
			end("works")
		case done.lacks():
			end("no program for it")
		default:
			end("does not work")
		}
	}
	return nil
}

// checkProject runs the checks that need no package in the project's box of each kind. A box that
// lacks a check's program says nothing about the kind, so that check is missing.
func (r *Run) checkProject(ctx context.Context, p *Project, labs []*Lab) error {
	for _, lab := range labs {
		b := &projectBox{project: p, lab: lab}
		if err := b.renew(ctx); err != nil {
			return err
		}
		if err := r.checkIn(ctx, WorkBox{Installation: lab.Plain, Name: b.name()}, checks(false)); err != nil {
			return err
		}
	}
	for _, c := range r.Report.Checks {
		if c.lacks() {
			r.Report.Missing = append(r.Report.Missing, Missing{"fidelity/" + c.Name, "the box has no program for it: " + c.Reason})
		}
	}
	r.Report.Checks = slices.DeleteFunc(r.Report.Checks, Check.lacks)
	return nil
}

// chosenChecks returns those that Only selects. It is an error if there are none.
func (r *Run) chosenChecks(all bool) (out []check, err error) {
	for _, c := range checks(all) {
		ok, err := Matches("fidelity/"+c.name, r.Patterns())
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, agentbox.Errorf(agentbox.Invalid, "no check matches %s", strings.Join(r.Patterns(), ", ")).WithHint("agentbox bench fidelity --all runs every check")
	}
	return out, nil
}

// workstation makes a box as a repository without configuration gets it, or one with the packages
// that all checks need.
func (l *Lab) workstation(ctx context.Context, all bool) (WorkBox, error) {
	b := WorkBox{Installation: l.Plain, Name: "fidelity"}
	dir, err := l.Repo(ctx, b.Name, SmallRepository)
	if err != nil {
		return b, err
	}
	if all {
		if err := os.WriteFile(filepath.Join(dir, workConfig), []byte(checkConfig()), 0o644); err != nil {
			return b, err
		}
	}
	_, err = b.Installation.Timed(ctx, WarmUpTime, dir, "up", "--name", b.Name, "--isolation", string(l.kind), "--detach")
	return b, err
}

func checkConfig() string {
	packages := []string{"build-essential", "git", "procps", "python3"}
	for _, c := range checks(true) {
		packages = append(packages, strings.Fields(c.packages)...)
	}
	slices.Sort(packages)
	return fmt.Sprintf("packages: [%s]\nmemory: 2GiB\n", strings.Join(slices.Compact(packages), ", "))
}

// in runs the check in a directory of its own. What fails to end within the limit does not work.
func (c check) in(ctx context.Context, box WorkBox) Check {
	out := Check{Name: c.name, Isolation: string(box.Installation.Lab.kind), Why: c.why}
	script := "rm -rf check && mkdir check && cd check && { sh -c \"$1\"; } >../said 2>&1 || { tail -n 1 ../said >&2; exit 1; }"
	ctx, cancel := context.WithTimeoutCause(ctx, BootLimit, fmt.Errorf("not done after %s", BootLimit))
	defer cancel()
	_, _, err := box.Installation.Program.Run(ctx, box.Installation.Home.Dir, "exec", box.Name, "--", "sh", "-c", script, "sh", c.script)
	if out.Works = err == nil; !out.Works {
		_, said, _ := strings.Cut(err.Error(), c.script+": ")
		out.Reason, out.Out = agentbox.Printable(strings.ToValidUTF8(said[:min(len(said), maxReason)], "")), c.out
	}
	return out
}

// WriteChecks writes the table of checks for people: Markdown, as the documentation has it.
func WriteChecks(w io.Writer, all []Check) error {
	kinds, rows := []string{}, map[string]map[string]Check{}
	var names []string
	for _, c := range all {
		if rows[c.Name] == nil {
			names, rows[c.Name] = append(names, c.Name), map[string]Check{}
		}
		if !slices.Contains(kinds, c.Isolation) {
			kinds = append(kinds, c.Isolation)
		}
		rows[c.Name][c.Isolation] = c
	}
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintf(t, "| check\t| who needs it\t| %s\t|\n|---\t|---\t|%s\n", strings.Join(kinds, "\t| "), strings.Repeat("---\t|", len(kinds)))
	for _, name := range names {
		why, cells := "", []string{}
		for _, kind := range kinds {
			c := rows[name][kind]
			why, cells = c.Why, append(cells, c.cell())
		}
		fmt.Fprintf(t, "| `%s`\t| %s\t| %s\t|\n", name, why, strings.Join(cells, "\t| "))
	}
	return t.Flush()
}

func (c Check) cell() string {
	if c.Works {
		return "yes"
	}
	reason := strings.NewReplacer("|", "/", "`", "'").Replace(c.Reason)
	return "**no**: " + reason + "; " + c.Out
}
