package workspace

import (
	"context"
	"os"
	"path/filepath"
)

// InitEmpty makes dir, which must be an empty directory, a repository without commits on the branch
// main. It is for boxes that start without code.
func InitEmpty(ctx context.Context, dir string) (Repo, error) {
	// This is what `git init` creates, without the user's templates and configuration.
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
