package agentbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// Digest identifies bytes by their SHA-256, so that bytes from anywhere can be verified and no peer
// has to be trusted. It is comparable and can be a map key. The zero value means "none" and its
// text form is "".
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// ParseDigest parses sha256:<64 lower-case hex digits>. It refuses upper case because digests are
// compared as text and used as file names, so each must have exactly one spelling.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	rest, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(rest) != 2*len(d) || strings.ToLower(rest) != rest {
		return d, fmt.Errorf("%q is not a digest (sha256:<64 hex digits>)", s)
	}
	if _, err := hex.Decode(d[:], []byte(rest)); err != nil {
		return Digest{}, fmt.Errorf("%q is not a digest (sha256:<64 hex digits>)", s)
	}
	return d, nil
}

// DigestOf hashes r up to its end. It returns how many bytes it read, also on an error.
func DigestOf(r io.Reader) (Digest, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return Digest{}, n, err
	}
	return Digest(h.Sum(nil)), n, nil
}

// DigestFile hashes the contents of a file.
func DigestFile(path string) (Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Digest{}, err
	}
	defer f.Close()
	d, _, err := DigestOf(f)
	return d, err
}

// String returns the canonical form, or "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// Hex returns the digest without its prefix: 64 hex digits, as used in file names.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Short returns the first twelve hex digits, for people to read.
func (d Digest) Short() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:6])
}

// IsZero reports whether the digest is the zero value, which identifies nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText implements encoding.TextMarshaler, so that a digest is a string in JSON.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = Digest{}
		return nil
	}
	v, err := ParseDigest(string(b))
	if err == nil {
		*d = v
	}
	return err
}

// ShortName abbreviates a slash-separated name such as NAMESPACE/KEY for people to read: each part
// that is a digest in hex is cut to the length of Short.
func ShortName(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if d, err := ParseDigest(digestPrefix + part); err == nil {
			parts[i] = d.Short()
		}
	}
	return strings.Join(parts, "/")
}

// Blocks says which blocks of an image's file can be read now: bit i%8 of byte i/8 of Have (lowest
// bit first) stands for block i, in the order of the manifest's table. Path may differ from the
// last answer, because a complete image moves to where plain images are. A reader that has the old
// file open can go on reading it.
type Blocks struct {
	Path string `json:"path"`
	Have []byte `json:"have"`
}
