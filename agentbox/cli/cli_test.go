package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

// runMain runs the program in a home that does not exist; no test here may need one.
func runMain(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir() + "/none"
	t.Setenv(home.EnvDir, dir)
	stdin, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, readOut := pipe(t)
	errs, readErr := pipe(t)
	code = Main(append([]string{"agentbox"}, args...), stdin, out, errs)
	if _, err := os.Lstat(dir); err == nil {
		t.Errorf("%q touched the home", args)
	}
	return code, readOut(), readErr()
}

func TestUsageErrors(t *testing.T) {
	for args, want := range map[string][2]string{
		"lss":                       {`"lss" is not a command`, "agentbox ls"},
		"xyzzyplugh":                {`"xyzzyplugh" is not a command`, "--help"},
		"--frobnicate":              {"no flag --frobnicate", "--help"},
		"ls --usag":                 {"no flag --usag", "--usage"},
		"ls -x":                     {"no flag -x", "--help"},
		"ls box":                    {`takes no argument "box"`, "--help"},
		"show one two":              {`takes no argument "two"`, "--help"},
		"diff one two":              {`takes no argument "two"`, "--help"},
		"pull one two":              {`takes no argument "two"`, "--help"},
		"attach box j-1 two":        {`takes no argument "two"`, "--help"},
		"run make -- test":          {`takes no argument "make"`, "--help"},
		"task submit make -- test":  {`takes no argument "make"`, "--help"},
		"image frob":                {`"frob" is not a command`, "--help"},
		"up --cpus two":             {"two", "--help"},
		"run --timeout 2d -- true":  {`--timeout: "2d" is not a duration`, "90s, 15m or 1h30m"},
		"jobs kill --all j-1":       {"no flag --all", "--help"},
		"run --timeout -5s -- true": {"--timeout -5s is not above 0", "90s"},
		"run --timeout 0 -- true":   {"--timeout 0s is not above 0", "leave it out"},
		"up --cpus 0":               {"--cpus 0 is not above 0", "leave it out"},
		"agent --cpus -1 claude":    {"--cpus -1 is not above 0", "leave it out"},

		"task submit --parallel 0 -- true":   {"--parallel 0 is not above 0", "leave it out"},
		"task submit --max-cost 0 -- true":   {"--max-cost 0 is not above 0", "0.10"},
		"task submit --max-cost nan -- true": {"--max-cost NaN is not above 0", "0.10"},
		"task submit --max-tokens 0 -- true": {"--max-tokens 0 is not above 0", "100000"},
		"task submit --idle 0s -- true":      {"--idle 0s is not above 0", "15m"},
		"rm -- box":                          {"rm runs no command", "leave out the --"},
		"shell -- ls":                        {"shell runs no command", "--help"},
		"image ls -- x":                      {"ls runs no command", "--help"},
		"-- up":                              {"agentbox runs no command", "--help"},
		"up make -j4":                        {`up takes no argument "make"`, "agentbox up -- make -j4"},
		"exec box -u root":                   {"no command before -u", "before the box's name"},
		"exec box --usr root -- id":          {"exec has no flag --usr", "--user"},
		"exec --usr root box id":             {"exec has no flag --usr", "--user"},
		"exec -nt a b -- id":                 {"more than one box", "--help"},
	} {
		code, stdout, stderr := runMain(t, strings.Fields(args)...)
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		if code != exitFailed || stdout != "" || len(lines) != 2 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", args, code, stdout, stderr)
			continue
		}
		if !strings.HasPrefix(lines[0], "agentbox: ") || !strings.Contains(lines[0], want[0]) {
			t.Errorf("%s: %s", args, lines[0])
		}
		if !strings.HasPrefix(lines[1], "hint: ") || !strings.Contains(lines[1], want[1]) {
			t.Errorf("%s: %s", args, lines[1])
		}
	}
}

func TestHelpNeedsNoDaemon(t *testing.T) {
	for _, args := range []string{"", "--help", "help", "up --help", "image", "image --help"} {
		code, stdout, stderr := runMain(t, strings.Fields(args)...)
		if code != exitOK || !strings.Contains(stdout, "agentbox") || stderr != "" {
			t.Errorf("%q: exit %d, stdout %.40q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestArgumentsAfterDashes(t *testing.T) {
	for _, c := range []struct {
		args          string
		ours, command []string
	}{
		{"agentbox up", []string{"agentbox", "up"}, nil},
		{"agentbox up --", []string{"agentbox", "up"}, []string{}},
		{"agentbox up -- ls -- --help", []string{"agentbox", "up"}, []string{"ls", "--", "--help"}},
		{"agentbox -- up", []string{"agentbox"}, []string{"up"}},
	} {
		ours, command := splitCommand(strings.Fields(c.args))
		if !slices.Equal(ours, c.ours) || !slices.Equal(command, c.command) || (command == nil) != (c.command == nil) {
			t.Errorf("%s: %q and %q", c.args, ours, command)
		}
	}
}

// A shell completes a line by running it with one more word.
func TestCompletionRunsNothing(t *testing.T) {
	for _, args := range []string{"exec -- git push", "run --", "up -- ls -", "rm --force", "reset box"} {
		if code, _, stderr := runMain(t, append(strings.Fields(args), completionFlag)...); code != exitOK || stderr != "" {
			t.Errorf("%s: exit %d, stderr %q", args, code, stderr)
		}
	}
}

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	code, script, _ := runMain(t, "completion", "bash")
	if code != exitOK {
		t.Fatal(code)
	}
	for line, want := range map[string]string{
		"agentbox po":              "ports policy",
		"agentbox policy sh":       "show",
		"agentbox up --iso":        "--isolation",
		"agentbox exec -- $(exit)": "",
		"agentbox logs > f x":      "",
	} {
		dir := t.TempDir()
		// A script that prints what it was asked stands in for the program.
		fake := "#!/bin/sh\ncase $* in --gen*) echo ports:p; echo policy:q; echo up:u;; \"policy --gen\"*) echo show:x; echo log:y;; up*) echo --isolation:x;; esac\n"
		if err := os.WriteFile(dir+"/agentbox", []byte(fake), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(bash, "--norc", "-c", script+`
			COMP_WORDS=($WORDS) COMP_CWORD=$((${#COMP_WORDS[@]}-1))
			_agentbox; echo "${COMPREPLY[*]}"`)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "WORDS="+line)
		out, err := cmd.CombinedOutput()
		if _, made := os.Lstat(dir + "/f"); err != nil || made == nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
}

func TestErrorsBecomeExitCodes(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   int
		stderr string
	}{
		{nil, 0, ""},
		{exit(7), 7, ""},
		{fmt.Errorf("wrapped: %w", exit(130)), 130, ""},
		{context.Canceled, exitFailed, "agentbox: interrupted\n"},
		{errors.New("two\nlines"), exitFailed, "agentbox: two; lines\n"},
		{agentbox.Errorf(agentbox.NotFound, "no box").WithHint("make\none"), exitFailed, "agentbox: no box\nhint: make; one\n"},
	} {
		w, read := pipe(t)
		if code, stderr := (&app{stderr: w}).finish(c.err), read(); code != c.code || stderr != c.stderr {
			t.Errorf("%v: exit %d, %q", c.err, code, stderr)
		}
	}
}

// A verb is found by the name that it has in the list.
func TestVerbsHaveTheirNames(t *testing.T) {
	for _, v := range new(app).verbs() {
		if name := v.command().Name; name != v.name {
			t.Errorf("%s is called %s", v.name, name)
		}
	}
}
