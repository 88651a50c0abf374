package layers

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/tools/suites/storetest"
)

// remoteWith makes a directory that has these bytes under the digest of right.
func remoteWith(t *testing.T, right, bytes []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, blob.Sum(right).Hex()), bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPiecesComeFromAnyRemote(t *testing.T) {
	piece := []byte("a piece")
	d := blob.Sum(piece)
	p := &Remotes{File: filepath.Join(t.TempDir(), "places.json")}
	if _, err := p.Source().Get(t.Context(), d, 100); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("nobody has it: %v", err)
	}
	var asked atomic.Int64
	ill := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer ill.Close()
	good := remoteWith(t, piece, piece)
	for _, remote := range []string{good, t.TempDir(), remoteWith(t, piece, []byte("a lie")), ill.URL} {
		if err := p.Remember(remote); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if b, err := p.Source().Get(t.Context(), d, 100); err != nil || !bytes.Equal(b, piece) {
			t.Fatalf("%q, %v", b, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("a remote that fails was asked %d times", asked.Load())
	}
	// Who was named is asked every time, and what it says is what is said.
	other := blob.Sum([]byte("another piece"))
	for i := range 2 {
		if _, err := p.Source(ill.URL).Get(t.Context(), other, 100); agentbox.CodeOf(err) != agentbox.Unavailable {
			t.Error(err)
		}
		if asked.Load() != int64(2+i) {
			t.Errorf("asked %d times", asked.Load())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Source(ill.URL).Get(ctx, d, 100); err == nil {
		t.Error("nobody waits for it any more, and yet it was got")
	}
}

func TestRemotesConformance(t *testing.T) {
	with := func(t *testing.T, pieces [][]byte) cachestore.Source {
		dir := t.TempDir()
		for _, b := range pieces {
			if err := os.WriteFile(filepath.Join(dir, blob.Sum(b).Hex()), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		site := httptest.NewServer(http.FileServer(http.Dir(dir)))
		t.Cleanup(site.Close)
		return (&Remotes{File: filepath.Join(t.TempDir(), "places.json")}).Source(t.TempDir(), site.URL)
	}
	storetest.TestSource(t, with)
	storetest.TestSession(t, with)
}

func TestRemotesAreRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "places.json")
	for i := range maxRemotes + 3 {
		p := &Remotes{File: file} // as a new daemon does
		for _, remote := range []string{"/always", fmt.Sprint("/", i)} {
			if err := p.Remember(remote); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := (&Remotes{File: file}).order([]string{"/first", "/always"})
	if len(got) != maxRemotes+1 || !slices.Equal(got[:3], []string{"/first", "/always", fmt.Sprint("/", maxRemotes+2)}) {
		t.Errorf("%d: %v", len(got), got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &Remotes{File: file}
	if got := p.order(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if err := p.Remember("/again"); err != nil {
		t.Error(err)
	}
}
