package workspace

import (
	"context"
	"os"
	"path/filepath"
)

// Empty makes dir, which must be an empty directory, a repository with no commit on the branch
// main: for a box that is about no code.
func Empty(ctx context.Context, dir string) (Repo, error) {
	// What `git init` would make, without the templates and the configuration of the user.
	for _, name := range []string{"objects", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, ".git", name), 0o700); err != nil {
			return Repo{}, err
		}
	}
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"} {
		if err := os.WriteFile(filepath.Join(dir, ".git", name), []byte(content), 0o600); err != nil {
			return Repo{}, err
		}
	}
	return Describe(ctx, dir)
}
