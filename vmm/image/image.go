package image

import (
	"slices"
	"time"

	"agentbox/agentbox"
)

// Image describes an image in the store. As JSON it is image.json. Do not change one that the store
// returned.
type Image struct {
	Digest     agentbox.Digest `json:"digest"` // of the erofs file
	Name       string          `json:"name"`   // the source, and what was added
	Source     string          `json:"source"` // this and the next are the recipe's, in normal form
	Platform   string          `json:"platform"`
	Packages   []string        `json:"packages,omitempty"` // as the recipe has them
	Include    []Include       `json:"include,omitempty"`  // as the recipe has them
	Size       int64           `json:"size"`               // bytes of the erofs file
	Created    time.Time       `json:"created"`            // here or elsewhere; only for people and for the order of lists
	Key        string          `json:"key"`                // of the recipe
	Base       agentbox.Digest `json:"base,omitzero"`      // the image under what was included
	Manifest   string          `json:"manifest,omitempty"` // of an OCI source, as resolved
	Versions   []string        `json:"versions,omitempty"` // of an apt source: name=version of all packages, sorted
	Env        []string        `json:"env,omitempty"`      // of an OCI source: the environment of its programs
	User       string          `json:"user,omitempty"`     // of an OCI source: the user of its programs, an account of the image; "" for none said
	Accounts   []string        `json:"accounts,omitempty"` // of an OCI source: names in its /etc/passwd
	Metadata   string          `json:"metadata,omitempty"` // of an OCI source: its label devcontainer.metadata
	Program    *Program        `json:"program,omitempty"`  // of an OCI source
	Roots      []Root          `json:"roots,omitempty"`    // of other images, which were added
	Origin     string          `json:"origin,omitempty"`   // PeerID of the member that made it; "" for this host
	BaseMakers []string        `json:"upon,omitempty"`     // PeerIDs of the members that made what it was made from
	Lazy       *Lazy           `json:"lazy,omitempty"`     // set until the file is completely here; Path does not exist before
	Path       string          `json:"-"`                  // of the erofs file
}

// Lazy says where the missing blocks of an image are. host/images gets them.
type Lazy struct {
	Manifest agentbox.Digest `json:"manifest"` // lists the chunks of the file
	From     string          `json:"from"`     // a directory or URL
}

// Program is what an OCI image runs, as its configuration says.
type Program struct {
	Entrypoint []string `json:"entrypoint,omitempty"`
	Command    []string `json:"command,omitempty"` // its arguments, or the program without Entrypoint
	Dir        string   `json:"dir,omitempty"`
	User       string   `json:"user,omitempty"` // as written: a name or a number, with a group after a colon
}

// Root is the root of another image in a directory of this one, with what that image says of its
// programs.
type Root struct {
	At      string          `json:"at"` // absolute
	Digest  agentbox.Digest `json:"digest"`
	Source  string          `json:"source"`
	Env     []string        `json:"env,omitempty"`
	Program *Program        `json:"program,omitempty"`
}

// Pin returns the digest that agentbox.lock pins, of the image that other machines can make, too.
func (i Image) Pin() agentbox.Digest {
	if i.Base.IsZero() {
		return i.Digest
	}
	return i.Base
}

// addProvenance adds the members whose work is in an image. "" is this host.
func (i *Image) addProvenance(makers ...string) {
	for _, maker := range makers {
		if maker != "" && !slices.Contains(i.BaseMakers, maker) {
			i.BaseMakers = append(i.BaseMakers, maker)
		}
	}
}

// step is the name of the step in progress events (agentbox.Event).
const step = "image"
