package egress

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"agentbox/policy/gateway"
)

func TestAddedRoots(t *testing.T) {
	pem := func(name string) string {
		ca, err := gateway.NewCA(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(ca.PEM())
	}
	shipped, proxy, other := pem("of the distribution"), pem("of a proxy"), pem("another")
	broken := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	bundle := filepath.Join(t.TempDir(), "bundle")
	write := func(text string) {
		if err := os.WriteFile(bundle, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := fstest.MapFS{"mozilla/one.crt": {Data: []byte(shipped)}, "mozilla/README": {Data: []byte(proxy)}}
	write("# the proxy\n" + proxy + shipped + broken + "\n" + other + proxy)
	if got := addedRoots(bundle, list); got != proxy+other {
		t.Errorf("told:\n%s\nwant those of the proxy and the other:\n%s", got, proxy+other)
	}
	if got := addedRoots(bundle, fstest.MapFS{}); got != proxy+shipped+other {
		t.Errorf("where no distribution is to be seen, all are the machine's:\n%s", got)
	}
	write(shipped)
	if got := addedRoots(bundle, list); got != "" {
		t.Errorf("nothing was added, and told was:\n%s", got)
	}
	if got := addedRoots(bundle+"-missing", list); got != "" {
		t.Errorf("without a bundle: %q", got)
	}
}
