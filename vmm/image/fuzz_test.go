package image

import (
	"encoding/json"
	"testing"
	"time"

	"agentbox/agentbox"
)

func FuzzDescription(f *testing.F) {
	d := agentbox.Digest{1}
	good, err := json.Marshal(Image{Digest: d, Name: "apt:bookworm", Size: 1, Created: time.Unix(1, 0), Lazy: &Lazy{Manifest: agentbox.Digest{2}, From: "/srv"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := Decode(b, d)
		if err == nil && (img.Digest != d || img.Size < 0) {
			t.Fatalf("%+v", img)
		}
		if err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Fatal(err)
		}
	})
}
