package config

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// What init writes means what was detected.
func TestWriteRoundTrip(t *testing.T) {
	root := write(t, map[string]string{
		"go.mod": "module m\n\ngo 1.22\n", "go.sum": "", "Makefile": "", "web/package.json": `{"engines":{"node":">=18 <21"}}`, "web/package-lock.json": "{}", "api/package.json": `{"engines":{"node":"^20"}}`, "odd\"na me/go.mod": "module n\n", "a\nsetup: x/go.mod": "module o\n",
	})
	detected, err := Load(context.Background(), root)
	if err != nil {
		t.Fatal(err)
	}
	text := Write(detected)
	if err := os.WriteFile(filepath.Join(root, "agentbox.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	read, err := Load(context.Background(), root)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(read.Setup) > 0 {
		t.Errorf("the name of a directory became a command: %q in\n%s", read.Setup, text)
	}
	if read.Image != detected.Image || !reflect.DeepEqual(read.Packages, detected.Packages) || !reflect.DeepEqual(read.Lockfiles, detected.Lockfiles) ||
		read.Memory != detected.Memory || !reflect.DeepEqual(read.Toolchain.Tools(), detected.Toolchain.Tools()) ||
		!reflect.DeepEqual(read.Toolchain.Constraints("node"), detected.Toolchain.Constraints("node")) || !reflect.DeepEqual(read.Toolchain.Constraints("go"), detected.Toolchain.Constraints("go")) {
		t.Errorf("read  %+v\nfound %+v", read, detected)
	}
}
