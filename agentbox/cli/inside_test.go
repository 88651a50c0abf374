package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/home"
)

func TestParseLocation(t *testing.T) {
	for in, want := range map[string]location{
		"box:/etc/passwd": {true, "box", "/etc/passwd"},
		":src/":           {true, "", "src/"},
		"box:":            {true, "box", ""},
		"./a:b":           {false, "", "./a:b"},
		"/a:b":            {false, "", "/a:b"},
		"plain":           {false, "", "plain"},
		"-":               {false, "", "-"},
		"box:a:b":         {true, "box", "a:b"},
	} {
		if got := parseLocation(in); got != want {
			t.Errorf("%s: %+v", in, got)
		}
	}
	for in, want := range map[string]string{"b:": "/w", "b:/x/.": "/x/.", "b:x/": "/w/x/", "b:.": "/w/."} {
		if got := parseLocation(in).in("/w"); got != want {
			t.Errorf("%s is %s", in, got)
		}
	}
}

func TestParsePorts(t *testing.T) {
	for _, c := range []struct {
		args, box string
		ports     []portPair
		fails     bool
	}{
		{"", "", nil, false},
		{"3000", "", []portPair{{0, 3000}}, false},
		{"mybox", "mybox", nil, false},
		{"mybox 80 8080:3000", "mybox", []portPair{{0, 80}, {8080, 3000}}, false},
		{"123456789012 80", "123456789012", []portPair{{0, 80}}, false},
		{"0", "", nil, true},
		{"99999", "", nil, true},
		{"0:80", "", nil, true},
		{"80:0", "", nil, true},
		{"mybox x", "", nil, true},
	} {
		box, ports, err := parsePorts(strings.Fields(c.args))
		if (err != nil) != c.fails {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		if err == nil && (box != c.box || len(ports) != len(c.ports)) {
			t.Errorf("%q: %q %v", c.args, box, ports)
		}
		for i := range min(len(ports), len(c.ports)) {
			if ports[i] != c.ports[i] {
				t.Errorf("%q: %v", c.args, ports)
			}
		}
	}
}

func FuzzParsePort(f *testing.F) {
	f.Add("80:3000")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := parsePort(s); err == nil && (p.box < 1 || p.box > 65535 || p.host < 0 || p.host > 65535) {
			t.Errorf("%q: %+v", s, p)
		}
	})
}

func TestPrefixedKeepsLinesWhole(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	a, b := &prefixed{mu: &mu, w: &out, prefix: "a | "}, &prefixed{mu: &mu, w: &out, prefix: "b | "}
	a.Write([]byte("one\ntw"))
	b.Write([]byte("x\ny\n"))
	a.Write([]byte("o\nthree"))
	a.flush()
	if want := "a | one\nb | x\nb | y\na | two\na | three\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

func TestChooseServices(t *testing.T) {
	b := agentbox.Box{Name: "b", State: agentbox.Running, Services: []agentbox.Service{{Name: "db"}, {Name: "web"}}}
	if got, err := chooseServices(b, nil); err != nil || len(got) != 2 {
		t.Errorf("all: %v, %v", got, err)
	}
	if _, err := chooseServices(b, []string{"cache"}); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("unknown: %v", err)
	}
	if _, err := chooseServices(agentbox.Box{Name: "b", State: agentbox.Running}, nil); !strings.Contains(agentbox.AsError(err).Hint, "agentbox jobs b") {
		t.Errorf("none: %#v", err)
	}
	b.State = agentbox.Paused
	if _, err := chooseServices(b, nil); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("paused: %v", err)
	}
}

func TestInstallSSHIsDoneOnce(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv(home.EnvDir, t.TempDir())
	a := &app{here: here(t)}
	theirs := filepath.Join(user, ".ssh", "config")
	for _, config := range []string{"Host one.agentbox\n", "Host two.agentbox\n"} {
		if err := a.installSSH(config); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(theirs, append(read(t, theirs), "Host mine\n"...), 0o600)
	if err := a.installSSH("Host three.agentbox\n"); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(a.here.Dir(), "ssh_config")
	if got := string(read(t, theirs)); got != "Include \""+ours+"\"\nHost mine\n" {
		t.Errorf("~/.ssh/config is %q", got)
	}
	if got := string(read(t, ours)); got != "Host three.agentbox\n" {
		t.Errorf("ours is %q", got)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
