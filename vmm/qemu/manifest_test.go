package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/vmm/statedir"
)

func sampleManifest() manifest {
	return manifest{Basis: statedir.Basis{Format: formatVersion, Fingerprint: "f", CPUs: 2, Memory: 1 << 30, Disk: 64 << 30}, Disks: &savedDisks{Runtime: 64 << 30}}
}

func TestManifestRoundTrip(t *testing.T) {
	b, id, err := statedir.Seal(sampleManifest())
	if err != nil {
		t.Fatal(err)
	}
	m, again, err := statedir.Unseal[manifest](b)
	if err != nil || again != id || m.Memory != 1<<30 || m.Disks == nil {
		t.Errorf("got %+v, %v, %v", m, again, err)
	}
}

func TestManifestRefusals(t *testing.T) {
	write := func(change func(*manifest)) string {
		m := sampleManifest()
		change(&m)
		b, _, err := statedir.Seal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for what, content := range map[string]string{
		"nothing":            "",
		"another format":     write(func(m *manifest) { m.Format++ }),
		"no memory":          write(func(m *manifest) { m.Memory = 0 }),
		"half a page":        write(func(m *manifest) { m.Memory++ }),
		"no disk":            write(func(m *manifest) { m.Disk = -1 }),
		"edited by hand":     strings.Replace(write(func(*manifest) {}), `"cpus":2`, `"cpus":3`, 1),
		"something after it": write(func(*manifest) {}) + "x",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, statedir.ManifestFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := statedir.ReadManifest[manifest](dir); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A saved state is a difference to its template, and garbage over any other.
func TestSavedStateFitsItsTemplate(t *testing.T) {
	template := templateBase{ID: agentbox.Digest{1}, Manifest: sampleManifest()}
	if got, err := template.origin(""); err != nil || got != template.Manifest {
		t.Errorf("without a saved state: %+v, %v", got, err)
	}
	state := sampleManifest()
	state.Template, state.Devices = template.ID, agentbox.Digest{3}
	dir := t.TempDir()
	if err := statedir.WriteManifest(dir, state, durable.Create); err != nil {
		t.Fatal(err)
	}
	if got, err := template.origin(dir); err != nil || got.Devices != state.Devices {
		t.Errorf("of its template: %+v, %v", got, err)
	}
	other, changed := template, template
	other.ID, changed.Manifest.Fingerprint = agentbox.Digest{2}, "another"
	for what, t2 := range map[string]templateBase{"template": other, "fingerprint": changed} {
		if _, err := t2.origin(dir); agentbox.CodeOf(err) != agentbox.Conflict {
			t.Errorf("of another %s: %v", what, err)
		}
	}
}

func FuzzDecodeManifest(f *testing.F) {
	b, _, err := statedir.Seal(sampleManifest())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"digest":"","manifest":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, id, err := statedir.Unseal[manifest](b)
		if err == nil && (m.Memory <= 0 || m.CPUs <= 0 || id.IsZero()) {
			t.Errorf("accepted %+v", m)
		}
	})
}
