package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"testing"
)

// TestMain lets the test binary also be a machine of a team, like the program that it replaces.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == MeshNodeVerb {
		if err := RunMeshNode(context.Background(), os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// freePorts returns UDP ports that are free.
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

// killedHalfWay has a process get an image from a seed and from a peer with the first half of it.
// It returns when more than half has arrived, which is when the caller is to kill the seed.
func killedHalfWay(t *testing.T) (o *cluster, to *meshProcess) {
	t.Helper()
	l, err := OpenMeshLab(MeshConfig{Dir: t.TempDir(), Node: os.Args[0], Small: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	o = &cluster{l: l, loopback: true, ports: freePorts(t, 3), upload: 4 << 20}
	var all []*meshProcess
	t.Cleanup(func() {
		for _, p := range append(all, o.seed) {
			if p != nil {
				_ = p.kill() // its directory is removed with the lab
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	if o.image, err = l.image(l.cfg.Small); err == nil {
		err = o.restartSeed(ctx)
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

// The seed never returns and the remaining peer has half: the transfer fails and names what is
// missing.
func TestFetchFailsWithoutSeed(t *testing.T) {
	t.Parallel()
	o, to := killedHalfWay(t)
	if err := o.seed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, err := to.answer()
	if err == nil || !regexp.MustCompile(`no peer that can be reached has [0-9]+ of the 3[23] pieces of [0-9a-f]+, the first of them piece [0-9]+`).MatchString(err.Error()) {
		t.Fatalf("%v", err)
	}
	// The seed returns later: the rest arrives.
	if err := o.restartSeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := to.do(meshOrder{Do: "fetch", Manifest: o.manifest}); err != nil || r.Bytes != o.l.cfg.Small {
		t.Errorf("%d bytes, %v", r.Bytes, err)
	}
}

// The seed is killed and starts again: the transfer continues.
func TestFetchContinuesWithRestartedSeed(t *testing.T) {
	t.Parallel()
	o, to := killedHalfWay(t)
	if err := o.restartSeed(t.Context()); err != nil { // kills it first
		t.Fatal(err)
	}
	if r, err := to.answer(); err != nil || r.Bytes != o.l.cfg.Small {
		t.Errorf("%d bytes, %v", r.Bytes, err)
	}
}
