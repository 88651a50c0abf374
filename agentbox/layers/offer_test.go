package layers

import (
	"encoding/json"
	"testing"

	"agentbox/agentbox"
	"agentbox/vmm/image"
)

// FuzzAbout decodes what peers write about images: it is believed of a builder, and must not be
// shown as it is if it is not text.
func FuzzAbout(f *testing.F) {
	d := agentbox.Digest{1}
	b, err := json.Marshal(image.Image{Digest: d, Name: "apt:bookworm", Size: 5, Key: "k", Origin: "00", BaseMakers: []string{"11"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := decodeAbout(b, d)
		if err != nil {
			return
		}
		if img.Digest != d || img.Size <= 0 || img.Lazy != nil || img.Path != "" || len(img.Include) > 0 || comment(img.Name) != img.Name || comment(img.Source) != img.Source {
			t.Errorf("%+v", img)
		}
	})
}
