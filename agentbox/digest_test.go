package agentbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"agentbox/agentbox"
)

const helloDigest = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

func TestDigestOfReader(t *testing.T) {
	d, n, err := agentbox.DigestOf(strings.NewReader("hello"))
	if err != nil || n != 5 || d.String() != helloDigest {
		t.Fatalf("DigestOf = %s, %d, %v; want %s, 5", d, n, err, helloDigest)
	}
	if d.Short() != "2cf24dba5fb0" {
		t.Errorf("Short = %q", d.Short())
	}
}

func TestDigestParse(t *testing.T) {
	if d, err := agentbox.ParseDigest(helloDigest); err != nil || d.String() != helloDigest {
		t.Errorf("ParseDigest(%q) = %s, %v", helloDigest, d, err)
	}
	for _, bad := range []string{"", "sha256:", "2cf24dba", strings.ToUpper(helloDigest), helloDigest + "0", helloDigest[:70] + "g", "sha512:" + helloDigest[7:]} {
		if d, err := agentbox.ParseDigest(bad); err == nil || !d.IsZero() {
			t.Errorf("ParseDigest(%q) = %s, %v; want an error and no digest", bad, d, err)
		}
	}
}

func TestDigestJSON(t *testing.T) {
	type doc struct {
		A, B agentbox.Digest
	}
	a, err := agentbox.ParseDigest(helloDigest)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(doc{A: a})
	if err != nil || string(b) != `{"A":"`+helloDigest+`","B":""}` {
		t.Fatalf("Marshal = %s, %v", b, err)
	}
	var back doc
	if err := json.Unmarshal(b, &back); err != nil || back.A != a || !back.B.IsZero() {
		t.Fatalf("Unmarshal = %+v, %v", back, err)
	}
}

func TestShortNames(t *testing.T) {
	d, err := agentbox.ParseDigest(helloDigest)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"": "", "deps": "deps", "setup/" + d.Hex() + "/x": "setup/" + d.Short() + "/x", d.Hex(): d.Short(), "image/" + d.Hex()[1:]: "image/" + d.Hex()[1:],
	} {
		if got := agentbox.ShortName(name); got != want {
			t.Errorf("%q is %q", name, got)
		}
	}
}
