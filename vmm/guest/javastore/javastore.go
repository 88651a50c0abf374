// Package javastore writes the file in which Java keeps the certificate authorities that it trusts.
// It reads none.
//
// vmm/image writes one into each image whose packages made one, since theirs contains the time of
// the build. The guest agent writes it anew in each box, with the box's own authority
// (vmm/guest/agent/trustjava.go). Both give it a bundle of PEM certificates. The agent links it, so
// it imports the standard library only.
package javastore

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"time"
	"unicode/utf16"
)

// Debian is the path of the store in Debian's packages of Java.
const Debian = "/etc/ssl/certs/java/cacerts"

// password is that of every Java's store. It guards against accidents only.
const password = "changeit"

// Encode puts the certificates of a PEM bundle into a store in Java's own format, JKS, which every
// version reads; at is the time of the entries. Layout: magic, version, count; per entry tag 2 (a
// trusted certificate), alias, time, type, bytes; then the SHA-1 of the password in UTF-16, a fixed
// text, and all of the above. Equal arguments give equal bytes.
func Encode(bundle []byte, at time.Time) []byte {
	var entries bytes.Buffer
	count := uint32(0)
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		count++
		entries.Write([]byte{0, 0, 0, 2})
		text(&entries, fmt.Sprintf("agentbox-%d", count))
		_ = binary.Write(&entries, binary.BigEndian, at.UnixMilli()) // a buffer takes everything
		text(&entries, "X.509")
		_ = binary.Write(&entries, binary.BigEndian, uint32(len(block.Bytes)))
		entries.Write(block.Bytes)
	}
	store := binary.BigEndian.AppendUint32([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2}, count)
	store = append(store, entries.Bytes()...)
	sum := sha1.New()
	_ = binary.Write(sum, binary.BigEndian, utf16.Encode([]rune(password)))
	sum.Write([]byte("Mighty Aphrodite"))
	sum.Write(store)
	return sum.Sum(store)
}

// text appends a string as Java does, after its length in two bytes.
func text(b *bytes.Buffer, s string) {
	_ = binary.Write(b, binary.BigEndian, uint16(len(s)))
	b.WriteString(s)
}
