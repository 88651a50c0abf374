package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"testing"
)

// TestMain has this test program be a machine of a team, as the one that it tests is.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "bench" && os.Args[2] == MeshNodeVerb {
		if err := RunMeshNode(context.Background(), os.Args[3], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// freePorts are UDP ports that nobody has.
func freePorts(t *testing.T, n int) []uint16 {
	t.Helper()
	var out []uint16
	for range n {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		out = append(out, uint16(c.LocalAddr().(*net.UDPAddr).Port))
	}
	return out
}

// killedHalfWay has a process get an image of a seed and of one that has the first half of it, and
// kills the seed when more than half of it has come.
func killedHalfWay(t *testing.T) (o *cluster, to *meshProcess) {
	t.Helper()
	l, err := OpenMeshLab(MeshConfig{Dir: t.TempDir(), Binary: os.Args[0], Small: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	o = &cluster{l: l, loopback: true, ports: freePorts(t, 3), upload: 4 << 20}
	var all []*meshProcess
	t.Cleanup(func() {
		for _, p := range append(all, o.seed) {
			if p != nil {
				_ = p.kill() // its directory goes with the lab's
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.image, err = l.image(l.cfg.Small); err == nil {
		err = o.plant(ctx)
	}
	if err == nil {
		err = o.export()
	}
	if err != nil {
		t.Fatal(err)
	}
	half, err := o.start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, half)
	if _, err := half.do(meshOrder{Do: "part", Path: o.exported(), Manifest: o.manifest, To: 16}); err != nil {
		t.Fatal(err)
	}
	if to, err = o.start(t.Context(), 2, o.seed.id, half.id); err != nil {
		t.Fatal(err)
	}
	all = append(all, to)
	r, err := to.do(meshOrder{Do: "fetch", Manifest: o.manifest, Tell: 0.55})
	if err != nil || !r.Part {
		t.Fatalf("%+v, %v", r, err)
	}
	return o, to
}

// The seed is gone for good, and who is left has half: it ends, and says what nobody has.
func TestASeedThatIsGoneForGoodIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	o, to := killedHalfWay(t)
	if err := o.seed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := to.answer()
	if err == nil || !regexp.MustCompile(`no peer that can be reached has [0-9]+ of the 3[23] pieces of [0-9a-f]+, the first of them piece [0-9]+`).MatchString(err.Error()) {
		t.Fatalf("%v", err)
	}
	// It is back another day: what is missing comes.
	if err := o.plant(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := to.do(meshOrder{Do: "fetch", Manifest: o.manifest}); err != nil || r.Bytes != o.l.cfg.Small {
		t.Errorf("%d bytes, %v", r.Bytes, err)
	}
}

// The seed is killed and starts again: the transfer that lacks what it has goes on.
func TestASeedThatReturnsIsGoneOnWith(t *testing.T) {
	t.Parallel()
	o, to := killedHalfWay(t)
	if err := o.plant(t.Context()); err != nil { // which kills it first
		t.Fatal(err)
	}
	if r, err := to.answer(); err != nil || r.Bytes != o.l.cfg.Small {
		t.Errorf("%d bytes, %v", r.Bytes, err)
	}
}
