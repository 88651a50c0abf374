package config

import (
	"strings"
	"testing"
)

// What an image says counts where the configuration says nothing, and what would leave a box that
// cannot start does not count.
func TestReadImage(t *testing.T) {
	accounts := []string{"root", "node", "vscode"}
	for label, want := range map[string]struct{ user, mode, path, warning string }{
		"": {"node", "image", "/image", ""},
		`[{"id": "a", "remoteUser": "node", "containerEnv": {"MODE": "one"}}, {"remoteUser": "vscode", "remoteEnv": {"MODE": "two"}}]`: {"vscode", "two", "/image", ""},
		`{"containerUser": "root", "containerEnv": {"PATH": "${containerEnv:PATH}:/l"}, "customizations": {}}`:                         {"root", "image", "/image:/l", ""},
		`[{"remoteUser": "root"}, {"containerUser": "vscode"}]`:                                                                        {"root", "image", "/image", ""},
		`[{"remoteUser": "ghost"}]`:                               {"", "image", "/image", ""},
		`[{"postCreateCommand": "make", "remoteUser": "vscode"}]`: {"vscode", "image", "/image", ""},
		`[{"postAttachCommand": "make"}]`:                         {"node", "image", "/image", "`postAttachCommand` is ignored: boxes run nothing on attach"},
		`[{"containerEnv": {"MODE": "${localEnv:HOME}"}}]`:        {"node", "image", "/image", "variable `MODE` is left out"},
		`[5`: {"node", "image", "/image", "label devcontainer.metadata of image a is ignored"},
		`[{"remoteUser": ["root"], "containerEnv": {"MODE": "one"}}]`: {"node", "image", "/image", "label devcontainer.metadata of image a is ignored"},
	} {
		of := ReadImage("a", "node", label, []string{"PATH=/image", "MODE=image"}, accounts)
		env := of.Environment(defaults())
		if of.User != want.user || env["MODE"] != want.mode || env["PATH"] != want.path || !strings.Contains(strings.Join(of.Warnings, " "), want.warning) || (want.warning == "") != (len(of.Warnings) == 0) {
			t.Errorf("%s: %+v %q", label, of, env)
		}
		c := defaults()
		c.Env["MODE"] = "file"
		if env := of.Environment(c); env["MODE"] != "file" {
			t.Errorf("%s: %q", label, env)
		}
	}
	if user := ReadImage("a", "999", "", nil, nil).User; user != "" {
		t.Errorf("user %q of an image without accounts", user)
	}
}

// The commands of an image's label run before those of the configuration, each kind in the order of
// the label.
func TestCommandsOfImage(t *testing.T) {
	of := ReadImage("a", "", `[{"postCreateCommand": "third", "onCreateCommand": ["first", "x y"], "postStartCommand": "up"},
		{"onCreateCommand": {"b": "second"}}]`, nil, nil)
	c := defaults()
	c.Setup, c.Start = []string{"own"}, []string{"own start"}
	with := of.With(c)
	if got := strings.Join(with.Setup, ";"); got != "first 'x y';second;third;own" || strings.Join(with.Start, ";") != "up;own start" {
		t.Errorf("%q %q", with.Setup, with.Start)
	}
	if len(c.Setup) != 1 || len(c.Start) != 1 {
		t.Errorf("the configuration itself has become %q %q", c.Setup, c.Start)
	}
	if c := defaults(); ReadImage("a", "", "", nil, nil).With(c) != c || ReadImage("a", "", `[{"postCreateCommand": ""}]`, nil, nil).With(c) != c {
		t.Error("commands out of nothing")
	}
}

func FuzzImageLabel(f *testing.F) {
	f.Add(`[{"id": "a", "remoteUser": "node", "containerEnv": {"A": "${containerEnv:PATH}"}, "postCreateCommand": ["a"]}]`)
	f.Add(`{"containerUser": 5}`)
	f.Fuzz(func(t *testing.T, label string) {
		of := ReadImage("a", "node", label, []string{"A=b"}, []string{"node", "root"})
		if of.User != "node" && of.User != "root" && of.User != "" || len(of.Warnings) > maxWarnings+1 || of.Environment(defaults()) == nil {
			t.Errorf("%+v", of)
		}
	})
}
