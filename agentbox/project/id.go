package project

import (
	"crypto/sha256"
	"encoding/hex"
)

// Project is one repository, on whatever machine and in whatever checkout. It is comparable; the
// zero value is none. Equal names are the same project.
type Project struct {
	// Name is the canonical URL of origin (example.com/org/app), else the absolute path of the
	// checkout. People read it.
	Name string `json:"name"`
}

// ID names a project in file names and keys: 32 hex digits of the digest of its name, the same on
// every machine for a project with an origin. Another name is another ID: 128 bits do not collide by
// accident.
func (p Project) ID() string {
	sum := sha256.Sum256([]byte(p.Name))
	return hex.EncodeToString(sum[:16])
}

func (p Project) String() string { return p.Name }

// IsZero tells whether this is no project.
func (p Project) IsZero() bool { return p.Name == "" }
