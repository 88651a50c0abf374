package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v3"
)

// Every command that a user page shows must exist in the program, with its flags and number of
// arguments. The test executes none of them.
func TestDocumentsShowCommandsThatExist(t *testing.T) {
	for _, c := range shownCommands(t) {
		if err := parses(c.words, c.prose); err != nil {
			t.Errorf("%s: agentbox %s: %v", c.where, strings.Join(c.words, " "), err)
		}
	}
}

// A script must run each verb and flag that a user page shows against the real binary, or
// notScripted must give a reason.
func TestDocumentsShowCommandsThatScriptsRun(t *testing.T) {
	run := scriptedShapes(t)
	used := map[string]bool{}
	for _, c := range shownCommands(t) {
		for _, part := range shapeOf(c.words) {
			if notScripted[part] != "" {
				used[part] = true
			} else if !run[part] {
				t.Errorf("%s: no script of testdata/script runs `agentbox %s`, and notScripted has no reason", c.where, part)
			}
		}
	}
	for part := range notScripted {
		switch {
		case run[part]:
			t.Errorf("a script runs `agentbox %s` by now: take it off notScripted", part)
		case !used[part]:
			t.Errorf("no page shows `agentbox %s` any more: take it off notScripted", part)
		}
	}
}

// notScripted lists what no script runs, with the reason or with what tests it instead.
var notScripted = map[string]string{
	"bench idle":        "it needs a machine on which nothing else runs",
	"bench work":        "the benchmarks' own tests do, in bench/",
	"service install":   "it would change the systemd of who tests: agentbox/service tests it against a fake one",
	"service status":    "as service install",
	"service uninstall": "as service install",
}

// shown is one command line on a page.
type shown struct {
	where string   // file:line
	words []string // after "agentbox"
	prose bool     // mentioned in a sentence, where arguments may be left out
}

// shownCommands returns all command lines of README, CHANGELOG and the user pages, both in blocks and
// between backquotes in a sentence.
func shownCommands(t *testing.T) []shown {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("found %d pages: %v", len(pages), err)
	}
	var all []shown
	for _, page := range append(pages, "../../README.md", "../../CHANGELOG.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			lines, prose := codeOf(line)
			for _, code := range lines {
				for _, words := range agentboxCommands(code) {
					for _, one := range alternatives(words) {
						all = append(all, shown{fmt.Sprintf("%s:%d", filepath.Base(page), i+1), one, prose})
					}
				}
			}
		}
	}
	if len(all) < 150 {
		t.Fatalf("found only %d commands", len(all))
	}
	return all
}

var inline = regexp.MustCompile("`([^`]+)`")

// codeOf is what of a line is shell: all of a line of a block, or what is between backquotes in a
// sentence.
func codeOf(line string) (code []string, prose bool) {
	for _, prefix := range []string{"$ ", "    ", ""} {
		rest, ok := strings.CutPrefix(line, prefix)
		rest = strings.TrimSpace(rest)
		if ok && (prefix == "$ " || strings.HasPrefix(rest, "agentbox ") || strings.HasPrefix(rest, "bin/agentbox ")) && !strings.Contains(rest, "`") {
			return []string{rest}, false
		}
	}
	for _, m := range inline.FindAllStringSubmatch(line, -1) {
		switch {
		case strings.HasPrefix(m[1], "agentbox "):
			code = append(code, m[1])
		case isShort(m[1]):
			code = append(code, "agentbox "+m[1])
		}
	}
	return code, true
}

// isShort reports whether a text is a command without the word "agentbox": a verb with a flag or with
// one of its subcommands. A lone verb may just as well be a word or a key.
func isShort(text string) bool {
	words := strings.Fields(text)
	if len(words) < 2 {
		return false
	}
	verb := everyVerb().Command(words[0])
	return verb != nil && (strings.HasPrefix(words[1], "-") && words[1] != "--" || verb.Command(words[1]) != nil)
}

// agentboxCommands returns the words after "agentbox" for each command of a line of shell.
func agentboxCommands(line string) [][]string {
	var out [][]string
	for _, words := range shellCommands(line) {
		for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo") {
			words = words[1:] // a variable assignment
		}
		if len(words) > 1 && (words[0] == "agentbox" || words[0] == "bin/agentbox") {
			out = append(out, words[1:])
		}
	}
	return out
}

// shellCommands splits a line into commands and their words, without redirections and comments. A |
// without a space before it is a choice rather than a pipe, as in a|b.
func shellCommands(line string) [][]string {
	var commands [][]string
	var words []string
	var word strings.Builder
	var quote rune
	begun, redirected := false, false
	end := func() {
		if begun && !redirected {
			words = append(words, word.String())
		}
		redirected = redirected && !begun
		begun = false
		word.Reset()
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == '#' && !begun:
			end()
			return append(commands, words)
		case r == '|' && begun:
			word.WriteRune(r)
		case strings.ContainsRune("&;|", r):
			end()
			commands, words = append(commands, words), nil
		case r == '>' || r == '<':
			end()
			redirected = true
		case r == ' ':
			end()
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return append(commands, words)
}

// alternatives expands choices (a|b) and optional words ([BOX]) into command lines. It keeps the
// optional words.
func alternatives(words []string) [][]string {
	out := [][]string{nil}
	for i, w := range words {
		if w == "--" {
			for j := range out {
				out[j] = append(out[j], words[i:]...)
			}
			break
		}
		var next [][]string
		for choice := range strings.SplitSeq(strings.Trim(w, "[]"), "|") {
			for _, before := range out {
				next = append(next, append(slices.Clone(before), choice))
			}
		}
		out = next
	}
	return out
}

// parses returns an error if a command line is not valid. It does not run the command's action. In
// a sentence a command may be named without its arguments.
func parses(words []string, prose bool) error {
	a := &app{stdout: new(strings.Builder)}
	a.args, a.command = splitCommand(append([]string{"agentbox"}, words...))
	root := a.tree(a.verbs())
	inert(root, func(cmd *cli.Command) error {
		if named := prose && !cmd.Args().Present() && a.command == nil; !named && !takes(cmd, a.command != nil) {
			return fmt.Errorf("takes %q, not %d arguments", cmd.ArgsUsage, cmd.Args().Len())
		}
		return nil
	})
	a.strict(root)
	return root.Run(context.Background(), a.args)
}

// inert replaces what commands do. It counts arguments with takes instead of strict, because a
// sentence may name a command without any.
func inert(cmd *cli.Command, instead func(*cli.Command) error) {
	if cmd.Action != nil {
		usage := cmd.ArgsUsage
		cmd.Action = func(_ context.Context, cmd *cli.Command) error {
			cmd.ArgsUsage = usage
			return instead(cmd)
		}
		if usage != "" && !strings.Contains(usage, "-- ") {
			cmd.ArgsUsage = "WORDS" // which strict does not count
		}
	}
	for _, sub := range cmd.Commands {
		inert(sub, instead)
	}
}

// takes reports whether a command's usage covers its arguments. The usage consists of forms
// separated by " | ". In each, [X] may be left out, X... may be repeated, --flag has a value, and
// -- begins a command.
func takes(cmd *cli.Command, command bool) bool {
	usage := bracketed.ReplaceAllStringFunc(cmd.ArgsUsage, func(s string) string { return strings.ReplaceAll(s, " ", "") })
	for form := range strings.SplitSeq(usage, " | ") {
		form, _, _ = strings.Cut(form, "[--")
		ours, _, needsCommand := strings.Cut(form, "-- ")
		if needsCommand && !command {
			if cmd.Args().Len() > 0 { // it may follow without a --
				return true
			}
			continue
		}
		least, most := bounds(strings.Fields(ours))
		if n := cmd.Args().Len(); n >= least && n <= most {
			return true
		}
	}
	return false
}

var bracketed = regexp.MustCompile(`\[[^-][^]]*\](\.\.\.)?`)

// bounds returns how many arguments the words of a usage stand for.
func bounds(words []string) (least, most int) {
	for i, word := range words {
		if strings.HasPrefix(word, "--") || i > 0 && strings.HasPrefix(words[i-1], "--") {
			continue
		}
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if most++; strings.Contains(word, "...") {
			most = 1 << 10
		}
	}
	return least, most
}

// The arguments that a command accepts must be those in its help.
func TestHelpMatchesArguments(t *testing.T) {
	for usage, of := range argumentsBy {
		least, most := bounds(strings.Fields(usage))
		if most == 1<<10 {
			most = unbounded
		}
		if of.least != least || of.most != most {
			t.Errorf("%q takes %d to %d, and %+v is counted", usage, least, most, of)
		}
		if of.least > 0 && of.what == "" {
			t.Errorf("%q: %+v has no words for those who give too few", usage, of)
		}
	}
}

// shapeOf returns the forms to look for in scripts: the verb of a command line, and the verb with
// each of its flags in the long form.
func shapeOf(words []string) []string {
	cmd, path := everyVerb(), []string{}
	var flags []string
	for _, w := range words {
		if w == "--" {
			break
		}
		if name, ok := strings.CutPrefix(w, "-"); ok {
			flags = append(flags, long(cmd, name)...)
			continue
		}
		if sub := cmd.Command(w); sub != nil {
			cmd, path = sub, append(path, w)
			continue
		}
		if cmd.Name == "exec" {
			break // after a box comes a command
		}
	}
	verb := strings.Join(path, " ")
	shapes := []string{verb}
	for _, f := range flags {
		shapes = append(shapes, verb+" --"+f)
	}
	return shapes
}

// long returns the long names of the flags in a word with a dash: one flag, or several letters.
func long(cmd *cli.Command, word string) []string {
	name, _, _ := strings.Cut(strings.TrimPrefix(word, "-"), "=")
	for _, f := range flagsOf(cmd) {
		if slices.Contains(f.Names(), name) {
			return f.Names()[:1]
		}
	}
	return nil
}

var called = regexp.MustCompile(`agentbox ([^;|&)"\n]*)`)

// scriptedShapes returns the shapes of all calls of agentbox in the scripts.
func scriptedShapes(t *testing.T) map[string]bool {
	t.Helper()
	scripts, err := filepath.Glob("../../testdata/script/*.txtar")
	if err != nil || len(scripts) < 30 {
		t.Fatalf("found %d scripts: %v", len(scripts), err)
	}
	run := map[string]bool{}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range called.FindAllStringSubmatch(string(text), -1) {
			for _, shape := range shapeOf(strings.Fields(m[1])) {
				run[shape] = true
			}
		}
	}
	if len(run) < 50 {
		t.Fatalf("found only %d: %v", len(run), slices.Sorted(maps.Keys(run)))
	}
	return run
}

// everyVerb is the whole tree of commands.
func everyVerb() *cli.Command {
	a := new(app)
	return a.tree(a.verbs())
}
