package entries

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/layers"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// find finds the entry of the store that a user's reference means; see pickEntry. It also
// returns the store, since callers continue with it.
func (es Entries) find(ctx context.Context, ref string) (*cachestore.Store, cachestore.Entry, error) {
	s, err := es.Store(ctx)
	if err != nil {
		return nil, cachestore.Entry{}, err
	}
	list, err := s.List(ctx)
	if err != nil {
		return nil, cachestore.Entry{}, err
	}
	e, err := pickEntry(list, ref)
	return s, e, err
}

// pickEntry finds an entry by its digest or full name. Otherwise ref may be the prefix of a digest:
// of the manifest, of the image, or of the key of a setup result. Otherwise it is the newest image
// of that name.
//
// It returns NotFound if nothing matches, and Conflict with the candidates if several do. Image
// names come last, so that no image can be given a name that hides a digest.
func pickEntry(list []cachestore.Entry, ref string) (cachestore.Entry, error) {
	for _, e := range list {
		if e.Manifest.String() == ref || anyName(e, func(n blob.Name) bool { return n.Namespace+"/"+n.Key == ref }) {
			return e, nil
		}
	}
	var found, named []cachestore.Entry
	for _, e := range list {
		if hasDigestPrefix(ref, e.Manifest.Hex()) || anyName(e, func(n blob.Name) bool { return abbreviates(ref, n) }) {
			found = append(found, e)
		}
		if anyName(e, func(n blob.Name) bool { return layers.IsImage(n, ref) }) && (len(named) == 0 || e.Created.After(named[0].Created)) {
			named = []cachestore.Entry{e}
		}
	}
	if len(found) == 0 {
		found = named
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return cachestore.Entry{}, agentbox.Errorf(agentbox.NotFound, "the store has no %q", ref).
			WithHint("agentbox cache ls shows what it has; an image enters it a minute or two after it was made")
	}
	var meant []string
	for _, e := range found {
		meant = append(meant, describe(e))
	}
	return cachestore.Entry{}, agentbox.Errorf(agentbox.Conflict, "%q may be any of %d: %s", ref, len(found), strings.Join(meant, "; ")).WithHint("more digits of one of them")
}

func anyName(e cachestore.Entry, is func(n blob.Name) bool) bool {
	return slices.ContainsFunc(e.Names, is)
}

// minPrefixDigits is the minimum number of digits that may stand for a digest, as for images. Fewer
// would match by accident in a store of a few hundred entries.
const minPrefixDigits = 4

func hasDigestPrefix(ref, hex string) bool {
	digits := strings.TrimPrefix(ref, "sha256:")
	return len(digits) >= minPrefixDigits && strings.HasPrefix(hex, digits)
}

// abbreviates reports whether ref abbreviates a name. It may be a prefix of the digest in hex that
// ends the name, or abbreviate each part of the name in that way.
func abbreviates(ref string, n blob.Name) bool {
	full := append([]string{n.Namespace}, strings.Split(n.Key, "/")...)
	if last := full[len(full)-1]; len(last) == hexDigits && hasDigestPrefix(ref, last) {
		return true
	}
	parts := strings.Split(ref, "/")
	if len(parts) != len(full) {
		return false
	}
	for i, part := range parts {
		if part != full[i] && (len(full[i]) != hexDigits || !hasDigestPrefix(part, full[i])) {
			return false
		}
	}
	return true
}

// hexDigits is the length of a digest as part of a name.
const hexDigits = 2 * len(agentbox.Digest{})

// NameOf describes an entry by its manifest, "" if the store has none.
func (es Entries) NameOf(ctx context.Context, manifest agentbox.Digest) string {
	if _, e, err := es.find(ctx, manifest.String()); err == nil {
		return describe(e)
	}
	return ""
}

// describe describes an entry to tell it from others. It uses the comment of its name if there is
// one, such as an image's name.
func describe(e cachestore.Entry) string {
	text := fmt.Sprintf("%s %s", e.Manifest.Short(), e.Kind)
	for _, n := range e.Names {
		if n.Comment != "" {
			return fmt.Sprintf("%s (%s)", text, n.Comment)
		}
	}
	return text
}
