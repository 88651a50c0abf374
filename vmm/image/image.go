package image

import (
	"slices"
	"time"

	"agentbox/agentbox"
)

// Image is a complete image in the store. Path is its erofs file. As JSON it is image.json. It is a
// value: nobody changes one that was handed out.
type Image struct {
	Digest agentbox.Digest `json:"digest"` // of the erofs file
	Name   string          `json:"name"`   // its source, and what was added
	// As the recipe had it, in its normal form.
	Source   string   `json:"source"`
	Platform string   `json:"platform"`
	Packages []string `json:"packages,omitempty"` // asked for
	// What this host added; as asked for, not as found.
	Include []Include `json:"include,omitempty"`
	// Bytes of the erofs file.
	Size int64 `json:"size"`
	// When it was made here, or elsewhere: for people, and to list the newest first.
	Created  time.Time       `json:"created"`
	Key      string          `json:"key"`                // of the recipe
	Base     agentbox.Digest `json:"base,omitzero"`      // the image under what was included
	Manifest string          `json:"manifest,omitempty"` // of an OCI source, as resolved
	Versions []string        `json:"versions,omitempty"` // of an apt source: name=version of all packages, sorted
	Env      []string        `json:"env,omitempty"`      // of an OCI source: environment its programs expect
	Origin   string          `json:"origin,omitempty"`   // PeerID of the member of the team that made it; "" for one made here
	Upon     []string        `json:"upon,omitempty"`     // PeerIDs of members that made what it was made from
	Lazy     *Lazy           `json:"lazy,omitempty"`     // set as long as the file is not all here: Path does not exist then
	Path     string          `json:"-"`
}

// Lazy says how the rest of an image is got. The store of images only keeps it: host/images gets
// the rest.
type Lazy struct {
	Manifest agentbox.Digest `json:"manifest"` // lists the pieces of the file
	From     string          `json:"from"`     // a directory or URL that has them
}

// Pin is the digest that agentbox.lock remembers: what another machine can make too.
func (i Image) Pin() agentbox.Digest {
	if i.Base.IsZero() {
		return i.Digest
	}
	return i.Base
}

// restOn notes whose work an image rests on; "" is this machine's.
func (i *Image) restOn(makers ...string) {
	for _, maker := range makers {
		if maker != "" && !slices.Contains(i.Upon, maker) {
			i.Upon = append(i.Upon, maker)
		}
	}
}

// step is what making an image is, as people are told of it (agentbox.Event).
const step = "image"
