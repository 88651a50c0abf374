package git

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agentbox/agentbox"
)

// documented returns the keys of testdata/keys.txt with what git's documentation says they hold.
func documented(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if holds, key, ok := strings.Cut(strings.TrimSpace(line), " "); ok && holds != "#" {
			keys[key] = holds
		}
	}
	return keys
}

// placeholder matches what stands for any name in a documented key.
var placeholder = agentbox.Pattern(`<[^>]*>|\*`)

func TestProgramsAreThoseOfGitsDocumentation(t *testing.T) {
	keys := documented(t)
	if len(keys) < 500 {
		t.Fatalf("%d keys", len(keys))
	}
	for key, holds := range keys {
		name := "x.y"
		if strings.HasPrefix(key, "credential.<url>") {
			name = "helper"
		}
		if strings.HasPrefix(key, "sendemail.<identity>") {
			name = "tocmd"
		}
		s := Setting{Key: strings.ToLower(strings.Replace(placeholder().ReplaceAllString(key, "x"), ".x.x", ".x."+name, 1)), Value: "!x"}
		if got := s.RunsProgram(); got != (holds == "program") {
			t.Errorf("%s (%s) names a program: %v; git's documentation: %s", key, s.Key, got, holds)
		}
	}
}

// unlisted matches the sections that testdata/keys.txt leaves out.
var unlisted = agentbox.Pattern(`^(advice|color|fsck|(receive|fetch)\.fsck)\.|^mergetool\.vimdiff\.layout$`)

// suspicious matches words of keys that may name a program.
var suspicious = agentbox.Pattern(`cmd|command|program|helper|editor|pager|hook|driver|tool|browser|exec|external|textconv|filter|askpass|viewer|path$|script`)

// A newer git may have keys that name programs, and that testdata/keys.txt lacks.
func TestInstalledGitHasNoOtherPrograms(t *testing.T) {
	out, err := exec.Command("git", "help", "--config").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := []string{}
	for key := range documented(t) {
		known = append(known, strings.ToLower(key))
	}
	for key := range strings.Lines(string(bytes.ToLower(out))) {
		key = strings.TrimSpace(key)
		if strings.Contains(key, " ") || !strings.Contains(key, ".") || slices.Contains(known, key) || unlisted().MatchString(key) {
			continue
		}
		if suspicious().MatchString(key) {
			t.Errorf("git documents %s: add it to testdata/keys.txt, and to programKey if it names a program", key)
		}
	}
}

func TestRunsProgram(t *testing.T) {
	for _, s := range []Setting{
		{Key: "alias.x", Value: "!make"}, {Key: "alias.a.b.command", Value: "!make"}, {Key: "submodule.x.update", Value: "!make"}, {Key: "hook.x.event", Value: "pre-commit"},
		{Key: "credential.https://a.example.helper", Value: "store"}, {Key: "tar.x.command"}, {Key: "lfs.customtransfer.x.path"}, {Key: "svn.authorsprog"},
	} {
		if !s.RunsProgram() {
			t.Errorf("%+v does not", s)
		}
	}
	for _, s := range []Setting{
		{Key: "alias.st", Value: "status -s"}, {Key: "submodule.x.update", Value: "merge"}, {Key: "diff.x.xfuncname"}, {Key: "merge.x.name"}, {Key: "filter.x.clean"},
		{Key: "branch.diff.external.merge"}, {Key: "remote.x.url"}, {Key: "diff.algorithm"}, {Key: "lfs.url"},
	} {
		if s.RunsProgram() {
			t.Errorf("%+v does", s)
		}
	}
}
