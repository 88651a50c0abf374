package layers

import (
	"crypto/ed25519"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore"
)

func TestSigningKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "store.key")
	var keys []ed25519.PrivateKey
	for range 2 {
		key, err := SigningKey(file)
		if err != nil {
			t.Fatal(err)
		}
		o := OpenAsync(t.Context(), cachestore.Config{Dir: filepath.Join(dir, "store"), Key: key, Log: slog.New(slog.DiscardHandler)}, nil)
		if _, err := o.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if !keys[0].Equal(keys[1]) {
		t.Error("the key was made twice")
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SigningKey(file); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged key: %v", err)
	}
}
