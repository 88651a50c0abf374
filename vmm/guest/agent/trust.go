//go:build linux

package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentbox/vmm/guest/protocol"
)

// bundles are the files of certificates that distributions have: Debian and Alpine, Fedora, SUSE, and older ones.
var bundles = []string{
	"etc/ssl/certs/ca-certificates.crt",
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"etc/ssl/ca-bundle.pem",
	"etc/ssl/cert.pem",
}

// certDir is where OpenSSL looks for single certificates when it is told of no bundle.
const certDir = "etc/ssl/certs"

// trustVariables are read by programs that bring certificates of their own, or read none by themselves: OpenSSL and what
// is made with it, Node, git, Python's requests and pip, curl, cargo, the clients of clouds, Deno. All but Node's replace
// what the program knows, so they name the whole bundle.
var trustVariables = []string{
	"SSL_CERT_FILE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT",
}

const nodeVariable = "NODE_EXTRA_CA_CERTS"

// prepareTrust has the files that trust changes copied up from the image while the template is made, so that no life
// waits for it.
func prepareTrust(root string) error {
	for _, path := range bundlesOf(root) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// bundlesOf lists the bundles there are, each once, whatever links lead to it.
func bundlesOf(root string) []string {
	var list []string
	for _, name := range bundles {
		path, err := filepath.EvalSymlinks(filepath.Join(root, name))
		if err != nil {
			continue
		}
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && !slices.Contains(list, path) {
			list = append(list, path)
		}
	}
	return list
}

// trust adds an authority to every bundle and to the directory, and to Java's own store where one is. The others go along
// in each.
func trust(root string, ca protocol.Authority) (map[string]string, error) {
	if err := os.MkdirAll(filepath.Join(root, certDir), 0o755); err != nil {
		return nil, err
	}
	single := filepath.Join(root, certDir, filepath.Base(ca.File))
	if err := replaceFile(single, ca.PEM+ca.Others); err != nil {
		return nil, err
	}
	list := bundlesOf(root)
	if len(list) == 0 { // an image that believes nobody believes the box's authority at least
		list = []string{filepath.Join(root, bundles[0])}
	}
	for _, path := range list {
		if err := errors.Join(appendPEM(path, ca.PEM), appendPEM(path, ca.Others)); err != nil {
			return nil, err
		}
	}
	env := map[string]string{nodeVariable: inRoot(root, single)}
	for _, name := range trustVariables {
		env[name] = inRoot(root, list[0])
	}
	return env, trustJava(root, list[0])
}

func inRoot(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return path
	}
	return "/" + rel
}

// appendPEM adds certificates to a bundle, unless they are in it.
func appendPEM(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Contains(old, []byte(text)) {
		return nil
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		text = "\n" + text
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
