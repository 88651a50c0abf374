package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
)

// Every configuration is valid, and names what is measured.
func TestSourceConfigurations(t *testing.T) {
	names := sourcePackages()
	if len(names) < 6 {
		t.Errorf("%q", names)
	}
	for _, name := range names {
		dir := t.TempDir()
		text, err := configurations.ReadFile("sources/" + name + ".yaml")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "agentbox.yaml"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, err := config.Load(t.Context(), dir); err != nil || len(c.Bench) == 0 || len(c.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// What is there stays as it is.
func TestSourceOverwritesNothing(t *testing.T) {
	if err := makeSource(t.Context(), io.Discard, "hiredis", t.TempDir()); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("%v", err)
	}
}
