package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJSONRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.json")
	v := map[string]int{"was": 1}
	if err := ReadJSON(path, &v); err != nil || v["was"] != 1 {
		t.Errorf("no file: %v, %v", v, err)
	}
	if err := WriteJSON(path, map[string]int{"is": 2}, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &v); err != nil || v["is"] != 2 {
		t.Errorf("%v, %v", v, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReadJSON(path, &v); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a file: %v", err)
	}
}
