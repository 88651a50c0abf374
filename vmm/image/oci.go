package image

import (
	"context"
	"fmt"

	"agentbox/agentbox"
)

func (b *build) oci(ctx context.Context, k kind, rest string, r Recipe) error {
	return agentbox.Errorf(agentbox.Invalid, "oci")
}
func splitTag(rest string) (string, string)                  { return rest, "" }
func layoutFingerprint(dir string, r Recipe) (string, error) { return "", nil }
func fingerprintOf(c checked) string                         { return fmt.Sprint(c) }
