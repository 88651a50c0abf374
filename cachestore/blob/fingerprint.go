package blob

import (
	"crypto/aes"
	"crypto/cipher"
)

// Fingerprint is a keyed hash of a piece. It says the same as a digest and costs a quarter of it,
// for a holder of the key: two pieces have the same one by chance only, which for pieces of 4 MiB
// is less than 2^-109, as long as the maker of the pieces knows neither the key nor any
// fingerprint. So it never leaves the store whose key it was made with.
type Fingerprint [16]byte

// FingerprintKey is the secret of one store, 32 random bytes.
type FingerprintKey [32]byte

// Fingerprinter makes fingerprints. It is safe for use by many goroutines.
//
// GHASH, an almost universal hash (McGrew and Viega, The Galois/Counter Mode of Operation, 2004),
// is what AES-GCM makes of additional data; processors have instructions for it. Its result is
// encrypted with another key, so that fingerprints tell nothing about the first, not even to
// somebody who has read some of them.
type Fingerprinter struct {
	hash  cipher.AEAD
	cover cipher.Block
}

// NewFingerprinter makes a Fingerprinter.
func NewFingerprinter(key FingerprintKey) (*Fingerprinter, error) {
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		return nil, err
	}
	f := &Fingerprinter{}
	if f.cover, err = aes.NewCipher(key[16:]); err != nil {
		return nil, err
	}
	f.hash, err = cipher.NewGCM(block)
	return f, err
}

// noNonce is always the same: nothing is encrypted under it, and nobody sees what it hides.
var noNonce [12]byte

// Of returns the fingerprint of a piece.
func (f *Fingerprinter) Of(p []byte) Fingerprint {
	var out Fingerprint
	f.cover.Encrypt(out[:], f.hash.Seal(nil, noNonce[:], nil, p))
	return out
}
