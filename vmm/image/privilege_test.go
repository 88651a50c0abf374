package image

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPrepareUser(t *testing.T) {
	config := t.TempDir()
	t.Setenv("DOCKER_CONFIG", config)
	if err := os.WriteFile(filepath.Join(config, "config.json"), []byte(`{"auths":{"private.example":{"auth":"dTpw"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"apt:bookworm": "", "debian:12": "", "registry.example/x:1": "", "registry.example:8443/x": "", "not an image": "",
		"oci:/x": "a file of this host", "docker-archive:/x": "a file of this host", "private.example/x": "with your credentials",
		"localhost:5000/x": "without encryption", "127.0.0.1:5000/x": "without encryption", "10.1.2.3:5000/x": "without encryption", "192.168.1.1/x": "without encryption",
		"registry.internal/x": "a private address", "registry.local/x": "a private address", "[fd00::1]:5000/x": "a private address", "169.254.169.254/x": "a private address",
		"registry:5000/x": "a private address",
	} {
		if got := Privileged(source); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
