package flags_test

import (
	"testing"

	"agentbox/agentbox/config"
	"agentbox/agentbox/host/consent"
	"agentbox/agentbox/host/flags"
	"agentbox/agentbox/toolchain"
)

// An image that was named on the command line of a repository that says nothing has what it has.
func TestOnlyAptImagesGetPackagesByDefault(t *testing.T) {
	for source, want := range map[string]int{"apt:bookworm": len(toolchain.Workstation), "example.com/app:1": 0} {
		cfg := &config.Config{Packages: []string{"golang"}, Toolchain: toolchain.Needs{{Tool: toolchain.Go}}}
		if err := (flags.Flags{Image: source}).Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if r := consent.RecipeOf(cfg); len(r.Packages) != want {
			t.Errorf("%s gets %q", source, r.Packages)
		}
		if (len(cfg.Toolchain) > 0) != (want > 0) {
			t.Errorf("%s gets the tools %v", source, cfg.Toolchain)
		}
	}
}

// Boxes have these digests on disk. One that is another in the next version tells each of their
// users to reset.
func TestSettingsFormatIsStable(t *testing.T) {
	for want, services := range map[string][]config.Service{
		"e082bfb236564732": {{Name: "db", Run: "postgres", Port: 5432, Env: map[string]string{"A": "b"}}},
		"74234e98afe7498f": nil,
	} {
		if got := flags.SettingsOf(&config.Config{Services: services})["services"]; got != want {
			t.Errorf("%v: %s instead of %s", services, got, want)
		}
	}
}
