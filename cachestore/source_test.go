package cachestore

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// TestExportReplacesTruncatedFile has a piece of an earlier export cut short.
func TestExportReplacesTruncatedFile(t *testing.T) {
	s, stream, dir := openStore(t, t.TempDir()), noise(1, 1<<20), t.TempDir()
	d := putStream(t, s, stream).Manifest
	for range 2 {
		if err := s.Export(t.Context(), d, dir, nil); err != nil {
			t.Fatal(err)
		}
		if got := readBlob(t, openStore(t, t.TempDir()), d, Directory(dir)); !bytes.Equal(got, stream) {
			t.Error("other bytes")
		}
		for _, piece := range []agentbox.Digest{d, chunkOf(t, s, d, 0)} {
			if err := os.Truncate(filepath.Join(dir, piece.Hex()), 10); err != nil {
				t.Fatal(err)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestDirectoryWithFIFO has a pipe in place of a piece.
func TestDirectoryWithFIFO(t *testing.T) {
	dir, d := t.TempDir(), blob.Sum([]byte("x"))
	if err := syscall.Mkfifo(filepath.Join(dir, d.Hex()), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := Directory(dir).Get(t.Context(), d, 100); done <- err }()
	select {
	case err := <-done:
		if agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("it waits for somebody to write")
	}
}
