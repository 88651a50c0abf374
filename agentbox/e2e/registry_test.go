package e2e

import (
	"io"
	"log"
	"net/http/httptest"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/rogpeppe/go-internal/testscript"
)

// cmdRegistry serves images that have the form of docker save from a registry of this machine.
func cmdRegistry(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "registry NAME=ARCHIVE...")
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(s.Close)
	address := strings.TrimPrefix(s.URL, "http://")
	for _, image := range args {
		as, archive, _ := strings.Cut(image, "=")
		ref, err := name.ParseReference(address + "/" + as)
		ts.Check(err)
		img, err := tarball.ImageFromPath(ts.MkAbs(archive), nil)
		ts.Check(err)
		ts.Check(remote.Write(ref, img))
	}
	ts.Setenv("REGISTRY", address)
}
