package config

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"agentbox/agentbox"
)

func FuzzYAML(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(""))
	f.Add([]byte("a: &a [*a]\nsetup: *a\n? {b: c}\n: d"))
	f.Add([]byte("env: {<<: *x}\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseYAML(data, source{name: "agentbox.yaml", root: "/r", home: "/h"})
		check(t, c, err)
	})
}

func FuzzDevcontainer(f *testing.F) {
	f.Add([]byte(devcontainer))
	f.Add([]byte(""))
	f.Add([]byte(`{"image": ["x"], "features": {"a": null}, /* */ "postCreateCommand": {"a": ["b", {}]},}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseDevcontainer(data, source{name: ".devcontainer.json", root: "/r", home: "/h"}, "sub")
		check(t, c, err)
	})
}

func check(t *testing.T, c *Config, err error) {
	if (c == nil) == (err == nil) {
		t.Fatalf("%v %v", c, err)
	}
	if c == nil {
		for _, r := range err.Error() {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("a problem with %q in it: %q", r, err)
			}
		}
		return
	}
	// 0 is as the machine affords.
	if c.CPUs < 0 || c.Memory != 0 && c.Memory < agentbox.MinMemory || c.Disk < agentbox.MinDisk || c.Memory%(1<<20) != 0 {
		t.Errorf("out of bounds: %+v", c)
	}
	for _, p := range c.Ports {
		if p.Box < 1 || p.Box > 65535 || p.Host < 1 || p.Host > 65535 {
			t.Errorf("port %v", p)
		}
	}
	for _, s := range c.Services {
		if s.Name == "" || s.Run == "" {
			t.Errorf("service %+v", s)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	f.Add("1.5GiB")
	f.Add("18446744073709551615TiB")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseSize(s)
		if err == nil && (n < 0 || n%(1<<20) != 0 || !utf8.ValidString(s)) {
			t.Errorf("%q: %d", s, n)
		}
		if err == nil {
			if again, err := ParseSize(FormatSize(n)); err != nil || again != n {
				t.Errorf("%q: %d, written as %s and read as %d %v", s, n, FormatSize(n), again, err)
			}
		}
	})
}
