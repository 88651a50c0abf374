//go:build linux

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/vmm/guest/protocol"
)

const testPEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func writeIn(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTrustAddsToWhatTheImageBelieves(t *testing.T) {
	root := t.TempDir()
	writeIn(t, root, "etc/ssl/certs/ca-certificates.crt", "of the image")
	if err := os.Symlink("certs/ca-certificates.crt", filepath.Join(root, "etc/ssl/cert.pem")); err != nil {
		t.Fatal(err)
	}
	if err := prepareTrust(root); err != nil {
		t.Fatal(err)
	}
	const others = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"
	ca := protocol.Authority{PEM: testPEM, File: "0123abcd.0", Others: others}
	for range 2 { // the second time changes nothing
		env, err := trust(root, ca)
		if err != nil {
			t.Fatal(err)
		}
		if env["SSL_CERT_FILE"] != "/etc/ssl/certs/ca-certificates.crt" || env[nodeVariable] != "/etc/ssl/certs/0123abcd.0" {
			t.Errorf("variables %v", env)
		}
	}
	got, err := os.ReadFile(filepath.Join(root, "etc/ssl/cert.pem"))
	if err != nil || string(got) != "of the image\n"+testPEM+others {
		t.Errorf("%q %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/0123abcd.0")); err != nil || string(got) != testPEM+others {
		t.Errorf("%q %v", got, err)
	}
}

// An image without certificates gets the one; a name that leads out of the directory does not.
func TestTrustInABareImage(t *testing.T) {
	root := t.TempDir()
	if err := prepareTrust(root); err != nil {
		t.Fatal(err)
	}
	if _, err := trust(root, protocol.Authority{PEM: testPEM, File: "../../x.0"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/x.0"} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != testPEM {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// Java itself reads the store.
func TestJavaStore(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("there is no keytool")
	}
	bundle, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Skip("this machine has no bundle of certificates")
	}
	root := t.TempDir()
	writeIn(t, root, "etc/ssl/certs/java/cacerts", "old")
	writeIn(t, root, "etc/ssl/certs/ca-certificates.crt", string(bundle))
	if err := trustJava(root, filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(keytool, "-list", "-storepass", javaPassword, "-keystore", filepath.Join(root, "etc/ssl/certs/java/cacerts")).CombinedOutput()
	if want := strings.Count(string(bundle), "BEGIN CERTIFICATE"); err != nil || strings.Count(string(out), "trustedCertEntry") != want {
		t.Errorf("want %d entries, got %.300s: %v", want, out, err)
	}
}
