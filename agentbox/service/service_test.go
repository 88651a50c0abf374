package service

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

var cases = map[string]Service{
	"default": {Binary: "/usr/local/bin/agentbox", Home: "/home/ann/.local/share/agentbox", Default: true},
	"odd":     {Binary: "/opt/a \"b\" 50%/agent$box", Home: "/srv/homes/ü & <co>"},
}

func TestUnitsGolden(t *testing.T) {
	for name, s := range cases {
		text, path := s.render(), filepath.Join("testdata", name+".service")
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text != string(want) {
			t.Errorf("%s is\n%s", path, text)
		}
	}
}

func TestSystemdVerify(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	for name := range cases {
		s := cases[name]
		s.Binary = filepath.Join(t.TempDir(), "a \"b\" 50%", "agent$box")
		if err := os.MkdirAll(filepath.Dir(s.Binary), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Binary, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), s.unit())
		if err := os.WriteFile(path, []byte(s.render()), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(tool, "verify", "--user", path)
		cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "SYSTEMD_LOG_LEVEL=warning")
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), s.unit()+":") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func TestServiceNamePerHome(t *testing.T) {
	a, b := Service{Home: "/a"}, Service{Home: "/b"}
	if a.unit() == b.unit() || a.unit() == cases["default"].unit() {
		t.Error(a.unit(), b.unit())
	}
}
