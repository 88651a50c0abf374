package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
)

// verifier implements dsse.Verifier.
type verifier struct{ signingKey }

func (v verifier) Verify(_ context.Context, data, sig []byte) error {
	return ed25519.VerifyWithOptions(v.Public().(ed25519.PublicKey), data, sig, &ed25519.Options{})
}

// What is signed is verified by the library and, as the documents say, by openssl; another's key, and other
// bytes, are not.
func TestSign(t *testing.T) {
	dir := t.TempDir()
	openssl := func(args ...string) error {
		cmd := exec.Command("openssl", args...)
		cmd.Dir = dir
		return cmd.Run()
	}
	for _, name := range []string{"mine", "other"} {
		if err := openssl("genpkey", "-algorithm", "ed25519", "-out", name+".pem"); err != nil {
			t.Skip("no openssl: ", err)
		}
		if err := openssl("pkey", "-in", name+".pem", "-pubout", "-out", name+".pub"); err != nil {
			t.Fatal(err)
		}
	}
	r := release{version: "1.2.3", out: dir, key: filepath.Join(dir, "mine.pem")}
	for name, text := range map[string]string{r.statement(): `{"_type":"x"}`, "SHA256SUMS": "0  a\n"} {
		if err := os.WriteFile(r.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sign(); err != nil {
		t.Fatal(err)
	}
	verify := func(key string) error {
		return openssl("pkeyutl", "-verify", "-pubin", "-inkey", key+".pub", "-rawin", "-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig")
	}
	if verify("mine") != nil || verify("other") == nil {
		t.Error("the checksums are not verified, or by any key")
	}
	b, err := os.ReadFile(r.path("agentbox-1.2.3.intoto.jsonl"))
	if err != nil || bytes.Count(b, []byte("\n")) != 1 {
		t.Fatalf("%q, %v", b, err)
	}
	var e dsse.Envelope
	if err := json.Unmarshal(b, &e); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"mine": true, "other": false} {
		key, err := readKey(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		v, err := dsse.NewEnvelopeVerifier(verifier{key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), &e); (err == nil) != want {
			t.Errorf("the statement by %s: %v", name, err)
		}
	}
	for _, bad := range []string{"mine.pub", "SHA256SUMS", "none"} {
		if _, err := readKey(filepath.Join(dir, bad)); err == nil {
			t.Errorf("%s is a key", bad)
		}
	}
}
