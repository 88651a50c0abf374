package layers

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
)

func TestStoreOfAHomeKeepsItsKey(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Dir: filepath.Join(dir, "store"), Key: filepath.Join(dir, "store.key"), Log: slog.New(slog.DiscardHandler)}
	var seeds [][]byte
	for range 2 {
		o := Begin(t.Context(), cfg)
		if _, err := o.Store(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		seed, err := os.ReadFile(cfg.Key)
		if err != nil {
			t.Fatal(err)
		}
		seeds = append(seeds, seed)
	}
	if !bytes.Equal(seeds[0], seeds[1]) {
		t.Error("the key was made twice")
	}
	if err := os.WriteFile(cfg.Key, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Begin(t.Context(), cfg)
	if _, err := o.Store(t.Context()); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a damaged key: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}
