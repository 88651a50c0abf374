package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"time"

	"agentbox/mesh/identity"
)

// key is the same in every run. Real ones are ed25519.GenerateKey's.
func key(b byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// A team is a root key and signed lines about members. Each line stands for itself, so lists that
// were changed at two places are merged.
func ExampleList_With() {
	root, ann, bob := key(1), key(2), key(3)
	list := identity.NewList(public(root))
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	sign := func(e identity.Entry, by ed25519.PrivateKey) {
		e.Team, e.Issued = list.Team(), now
		signed, err := e.Sign(by)
		if err == nil {
			list, err = list.With(signed)
		}
		if err != nil {
			fmt.Println("refused:", err)
		}
	}
	sign(identity.Entry{Key: public(ann), Name: "ann", Roles: []identity.Role{identity.Builder}, Serial: 1}, root)
	sign(identity.Entry{Key: public(bob), Name: "bob", Serial: 1}, root)
	sign(identity.Entry{Key: public(bob), Name: "bob", Serial: 2, Revoked: true}, root)
	for _, m := range list.Members() {
		fmt.Println(m.Name, "builder:", m.Has(identity.Builder), "admitted:", list.Admits(m.ID, now))
	}
	// Output:
	// ann builder: true admitted: true
	// bob builder: false admitted: false
}

// An invitation is text that can be read aloud, and one that was mistyped is told from one that is
// old.
func ExampleParseToken() {
	invite := identity.Invite{
		Team: identity.TeamOf(public(key(1))), Secret: identity.Secret{7}, Expires: time.Unix(1_800_000_000, 0),
		Addresses: []string{"192.0.2.7:7946"},
	}
	token, err := invite.Token()
	if err != nil {
		fmt.Println(err)
		return
	}
	back, err := identity.ParseToken(token)
	fmt.Println(token[:4], back.Addresses, back.Team == invite.Team, err)
	_, err = identity.ParseToken(token[:len(token)-1])
	fmt.Println(err)
	// Output:
	// abx1 [192.0.2.7:7946] true <nil>
	// this is not a valid token: it is cut off or mistyped
}
