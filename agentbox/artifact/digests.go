package artifact

import (
	"archive/tar"
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
)

// Digests returns sha256:<hex> of the regular files in a tar archive whose names are in names,
// which are slash-separated. Nothing is kept. The first file of a name counts; names that are
// missing in the archive are missing in the result.
func Digests(ctx context.Context, archive io.Reader, names []string) (map[string]string, error) {
	found := map[string]string{}
	return found, entries(ctx, archive, "lockfiles", func(h *tar.Header, content io.Reader) error {
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if _, known := found[name]; known || h.Typeflag != tar.TypeReg || !slices.Contains(names, name) {
			return nil
		}
		sum, _, err := agentbox.DigestOf(content)
		if err != nil {
			return agentbox.Errorf(agentbox.Corrupt, "what the box sent as lockfiles ends early: %w", err)
		}
		found[name] = sum.String()
		return nil
	})
}
