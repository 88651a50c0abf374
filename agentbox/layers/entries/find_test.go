package entries

import (
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// entry is one with a manifest and a name.
func entry(manifest agentbox.Digest, age time.Duration, namespace, key, comment string) cachestore.Entry {
	return cachestore.Entry{
		Manifest: manifest, Meta: index.Meta{Kind: blob.Image, Created: time.Unix(1700000000, 0).Add(-age)},
		Names: []blob.Name{{Namespace: namespace, Key: key, Manifest: manifest, Comment: comment}},
	}
}

func TestFindCache(t *testing.T) {
	older, newer := agentbox.Digest{0xaa, 0xaa, 1}, agentbox.Digest{0xaa, 0xaa, 2}
	setup, odd := agentbox.Digest{0xbb, 0xbb}, agentbox.Digest{0xcc, 0xcc}
	image1, image2 := agentbox.Digest{0x11, 0x11, 1}, agentbox.Digest{0x11, 0x11, 2}
	family, key := agentbox.Digest{0x22, 0x22}, agentbox.Digest{0x33, 0x33}
	list := []cachestore.Entry{
		entry(older, time.Hour, "image", image1.Hex(), "apt:bookworm"),
		entry(newer, 0, "image", image2.Hex(), "apt:bookworm"),
		entry(setup, 0, "setup", family.Hex()+"/"+key.Hex(), "make deps"),
		entry(odd, 0, "cache", "aaaa01", ""),
	}
	for ref, want := range map[string]agentbox.Digest{
		older.String(): older, "sha256:aaaa01": older, "aaaa01": older, image2.String(): newer, "111102": newer,
		"image/" + image1.Hex(): older, "image/" + image1.Short(): older, "apt:bookworm": newer,
		key.Hex(): setup, "3333": setup, "setup/" + family.Short() + "/" + key.Short(): setup, "cache/aaaa01": odd, "cccc": odd,
	} {
		if e, err := pickEntry(list, ref); err != nil || e.Manifest != want {
			t.Errorf("%s is %s, %v", ref, e.Manifest.Short(), err)
		}
	}
	for _, ref := range []string{"", "aaa", "make deps", "dddd", "image/", "setup/" + key.Short(), "sha256:", "/", "setup/2222/33"} {
		if e, err := pickEntry(list, ref); agentbox.CodeOf(err) != agentbox.NotFound {
			t.Errorf("%q is %s, %v", ref, e.Manifest.Short(), err)
		}
	}
	for _, ref := range []string{"aaaa", "sha256:aaaa0", "1111", "image/1111"} {
		_, err := pickEntry(list, ref)
		if agentbox.CodeOf(err) != agentbox.Conflict || !strings.Contains(err.Error(), older.Short()) || !strings.Contains(err.Error(), newer.Short()) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", ref, err)
		}
	}
}
