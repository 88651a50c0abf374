package image

import (
	"archive/tar"
	"strings"
	"testing"

	"agentbox/agentbox"
)

func TestUnreadableArchiveHint(t *testing.T) {
	for source, want := range map[string]string{"docker-archive:/x.tar.gz": "gunzip", "example.com/x": "again"} {
		if e := agentbox.AsError(ociError(source, tar.ErrHeader)); !strings.Contains(e.Hint, want) || e.Code != agentbox.Corrupt {
			t.Errorf("%s: %+v", source, e)
		}
	}
}
