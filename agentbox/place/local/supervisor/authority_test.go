package supervisor

import (
	"testing"

	"agentbox/policy/gateway"
	"agentbox/vmm/guest/protocol"
)

// Machines are prepared for an authority of this name before their box exists.
func TestAuthorityName(t *testing.T) {
	ca, err := gateway.NewCA(authorityName)
	if err != nil {
		t.Fatal(err)
	}
	got, err := trustedAuthority(ca, "")
	if err != nil || got.File != protocol.AuthorityFile {
		t.Errorf("%+v %v, want the file %s", got, err, protocol.AuthorityFile)
	}
}
