package team

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore"
	"agentbox/mesh/catalogue"
	"agentbox/mesh/identity"
	"agentbox/vmm/image"
)

// soakEnv is for how long TestSoak goes on, as 10m.
const soakEnv = "AGENTBOX_SOAK"

// TestSoak has four machines make images, hand them round, forget them, restart in the middle of
// that, leave the team and join it again. Afterwards there are no more goroutines and open files,
// and hardly more memory and files on disk, than after the first rounds.
func TestSoak(t *testing.T) {
	long, err := time.ParseDuration(os.Getenv(soakEnv))
	if err != nil {
		t.Skipf("make soak runs it: %s=10m", soakEnv)
	}
	all := newTeam(t, true, true, true)
	const first = 8 // rounds: each machine has made, restarted and left
	for n := range first {
		soakRound(t, all, n)
	}
	before := measureUsage(t, all)
	end := time.Now().Add(long)
	n := first
	for ; time.Now().Before(end); n++ {
		soakRound(t, all, n)
	}
	after := measureUsage(t, all)
	t.Logf("%d rounds: %+v, at first %+v", n, after, before)
	if after.goroutines > before.goroutines+4 || after.open > before.open+4 {
		t.Errorf("%d goroutines and %d open files, at first %d and %d", after.goroutines, after.open, before.goroutines, before.open)
	}
	if after.heap > 2*before.heap+32<<20 || after.files > before.files+64 {
		t.Errorf("%d MiB of memory and %d files, at first %d MiB and %d", after.heap>>20, after.files, before.heap>>20, before.files)
	}
}

// soakRound has one machine make an image that all others get while one of the four restarts.
func soakRound(t *testing.T, all []*machine, n int) {
	t.Helper()
	maker, restarts := all[n%len(all)], all[(n+n/len(all))%len(all)]
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(n)+1)
	img := maker.buildOf(t, seed)
	var work sync.WaitGroup
	for _, m := range all {
		if m != maker {
			work.Go(func() { m.gets(t, img.Digest) })
		}
	}
	if err := restarts.mesh.Close(); err != nil {
		t.Error(err)
	}
	restarts.join(t)
	work.Wait()
	for _, m := range all {
		if err := errors.Join(m.Images.Forget(t.Context(), img.Digest), m.Files.Remove(t.Context(), img.Digest)); err != nil {
			t.Error(err)
		}
		m.Notify()
	}
	for _, m := range all {
		forgotten := func() bool { return m.mesh.Catalogues() != nil && !m.knows(catalogue.Image, img.Digest.Hex()) }
		for end := time.Now().Add(time.Minute); !forgotten(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("round %d, %d restarted: image %s is still offered after a minute\n%s", n, slices.Index(all, restarts), img.Digest.Short(), storedEntries(t, all, img.Digest))
			}
		}
	}
	if n%len(all) == len(all)-1 {
		rejoin(t, all[0], all[1+n/len(all)%(len(all)-1)])
	}
}

// storedEntries says for each machine what it offers, and whom it knows as a holder of an image.
func storedEntries(t *testing.T, all []*machine, d agentbox.Digest) string {
	var b strings.Builder
	for i, m := range all {
		c := m.mesh.Catalogues()
		if c == nil {
			fmt.Fprintf(&b, "%d takes no part: %v\n", i, m.mesh.Problem())
			continue
		}
		head, records, _ := c.Records(m.mesh.Self())
		fmt.Fprintf(&b, "%d is %s, %d are here, it offers at %d:", i, m.mesh.Self().Short(), len(m.mesh.OnlinePeers()), head.Sequence)
		for _, r := range records {
			fmt.Fprintf(&b, " %s %.12s", r.Kind, r.Key)
		}
		offers, err := m.Sharing.Offers(t.Context())
		files, listErr := m.Files.List()
		fmt.Fprintf(&b, "; in its store:")
		for _, o := range offers {
			fmt.Fprintf(&b, " %s", o.Image.Short())
		}
		fmt.Fprintf(&b, " (%v), files:", err)
		for _, f := range files {
			fmt.Fprintf(&b, " %s", f.Digest.Short())
		}
		fmt.Fprintf(&b, " (%v)\n", listErr)
		for _, f := range c.Lookup(catalogue.Image, d.Hex()) {
			head, _, _ := c.Records(f.Owner)
			fmt.Fprintf(&b, "  it knows %s as a holder, of whom it has %d; %+v\n", f.Owner.Short(), head.Sequence, c.Counters())
		}
	}
	return b.String()
}

// gets has a machine get all of an image, again when that was cut off.
func (m *machine) gets(t *testing.T, d agentbox.Digest) {
	eventually(t, "the image comes", func() bool {
		img, err := m.Team.Image(t.Context(), d, "")
		if err != nil {
			return false
		}
		return m.complete(t, img) == nil
	})
}

func (m *machine) complete(t *testing.T, img image.Image) error {
	if _, err := m.Files.AddLazy(t.Context(), img); err != nil {
		return err
	}
	f, err := m.Images.OpenLazyImage(t.Context(), img)
	if err != nil {
		return err
	}
	if err = f.Complete(t.Context(), nil); err == nil {
		err = m.Files.Completed(t.Context(), img.Digest, f.Path())
	}
	return errors.Join(err, f.Close())
}

// rejoin has a machine leave the team, and join it again by another's invitation.
func rejoin(t *testing.T, admin, m *machine) {
	t.Helper()
	if err := m.mesh.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	_, token, err := admin.mesh.Invite(time.Minute, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it joins again", func() bool { return m.mesh.Join(t.Context(), token, "again", loopback) == nil })
	if err := admin.mesh.SetRoles(m.mesh.Self(), []identity.Role{identity.Builder}); err != nil {
		t.Error(err)
	}
}

// usage is what a process has.
type usage struct {
	goroutines, open, files int
	heap                    uint64
}

// measureUsage says what is there while no machine takes part in the team: what a round left
// behind.
func measureUsage(t *testing.T, all []*machine) usage {
	t.Helper()
	for _, m := range all {
		if err := m.mesh.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, m := range all {
		store, err := m.Images.Store(t.Context())
		if err == nil {
			_, err = store.GC(t.Context(), cachestore.GCOptions{All: true})
		}
		if err != nil {
			t.Error(err)
		}
	}
	var w usage
	// Goroutines of quic-go end a moment after their connections.
	last := 0
	eventually(t, "nothing ends any more", func() bool {
		last, w.goroutines = w.goroutines, runtime.NumGoroutine()
		return last == w.goroutines
	})
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	w.heap = mem.HeapAlloc
	open, err := os.ReadDir("/proc/self/fd")
	if err == nil {
		w.open = len(open)
	}
	for _, m := range all {
		err := filepath.WalkDir(m.dir, func(string, os.DirEntry, error) error { w.files++; return nil })
		if err != nil {
			t.Error(err)
		}
	}
	for _, m := range all {
		m.join(t)
	}
	return w
}
