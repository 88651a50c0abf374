package project

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Project is one repository, on whatever machine and in whatever checkout. It is comparable; the
// zero value is none. Equal names are the same project.
type Project struct {
	// Name is the canonical URL of origin (example.com/org/app), else the absolute path of the
	// checkout. People read it.
	Name string `json:"name"`
}

// ID names a project in file names and keys: 128 bits of the digest of its name.
type ID [16]byte

// ID is the same on every machine for a project with an origin. Another name is another ID: 128
// bits do not collide by accident.
func (p Project) ID() ID {
	sum := sha256.Sum256([]byte(p.Name))
	return ID(sum[:len(ID{})])
}

func (p Project) String() string { return p.Name }

// IsZero tells whether this is no project.
func (p Project) IsZero() bool { return p.Name == "" }

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	var id ID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) || hex.EncodeToString(b) != s {
		return id, fmt.Errorf("%q is not the id of a project (%d lower-case hex digits)", s, 2*len(id))
	}
	return ID(b), nil
}

// String is usable as a file name.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Short is what people read.
func (id ID) Short() string { return hex.EncodeToString(id[:6]) }

// MarshalText makes an id a JSON string.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := ParseID(string(b))
	if err == nil {
		*id = v
	}
	return err
}
