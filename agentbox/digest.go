package agentbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// Digest names bytes by their SHA-256, so bytes can be checked wherever they came from, and no peer
// has to be believed. It is comparable and may be a map's key; the zero value means "none" and has
// the empty text.
type Digest [sha256.Size]byte

const digestPrefix = "sha256:"

// ParseDigest reads the form sha256:<64 lower-case hex digits>, and refuses upper case: there is
// one spelling of a digest, because texts of digests are compared and used as file names.
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

// DigestOf hashes everything r has. It returns how many bytes that were, on an error too.
func DigestOf(r io.Reader) (Digest, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	if err != nil {
		return Digest{}, n, err
	}
	return Digest(h.Sum(nil)), n, nil
}

// DigestFile hashes a file.
func DigestFile(path string) (Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Digest{}, err
	}
	defer f.Close()
	d, _, err := DigestOf(f)
	return d, err
}

// String is the canonical form, "" for none.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return digestPrefix + hex.EncodeToString(d[:])
}

// Hex is the digest without its prefix: the form used in file names.
func (d Digest) Hex() string { return hex.EncodeToString(d[:]) }

// Short is what people read: the first twelve hex digits.
func (d Digest) Short() string {
	if d.IsZero() {
		return ""
	}
	return hex.EncodeToString(d[:6])
}

// IsZero tells whether the digest names nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText makes a digest a JSON string.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText wrote.
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

// ShortName is name, a path of parts between slashes such as NAMESPACE/KEY, in which each part that
// is a digest in hex is as short as Short makes it. It is for people to read.
func ShortName(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if d, err := ParseDigest(digestPrefix + part); err == nil {
			parts[i] = d.Short()
		}
	}
	return strings.Join(parts, "/")
}

// Blocks are the blocks of an image's file that may be read now: bit i%8 of byte i/8 of Have, the
// lowest bit first, as the table of a manifest counts them. Path may differ from the one of the
// last answer, because an image that is complete moves to where plain images are; what has the old
// file open may go on reading it.
type Blocks struct {
	Path string `json:"path"`
	Have []byte `json:"have"`
}
