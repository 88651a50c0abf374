package artifact

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Digests are those of the regular files among names in a tar archive, as sha256:<hex>; nothing is
// kept. The first file of a name counts. names are slash-separated; those that are not in the
// archive are not in the result.
func Digests(ctx context.Context, archive io.Reader, names []string) (map[string]string, error) {
	found := map[string]string{}
	in := tar.NewReader(archive)
	for ctx.Err() == nil {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, agentbox.Errorf(agentbox.Corrupt, "what the box sent as lockfiles is no archive: %w", err)
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if _, known := found[name]; known || h.Typeflag != tar.TypeReg || !slices.Contains(names, name) {
			continue
		}
		sum, _, err := agentbox.DigestOf(in)
		if err != nil {
			return found, agentbox.Errorf(agentbox.Corrupt, "what the box sent as lockfiles ends early: %w", err)
		}
		found[name] = sum.String()
	}
	return found, context.Cause(ctx)
}
