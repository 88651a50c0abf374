package git

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// BlobID returns the object ID of a blob with these contents. digits is the number of hexadecimal
// digits in the repository's format: 40 for SHA-1, 64 for SHA-256.
func BlobID(contents []byte, digits int) string {
	var h hash.Hash = sha1.New()
	if digits == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(contents))
	h.Write(contents)
	return hex.EncodeToString(h.Sum(nil))
}
