package project

import (
	"crypto/sha256"
	"encoding/hex"
)

// Project is one repository, on any machine and in any checkout. It is comparable. The zero value
// is no project. Equal names mean the same project.
type Project struct {
	// Name is the canonical URL of origin (example.com/org/app), or the absolute path of the
	// checkout if it has no usable origin. It is shown to people.
	Name string `json:"name"`
}

// ID identifies a project in file names and keys: 32 hex digits of the digest of its name. With an
// origin it is the same on every machine. Different names have different IDs, since 128 bits do not
// collide by accident.
func (p Project) ID() string {
	sum := sha256.Sum256([]byte(p.Name))
	return hex.EncodeToString(sum[:16])
}

// String returns the name.
func (p Project) String() string { return p.Name }

// IsZero reports whether this is no project.
func (p Project) IsZero() bool { return p.Name == "" }
