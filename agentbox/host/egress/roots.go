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

// Where a machine keeps the authorities that it believes, and those of them that its distribution
// chose.
const (
	rootsVariable = "SSL_CERT_FILE"
	rootsBundle   = "/etc/ssl/certs/ca-certificates.crt"
	rootsShipped  = "/usr/share/ca-certificates"
)

// mostRoots bounds what is read of a bundle and told to a guest, in bytes.
const mostRoots = 1 << 20

// MachineRoots are the authorities that this machine was taught beside those of its distribution,
// as PEM: those of a company whose proxy opens TLS, above all. A package registry that this machine
// reaches through it is reached by the box only if it believes them too. Finding them takes
// milliseconds, which is why the daemon does it and no supervisor.
var MachineRoots = sync.OnceValue(func() string {
	bundle := os.Getenv(rootsVariable)
	if bundle == "" {
		bundle = rootsBundle
	}
	return addedRoots(bundle, os.DirFS(rootsShipped))
})

// addedRoots are the certificates of a bundle that are in no file of shipped. What cannot be read
// holds none. In the order of the bundle, each once.
func addedRoots(bundle string, shipped fs.FS) string {
	text, err := os.ReadFile(bundle)
	if err != nil || len(text) > mostRoots {
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
		// A buffer takes everything.
		_ = pem.Encode(&added, &pem.Block{Type: block.Type, Bytes: block.Bytes})
	})
	return added.String()
}

// certificates calls each for the certificates of a PEM file, parsed or not.
func certificates(text []byte, each func(*pem.Block)) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			each(block)
		}
	}
}
