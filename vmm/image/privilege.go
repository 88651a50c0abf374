package image

import (
	"net/netip"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Privileged describes what making an image from source needs beyond a public registry, such as the
// user's credentials; "" for nothing. It reads the user's configuration and calls no registry. The
// text is shown to people as a part of what a repository asks for.
func Privileged(source string) string {
	kind, rest := Recipe{Source: source}.source()
	switch kind {
	case fromApt:
		return ""
	case fromLayout, fromArchive:
		return "a file of this host"
	}
	ref, err := name.ParseReference(rest)
	if err != nil {
		return "" // making the image will say what is wrong
	}
	registry := ref.Context().Registry
	switch {
	// The library uses http for names such as localhost.
	case registry.Scheme() != "https":
		return "without encryption"
	case local(registry.RegistryStr()):
		return "a private address"
	}
	if auth, err := authn.DefaultKeychain.Resolve(registry); err == nil && auth != authn.Anonymous {
		return "with your credentials"
	}
	return ""
}

// local tells whether a registry's name cannot be public: a private address, a name without a dot,
// or one below .internal or .local.
func local(registry string) bool {
	host, _, _ := strings.Cut(registry, ":")
	if strings.HasPrefix(registry, "[") {
		host, _, _ = strings.Cut(registry[1:], "]")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return private(a)
	}
	return !strings.Contains(strings.TrimSuffix(host, "."), ".") || strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".local")
}
