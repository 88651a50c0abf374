package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Repository describes a git repository to generate. The same description always generates the same
// files, so that samples of different days and machines measure the same work.
type Repository struct {
	// files of size bytes each are added in as many steps as there are commits; each step but the
	// first also changes some of the existing files.
	files   int
	size    int
	commits int
}

// A typical small project, and a large one: 100 MB in 5,000 files.
var (
	SmallRepository = Repository{files: 20, size: 2_000, commits: 2}
	largeRepository = Repository{files: 5_000, size: 20_000, commits: 10} // 100 MB
)

// Repo returns the directory of a repository of the Lab. The first call for a name generates it.
// After a failure nothing is left, so that the next call starts over.
func (l *Lab) Repo(ctx context.Context, name string, r Repository) (string, error) {
	dir := filepath.Join(l.Dir, reposName, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := r.generate(ctx, dir); err != nil {
		return "", errors.Join(fmt.Errorf("generate repository %s: %w", name, err), os.RemoveAll(dir))
	}
	return dir, nil
}

// generate makes the repository. Commits have fixed times, so that objects have the same names
// everywhere. It is packed like a clone.
func (r Repository) generate(ctx context.Context, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := Git(ctx, dir, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, uint64(r.files)))
	for c := range r.commits {
		for i := r.files * c / r.commits; i < r.files*(c+1)/r.commits; i++ {
			if err := r.write(dir, i, random); err != nil {
				return err
			}
			if old := random.IntN(i + 1); c > 0 && i%10 == 0 {
				if err := r.write(dir, old, random); err != nil {
					return err
				}
			}
		}
		if err := Git(ctx, dir, "add", "-A"); err != nil {
			return err
		}
		if err := Git(ctx, dir, "commit", "-q", "-m", fmt.Sprintf("step %d of %d", c+1, r.commits)); err != nil {
			return err
		}
	}
	// Without searching for deltas, the slowest part.
	return Git(ctx, dir, "-c", "pack.window=0", "repack", "-a", "-d", "-q")
}

// write writes new content to file i. A directory has a hundred files.
func (r Repository) write(dir string, i int, random *rand.Rand) error {
	path := filepath.Join(dir, fmt.Sprintf("part%02d", i/100), fmt.Sprintf("file%04d.txt", i))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text(r.size, random), 0o644)
}

// text generates lines that compress like source: most of them consist of a few frequent words.
// With random bytes, git and copies would look slower than with real projects.
func text(size int, random *rand.Rand) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		word := random.IntN(random.IntN(5000) + 1)
		fmt.Fprintf(&b, "w%x", word*2654435761%0xffffff)
		if random.IntN(10) == 0 {
			b.WriteByte('\n')
		} else {
			b.WriteByte(' ')
		}
	}
	return append(b.Bytes()[:size-1], '\n')
}

// Git runs git without the user's configuration: no signatures, hooks or templates. Authors and
// times are always the same.
func Git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	plain := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(plain, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@localhost", "GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@localhost",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
