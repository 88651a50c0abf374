// Command filters compiles the seccomp filters of runsc's sandbox and file server, as gVisor's own
// build does and a build by the go command does not: runsc would compile them at every start, which
// takes it tens of milliseconds. It prints programs.go of runsc's own package.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	_ "unsafe" // for go:linkname

	"gvisor.dev/gvisor/pkg/seccomp"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/pkg/sentry/platform"
	sentry "gvisor.dev/gvisor/runsc/boot/filter/config"
	gofer "gvisor.dev/gvisor/runsc/fsgofer/filter/config"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "filters:", err)
		os.Exit(1)
	}
}

// run prints a Go file with both lists, sorted by name, so that the same gVisor gives the same
// bytes. A list without any program is an error: runsc would start all the same, and slowly.
func run(w io.Writer) error {
	fmt.Fprint(w, "package main\n\nimport \"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp\"\n")
	for _, f := range []struct {
		name     string
		programs func() ([]precompiledseccomp.Program, error)
	}{{"sentryPrograms", sentryPrograms}, {"goferPrograms", goferPrograms}} {
		programs, err := f.programs()
		if err == nil && len(programs) == 0 {
			err = errors.New("gVisor has none that fit")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		slices.SortFunc(programs, func(a, b precompiledseccomp.Program) int { return strings.Compare(a.Name, b.Name) })
		fmt.Fprintf(w, "\nvar %s = []precompiledseccomp.Program{\n", f.name)
		for _, p := range programs {
			fmt.Fprintf(w, "\t%s,\n", p.Expr("\t", "precompiledseccomp"))
		}
		fmt.Fprintln(w, "}")
	}
	return nil
}

// sentryPrograms are those of a sandbox as vmm/gvisor starts it: Systrap, its own network, files of
// the host by descriptors. gVisor's own function compiles hundreds more, which takes a minute. The
// options must be those that runsc has at run time, since a program is found by a key made of them.
func sentryPrograms() ([]precompiledseccomp.Program, error) {
	systrap, err := platform.Lookup("systrap")
	if err != nil {
		return nil, err
	}
	var all []precompiledseccomp.Program
	for _, info := range systrap.PrecompiledSeccompInfo() {
		opt := sentry.Options{Platform: info, HostFilesystem: true}
		p, err := precompiledseccomp.Precompile(opt.ConfigKey(), slices.Collect(maps.Keys(opt.Vars())), func(vars precompiledseccomp.Values) *seccomp.Program {
			allowed, denied := sentryRules(opt, vars)
			// gVisor writes the id of the process that compiles into this rule, where that of the
			// sandbox belongs.
			allowed.Remove(syscall.SYS_RT_TGSIGQUEUEINFO)
			allowed.Set(syscall.SYS_RT_TGSIGQUEUEINFO, seccomp.PerArg{
				seccomp.EqualTo(vars.GetUint64("self_pid")), seccomp.AnyValue{}, seccomp.EqualTo(uint64(syscall.SIGKILL)),
			})
			return &seccomp.Program{
				RuleSets: []seccomp.RuleSet{{Rules: denied.Copy()}, {Rules: allowed.Copy(), Action: seccomp.Allow}},
				Options:  sentry.SeccompOptions(opt),
			}
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// goferPrograms are those of a file server that reaches no sockets of the host. They are chosen by
// their names, which say for which options each was compiled.
func goferPrograms() ([]precompiledseccomp.Program, error) {
	all, err := gofer.PrecompiledPrograms()
	return slices.DeleteFunc(all, func(p precompiledseccomp.Program) bool {
		for _, key := range []string{"UDSOpenEnabled=false", "UDSCreateEnabled=false", "DirectFS=true", "CgoEnabled=false"} {
			if !strings.Contains(p.Name, key) {
				return true
			}
		}
		return false
	}), err
}

// sentryRules is gVisor's: the rules with variables in them, which it exports for all its programs
// at once only.
//
//go:linkname sentryRules gvisor.dev/gvisor/runsc/boot/filter/config.rules
func sentryRules(sentry.Options, precompiledseccomp.Values) (allowed, denied seccomp.SyscallRules)
