package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentbox/bench"
)

// An option changes the one thing that it names, and nothing else.
func TestOptionIsOnlyDifference(t *testing.T) {
	shop := func(text string) *bareTarget {
		t.Helper()
		o, err := parseOption(text)
		if err != nil {
			t.Fatal(err)
		}
		return &bareTarget{runsc: "runsc", dir: "/bare", image: "/image", try: o}
	}
	argv := func(text string) []string { return shop(text).command(t.Context(), "run").Args }
	plain := argv("")
	if got, want := argv("--dcache=0"), slices.Insert(slices.Clone(plain), len(plain)-1, "--dcache=0"); !slices.Equal(got, want) {
		t.Errorf("with a flag: %q, not %q", got, want)
	}
	const overlay = "dev.gvisor.spec.rootfs.overlay"
	spec := shop(overlay + "=memory").spec()
	if got, was := spec.Annotations[overlay], shop("").spec().Annotations[overlay]; got != "memory" || was != "dir="+filepath.Join("/bare", "overlay") {
		t.Errorf("with an annotation: %q instead of %q", got, was)
	}
	mounts := shop("tmpfs:/tmp").spec().Mounts
	if last := mounts[len(mounts)-1]; len(mounts) != len(shop("").spec().Mounts)+1 || last.Destination != "/tmp" || last.Type != "tmpfs" {
		t.Errorf("with a tmpfs: %v", mounts)
	}
	for _, text := range []string{overlay + "=memory", "tmpfs:/tmp"} {
		if got := argv(text); !slices.Equal(got, plain) {
			t.Errorf("with %s: %q, not %q", text, got, plain)
		}
	}
}

func TestOptionReplacesFlag(t *testing.T) {
	for text, want := range map[string][2]string{
		"":               {"runsc/job", "native/job"},
		"--dcache=0":     {"runsc --dcache=0/job", "runsc/job"},
		"tmpfs:/var/tmp": {"runsc tmpfs:vartmp/job", "runsc/job"}, // without slashes, so that * of --only matches it
	} {
		o, err := parseOption(text)
		if err != nil {
			t.Fatal(err)
		}
		s := (&bareTarget{try: o}).scenario(bench.Job{Name: "job"})
		if s.Name != want[0] || s.Baseline != want[1] {
			t.Errorf("%q: %q against %q", text, s.Name, s.Baseline)
		}
	}
	for _, text := range []string{"dcache=0", "tmpfs:tmp", "GOGC=off"} {
		if _, err := parseOption(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
