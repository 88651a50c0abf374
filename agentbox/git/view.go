package git

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"agentbox/agentbox"
)

// View is a git directory of our own, through which git sees the work tree, the index and the
// objects of another repository. It has our configuration, no refs, no hooks and no remotes.
// Several goroutines may use it. What git writes into it, such as the index, is visible to all of
// them.
type View struct {
	dir      string
	workTree string
	objects  string // "" if there are none
	env      []string
}

// ViewConfig describe what a View shows.
type ViewConfig struct {
	WorkTree string
	Objects  string            // an object directory; "" for none
	Files    map[string]string // source files by their name in the git directory, such as "index" or "info/exclude"; a source may be absent
	Format   string            // object format: "sha1", "" (the same) or "sha256"
	Settings []Setting         // more configuration; it must not name a program
}

// NewView creates a view in dir, which must not exist. The caller must have copied or checked what
// the view shows. Close removes it.
func NewView(dir string, in ViewConfig) (*View, error) {
	for _, sub := range []string{"refs", "objects/info", "info"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, viewError(err)
		}
	}
	v := &View{dir: dir, workTree: in.WorkTree, objects: in.Objects, env: []string{"GIT_DIR=" + dir, "GIT_WORK_TREE=" + in.WorkTree}}
	if in.Objects != "" {
		v.env = append(v.env, "GIT_OBJECT_DIRECTORY="+in.Objects)
	}
	err := errors.Join(os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "config"), []byte(in.config()), 0o600))
	for name, from := range in.Files {
		err = errors.Join(err, v.take(name, from))
	}
	if err != nil {
		return nil, errors.Join(viewError(err), v.Close())
	}
	return v, nil
}

// viewError returns the error for a view that cannot be written.
func viewError(err error) error {
	return agentbox.Errorf(agentbox.Internal, "cannot make a directory for git: %w", err)
}

// config returns the view's configuration. Git requires repository format version 1 for objects
// that are named by SHA-256.
func (v ViewConfig) config() string {
	version, settings := "0", []Setting{{Key: "core.bare", Value: "false"}}
	if v.Format == "sha256" {
		version, settings = "1", append(settings, Setting{Key: "extensions.objectformat", Value: v.Format})
	}
	settings = append(settings, Setting{Key: "core.repositoryformatversion", Value: version})
	return FormatConfig(append(settings, v.Settings...))
}

// take puts one file into the view, which git reads but does not write. It uses a hard link if
// possible, because that costs nothing, and otherwise copies. A missing source is no error.
func (v *View) take(name, from string) error {
	to := filepath.Join(v.dir, filepath.FromSlash(name))
	in, err := OpenPlain(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.Link(from, to); err == nil {
		return nil
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if fi, serr := in.Stat(); err == nil && serr == nil { // git decides by the index's own time which entries are racy
		err = os.Chtimes(to, fi.ModTime(), fi.ModTime())
	}
	return errors.Join(err, out.Close())
}

// Run runs git on what the view shows. A pipe in place of a file that git expects is an empty file
// to it.
func (v *View) Run(ctx context.Context, c Call) (stdout []byte, stderr string, err error) {
	c.Env, c.UserConfig = slices.Concat(v.env, c.Env), false
	if c.Dir == "" {
		c.Dir = v.dir
	}
	watched, end := context.WithCancel(ctx)
	var feeding sync.WaitGroup
	feeding.Go(func() { feedPipes(watched, v.workTree, v.objects) })
	defer feeding.Wait()
	defer end()
	return Run(ctx, c)
}

// With returns the same view with more environment variables for each git. Either may be closed.
func (v *View) With(env ...string) *View {
	more := *v
	more.env = slices.Concat(v.env, env)
	return &more
}

// Close removes the view's directory.
func (v *View) Close() error { return os.RemoveAll(v.dir) }
