package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha1" // as OpenSSL does, for a file name
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// CA signs certificates that one box and its forks trust. Nothing else trusts it, and the box never
// sees its key. Its methods may be called concurrently.
type CA struct {
	// cert is what the box trusts.
	cert *x509.Certificate
	// key signs; only Encode reveals it.
	key  *ecdsa.PrivateKey
	leaf *ecdsa.PrivateKey // one for all names, since making keys is slow and we hold them all

	mu sync.Mutex
	// leaves caches certificates by name, since making one takes a signature.
	leaves map[string]*tls.Certificate
}

// caLifetime bounds how long a box and its forks use one authority: ParseCA refuses one that its
// leaves would outlive. maxLeaves bounds memory, since a box chooses names below wildcards.
const (
	caLifetime   = 365 * 24 * time.Hour
	leafLifetime = 30 * 24 * time.Hour
	backdate     = 24 * time.Hour // guests' clocks jump
	maxLeaves    = 4096
)

// NewCA makes the authority of one box. box is for people who look at the certificate.
func NewCA(box string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	// It may sign leaves but no authorities. Its names are not constrained, because a policy may
	// open others while the box runs.
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "agentbox " + box, Organization: []string{"agentbox, valid in this box only"}},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(caLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("certificate authority of box %s: %w", box, err)
	}
	return newCA(cert, key)
}

func newCA(cert *x509.Certificate, key *ecdsa.PrivateKey) (*CA, error) {
	leaf, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &CA{cert: cert, key: key, leaf: leaf, leaves: map[string]*tls.Certificate{}}, err
}

// sign makes a certificate with a random serial number for the key of, signed by the issuer's key.
func sign(template, issuer *x509.Certificate, of, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &of.PublicKey, by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Encode returns the authority with its key, for a file that nobody else can read. It must last
// through pauses, as long as the memory of the box's programs, which trust it.
func (c *CA) Encode() ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(c.key)
	if err != nil {
		return nil, err
	}
	return append(c.PEM(), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...), nil
}

// ParseCA reads what Encode returned. It fails for an authority that expires within a leaf's
// lifetime; the caller then makes another.
func ParseCA(text []byte) (*CA, error) {
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("certificate authority: not one of ours")
	}
	if time.Now().After(pair.Leaf.NotAfter.Add(-leafLifetime)) {
		return nil, errors.New("certificate authority: it expires soon")
	}
	return newCA(pair.Leaf, key)
}

// PEM is the authority's certificate, for the guest's trust store.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// FileName is the name under which OpenSSL looks for the authority in a directory of certificates:
// a hash of its subject in lower case.
func (c *CA) FileName() (string, error) {
	var subject []byte
	for _, rdn := range c.cert.Subject.ToRDNSequence() {
		for i := range rdn {
			text, ok := rdn[i].Value.(string)
			if !ok {
				return "", fmt.Errorf("certificate authority: odd subject %s", c.cert.Subject)
			}
			rdn[i].Value = asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(strings.Join(strings.Fields(strings.ToLower(text)), " "))}
		}
		der, err := asn1.Marshal(rdn)
		if err != nil {
			return "", err
		}
		subject = append(subject, der...)
	}
	sum := sha1.Sum(subject)
	return fmt.Sprintf("%08x.0", binary.LittleEndian.Uint32(sum[:4])), nil
}

// Certificate returns the certificate of a name or address. It makes a new one the first time and
// when the last is about to expire. The caller has decided that the box may ask for it.
func (c *CA) Certificate(name string) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cert := c.leaves[name]; cert != nil && time.Now().Before(cert.Leaf.NotAfter.Add(-backdate)) {
		return cert, nil
	}
	// Certificates are made again when they are needed.
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
		Subject:               pkix.Name{CommonName: name[:min(len(name), 64)]}, // as much as X.509 allows
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(leafLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	// Clients only look at the alternative names.
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	leaf, err := sign(template, c.cert, c.leaf, c.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw, c.cert.Raw}, PrivateKey: c.leaf, Leaf: leaf}, nil
}
