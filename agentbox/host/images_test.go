package host

import (
	"testing"

	"agentbox/agentbox/config"
	"agentbox/vmm/image"
)

// An image that was named on the command line of a repository that says nothing has what it has.
func TestOnlyAptImagesGetPackagesByDefault(t *testing.T) {
	for source, want := range map[string]int{"apt:bookworm": len(image.DefaultPackages), "example.com/app:1": 0} {
		cfg := &config.Config{Packages: []string{"golang"}}
		if err := (overrides{Image: source}).apply(cfg); err != nil {
			t.Fatal(err)
		}
		if r := recipeOf(cfg); len(r.Packages) != want {
			t.Errorf("%s gets %q", source, r.Packages)
		}
	}
}
