package statedir

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentbox/agentbox"
)

// ManifestFile describes the other files of a directory. It is written last.
const ManifestFile = "manifest.json"

// Manifest describes the files of a directory, by size and digest. Each driver has its own type,
// with a Basis in it, and writes it as encoding/json does.
type Manifest interface {
	// Check reports what is wrong with the manifest itself. It must refuse every format but the
	// driver's own, and sizes that would do harm when used.
	Check() error
}

// envelope protects the manifest itself: Digest is that of the bytes of Manifest.
type envelope struct {
	Digest   agentbox.Digest `json:"digest"`
	Manifest json.RawMessage `json:"manifest"`
}

// Seal returns the file's bytes and the digest that names the whole. The digest is of the
// manifest's JSON as it is in the file, so it does not depend on how a reader would encode it.
func Seal(m Manifest) ([]byte, agentbox.Digest, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, agentbox.Digest{}, err
	}
	id := agentbox.Digest(sha256.Sum256(body))
	b, err := json.Marshal(envelope{id, body})
	return append(b, '\n'), id, err
}

// Unseal returns the manifest that Seal was given, and its digest, or an error if b holds something
// else. An unknown field is an error: this agentbox would ignore what a newer one wrote. What Check
// refuses is refused.
func Unseal[M Manifest](b []byte) (m M, id agentbox.Digest, err error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return m, e.Digest, err
	}
	if sha256.Sum256(e.Manifest) != e.Digest {
		return m, e.Digest, errors.New("it does not match its own digest")
	}
	dec := json.NewDecoder(bytes.NewReader(e.Manifest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, e.Digest, err
	}
	return m, e.Digest, m.Check()
}

// ReadManifest unseals the manifest of a directory. If it is wrong or missing the error has code
// Corrupt; a file that cannot be read is an error without a code.
func ReadManifest[M Manifest](dir string) (m M, id agentbox.Digest, err error) {
	b, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if errors.Is(err, os.ErrNotExist) {
		return m, id, Corrupt(dir, "%s is missing", ManifestFile)
	}
	if err != nil {
		return m, id, err
	}
	if m, id, err = Unseal[M](b); err != nil {
		return m, id, Corrupt(dir, "%s: %w", ManifestFile, err)
	}
	return m, id, nil
}

// WriteManifest seals a manifest as the last file of a directory. write is durable.Create, or
// durable.Replace in a directory of NewTransient's.
func WriteManifest(dir string, m Manifest, write func(string, []byte, fs.FileMode) error) error {
	b, _, err := Seal(m)
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, ManifestFile), b, 0o600)
}

// Open opens a file that must have size bytes. One that is missing or has another size is an error
// of code Corrupt; the caller verifies its content.
func Open(dir, name string, size int64) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, Corrupt(dir, "%s is missing", name)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = Corrupt(dir, "%s has %d bytes instead of %d", name, info.Size(), size)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
