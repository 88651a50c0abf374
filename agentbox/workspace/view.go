package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// What files a work tree has is asked of git through a view, whose configuration has nothing from
// the repository's but how names are compared and which of them are ignored.
var visible = []string{"core.ignorecase", "core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone"}

// listTimeout bounds git's walk through a work tree, in which a pipe in place of a file would stop
// it for ever.
const listTimeout = 10 * time.Minute

// looks is where a view finds the parts of a git directory.
type looks struct {
	root              string // the work tree
	gitDir, commonDir string // whose files are read: the original's, or those of a copy
	objects           string // "" for none: only an index without files of some directories needs them
	local             []git.Setting
	user              []git.Setting // of the user's own configuration
	area              []string      // the directories that ignore rules may be read from
}

// newView makes a view in dir, which must not exist. Names of the index and of its shared part are
// those of the files; both are read from where they are. How line ends are converted is the user's
// word, unless the repository's says otherwise: it decides whether a file is as in the index.
func (l looks) newView(dir string) (*git.View, error) {
	in := git.Ingredients{WorkTree: l.root, Objects: l.objects, Format: last(l.local, "extensions.objectformat"),
		Files: map[string]string{"index": filepath.Join(l.gitDir, "index"), "info/exclude": filepath.Join(l.commonDir, "info/exclude"), "info/sparse-checkout": filepath.Join(l.gitDir, "info/sparse-checkout"),
			"shallow": filepath.Join(l.commonDir, "shallow")}}
	entries, err := git.ReadDir(l.gitDir)
	if err != nil {
		return nil, unreadable(l.gitDir, err)
	}
	// A split index has its shared part beside it, under the name that the index says.
	for _, e := range entries {
		if sharedIndex().MatchString(e.Name()) {
			in.Files[e.Name()] = filepath.Join(l.gitDir, e.Name())
		}
	}
	for _, key := range visible {
		if value := last(l.local, key); value != "" {
			in.Settings = append(in.Settings, git.Setting{Key: key, Value: value})
		}
	}
	for _, key := range []string{"core.autocrlf", "core.eol"} {
		if value := last(append(slices.Clone(l.user), l.local...), key); value != "" {
			in.Settings = append(in.Settings, git.Setting{Key: key, Value: value})
		}
	}
	excludes, err := l.excludes()
	if err != nil {
		return nil, err
	}
	if excludes != "" {
		in.Settings = append(in.Settings, git.Setting{Key: "core.excludesfile", Value: excludes})
	}
	return git.NewView(dir, in)
}

// excludes is the file with ignore rules that is in no repository. A repository may name one of its
// own only: what is ignored would tell what another file holds. "" is none. A file that the user's
// own configuration names may be anywhere.
func (l looks) excludes() (string, error) {
	named := last(l.local, "core.excludesfile")
	if named == "" {
		if named = last(l.user, "core.excludesfile"); named == "" {
			return defaultExcludes(), nil
		}
		return expand(named, l.root), nil
	}
	path := expand(named, l.root)
	if !slices.ContainsFunc(l.area, func(dir string) bool { return within(dir, path) }) {
		return "", agentbox.Errorf(agentbox.Invalid, "the repository at %s takes its ignore rules from %s, which is not part of it", l.root, named).
			WithHint("name the file for all your repositories: git config --global core.excludesFile FILE; or put the rules into .git/info/exclude")
	}
	f, err := git.OpenPlain(path)
	if gone(err) {
		return "", nil
	}
	if err != nil {
		return "", unreadable(path, err)
	}
	return path, f.Close()
}

// defaultExcludes is where git looks when nothing says otherwise.
func defaultExcludes() string {
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "git", "ignore")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return ""
}

// expand does to a path of a configuration what git does.
func expand(path, root string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return absolute(path, root)
}

// last is the value of a key that counts; a key without a value is true. It is "" where there is no
// such key.
func last(settings []git.Setting, key string) string {
	for _, s := range slices.Backward(settings) {
		if s.Key == key && s.Bare {
			return "true"
		}
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// without is the settings but those of one key, in a slice of its own.
func without(settings []git.Setting, key string) []git.Setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s git.Setting) bool { return s.Key == key })
}

// SetRef makes a ref of a checkout name a commit that it has. No hook is run. ref is a full name; a
// symbolic ref is replaced and not followed. commit is full hex.
func SetRef(ctx context.Context, repo Repo, ref, commit string) error {
	if _, err := ask(ctx, repo.Root, "update-ref", "--no-deref", ref, commit); err != nil {
		return explain(err, repo.Root)
	}
	return nil
}

// Objects gives git a look at a checkout and its objects, to which it may also add some. done ends
// it. What is added goes into the checkout's own store, and is lost at the next git gc unless a ref
// names it (SetRef).
func Objects(ctx context.Context, repo Repo) (v *git.View, done func() error, err error) {
	local, err := readConfig(filepath.Join(repo.CommonDir, "config"))
	if err != nil {
		return nil, nil, err
	}
	user, err := carriedSettings(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	// Not in the checkout, which is the user's.
	dir, err := os.MkdirTemp("", "agentbox-git-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, nil, unwritable(os.TempDir(), err)
	}
	v, err = looks{root: repo.Root, gitDir: repo.GitDir, commonDir: repo.CommonDir, objects: filepath.Join(repo.CommonDir, "objects"), local: local, user: user,
		area: []string{repo.Root, repo.CommonDir}}.newView(filepath.Join(dir, "view"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return v, func() error { return os.RemoveAll(dir) }, nil
}

// HasFilesIn tells whether a workspace made now would have the directory subdir, slash-separated
// below the root: whether anything in it is there and not ignored.
func HasFilesIn(ctx context.Context, repo Repo, subdir string) (bool, error) {
	v, done, err := Objects(ctx, repo)
	if err != nil {
		return false, err
	}
	defer done()
	paths, _, err := listFiles(ctx, v, repo.Root, "--", ":(literal)"+subdir)
	for _, name := range paths {
		if _, err := os.Lstat(filepath.Join(repo.Root, filepath.FromSlash(name))); err == nil {
			return true, nil
		}
	}
	return false, err
}

// listFiles names what belongs to a work tree, relative to root, as git sees it through a view. A
// nested repository ends in a slash. complaints is what git wrote to its error output although it
// succeeded, a line each. which are further arguments, pathspecs say. A walk that takes longer than
// listTimeout is an error of code Unavailable.
func listFiles(ctx context.Context, v *git.View, root string, which ...string) (paths []string, complaints string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTimeout, agentbox.Errorf(agentbox.Unavailable, "git cannot list the files of %s within %s", root, listTimeout).
		WithHint("look for a pipe or a dead network file system in it"))
	defer cancel()
	out, complaints, err := v.Run(ctx, git.Call{Dir: root, Args: append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard"}, which...)})
	if err != nil {
		return nil, complaints, explain(err, root)
	}
	for path := range strings.SplitSeq(string(out), "\x00") {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths, complaints, nil
}

// validName tells whether a name from an index or a box can be that of a file in a work tree. An
// index may hold any bytes.
func validName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || part == ".git" {
			return false
		}
	}
	return !strings.Contains(name, "\x00")
}
