package identity

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"hash/crc32"
	"net"
	"strings"
	"time"

	"agentbox/agentbox"
)

// Bounds of an invitation, in bytes except MaxAddresses. A token has to fit into a line that
// people copy.
const (
	SecretSize   = 20
	MaxAddresses = 8
	maxAddress   = 100 // bytes
	maxToken     = 2048
)

// Secret is what an invited machine proves to know, once.
type Secret [SecretSize]byte

// NewSecret returns 160 random bits.
func NewSecret() Secret {
	var s Secret
	rand.Read(s[:]) // never fails
	return s
}

// Invite is what an admin gives to the owner of a machine that is to join. It is secret until it
// has been used.
type Invite struct {
	Team   agentbox.Digest // the newcomer takes no other team's list
	Secret Secret
	// Expires is for people, in whole seconds: the machine that invited decides by its own clock.
	Expires time.Time
	// Addresses are host:port of the machine that invited, in the order in which they are tried.
	Addresses []string
}

// The 1 of abx1 is the version. tokenFixed is the length of what precedes the addresses in
// every token: team, secret, expiry and the number of addresses.
const (
	tokenPrefix  = "abx1"
	tokenFixed   = len(agentbox.Digest{}) + SecretSize + 4 + 1
	checksumSize = 4
)

var tokenCoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// Token encodes the invitation as text: abx1, then letters and digits in any case. A checksum tells
// a mistyped token from a refused one. Invalid without addresses, with too many, or with a
// malformed one.
func (i Invite) Token() (string, error) {
	if len(i.Addresses) == 0 || len(i.Addresses) > MaxAddresses {
		return "", agentbox.Errorf(agentbox.Invalid, "an invitation has 1 to %d addresses, not %d", MaxAddresses, len(i.Addresses))
	}
	b := append([]byte{}, i.Team[:]...)
	b = append(b, i.Secret[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(i.Expires.Unix()))
	b = append(b, byte(len(i.Addresses)))
	for _, a := range i.Addresses {
		if err := checkAddress(a); err != nil {
			return "", err
		}
		b = append(append(b, byte(len(a))), a...)
	}
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return tokenPrefix + strings.ToLower(tokenCoding.EncodeToString(b)), nil
}

// ParseToken reads what Token wrote, with white space around it, and what a later build may add.
// Anything else is Invalid, with a hint for the person who pasted it.
func ParseToken(s string) (Invite, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	rest, ok := strings.CutPrefix(s, tokenPrefix)
	if !ok || len(s) > maxToken {
		return Invite{}, notAToken("a token begins with " + tokenPrefix)
	}
	b, err := tokenCoding.DecodeString(strings.ToUpper(rest))
	if err != nil || len(b) < tokenFixed+checksumSize {
		return Invite{}, notAToken("it is cut off, or has other characters than a-z and 2-7")
	}
	body, sum := b[:len(b)-checksumSize], binary.BigEndian.Uint32(b[len(b)-checksumSize:])
	if crc32.ChecksumIEEE(body) != sum {
		return Invite{}, notAToken("it is cut off or mistyped")
	}
	var i Invite
	n := copy(i.Team[:], body)
	n += copy(i.Secret[:], body[n:])
	i.Expires = time.Unix(int64(binary.BigEndian.Uint32(body[n:])), 0).UTC()
	count := int(body[n+4])
	for rest := body[n+5:]; len(i.Addresses) < count && len(rest) > 0 && len(rest) > int(rest[0]); rest = rest[1+int(rest[0]):] {
		i.Addresses = append(i.Addresses, string(rest[1:1+int(rest[0])]))
	}
	// What follows the addresses is of a later build. Token checks the number of addresses, and each
	// of them; nothing may be written in two ways.
	if _, err := i.Token(); err != nil || len(i.Addresses) != count || tokenPrefix+strings.ToLower(tokenCoding.EncodeToString(b)) != s {
		return Invite{}, notAToken("it is not in the form in which tokens are written")
	}
	return i, nil
}

// checkAddress refuses an address that cannot be dialled or printed.
func checkAddress(a string) error {
	host, port, err := net.SplitHostPort(a)
	if err != nil || host == "" || port == "" || len(a) > maxAddress || strings.ContainsFunc(a, notPrintable) {
		return agentbox.Errorf(agentbox.Invalid, "%.120q is not an address (HOST:PORT)", a)
	}
	return nil
}

func notPrintable(r rune) bool { return r <= ' ' || r > '~' }

func notAToken(why string) error {
	return agentbox.Errorf(agentbox.Invalid, "this is not a valid token: %s", why).
		WithHint("copy the whole line that `agentbox mesh invite` printed")
}
