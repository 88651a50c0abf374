package snapshot

import (
	"context"
	"io"

	"agentbox/agentbox/git"
)

// List writes the files of the commit of the work, as `git ls-tree -r -z -l` prints them: the box
// chose their names, and an object that a partial clone lacks has no size.
func (k Kept) List(ctx context.Context, w io.Writer) error {
	_, _, err := mirror{k.Mirror}.Run(ctx, git.Call{Args: []string{"ls-tree", "-r", "-z", "-l", "--full-tree", k.Commit}, Stdout: w})
	return err
}

// Objects writes the objects that ids names, one a line, each as soon as it is asked for, as `git
// cat-file --batch` prints them. It ends with ids. The caller has checked that these are names of
// objects, of which git takes more forms.
func (k Kept) Objects(ctx context.Context, ids io.Reader, w io.Writer) error {
	_, _, err := mirror{k.Mirror}.Run(ctx, git.Call{Args: []string{"cat-file", "--batch"}, Stdin: ids, Stdout: w})
	return err
}
