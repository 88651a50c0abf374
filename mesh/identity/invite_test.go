package identity

import (
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
)

func invite() Invite {
	return Invite{
		Team: TeamOf(public(key(1))), Secret: Secret{1, 2, 3}, Expires: time.Unix(1800000000, 0).UTC(),
		Addresses: []string{"192.0.2.7:7946", "[2001:db8::1]:7946"},
	}
}

func TestTokenRoundTrip(t *testing.T) {
	token, err := invite().Token()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{token, strings.ToUpper(token), " " + token + "\n"} {
		got, err := ParseToken(s)
		if err != nil || got.Team != invite().Team || got.Secret != invite().Secret || !got.Expires.Equal(invite().Expires) ||
			len(got.Addresses) != 2 || got.Addresses[1] != "[2001:db8::1]:7946" {
			t.Fatalf("%q: %+v, %v", s, got, err)
		}
	}
	for i := range token {
		broken := token[:i] + "0" + token[i+1:]
		if _, err := ParseToken(broken); agentbox.CodeOf(err) != agentbox.Invalid || agentbox.AsError(err).Hint == "" {
			t.Fatalf("%q: %v", broken, err)
		}
		if _, err := ParseToken(token[:i]); err == nil {
			t.Fatalf("%q is a token", token[:i])
		}
	}
	if one, two := NewSecret(), NewSecret(); one == two {
		t.Error("two invitations have one secret")
	}
}

func TestInvalidInvites(t *testing.T) {
	for _, addresses := range [][]string{nil, {"nowhere"}, {"host:"}, {":7"}, {"a b:7"}, make([]string, MaxAddresses+1)} {
		i := invite()
		i.Addresses = addresses
		if token, err := i.Token(); err == nil {
			t.Errorf("%q: %s", addresses, token)
		}
	}
}

func TestParsePeerIsCanonical(t *testing.T) {
	p := peer(key(1))
	if got, err := ParsePeer(p.String()); err != nil || got != p {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", p.Short(), strings.ToUpper(p.String()), p.String() + "00", strings.Repeat("z", 64)} {
		if _, err := ParsePeer(s); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%q: %v", s, err)
		}
	}
	var back PeerID
	if b, err := p.MarshalText(); err != nil || back.UnmarshalText(b) != nil || back != p {
		t.Errorf("%v, %v", back, err)
	}
}

func FuzzToken(f *testing.F) {
	token, _ := invite().Token()
	f.Add(token)
	f.Fuzz(func(t *testing.T, s string) {
		i, err := ParseToken(s)
		if err != nil {
			return
		}
		// What follows the addresses is of a later build.
		again, err := i.Token()
		whole := strings.ToLower(strings.TrimSpace(s))
		if err != nil || len(again) > len(whole) || len(again) == len(whole) && again != whole {
			t.Fatalf("%q was read and is written as %q (%v)", s, again, err)
		}
	})
}
