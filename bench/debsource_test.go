package bench

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
)

func TestSourceEntries(t *testing.T) {
	const list = "# deb http://old.example x\ndeb [signed-by=/k.gpg] http://a.example/d bookworm main\ndeb-src http://a.example/d bookworm main\n"
	const stanzas = "Types: deb deb-src\nURIs: http://a.example/d\nSuites: bookworm\n bookworm-updates\nSigned-By: /k.gpg\n\ntypes: deb\nURIs: http://b.example/d\n"
	root := fstest.MapFS{
		"etc/apt/sources.list":                   {Data: []byte(list)},
		"etc/apt/sources.list.d/debian.sources":  {Data: []byte(stanzas)},
		"etc/apt/sources.list.d/off.list.backup": {Data: []byte(list)},
		"etc/apt/sources.list.d/empty.list":      {Data: []byte("# nothing\n")},
	}
	dir := t.TempDir()
	if err := writeSourceParts(root, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"sources.list":   "deb-src [signed-by=/k.gpg] http://a.example/d bookworm main\n",
		"debian.sources": "Types: deb-src\nURIs: http://a.example/d\nSuites: bookworm\n bookworm-updates\nSigned-By: /k.gpg\n\nTypes: deb-src\nURIs: http://b.example/d\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("%v", left)
	}
}
