//go:build linux

package agent

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf16"
)

// javaStores are where Java keeps the authorities it believes: Debian's, which its packages link to, and those of other
// builds. It reads no other file and no variable.
var javaStores = []string{
	"etc/ssl/certs/java/cacerts",
	"etc/pki/java/cacerts",
	"usr/lib/jvm/*/lib/security/cacerts",
	"usr/lib/jvm/*/jre/lib/security/cacerts",
	"opt/java/*/lib/security/cacerts",
	"opt/*/lib/security/cacerts",
}

// javaStoresOf lists the stores there are, each once, whatever links lead to it.
func javaStoresOf(root string) (stores []string) {
	for _, pattern := range javaStores {
		found, _ := filepath.Glob(filepath.Join(root, pattern)) // the patterns are sound
		for _, path := range found {
			if path, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(stores, path) {
				stores = append(stores, path)
			}
		}
	}
	return stores
}

// trustJava gives stores of Java's the authorities of a bundle.
func trustJava(stores []string, bundle string) error {
	if len(stores) == 0 {
		return nil
	}
	text, err := os.ReadFile(bundle)
	if err != nil {
		return err
	}
	store := javaStore(text)
	for _, path := range stores {
		if err := os.WriteFile(path, store, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// javaPassword is the one that every Java's store has; it keeps nothing secret and guards against accidents only.
const javaPassword = "changeit"

// javaStore puts the certificates of a bundle into a store of Java's own format, JKS, which every version reads whatever it
// prefers. Layout: magic, version, count; per entry tag 2 (a trusted certificate), alias, time, type, bytes; and the SHA-1
// of the password in UTF-16, a fixed text, and all of it.
func javaStore(bundle []byte) []byte {
	var entries bytes.Buffer
	count := uint32(0)
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		count++
		entries.Write([]byte{0, 0, 0, 2})
		javaText(&entries, fmt.Sprintf("agentbox-%d", count))
		_ = binary.Write(&entries, binary.BigEndian, time.Now().UnixMilli()) // a buffer takes everything
		javaText(&entries, "X.509")
		_ = binary.Write(&entries, binary.BigEndian, uint32(len(block.Bytes)))
		entries.Write(block.Bytes)
	}
	store := binary.BigEndian.AppendUint32([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2}, count)
	store = append(store, entries.Bytes()...)
	sum := sha1.New()
	_ = binary.Write(sum, binary.BigEndian, utf16.Encode([]rune(javaPassword)))
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(store)
	return sum.Sum(store)
}

func javaText(b *bytes.Buffer, s string) {
	_ = binary.Write(b, binary.BigEndian, uint16(len(s)))
	b.WriteString(s)
}
