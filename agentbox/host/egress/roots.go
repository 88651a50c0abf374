package egress

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Where a machine keeps the certificate authorities that it trusts, and those of its distribution.
const (
	rootsVariable = "SSL_CERT_FILE"
	rootsBundle   = "/etc/ssl/certs/ca-certificates.crt"
	rootsShipped  = "/usr/share/ca-certificates"
)

// maxRoots bounds a bundle that is read and passed to a guest, in bytes.
const maxRoots = 1 << 20

// MachineRoots are the authorities that this machine trusts beside those of its distribution, as
// PEM, such as that of a company proxy that opens TLS. A box reaches a registry through such a
// proxy only if it trusts it too. Finding them takes milliseconds, so the daemon does it once for
// all supervisors.
var MachineRoots = sync.OnceValue(func() string {
	bundle := os.Getenv(rootsVariable)
	if bundle == "" {
		bundle = rootsBundle
	}
	return addedRoots(bundle, os.DirFS(rootsShipped))
})

// addedRoots are the certificates of a bundle that are in no file of shipped, each once, in the
// order of the bundle. Files that cannot be read count as empty.
func addedRoots(bundle string, shipped fs.FS) string {
	text, err := os.ReadFile(bundle)
	if err != nil || len(text) > maxRoots {
		return ""
	}
	known := map[[sha256.Size]byte]bool{}
	_ = fs.WalkDir(shipped, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(path) == ".crt" {
			if b, err := fs.ReadFile(shipped, path); err == nil {
				certificates(b, func(block *pem.Block) { known[sha256.Sum256(block.Bytes)] = true })
			}
		}
		return nil
	})
	var added bytes.Buffer
	certificates(text, func(block *pem.Block) {
		sum := sha256.Sum256(block.Bytes)
		if known[sum] { // nearly all are, and parsing takes a tenth of a millisecond
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return
		}
		known[sum] = true
		_ = pem.Encode(&added, &pem.Block{Type: block.Type, Bytes: block.Bytes}) // a buffer cannot fail
	})
	return added.String()
}

// certificates calls each with the certificates of a PEM file, which need not parse.
func certificates(text []byte, each func(*pem.Block)) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			each(block)
		}
	}
}
