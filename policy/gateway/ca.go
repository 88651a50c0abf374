package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"sync"
	"time"
)

// CA signs certificates that one box believes. Its key is made in the process that uses it and never leaves its memory;
// nothing outside the box trusts it.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // one for all names: a key is the costly part, and the same hands hold them all

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

const (
	caLifetime   = 365 * 24 * time.Hour
	leafLifetime = 30 * 24 * time.Hour
	backdate     = 24 * time.Hour // guests' clocks jump
	maxLeaves    = 4096
)

// NewCA mints the authority of one box.
func NewCA(box string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: "agentbox " + box, Organization: []string{"agentbox, valid in this box only"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of box %s: %w", box, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &CA{cert: cert, key: key, leaf: leaf, leaves: map[string]*tls.Certificate{}}, nil
}

// PEM is the authority's certificate, for the guest's trust store.
func (c *CA) PEM() []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}) // a buffer takes everything
	return b.Bytes()
}

// certificate gives the certificate for a name, minting it the first time.
func (c *CA) certificate(name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cert := c.leaves[name]; cert != nil && time.Now().Before(cert.Leaf.NotAfter.Add(-backdate)) {
		return cert, nil
	}
	if len(c.leaves) >= maxLeaves {
		clear(c.leaves)
	}
	cert, err := c.mint(name)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", name, err)
	}
	c.leaves[name] = cert
	return cert, nil
}

func (c *CA) mint(name string) (*tls.Certificate, error) {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial(),
		Subject:               pkix.Name{CommonName: commonName(name)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(leafLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &c.leaf.PublicKey, c.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, c.cert.Raw}, PrivateKey: c.leaf, Leaf: leaf}, nil
}

// commonName is the name where it fits: X.509 allows 64 bytes, and clients look at the alternative names only.
func commonName(name string) string {
	if len(name) > 64 {
		return name[:64]
	}
	return name
}

func serial() *big.Int {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b)
}
