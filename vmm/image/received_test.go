package image

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"agentbox/agentbox"
)

func TestAddReceived(t *testing.T) {
	list := AddReceived(nil, Received{Peer: "a", Bytes: 1}, Received{Remote: "/r", Bytes: 2}, Received{Peer: "a", Bytes: 3})
	if !slices.Equal(list, []Received{{Peer: "a", Bytes: 4}, {Remote: "/r", Bytes: 2}}) {
		t.Errorf("%+v", list)
	}
	sum := int64(0)
	for i := range 3 * maxReceived {
		list = AddReceived(list, Received{Peer: fmt.Sprint(i), Bytes: 1})
	}
	for _, r := range list {
		sum += r.Bytes
	}
	if len(list) != maxReceived+1 || sum != 6+3*maxReceived {
		t.Errorf("%d entries of %d bytes", len(list), sum)
	}
}

func TestReceivedIsStored(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := Image{Digest: agentbox.Digest{1}, Name: "n", Size: 5, Lazy: &Lazy{Manifest: agentbox.Digest{2}, From: "team"}}
	if _, err := s.AddLazy(t.Context(), img); err != nil {
		t.Fatal(err)
	}
	want := []Received{{Peer: "a", Bytes: 4}}
	if err := s.SetReceived(img.Digest, want); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddLazy(t.Context(), img); err != nil { // expected once more, by the next up
		t.Fatal(err)
	}
	if got := s.Received(img.Digest); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(filepath.Join(s.imageDir(img.Digest), imageReceivedName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.Received(img.Digest); got != nil {
		t.Errorf("%+v", got)
	}
	if err := s.Remove(t.Context(), img.Digest); err != nil {
		t.Fatal(err)
	}
	if got := s.Received(img.Digest); got != nil {
		t.Errorf("%+v of an image that is gone", got)
	}
}
