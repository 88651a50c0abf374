package git

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
)

// BlobID returns the object ID of a blob with these contents. digits is the number of hexadecimal
// digits in the repository's format: 40 for SHA-1, 64 for SHA-256.
func BlobID(contents []byte, digits int) string {
	id, _ := ReadBlobID(bytes.NewReader(contents), int64(len(contents)), digits) // all are there
	return id
}

// ReadBlobID is BlobID for size bytes that are read; fewer are io.EOF.
func ReadBlobID(r io.Reader, size int64, digits int) (string, error) {
	var h hash.Hash = sha1.New()
	if digits == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	_, err := io.CopyN(h, r, size)
	return hex.EncodeToString(h.Sum(nil)), err
}
