//go:build linux

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/vmm/guest/protocol"
)

// bundles are distributions' files of certificates: Debian, Alpine, Fedora, SUSE, older ones.
var bundles = []string{
	"etc/ssl/certs/ca-certificates.crt",
	"etc/pki/tls/certs/ca-bundle.crt",
	"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"etc/ssl/ca-bundle.pem",
	"etc/ssl/cert.pem",
}

// certDir is where OpenSSL looks for single certificates when no bundle is configured.
const certDir = "etc/ssl/certs"

// trustVariables are for programs that bring certificates of their own: OpenSSL and its users,
// Node, git, Python's requests and pip, curl, cargo, the clients of clouds, Deno. All but Node's
// replace what the program knows, so they name the whole bundle.
var trustVariables = []string{
	"SSL_CERT_FILE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT",
}

// nodeVariable names certificates that Node adds to its own.
const nodeVariable = "NODE_EXTRA_CA_CERTS"

// authorities is where programs look for certificate authorities. It is found once, before the
// template is saved, and never changes.
type authorities struct {
	root    string
	bundles []bundle // at least one
	java    []string // Java's own stores
}

// bundle is a file of certificates; trust adds others at offset size.
type bundle struct {
	path string
	size int64
}

// findAuthorities finds what trust will change, and has it copied up from the image while the
// template is made, so that no life waits for that. root is the box's root. An image without
// certificates gets a bundle.
func findAuthorities(root string) (*authorities, error) {
	a := &authorities{root: root, java: filesOf(root, javaStores)}
	if err := copyUp(filepath.Join(root, certDir)); err != nil {
		return nil, err
	}
	for _, path := range filesOf(root, bundles) {
		size, err := terminateLastLine(path)
		if err != nil {
			return nil, err
		}
		a.bundles = append(a.bundles, bundle{path, size})
	}
	if len(a.bundles) == 0 { // the image has none, but must trust the box's authority
		a.bundles = []bundle{{filepath.Join(root, bundles[0]), 0}}
	}
	return a, nil
}

// copyUp makes a directory if it is missing. Setting its mode has an overlay copy it up.
func copyUp(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	return os.Chmod(dir, st.Mode())
}

// terminateLastLine makes a file end with a whole line, and returns its size. Opening it for
// writing has an overlay copy it up.
func terminateLastLine(path string) (size int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
		_, err = f.WriteString("\n")
	}
	return int64(len(text)), errors.Join(err, f.Close())
}

// filesOf lists the files below root that match patterns, each once, whatever links lead to it.
func filesOf(root string, patterns []string) (files []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are sound
		for _, path := range found {
			path, err := filepath.EvalSymlinks(path)
			if err != nil || slices.Contains(files, path) {
				continue
			}
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
				files = append(files, path)
			}
		}
	}
	return files
}

// trust adds an authority and the others that go with it to every bundle, the directory and Java's
// stores, in place of the one added before: a machine of the pool has had a placeholder. The
// variables are for every command of the box; its configuration may override them.
func (a *authorities) trust(ca protocol.Authority) (map[string]string, error) {
	single := filepath.Join(a.root, certDir, filepath.Base(ca.File))
	text := ca.PEM + ca.Others
	if err := replaceFile(single, text); err != nil {
		return nil, err
	}
	for _, b := range a.bundles {
		if err := b.add(text); err != nil {
			return nil, err
		}
	}
	// Node adds the single certificate to its own; all others read the whole bundle.
	env := map[string]string{nodeVariable: a.inRoot(single)}
	for _, name := range trustVariables {
		env[name] = a.inRoot(a.bundles[0].path)
	}
	return env, trustJava(a.java, a.bundles[0].path)
}

// inRoot is a path as programs of the box see it.
func (a *authorities) inRoot(path string) string {
	return "/" + strings.TrimPrefix(strings.TrimPrefix(path, a.root), "/")
}

// add replaces what follows the image's own certificates. It writes in place, since a new file
// would allocate blocks.
func (b bundle) add(text string) error {
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil {
		at := min(b.size, st.Size()) // no hole, should somebody have made it shorter
		_, err = f.WriteAt([]byte(text), at)
		if end := at + int64(len(text)); st.Size() > end {
			err = errors.Join(err, f.Truncate(end))
		}
	}
	return errors.Join(err, f.Close())
}
