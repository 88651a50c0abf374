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

func TestTrustAppendsToBundles(t *testing.T) {
	root := t.TempDir()
	writeIn(t, root, "etc/ssl/certs/ca-certificates.crt", "of the image")
	if err := os.Symlink("certs/ca-certificates.crt", filepath.Join(root, "etc/ssl/cert.pem")); err != nil {
		t.Fatal(err)
	}
	writeIn(t, root, "etc/pki/tls/certs/ca-bundle.crt", "of another\n")
	authorities, err := findAuthorities(root)
	if err != nil {
		t.Fatal(err)
	}
	const others = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"
	ca := protocol.Authority{PEM: testPEM, File: "0123abcd.0", Others: others}
	// One that was believed before is forgotten; the second time changes nothing.
	for _, ca := range []protocol.Authority{{PEM: strings.Repeat(testPEM, 9), File: ca.File}, ca, ca} {
		env, err := authorities.trust(ca)
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
	if got, err := os.ReadFile(filepath.Join(root, "etc/pki/tls/certs/ca-bundle.crt")); err != nil || string(got) != "of another\n"+testPEM+others {
		t.Errorf("%q %v", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/0123abcd.0")); err != nil || string(got) != testPEM+others {
		t.Errorf("%q %v", got, err)
	}
}

// An image without certificates gets the one; a name that leads out of the directory does not.
func TestTrustInMinimalImage(t *testing.T) {
	root := t.TempDir()
	authorities, err := findAuthorities(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authorities.trust(protocol.Authority{PEM: testPEM, File: "../../x.0"}); err != nil {
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
	if err := trustJava(filesOf(root, javaStores), filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(keytool, "-list", "-storepass", "changeit", "-keystore", filepath.Join(root, "etc/ssl/certs/java/cacerts")).CombinedOutput()
	if want := strings.Count(string(bundle), "BEGIN CERTIFICATE"); err != nil || strings.Count(string(out), "trustedCertEntry") != want {
		t.Errorf("want %d entries, got %.300s: %v", want, out, err)
	}
}

// A file of the host takes the place of what the image has there, whatever that is, and leaves what
// a link leads to alone. It can be read by everybody.
func TestGivenFilesReplaceLinks(t *testing.T) {
	root := t.TempDir()
	writeIn(t, root, "elsewhere", "theirs")
	writeIn(t, root, "etc/apt/sources.list.d/old", "a longer text that was there")
	link := filepath.Join(root, "etc/apt/sources.list.d/link")
	if err := os.Symlink(filepath.Join(root, "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(root, "etc/apt/sources.list.d/private")
	if err := os.WriteFile(private, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := prepareFiles(root); err != nil {
		t.Fatal(err)
	}
	prepared, err := os.ReadFile(filepath.Join(root, protocol.AptSources))
	if err != nil || string(prepared) != placeholder {
		t.Errorf("prepared is %q %v", prepared, err)
	}
	if _, err := os.Stat(filepath.Join(root, protocol.AptSettings)); err == nil {
		t.Error("a file is prepared in a directory that the image does not have")
	}
	var files []protocol.File
	for _, name := range []string{protocol.AptSources, "etc/apt/sources.list.d/old", "etc/apt/sources.list.d/link", "etc/apt/sources.list.d/private", "etc/new/dir/file"} {
		files = append(files, protocol.File{Path: filepath.Join(root, name), Content: "ours"})
	}
	for range 2 {
		if err := writeFiles(files); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		if got, err := os.ReadFile(f.Path); err != nil || string(got) != "ours" {
			t.Errorf("%s: %q %v", f.Path, got, err)
		}
		if st, err := os.Lstat(f.Path); err != nil || st.Mode() != hostFileMode {
			t.Errorf("%s: %v %v", f.Path, st, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(root, "elsewhere")); err != nil || string(got) != "theirs" {
		t.Errorf("%q %v", got, err)
	}
}
