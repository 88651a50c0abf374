package git

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// BlobID is the name of an object with these contents, of as many hexadecimal digits as the
// repository's format has.
func BlobID(contents []byte, digits int) string {
	var h hash.Hash = sha1.New()
	if digits == hex.EncodedLen(sha256.Size) {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(contents))
	h.Write(contents)
	return hex.EncodeToString(h.Sum(nil))
}
