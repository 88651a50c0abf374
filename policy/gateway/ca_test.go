package gateway

import (
	"bytes"
	"crypto/x509"
	"os/exec"
	"strings"
	"testing"
)

func TestCA(t *testing.T) {
	ca, err := NewCA("b-1234")
	if err != nil {
		t.Fatal(err)
	}
	text, err := ca.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(ca.PEM(), []byte("PRIVATE")) {
		t.Error("the certificate holds the key")
	}
	same, err := ParseCA(text)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	for _, name := range []string{"a.test", "192.0.2.1", "2001:db8::1", strings.Repeat("a.", 100) + "test"} {
		cert, err := same.Certificate(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := cert.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "b.test"}); err == nil {
			t.Errorf("the certificate for %s is good for another name", name)
		}
		if again, _ := same.Certificate(name); again != cert {
			t.Error("minted twice")
		}
	}
	for _, bad := range [][]byte{nil, ca.PEM(), text[:len(text)/2], []byte("x")} {
		if _, err := ParseCA(bad); err == nil {
			t.Errorf("%q is an authority", bad)
		}
	}
}

// The name is OpenSSL's own.
func TestCAFileName(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("there is no openssl to compare with")
	}
	ca, err := NewCA("B-Test  two")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(openssl, "x509", "-noout", "-subject_hash")
	cmd.Stdin = bytes.NewReader(ca.PEM())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	name, err := ca.FileName()
	if want := strings.TrimSpace(string(out)) + ".0"; err != nil || name != want {
		t.Errorf("%s %v, want %s", name, err, want)
	}
}
