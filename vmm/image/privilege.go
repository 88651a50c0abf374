package image

import (
	"net/netip"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// Privileged says which rights of this host's user making an image of source takes beyond asking a
// public registry; "" for none. It asks the user's own configuration of registries, and no
// registry. What it says is a part of what a repository asks this host for, and shown to a person
// as it is.
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
		return "" // making it says what is wrong
	}
	registry := ref.Context().Registry
	switch {
	// The library leaves encryption out for names such as localhost.
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

// local tells whether a registry's name is one of this host's network and not of everybody's. A
// name without a dot, or below .internal or .local, is nobody's in public.
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
