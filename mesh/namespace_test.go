package mesh

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentbox/tools/lab/netlab"
	"agentbox/tools/suites/meshtest"
)

func contextOf(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), d)
}

// changeAddress gives a machine another address.
func changeAddress(t *testing.T, lab *netlab.Net, i int, to netip.Addr) {
	t.Helper()
	for _, args := range [][]string{{"addr", "flush", "dev", "eth0"}, {"addr", "add", to.String() + "/24", "dev", "eth0"}} {
		if err := lab.Configure(t.Context(), i, args...); err != nil {
			t.Fatal(err)
		}
	}
}

// Both have moved to another network since, so that nothing they remember is right.
func TestMulticastDiscovery(t *testing.T) {
	lab, all := network(t, 2)
	team(t, all)
	for i, m := range all {
		m.stop()
		if err := os.Remove(filepath.Join(m.dir, "mesh", "addresses.json")); err != nil {
			t.Fatal(err)
		}
		changeAddress(t, lab, i, netip.AddrFrom4([4]byte{198, 18, 5, byte(1 + i)}))
	}
	for _, m := range all {
		m.start()
	}
	awaitConnected(t, all)
}

func TestAddressChange(t *testing.T) {
	lab, all := network(t, 2)
	for _, m := range all {
		m.noMulticast = true // by what they remember alone
	}
	team(t, all)
	to := netip.AddrFrom4([4]byte{198, 19, 77, 99})
	changeAddress(t, lab, 1, to)
	changed := time.Now()
	meshtest.Eventually(t, "the first machine knows the new address", func() bool {
		r := all[0].do(order{Do: "look"})
		return r.Here == 1 && slices.ContainsFunc(r.Others["second"], func(a netip.AddrPort) bool { return a.Addr() == to })
	})
	all[1].do(order{Do: "offer", Records: 3})
	meshtest.Eventually(t, "what it offers is known", func() bool { return all[0].do(order{Do: "look"}).Records == 3 })
	t.Logf("after %s", time.Since(changed).Round(100*time.Millisecond)) // the aim is 15 s
}

// Tunnels and some mobile networks carry no more than IPv6 demands.
func TestSmallMTU(t *testing.T) {
	lab, all := network(t, 2)
	if err := lab.MTU(t.Context(), 1280); err != nil {
		t.Fatal(err)
	}
	team(t, all)
	all[1].do(order{Do: "offer", Records: 1000})
	meshtest.Eventually(t, "a large catalogue is known", func() bool { return all[0].do(order{Do: "look"}).Records == 1000 })
}

func TestReconnectAfterCableCut(t *testing.T) {
	lab, all := network(t, 2)
	team(t, all)
	if err := lab.Cut(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		meshtest.Eventually(t, "the other one is absent", func() bool { return m.do(order{Do: "look"}).Here == 0 })
	}
	if err := lab.Cut(t.Context(), 1, false); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	awaitConnected(t, all)
	t.Logf("after %s", time.Since(back).Round(100*time.Millisecond)) // the aim is 15 s
}

func TestDoctorFindsConnectionProblems(t *testing.T) {
	lab, all := network(t, 2)
	team(t, all)
	r := all[0].do(order{Do: "doctor"})
	if len(r.Clocks) != 1 || r.Clocks[0].Abs() > time.Minute || r.Blocked != "" {
		t.Errorf("%+v", r) // both have the clock of this kernel
	}
	if err := lab.Configure(t.Context(), 0, "link", "set", "eth0", "down"); err != nil {
		t.Fatal(err)
	}
	meshtest.Eventually(t, "the other one is absent", func() bool { return all[0].do(order{Do: "look"}).Here == 0 })
	if r := all[0].do(order{Do: "doctor"}); r.Blocked == "" || len(r.Clocks) > 0 {
		t.Errorf("%+v", r)
	}
}
