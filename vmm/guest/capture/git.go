//go:build linux

package capture

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// options are those of the script's git: no configuration runs a program or changes the output.
var options = []string{
	"-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false", "-c", "core.splitIndex=false", "-c", "gc.auto=0",
	"-c", "core.quotePath=true", "-c", "core.bigFileThreshold=64m", "-c", "log.showSignature=false", "-c", "safe.directory=*",
}

// command is a command of git in the workspace, which sees what was made here.
func (c *capture) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", slices.Concat(options, args)...)
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "LC_ALL=C", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1",
		"GIT_DIR="+c.git, "GIT_WORK_TREE="+c.root, "GIT_OBJECT_DIRECTORY="+filepath.Join(c.temp, "objects"))
	return cmd
}

func (c *capture) run(stdin io.Reader, args ...string) ([]byte, error) {
	cmd := c.command(args...)
	cmd.Stdin = stdin
	return cmd.Output()
}

// operation has the files of a git directory that say more than index and refs do.
var operation = []string{
	"MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "MERGE_AUTOSTASH", "SQUASH_MSG", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "BISECT_START", "BISECT_LOG",
	"BISECT_NAMES", "BISECT_TERMS", "BISECT_EXPECTED_REV", "rebase-merge", "rebase-apply", "sequencer", "modules", "commondir", "config.worktree",
}

// harmless are how variables begin that change neither where git looks, nor what it finds there but by
// settings that it lists.
var harmless = []string{"GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_SSL_", "GIT_SSH", "GIT_HTTP_", "GIT_EDITOR", "GIT_PAGER", "GIT_ASKPASS", "GIT_TERMINAL_PROMPT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"}

// checkGitDir leaves what is no plain repository at rest to the script.
func (c *capture) checkGitDir() error {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "GIT_") && !slices.ContainsFunc(harmless, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return other("the variable " + name)
		}
	}
	if info, err := os.Lstat(c.git); err != nil || !info.IsDir() {
		return other("no repository")
	}
	for _, name := range operation {
		if _, err := os.Lstat(filepath.Join(c.git, name)); !errors.Is(err, os.ErrNotExist) {
			return other(name)
		}
	}
	if trees, err := os.ReadDir(filepath.Join(c.git, "worktrees")); len(trees) > 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		return other("work trees")
	}
	if partial, err := filepath.Glob(filepath.Join(c.git, "objects", "pack", "*.promisor")); len(partial) > 0 || err != nil {
		return other("a partial clone")
	}
	return c.readHead()
}

// readHead reads what is checked out.
func (c *capture) readHead() error {
	name := filepath.Join(c.git, "HEAD")
	text, err := os.ReadFile(name)
	if info, statErr := os.Lstat(name); err != nil || statErr != nil || !info.Mode().IsRegular() {
		return other("HEAD")
	}
	if c.ref = "HEAD"; bytes.HasPrefix(text, []byte("ref:")) {
		c.ref = strings.TrimSpace(string(text[len("ref:"):]))
	}
	return nil
}

// ask asks git for all that it has to say, at once, and meanwhile lists the files. It returns the
// names of the untracked ones.
func (c *capture) ask() (untracked []string, err error) {
	questions := [][]string{
		{"ls-files", "-o", "--exclude-standard", "-z"},
		{"config", "--list", "-z"},
		{"log", "-1", "--format=%H%n%T%n%ct", "HEAD", "--"},
		{"for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"},
	}
	answers, failed := make([][]byte, len(questions)), make([]error, len(questions))
	var all sync.WaitGroup
	for i, args := range questions {
		all.Go(func() { answers[i], failed[i] = c.run(nil, args...) })
	}
	err = errors.Join(c.walk(), c.readIndex())
	all.Wait()
	if gitErr := errors.Join(failed...); gitErr != nil {
		return nil, other(gitErr.Error())
	}
	if err == nil {
		err = errors.Join(c.readConfig(string(answers[1])), c.readCommit(string(answers[2])), c.readRefs(string(answers[3])), c.readAttributes(), c.findStaged())
	}
	return fields(answers[0]), err
}

// findStaged asks git what is staged, unless all files of the index make the tree of HEAD.
func (c *capture) findStaged() error {
	all := make([]entry, len(c.index.Entries))
	for i, e := range c.index.Entries {
		all[i] = entry{e.Path, e.Mode, e.ID}
	}
	tree, err := c.trees(all, nil)
	var text []byte
	if err == nil && tree != c.head.tree {
		text, err = c.run(nil, "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "HEAD", "--")
	}
	if err != nil {
		return other(err.Error())
	}
	return c.readStaged(text)
}

// fields splits text that has a zero byte after each field.
func fields(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

// settled has the settings of git that must have a value, if they have any.
var settled = map[string]bool{"core.filemode": true, "core.symlinks": true, "core.ignorecase": false, "core.bare": false, "core.sparsecheckout": false}

// readConfig leaves a repository to the script whose configuration changes what git does with files.
func (c *capture) readConfig(text string) error {
	c.ctime = true
	for line := range strings.SplitSeq(text, "\x00") {
		key, value, given := strings.Cut(line, "\n")
		value = strings.ToLower(value)
		yes := !given || value == "true" || value == "yes" || value == "on" || value == "1"
		want, isSettled := settled[key]
		switch {
		case isSettled && yes != want, strings.HasPrefix(key, "extensions."), key == "core.repositoryformatversion" && value != "0",
			key == "core.attributesfile", key == "core.worktree", strings.HasPrefix(key, "core.protect"), key == "core.precomposeunicode", key == "i18n.commitencoding":
			return other(key)
		case key == "core.autocrlf", key == "core.eol":
			c.converts = true
		case key == "core.checkstat":
			c.minimal = value == "minimal"
		case key == "core.trustctime":
			c.ctime = yes
		}
	}
	return nil
}

// attributeFiles are those outside of the work tree, without the ones beside the program.
func (c *capture) attributeFiles() (names []string) {
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(os.Getenv("HOME"), ".config")
	}
	names = []string{filepath.Join(c.git, "info", "attributes"), filepath.Join(config, "git", "attributes"), "/etc/gitattributes"}
	if git, err := exec.LookPath("git"); err == nil {
		names = append(names, filepath.Join(filepath.Dir(filepath.Dir(git)), "etc", "gitattributes"))
	}
	return names
}

// readAttributes looks for attributes with which git would keep other bytes of a file than it has. Line
// ends are converted in files with a carriage return only. Their names cannot be written otherwise.
func (c *capture) readAttributes() error {
	names := c.attributeFiles()
	for name := range c.files {
		if filepath.Base(name) == ".gitattributes" {
			names = append(names, filepath.Join(c.root, name))
		}
	}
	for _, e := range c.index.Entries {
		if filepath.Base(e.Path) == ".gitattributes" && c.files[e.Path] == nil {
			return other("attributes that are deleted") // git reads them from the index
		}
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		for _, word := range []string{"filter", "ident", "working-tree-encoding"} {
			if err != nil || bytes.Contains(text, []byte(word)) {
				return other("the attribute " + word)
			}
		}
		c.converts = true
	}
	return nil
}
