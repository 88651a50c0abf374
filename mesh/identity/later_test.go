package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

// laterEntry is an entry as a later build may write it: with a role and a field more.
func laterEntry(root, signer, member ed25519.PrivateKey, more string) []byte {
	text := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	b := fmt.Sprintf(`{"team":"%s","key":"%s","name":"m","roles":["admin","auditor"],"serial":3,%s"issued":"2026-01-02T03:04:05Z","since":{"build":[7]},"signer":"%s","signature":`,
		TeamOf(public(root)), text(public(member)), more, text(public(signer)))
	signature := ed25519.Sign(signer, []byte(entryDomain+b+"null}"))
	return []byte(b + `"` + text(signature) + `"}`)
}

func laterList(root ed25519.PrivateKey, entries ...[]byte) []byte {
	return fmt.Appendf(nil, `{"root":"%s","entries":[%s]}`, base64.StdEncoding.EncodeToString(public(root)), bytes.Join(entries, []byte(",")))
}

// What a later build wrote is used as far as this one understands it, and passed on as it was
// signed.
func TestLaterEntriesAreKept(t *testing.T) {
	root, member, other := key(1), key(2), key(3)
	b := laterList(root, laterEntry(root, root, member, ""))
	l, err := DecodeList(b, TeamOf(public(root)))
	if err != nil {
		t.Fatal(err)
	}
	if m, _ := l.Member(peer(member)); !m.Has(Admin) || !m.Active(time.Now()) || m.Has(Builder) || m.Serial != 3 {
		t.Errorf("%+v", m)
	}
	if got, err := l.Encode(); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%s\nis passed on as\n%s (%v)", b, got, err)
	}
	merged, err := listOf(t, root, signEntry(t, root, root, other, 1, nil)).With(l.Entries()...)
	if err != nil {
		t.Fatal(err)
	}
	again, err := merged.Encode()
	if err != nil || !bytes.Contains(again, laterEntry(root, root, member, "")) {
		t.Errorf("%s, %v", again, err)
	}
	if _, err := DecodeList(again, TeamOf(public(root))); err != nil {
		t.Errorf("what is passed on is not what was signed: %v", err)
	}
	// Whoever signs it anew signs what it understands.
	e := l.Entries()[0]
	e.Serial++
	if e, err = e.Sign(root); err != nil || e.Verify() != nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if b, err := e.MarshalJSON(); err != nil || bytes.Contains(b, []byte("since")) || !bytes.Contains(b, []byte("auditor")) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestLaterEntriesAreVerified(t *testing.T) {
	root, member := key(1), key(2)
	good := laterEntry(root, root, member, "")
	long := laterEntry(root, root, member, `"fill":"`+strings.Repeat("x", maxEntry)+`",`)
	for what, b := range map[string][]byte{
		"another field":     bytes.Replace(good, []byte("[7]"), []byte("[8]"), 1),
		"without the field": bytes.Replace(good, []byte(`"since":{"build":[7]},`), nil, 1),
		"signature first":   append([]byte(`{"signature":"AAAA",`), good[1:]...),
		"field after it":    append(good[:len(good)-1:len(good)-1], `,"more":1}`...),
		"a second one":      append(good[:len(good)-1:len(good)-1], `,"signature":"AAAA"}`...),
		"white space":       bytes.Replace(good, []byte(`,"since"`), []byte(`, "since"`), 1),
		"as long as a book": long,
		// Any member could keep the first builds from reading the list of its team.
		"of a member by itself": laterEntry(root, member, member, `"revoked":true,`),
	} {
		if _, err := DecodeList(laterList(root, b), TeamOf(public(root))); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A token of a later build may say more after the addresses.
func TestLaterToken(t *testing.T) {
	token, err := invite().Token()
	if err != nil {
		t.Fatal(err)
	}
	longer := func(more string, last string) string {
		b, _ := tokenCoding.DecodeString(strings.ToUpper(token[len(tokenPrefix):]))
		b = append(b[:len(b)-checksumSize], more...)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		return tokenPrefix + strings.ToLower(tokenCoding.EncodeToString(b)) + last
	}
	for _, more := range []string{"", "\x05later", "\xff", strings.Repeat("x", 500)} {
		if got, err := ParseToken(longer(more, "")); err != nil || len(got.Addresses) != 2 || got.Team != invite().Team {
			t.Errorf("%q: %+v, %v", more, got, err)
		}
	}
	for what, s := range map[string]string{"too long": longer(strings.Repeat("x", maxToken), ""), "written in another way": longer("x", "a")} {
		if _, err := ParseToken(s); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}
