package image

import (
	"os/exec"
	"testing"

	"agentbox/agentbox"
)

func TestAptImage(t *testing.T) {
	if testing.Short() {
		t.Skip("downloads and installs a Debian")
	}
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		t.Skip("mmdebstrap is not installed")
	}
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img, err := s.Ensure(t.Context(), Recipe{}, agentbox.Digest{}, func(e Event) { t.Logf("%+v", e) })
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Rebuild(t.Context(), Recipe{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != img.Digest {
		t.Errorf("two builds gave %s and %s", img.Digest, again.Digest)
	}
	t.Logf("%+v", img)
}
