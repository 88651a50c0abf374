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

// visible lists the repository settings that every view passes on unchanged: how names are compared
// and whether the checkout is sparse. newView adds those for line endings and ignore rules.
var visible = []string{"core.ignorecase", "core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone"}

// listTimeout bounds git's walk through a work tree, which a pipe would block forever.
const listTimeout = 10 * time.Minute

// viewSource describes where a view finds the parts of a git directory.
type viewSource struct {
	root              string // the work tree
	gitDir, commonDir string // read from the original or from a copy
	objects           string // "" for none: needed only when the index omits the files of some directories
	local             []git.Setting
	user              []git.Setting // from the user's own configuration
	area              []string      // directories that ignore rules may be read from
}

// newView creates a view in dir, which must not exist. The index and its shared part keep their
// file names and are read in place. Line-ending conversion follows the repository's settings and
// then the user's, because it decides whether a file matches the index.
func (v viewSource) newView(dir string) (*git.View, error) {
	in := git.ViewConfig{WorkTree: v.root, Objects: v.objects, Format: settingValue(v.local, "extensions.objectformat"),
		Files: map[string]string{"index": filepath.Join(v.gitDir, "index"), "info/exclude": filepath.Join(v.commonDir, "info/exclude"), "info/sparse-checkout": filepath.Join(v.gitDir, "info/sparse-checkout"),
			"shallow": filepath.Join(v.commonDir, "shallow")}}
	entries, err := git.ReadDir(v.gitDir)
	if err != nil {
		return nil, unreadable(v.gitDir, err)
	}
	// A split index keeps its shared part beside it, under a name that the index records.
	for _, e := range entries {
		if sharedIndex().MatchString(e.Name()) {
			in.Files[e.Name()] = filepath.Join(v.gitDir, e.Name())
		}
	}
	for _, key := range visible {
		if value := settingValue(v.local, key); value != "" {
			in.Settings = append(in.Settings, git.Setting{Key: key, Value: value})
		}
	}
	for _, key := range []string{"core.autocrlf", "core.eol"} {
		if value := settingValue(append(slices.Clone(v.user), v.local...), key); value != "" {
			in.Settings = append(in.Settings, git.Setting{Key: key, Value: value})
		}
	}
	excludes, err := v.excludes()
	if err != nil {
		return nil, err
	}
	if excludes != "" {
		in.Settings = append(in.Settings, git.Setting{Key: "core.excludesfile", Value: excludes})
	}
	return git.NewView(dir, in)
}

// excludes returns the path of the ignore file outside the repository, or "" for none. A
// repository may only name a file of its own: otherwise the set of ignored files would reveal
// the contents of any file on the host. The user's own configuration may name any file.
func (v viewSource) excludes() (string, error) {
	named := settingValue(v.local, "core.excludesfile")
	if named == "" {
		if named = settingValue(v.user, "core.excludesfile"); named == "" {
			return defaultExcludes(), nil
		}
		return expand(named, v.root), nil
	}
	path := expand(named, v.root)
	if !slices.ContainsFunc(v.area, func(dir string) bool { return within(dir, path) }) {
		return "", agentbox.Errorf(agentbox.Invalid, "the repository at %s takes its ignore rules from %s, which is not part of it", v.root, named).
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

// defaultExcludes returns the path that git uses when core.excludesFile is unset.
func defaultExcludes() string {
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		return filepath.Join(config, "git", "ignore")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".config", "git", "ignore")
	}
	return ""
}

// expand resolves a path from a configuration file the way git does.
func expand(path, root string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return absolute(path, root)
}

// settingValue is the effective value of key: "true" without a value, "" if it is not set.
func settingValue(settings []git.Setting, key string) string {
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

func withoutSetting(settings []git.Setting, key string) []git.Setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s git.Setting) bool { return s.Key == key })
}

// SetRef points a ref of the checkout at a commit that the checkout already has. It runs no
// hooks. ref is a full ref name; a symbolic ref is replaced, not followed. commit is full hex.
func SetRef(ctx context.Context, repo Repo, ref, commit string) error {
	// git would wait for the writer of a pipe there.
	if _, err := alternates(filepath.Join(repo.CommonDir, "objects")); err != nil {
		return err
	}
	if _, err := ask(ctx, repo.Root, "update-ref", "--no-deref", ref, commit); err != nil {
		return explain(err, repo.Root)
	}
	return nil
}

// Objects opens a view of a checkout and its object store, through which git can also add
// objects. The caller must call done to release it. Added objects go into the checkout's own
// store; the next git gc drops them unless a ref names them (SetRef).
func Objects(ctx context.Context, repo Repo) (v *git.View, done func() error, err error) {
	local, err := readConfig(filepath.Join(repo.CommonDir, "config"))
	if err != nil {
		return nil, nil, err
	}
	user, err := carriedSettings(ctx, repo)
	if err != nil {
		return nil, nil, err
	}
	// The checkout belongs to the user, so the view goes elsewhere.
	dir, err := os.MkdirTemp("", "agentbox-git-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil, nil, unwritable(os.TempDir(), err)
	}
	v, err = viewSource{root: repo.Root, gitDir: repo.GitDir, commonDir: repo.CommonDir, objects: filepath.Join(repo.CommonDir, "objects"), local: local, user: user,
		area: []string{repo.Root, repo.CommonDir}}.newView(filepath.Join(dir, "view"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, nil, err
	}
	return v, func() error { return os.RemoveAll(dir) }, nil
}

// HasFilesIn reports whether a workspace made now would contain the directory subdir, which is
// slash-separated and relative to the root: that is, whether any file in it exists and is not
// ignored.
func HasFilesIn(ctx context.Context, repo Repo, subdir string) (bool, error) {
	paths, err := FilesIn(ctx, repo, subdir)
	for _, name := range paths {
		if _, err := os.Lstat(filepath.Join(repo.Root, filepath.FromSlash(name))); err == nil {
			return true, nil
		}
	}
	return false, err
}

// FilesIn lists what a workspace made now would contain of paths, each a file or a directory that is
// slash-separated and relative to the root. A deleted file may be among them.
func FilesIn(ctx context.Context, repo Repo, paths ...string) ([]string, error) {
	v, done, err := Objects(ctx, repo)
	if err != nil {
		return nil, err
	}
	defer done()
	which := []string{"--"}
	for _, p := range paths {
		which = append(which, ":(literal)"+p)
	}
	files, _, err := listFiles(ctx, v, repo.Root, which...)
	return files, err
}

// listFiles lists the files that git sees in a work tree, as paths relative to root. A nested
// repository ends in a slash. complaints holds what git wrote to stderr although it succeeded,
// one line each. which are further arguments, such as pathspecs. A walk that exceeds listTimeout
// fails with code Unavailable.
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

// ValidName reports whether a name from an index or a box, both of which may hold arbitrary
// bytes, can be that of a file in a work tree.
func ValidName(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || part == ".git" {
			return false
		}
	}
	return !strings.Contains(name, "\x00")
}
