package image

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestExists(t *testing.T) {
	server := httptest.NewServer(registry.New())
	host := strings.TrimPrefix(server.URL, "http://")
	there, err := name.ParseReference(host + "/python:3.12")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(there, empty.Image); err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[string]bool{"3.12": true, "3.99": false} {
		if got, err := exists(there.Context().Tag(tag)); got != want || err != nil {
			t.Errorf("%s: %v %v", tag, got, err)
		}
	}
	server.Close()
	if got, err := exists(there); got || err == nil {
		t.Errorf("a registry that does not answer: %v %v", got, err)
	}
	if got, err := Exists(t.Context(), host+"/python:3.12"); got || err == nil { // on a private address
		t.Errorf("a private registry: %v %v", got, err)
	}
}
