package isolation

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/config"
)

func TestAlternatives(t *testing.T) {
	for name, c := range map[string]struct {
		micro probed
		have  Choice
		want  []agentbox.Alternative
	}{
		"hardware works": {kvm, Choice{Kind: agentbox.MicroVM, Facts: kvm.Facts}, []agentbox.Alternative{{Kind: agentbox.Container, Faster: true, Missing: `"container" is not a kind`}}},
		"no hardware": {tcg, Choice{Kind: agentbox.GVisor}, []agentbox.Alternative{
			{Kind: agentbox.MicroVM, Stronger: true, Faster: true, Missing: "this host has no /dev/kvm"}, {Kind: agentbox.Container, Faster: true, Missing: `"container" is not a kind`},
		}},
		"emulated": {noQEMU, Choice{Kind: agentbox.MicroVM, Facts: tcg.Facts}, []agentbox.Alternative{
			{Kind: agentbox.MicroVM, Stronger: true, Faster: true, Missing: "QEMU is not installed", Hint: "install QEMU"},
			{Kind: agentbox.GVisor, Stronger: true, Faster: true}, {Kind: agentbox.Container, Stronger: true, Faster: true, Missing: `"container" is not a kind`},
		}},
	} {
		got := hostWith(c.micro, soft).Alternatives(t.Context(), c.have)
		if len(got) != len(c.want) {
			t.Fatalf("%s: %+v, want %+v", name, got, c.want)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%s: %+v, want %+v", name, got[i], c.want[i])
			}
		}
	}
}

func TestLacks(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"compose.yml": "", "go.mod": "require (\n\tgithub.com/cilium/ebpf v0.1.0\n)\n", "Cargo.toml": "not-tokio-uring = 1\nplaya = 2\n", "package.json": `{"devDependencies": {"geckodriver": "1"}}`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/proc/self/environ", filepath.Join(root, "meson.build")); err != nil {
		t.Fatal(err)
	}
	var got string
	for _, l := range Lacks(agentbox.GVisor, root, &config.Config{}) {
		got += l.What + " (" + l.File + ")\n"
	}
	if want := "containers (compose.yml)\neBPF (go.mod)\nFirefox (package.json)\n"; got != want {
		t.Errorf("gvisor lacks %q, want %q", got, want)
	}
	taken := &config.Config{Compose: []config.Composed{{}}}
	if got := Lacks(agentbox.GVisor, root, taken); slices.ContainsFunc(got, func(l agentbox.Lack) bool { return l.What == containers }) {
		t.Errorf("the services of the file run, and yet: %v", got)
	}
	if got := Lacks(agentbox.MicroVM, root, &config.Config{}); len(got) > 0 {
		t.Errorf("a microVM lacks %v", got)
	}
}
